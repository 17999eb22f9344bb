"""Corpora of the papers: from the form in which they are distributed to documents of plain text.

Nothing here imports torch or fairseq. A reader yields sentence pairs, and ``None`` at each boundary
between documents. A pair of which a side or both are empty is yielded as it is; what becomes of it
is decided in one place, :mod:`gtrans.lab.corpora.cleaning`.
"""
