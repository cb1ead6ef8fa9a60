"""One turn of the operator: what is decided, remembered and reported, from what Kubernetes and metrics say."""
