"""What holds for all tests.

Hypothesis has no deadlines, because tests never judge time, and tries the same cases in every run;
`HYPOTHESIS_PROFILE=explore` looks at other and many more.

Ctrl-C works in what tests start, also where they run in the background of a script: a shell has such processes ignore
SIGINT, and their children inherit that.
"""

import os
import signal

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
