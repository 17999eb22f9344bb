"""What all tests share; nothing here imports torch or fairseq."""

from __future__ import annotations

import pytest
from hypothesis import settings

# Machines that run this are often busy: an example may take its time, and is the same every time.
settings.register_profile("gtrans", deadline=None, derandomize=True)
settings.load_profile("gtrans")

pytest.register_assert_rewrite("support")
# The fixtures of these are for all tests.
pytest_plugins = ["support.folders", "support.tiny_models", "support.tiny_bert"]
