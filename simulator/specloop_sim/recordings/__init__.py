"""A policy over recorded samples: `replay.py` first."""
