"""The run scripts: how they are called, and what they make."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from shlex import split

from gtrans.errors import GtransError
from gtrans.shipped import shipped

# Options that a variant has and that its corpus decides here.
LANGUAGES = ("--source-lang", "--target-lang")
# Training, validation and test text.
PREFIXES = ("--train-prefix", "--valid-prefix", "--test-prefix")
_LONGEST_NAME = 80


@dataclass(frozen=True)
class Output:
    """A file that a call makes: in which stage, and for which model."""

    stage: str
    name: str
    path: str


def script(recipe: str) -> str:
    """The name of a run script, without its folder: plans and records have it so."""
    return f"run-{recipe}.sh"


def where_it_stands(argv: Sequence[str]) -> list[str]:
    """A command of a plan as it can be typed: with the path of its run script.

    Plans and records have the name only, so that a finished job stays finished when this program is
    moved or installed again somewhere else.
    """
    program, *words = argv
    if program == "bash":
        words[0] = str(shipped("exp_gtransformer") / words[0])
    return [program, *words]


@cache
def outputs(recipe: str, arguments: tuple[str, ...]) -> tuple[Output, ...]:
    """What a call makes, as the script itself says it.

    Raises:
        GtransError: the script refuses the arguments.
    """
    # What follows -- may be refused by no script, and says nothing of files.
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    command = where_it_stands(["bash", script(recipe), "--outputs", *own])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise GtransError(f"{' '.join(command)}: {last}")
    return tuple(
        Output(*line.split("\t")) for line in done.stdout.splitlines() if line.count("\t") == 2
    )


@cache
def search(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The ``gtrans translate`` that a call of a script for one model runs, as the script prints it.

    Raises:
        GtransError: the script refuses the arguments, or translates by another command.
    """
    command = where_it_stands([*argv[:2], "--dry-run", *argv[2:]])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise GtransError(f"{' '.join(command)}: {last}")
    lines = [split(line[2:]) for line in done.stdout.splitlines() if line.startswith("$ ")]
    found = [words[1:] for words in lines if len(words) > 1 and words[1] == "translate"]
    if len(found) != 1:
        raise GtransError(
            f"{' '.join(command)}: it does not translate by one `gtrans translate`, so nothing "
            "else can be translated in the same way."
        )
    return ("gtrans", *found[0])


def split_options(options: Iterable[str]) -> tuple[list[str], list[str]]:
    """The words of a variant for the script, and those behind ``--``."""
    before: list[str] = []
    after: list[str] = []
    words = before
    for option in options:
        if option == "--":
            words = after
        elif words is after or option.split()[0] not in LANGUAGES:
            words += split(option)
    return before, after


def model_name(recipe: str, options: Sequence[str]) -> str:
    """The name of a variant: its recipe, and the options that make it different from it."""
    before, after = split_options(options)
    words: list[str] = []
    for word in (*before, *after):
        if word.startswith("--") or not words:
            words.append(word.removeprefix("--"))
        else:
            words[-1] += f"-{word}"
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", ".".join([recipe, *words])).rstrip("_")
    if len(name) <= _LONGEST_NAME:
        return name
    # Two long names stay different.
    return f"{name[:_LONGEST_NAME]}.{sha256(name.encode()).hexdigest()[:8]}"


def text_prefixes(folder: Path, source: str, target: str) -> tuple[str, str, str]:
    """Training, validation and test text of a corpus, without the endings.

    Raises:
        GtransError: a file is missing.
    """
    found = []
    for names in (("train",), ("dev", "valid"), ("test",)):
        there = [name for name in names if _text(folder / name, source)]
        if not there:
            raise GtransError(
                f"{folder / names[0]}.{source}: there is no such file (nor .gz); a corpus is a "
                "folder with {train,dev,test}.LANG, as gtrans get-corpus writes it."
            )
        prefix = folder / there[0]
        if not _text(prefix, target):
            raise GtransError(f"{prefix}.{target}: there is no such file (nor .gz).")
        found.append(str(prefix))
    return found[0], found[1], found[2]


def _text(prefix: Path, lang: str) -> Path | None:
    for ending in (lang, f"{lang}.gz"):
        path = prefix.with_name(f"{prefix.name}.{ending}")
        if path.is_file():
            return path
    return None


def text_file(prefix: str, lang: str) -> str:
    """One text, gzipped or not; where it is not made yet, its name."""
    return str(_text(Path(prefix), lang) or f"{prefix}.{lang}")
