"""fairseq tasks.

``--user-dir gtrans`` makes fairseq import this package and :mod:`gtrans.models`. That registers
names with fairseq, hydra and torch, and has no other effect.
"""

# fairseq imports the tasks and models of --user-dir, and nothing else.
import gtrans.criterions.chunked_cross_entropy  # noqa: F401
from gtrans.checkpoints.reading import register_safe_globals

register_safe_globals()
