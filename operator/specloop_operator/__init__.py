"""The Kubernetes operator: it watches SpecPolicies and their targets, decides with the core, and rolls workloads."""
