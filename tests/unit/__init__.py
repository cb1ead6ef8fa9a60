"""Tests that need no server, no process and no fake."""
