"""What is known of inference engines: their metric pages, their command lines, their rules by version."""
