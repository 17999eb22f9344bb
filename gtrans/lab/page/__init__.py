"""``gtrans report``: one page of HTML from finished run folders."""
