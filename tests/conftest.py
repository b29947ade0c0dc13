"""Hypothesis tries the same examples in every run, so that a change and nothing else makes a test fail.

`pytest --hypothesis-profile=explore` looks for new ones.
"""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("same")

if (
    os.environ.get("LOOPS") == "always"
):  # a kind of machine in `make test-portable`: small sets by compiled loops too
    from cbdl.bayes import passes
    from cbdl.credal.classes import regions
    from cbdl.credal.line import compiled

    compiled.MANY = compiled.LEAST = regions.LOOPS = passes.LEAST = passes.LARGE = 0
