"""Tests of `specloop explain`."""
