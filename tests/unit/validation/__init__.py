"""The engine model against published figures, and what shows it."""
