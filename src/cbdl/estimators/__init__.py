"""Algorithm 1 with scikit-learn's manners."""

from cbdl.estimators.classifier import CredalClassifier
from cbdl.estimators.regressor import CredalRegressor

__all__ = ["CredalClassifier", "CredalRegressor"]
