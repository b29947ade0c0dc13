"""The room `cbdl.bayes.priors` by its public name: what `from cbdl.priors import Normal` finds."""

from cbdl.bayes.priors import *  # noqa: F403
from cbdl.bayes.priors import __all__ as __all__
from cbdl.bayes.priors import __dir__ as __dir__
