"""Sweeps: which parameters of a policy would have done better on this traffic."""
