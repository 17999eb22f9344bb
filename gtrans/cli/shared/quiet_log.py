"""A training's log, in which a mistake of its user stands alone."""

from __future__ import annotations

import logging

_LOGGER = "fairseq_cli.train"


class OptionsAfterChecks(logging.Filter):
    """Log all options of a training once its model is built, and not before a user's mistake.

    fairseq logs them first: thousands of characters, below which a one-line message is hard to
    find. An exception that is no user's mistake leaves them unlogged, too; its stack trace says
    more.
    """

    def __init__(self) -> None:
        super().__init__()
        self._first = True
        self._held: logging.LogRecord | None = None

    def __enter__(self) -> OptionsAfterChecks:
        logging.getLogger(_LOGGER).addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger(_LOGGER).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Hold the first line back until the second."""
        if self._first:
            self._first, self._held = False, record
            return False
        held, self._held = self._held, None
        if held is not None:
            logging.getLogger(_LOGGER).handle(held)
        return True
