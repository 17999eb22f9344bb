"""Checkpoints of other programs become checkpoints of this project.

There is a module for each format, which reads a
:class:`~gtrans.conversion.foreign_checkpoint.ForeignCheckpoint`;
:mod:`gtrans.conversion.converting` makes a checkpoint of this project from it.
"""
