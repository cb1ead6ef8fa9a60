"""What the Helm chart renders."""
