"""A process that measures itself: its resident memory, and the most that it had."""

from __future__ import annotations

import ctypes
import platform
import resource
import sys
from contextlib import suppress
from pathlib import Path

from gtrans.known_warnings import hide_known_warnings, log_warnings_only

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def begin_process() -> None:
    """Hide what libraries log while they are imported, in a new process that measures itself."""
    hide_known_warnings()
    log_warnings_only()


def forget_peak() -> int:
    """Begin anew to watch for a peak; returns the bytes that are resident now.

    Freed memory is given back to the system from here on, so that what is resident is in use.
    Where a system cannot forget, the peak is still that of the whole process.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        _CLEAR.write_text("5")  # Linux, proc(5)
    return _status("VmRSS") or peak()


def peak() -> int:
    """Bytes of the largest resident memory since :func:`forget_peak`."""
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int:
    """A number of bytes in Linux' description of this process; 0: there is none."""
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
