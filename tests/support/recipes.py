"""What the tests of exp_gtransformer/ share: running a script, and reading what it has printed."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
from pathlib import Path
from types import ModuleType

from gtrans.cli.shared.config_file import take_config

PLACE = ("--data", "texts", "--corpus", "europarl7", "--out", "out")


def module_at(path: Path) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_script(
    repo: Path, folder: Path, name: str, *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script of exp_gtransformer/ in a folder; no GPU is named in the environment."""
    inherited = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return subprocess.run(
        [repo / "exp_gtransformer" / f"{name}.sh", *map(str, arguments)],
        cwd=folder,
        env={**inherited, "OMP_NUM_THREADS": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
    )


def commands(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The commands that a dry run prints, without the folder of the programs."""
    assert done.returncode == 0, done.stderr
    found = [line[2:] for line in done.stdout.splitlines() if line.startswith("$ ")]
    return [re.sub(r"^\S*/(?=[a-z-]+ )", "", command).strip() for command in found]


def options_of(command: str) -> dict[str, str]:
    """The options of a command with their values; of a training also those of its configuration."""
    words = shlex.split(re.sub(r" >\S+$", "", command))
    if "train" in words and "--config" in words:
        config, own = take_config(words[words.index("train") + 1 :])
        assert config is not None
        words = [*config.words_before(own), *own]
    found: dict[str, str] = {}
    flag = ""
    for word in words:
        if re.match(r"--[a-z]", word):
            flag, _, value = word.partition("=")
            found[flag] = value
        elif flag:
            found[flag] = f"{found[flag]} {word}".strip()
    return found


# Adam by its equations, with other kernels or two learning rates.
ADAM = ("adam", "fused_adam", "two_rate_adam")


def same(one: str, other: str) -> bool:
    """Whether two values of an option are the same: as numbers, or as words without spaces."""
    if one in ADAM and other in ADAM:
        return True
    try:
        return float(one) == float(other)
    except ValueError:
        return one.replace(" ", "") == other.replace(" ", "")


def has_options(wanted: dict[str, str], command: str) -> bool:
    """Whether a command has these options with these values."""
    found = options_of(command)
    return all(flag in found and same(value, found[flag]) for flag, value in wanted.items())


def the_error(done: subprocess.CompletedProcess[str]) -> str:
    """The one line with which a script has refused."""
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    return line
