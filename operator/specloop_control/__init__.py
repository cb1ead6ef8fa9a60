"""The loop round a live engine without Kubernetes: observe, decide, act."""
