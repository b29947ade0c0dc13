"""The room `cbdl.bayes.likelihoods` by its public name: what `from cbdl.likelihoods import Normal` finds."""

import sys

from cbdl.bayes import likelihoods
from cbdl.bayes.likelihoods import *  # noqa: F403

sys.modules[__name__] = likelihoods
