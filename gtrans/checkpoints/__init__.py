"""Checkpoints: reading, fingerprints, names of parts in other programs' files."""
