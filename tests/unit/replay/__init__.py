"""Metric pages, samples, windows and their history."""
