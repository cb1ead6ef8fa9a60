"""The plugin round a real web server on loopback."""
