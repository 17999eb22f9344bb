"""The parts that all systems are built from; nothing here belongs to one paper.

=====================  ==============================================================
``model``              the base of every system: what task, search and commands use
``encoder, decoder``   its two stacks, which a system may replace
``options``            options of all systems, layer fusion included
``presets``            named sizes, and how a system is registered
``planning``           plans of batches, made in the processes that load data
``warm_start``         starting from another model's parameters
``checkpoint_fit``     whether a checkpoint's options describe its parameters
``bert_encoder``       an encoder that is initialised with a BERT; ``xlmr_start``: with XLM-R
=====================  ==============================================================
"""
