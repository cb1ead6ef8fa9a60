"""A real Kubernetes for tests: control plane, nodes whose pods are processes, traffic, a proxy that fails on demand."""
