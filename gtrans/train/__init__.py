"""``gtrans train``: a training that knows its folder and goes on exactly where it was stopped.

:mod:`~gtrans.train.main` is the loop. :mod:`~gtrans.train.run_plan` decides what a training does in
its folder; under ``fairseq-train --user-dir gtrans`` the task ``document_translation`` asks for it.
Nothing of fairseq is replaced.
"""
