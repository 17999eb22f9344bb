"""What a script of exp_gtransformer/ has printed."""

from __future__ import annotations

import re
import subprocess


def commands(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The commands that a dry run prints, without the folder of the programs."""
    assert done.returncode == 0, done.stderr
    found = [line[2:] for line in done.stdout.splitlines() if line.startswith("$ ")]
    return [re.sub(r"^\S*/(?=[a-z-]+ )", "", command) for command in found]


def the_error(done: subprocess.CompletedProcess[str]) -> str:
    """The one line with which a script has refused."""
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    return line
