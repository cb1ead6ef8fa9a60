"""Attacks of docs/threat-model.md over real HTTP on loopback."""
