"""The room `cbdl.bayes.likelihoods` by its public name: what `from cbdl.likelihoods import Normal` finds."""

from cbdl.bayes.likelihoods import *  # noqa: F403
from cbdl.bayes.likelihoods import __all__ as __all__
from cbdl.bayes.likelihoods import __dir__ as __dir__
