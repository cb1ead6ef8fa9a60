"""The decision core: cost model, evidence, decisions and the laws that hold for all of them."""
