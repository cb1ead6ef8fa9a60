"""Part of the path."""
