"""The engine model as a server: vLLM's HTTP, metric pages, flags and life (`python -m specloop_sim.server`)."""
