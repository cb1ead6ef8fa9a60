"""The plugin inside vLLM: what is read, written, counted and answered, without a vLLM."""
