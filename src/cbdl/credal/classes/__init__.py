"""Credal sets over finitely many classes."""
