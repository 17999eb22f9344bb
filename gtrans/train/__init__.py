"""``gtrans train``: a training that knows its folder and goes on exactly where it was stopped.

:mod:`~gtrans.train.main` is the loop. :mod:`~gtrans.train.begin` decides what a training does in
its folder; the models call it when they are built, so that ``fairseq-train --user-dir gtrans``
rejects the same mistakes. Nothing of fairseq is replaced.
"""
