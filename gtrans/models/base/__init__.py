"""What all systems are built from; nothing here belongs to one paper.

=====================  ==============================================================
``contract``           what task, search, criteria, analysis and commands ask of a model
``model``              a Transformer that keeps the contract: the base of every system
``encoder, decoder``   its two stacks, which a system may replace
``options, presets``   options and named sizes, and how a system is registered
``parts``              layer fusion, recurrent memory, context attention: switched on by a
                       system
``warm_start``         starting from another model's parameters
``bert_encoder``       an encoder that begins as a BERT; ``xlmr_start`` likewise XLM-R
``stock_search``       the models under fairseq's own beam search
=====================  ==============================================================
"""
