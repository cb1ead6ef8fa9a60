"""Real traces read from files in many forms: `trace.py` first."""
