"""The report: one self-contained page for people who decide whether a policy may change their fleet."""
