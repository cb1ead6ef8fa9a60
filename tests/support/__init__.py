"""Fakes, builders and recorded data that tests share."""
