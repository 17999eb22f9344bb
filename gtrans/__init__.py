"""gtrans: document-level machine translation as a fairseq plugin.

This module imports neither torch nor fairseq, so that ``gtrans score`` and
``gtrans make-corpus`` start at once; ``--user-dir gtrans`` makes fairseq import
:mod:`gtrans.tasks` and :mod:`gtrans.models` by itself.
"""

__version__ = "0.1.0"
