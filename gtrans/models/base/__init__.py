"""The parts that all systems are built from; nothing here belongs to one paper.

==================  ==============================================================
``model``           the base of every system, for task, search and commands
``planning``        plans of batches
``presets``         named sizes, and how a system is registered
``warm_start``      starting from another model's parameters
``checkpoint_fit``  checking a checkpoint's options against its parameters
==================  ==============================================================
"""
