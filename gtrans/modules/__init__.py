"""The layers of models, in plain torch."""

STEPS = ("sentences", "instances")
"""The parts of a document after each of which a model updates its memory."""
