"""One Hypothesis profile for all tests: no deadlines, because tests never judge time."""

from hypothesis import settings

settings.register_profile("specloop", deadline=None)
settings.load_profile("specloop")
