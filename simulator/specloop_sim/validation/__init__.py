"""The engine model against published figures: what was fitted, what was predicted, and how far off it is."""
