"""Its version."""

__version__ = "0.32.0"
