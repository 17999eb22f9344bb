"""What all tests share; nothing here imports torch or fairseq."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

# Machines that run this are often busy: an example may take its time, and is the same every time.
settings.register_profile("gtrans", deadline=None, derandomize=True)
settings.load_profile("gtrans")

# A shell lets what it starts in the background ignore Ctrl-C, and so would the commands of tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("support")
# The fixtures of these are for all tests.
pytest_plugins = ["support.folders", "support.tiny_models", "support.tiny_bert"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long experiments may take as long as they need."""
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.timeout(0))
