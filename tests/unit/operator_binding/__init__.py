"""Where a target keeps its setting, and what the operator keeps of targets, pods and everything that it watches."""
