"""What a model with a memory reads, and updates it with, at once."""

STEPS = ("sentences", "instances")
