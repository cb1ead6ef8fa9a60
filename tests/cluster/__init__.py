"""Tests on a real Kubernetes control plane, with pods that are processes on this machine."""
