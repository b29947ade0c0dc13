"""The room `cbdl.bayes.priors` by its public name: what `from cbdl.priors import Normal` finds."""

import sys

from cbdl.bayes import priors
from cbdl.bayes.priors import *  # noqa: F403

sys.modules[__name__] = priors
