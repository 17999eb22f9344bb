"""What papers are written with: analyses, corpora, the page of results.

Nothing outside this package imports it but one look-up (:mod:`gtrans.cli.shared.extras`): without
this package the other commands work as before.
"""

from __future__ import annotations

COMMANDS = {
    "make-corpus": "write the synthetic English-German document corpus and its contrastive sets",
    "get-corpus": "make a corpus of the papers ready, from its published files",
    "corpus-report": "count a corpus: documents, instances, types, unknown words, overlap",
    "analyse": "measure attention, gates, gradients, memory and cost of models; draw figures",
    "report": "write one page of HTML about finished runs: scores, curves, a document reader",
}
"""Name and help of each command; ``gtrans.lab.NAME`` has it, as in :mod:`gtrans.cli`."""
