"""Hypothesis for all tests: no deadlines, because tests never judge time, and the same cases in every run.

`HYPOTHESIS_PROFILE=explore` looks at other and many more cases.
"""

import os

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
