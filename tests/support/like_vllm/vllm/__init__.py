"""The few modules of vLLM that the plugin imports, with as much in them as it looks at (vLLM 0.32.0)."""
