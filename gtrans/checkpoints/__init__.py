"""Checkpoints: what they were made from, reading, averaging, converting, trimming, showing."""
