"""The parts that all systems are built from; nothing here belongs to one paper.

==================  ==============================================================
``model``           the base of every system: what task, search and commands use
``planning``        plans of batches, made in the processes that load data
``presets``         named sizes, and how a system is registered
``warm_start``      starting from another model's parameters
``checkpoint_fit``  whether a checkpoint's options describe its parameters
==================  ==============================================================
"""
