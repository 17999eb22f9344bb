"""``gtrans train``: the loop (:mod:`~gtrans.train.main`) and the run folder."""
