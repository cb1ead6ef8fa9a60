"""What a soak does, and how it judges, without any cluster."""
