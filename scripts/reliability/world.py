"""What the fuzzing needs: a small corpus, its preparations, and models trained on it.

They are made by the commands of :mod:`cases`, without a kill, in ``FOLDER/NAME``. A folder whose
``done`` names the code of today is not made again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from cases import CASES, PROGRAMS, ROOT, Case
from forked import Order, run, words_of

from gtrans.identity.digests import digest, fingerprint

_DONE = "done"


class WorldError(Exception):
    """A command that makes a part of the world failed."""


def code(*scripts: str) -> str:
    """Digest of the code of the project and of programs beside this one."""
    files = sorted((ROOT / "gtrans").rglob("*.py"))
    files += [Path(__file__).with_name(name) for name in scripts]
    return fingerprint(*((str(path.relative_to(ROOT)), digest(path)) for path in files))


def make(folder: Path, names: Iterable[str]) -> None:
    """Make the folders of cases, and before them those that they build on.

    Raises:
        WorldError: a command failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        case = CASES[name]
        make(folder, case.others)
        _make(folder, case)


def _make(folder: Path, case: Case) -> None:
    own = folder / case.name
    words = case.words(folder)
    known = fingerprint(code(), words)
    done = own / _DONE
    if done.is_file() and done.read_text("utf-8") == known:
        return
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    print(f"making {case.title}", file=sys.stderr)
    if Path(words[0]).name == "gtrans" or Path(words[0]).name.startswith("fairseq-"):
        ended = run(Order(words_of(words), own, computing=600))
        status, message = ended.status, ended.said
    else:
        environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
        made = subprocess.run(words, cwd=own, env=environment, capture_output=True, text=True)
        status, message = made.returncode, made.stderr.strip()[-300:]
    if status:
        raise WorldError(f"{case.name}: status {status}: {message}")
    done.write_text(known, "utf-8")
