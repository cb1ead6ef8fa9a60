"""A real Prometheus on loopback that scrapes simulated servers."""
