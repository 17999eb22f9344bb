"""Checkpoints of other programs become checkpoints of this project.

A module for each source reads a file of its format as a :class:`~gtrans.conversion.source.Source`;
:mod:`gtrans.conversion.converting` makes a checkpoint of any of them.
"""
