"""What trained models do with their context: attention, gates, gradients."""
