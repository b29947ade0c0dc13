"""Hypothesis tries the same examples in every run, so that a change and nothing else makes a test fail.

`pytest --hypothesis-profile=explore` looks for new ones.
"""

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("same")
