"""Whether glibc's allocator gives memory back to the system that the next layer asks for.

glibc maps large blocks one by one and unmaps them when they are freed, so that training on a CPU
gets the same memory from the system again and again, zeroed, page by page. What that costs:
docs/benchmarks.md, "Memory from the system".
"""

from __future__ import annotations

import ctypes
import os
import platform

# Numbers of <malloc.h>: free memory at the end of the heap that is kept; the smallest block that is
# mapped by itself, for which glibc takes 32 MiB at most.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT, _LARGEST = 1 << 30, 32 << 20
_SMALLEST = 1 << 16
_OWN_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def keep_memory() -> bool:
    """Let this process keep freed memory for itself; called when the plugin is imported.

    Nothing happens without glibc, or where the environment has settings of its own for its
    allocator.

    Returns:
        whether it was set.
    """
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    if "glibc.malloc." in tunables or any(name in os.environ for name in _OWN_SETTINGS):
        return False
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    kept = mallopt(_MMAP_THRESHOLD, _LARGEST), mallopt(_TRIM_THRESHOLD, _KEPT)
    return kept == (1, 1)


def give_back_memory() -> None:
    """Let this process give freed memory back to the system, and what is free now.

    So its resident memory is what it uses. Nothing happens without glibc.
    """
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _SMALLEST)
        library.mallopt(_TRIM_THRESHOLD, _SMALLEST)
        library.malloc_trim(0)
