"""What all systems are built from; nothing here belongs to one paper.

=====================  ==============================================================
``model``              the base of every system, and what task, search and commands use of it
``encoder, decoder``   its two stacks, which a system may replace
``options, presets``   options and named sizes, and how a system is registered
``planning``           plans of batches, made in the processes that load data
``fusion``             layer fusion, an option of every system
``warm_start``         starting from another model's parameters
``bert_encoder``       an encoder that is initialised with a BERT; ``xlmr_start``: with XLM-R
=====================  ==============================================================
"""
