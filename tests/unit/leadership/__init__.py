"""Who leads, and for how long it may think so."""
