"""Feeding, recording and reading back, with a Prometheus of values in memory."""
