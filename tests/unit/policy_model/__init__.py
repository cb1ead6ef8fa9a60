"""The policy models, and the custom resource made from them."""
