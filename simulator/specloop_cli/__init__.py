"""The one command line, `specloop`."""
