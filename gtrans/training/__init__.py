"""Training runs: a run folder that knows its settings, and resuming that is exact.

The functions of this package stand around fairseq's own ``load_checkpoint`` and
``save_checkpoint``, so ``fairseq-train``, ``fairseq-hydra-train`` and ``gtrans train`` behave
alike. Runs of tasks of other projects are left as they are.
"""
