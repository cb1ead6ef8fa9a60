"""The operator's own web server, and its events and requests on an API server of loopback."""
