"""Credal Bayesian Deep Learning: networks that know what they do not know."""
