"""Leader election by a Lease on an API server of loopback, and what is written by who leads no more."""
