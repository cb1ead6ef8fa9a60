"""A folder for PYTHONPATH, with modules named as vLLM's."""
