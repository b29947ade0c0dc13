"""Credal sets of Normals and Normal mixtures on the line."""
