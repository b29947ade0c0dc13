"""Credal sets of diagonal Normals in R^d."""
