"""Metric sources: a Prometheus that many policies share, and pods that are scraped."""
