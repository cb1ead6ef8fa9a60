"""Tests of parts together, with real servers and processes on this machine."""
