"""The decisions: pure functions from a policy, a memory and an observation to a decision in words."""
