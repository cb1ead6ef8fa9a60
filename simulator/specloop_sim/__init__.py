"""A simulated inference engine: on a virtual clock, and as a server that speaks HTTP."""
