"""Tests of the loop without an engine."""
