"""glibc keeps freed memory in processes that import the plugin, unless the user has set it up."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="the system has no glibc"
)

DIRECTLY = "from gtrans.allocator import keep_memory; keep_memory()"
# Large blocks are freed and asked for again: how many pages does the system give anew?
CODE = """
SIZE = 24_000_000
import resource
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    block = b"x" * SIZE
    del block
before = faults()
for _ in range(20):
    block = b"x" * SIZE
    del block
print("faults", faults() - before)
"""
PAGES = 20 * 24_000_000 // os.sysconf("SC_PAGE_SIZE")


def faults(first: str, **environment: str) -> int:
    """Page faults of twenty blocks of 23 MiB, one after the other, after the code ``first``."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", f"{first}\n{CODE}"], env={**kept, **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("faults"))
    return int(line.split()[1])


@pytest.mark.parametrize(
    "first", [DIRECTLY, pytest.param("import gtrans.tasks", marks=pytest.mark.long)]
)
def test_memory_is_kept(first: str) -> None:
    assert faults(first) < 0.1 * PAGES


@pytest.mark.parametrize(
    "own",
    [
        {"MALLOC_MMAP_THRESHOLD_": "65536"},
        {"MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "65536"},
        {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=65536"},
    ],
)
def test_the_users_own_settings_win(own: dict[str, str]) -> None:
    assert faults(DIRECTLY, **own) > 0.5 * PAGES
