"""Inference methods, one a file: settings as a frozen dataclass, `fit(cohort, data, run)`, the posterior, its
state.
"""
