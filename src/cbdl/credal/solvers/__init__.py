"""Optimisation over batches: interior points, linear programmes, roots. Knows no distribution."""
