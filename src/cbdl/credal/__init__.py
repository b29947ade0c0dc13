"""Sets of distributions: the mathematics of finitely generated credal sets. Knows no network."""
