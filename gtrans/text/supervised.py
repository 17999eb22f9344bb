"""A Python program that ends with the process that started it, together with its own children.

Started by :func:`gtrans.text.workers.run_module` as ``python supervised.py PIPE MODULE ARG ..``,
as the leader of a process group. The starting process alone holds the other end of the pipe, so
the pipe ends when that process does, even by SIGKILL. Only the standard library is imported here.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _end_with_the_pipe(pipe: int) -> None:
    os.read(pipe, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if place != here]  # not before other packages
    threading.Thread(target=_end_with_the_pipe, args=(int(sys.argv[1]),), daemon=True).start()
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
