"""Operators under constant trouble; `make soak` runs it, and no other test run does."""
