"""The layers of models, in plain torch."""

STEPS = ("sentences", "instances")
"""What a model with a memory reads, and updates it with, at once."""
