"""What every room stands on and knows no other: whole files, working memory, names of classes, tables for people."""
