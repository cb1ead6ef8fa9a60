"""Attacks of docs/threat-model.md that need no server."""
