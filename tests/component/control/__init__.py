"""The loop on real processes and real HTTP."""
