"""What papers are written with: analyses, corpora, the page of results.

Outside this package only :mod:`gtrans.annexes` imports it; without it the other commands work.
"""

from __future__ import annotations

import importlib

COMMANDS = {
    "make-corpus": "write the synthetic English-German document corpus and its contrastive sets",
    "get-corpus": "make a corpus of the papers ready, from its published files",
    "corpus-report": "count a corpus: documents, chunks, types, unknown words, overlap",
    "analyse": "measure attention, gates, gradients, memory and cost of models; draw figures",
    "deciding-words": "name the words of the context that decided words of the reference",
    "reproduce": "make the tables and figures of the papers, or list what each needs",
    "report": "write one page of HTML: scores and a reader of documents",
}
"""Name and help of each command; ``gtrans.lab.NAME`` has it, as in :mod:`gtrans.cli`."""


def add_readers() -> None:
    """Add the readers of published contrastive sets to ``--format``."""
    from gtrans.evaluation.contrastive import READERS
    from gtrans.lab import contrapro
    from gtrans.lab import contrastive_sets as sets

    READERS["contrapro"] = contrapro.read_contrapro
    READERS["contracat"] = sets.read_contracat
    READERS["consistency"] = sets.read_consistency
    READERS["discevalmt"] = sets.read_discevalmt
    READERS["large-pronoun"] = sets.read_large_pronoun
    READERS["discourse-zhen"] = sets.read_discourse_zhen


def add_texts() -> None:
    """Add the reader of test sets in SGM and XML, which registers itself at import."""
    importlib.import_module(f"{__name__}.sgm")


def add_columns() -> None:
    """Add the columns of ``gtrans score``."""
    from gtrans.evaluation.other_scores import SCORES
    from gtrans.lab import ctxpro, lexical_consistency

    SCORES["--ctxpro"] = ctxpro.SCORE
    SCORES["--lexical-consistency"] = lexical_consistency.SCORE
