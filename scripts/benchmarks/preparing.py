"""How much memory `gtrans prepare` needs, by the size of the text."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measuring import Device
from report import Benchmark, Row, Rows, Target, over, table

_LANGUAGES = ("en", "de")
_MERGES = "1000"
_NEW_WORD = 20  # one in so many lines
_LINES_OF_DOCUMENT = 50
# A process counts as its own what the one that starts it holds, so one that holds little does.
_STARTER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss / 2**10, used.ru_utime + used.ru_stime)
"""


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Memory and time of the preparation of every size of text, in a folder of its own."""
    for pairs in args.pairs:
        with tempfile.TemporaryDirectory(dir=args.work) as folder:
            for lang in _LANGUAGES:
                write(Path(f"{args.text}.{lang}"), Path(folder) / f"train.{lang}", pairs)
            megabytes, seconds = prepare(Path(folder), args.workers)
        yield {"pairs": pairs, "megabytes": megabytes, "seconds": seconds}


def write(text: Path, path: Path, lines: int) -> None:
    """Write ``lines`` sentences: those of ``text``, again and again, with words that are new."""
    with open(path, "w", encoding="utf-8") as file:
        written = 0
        while written < lines:
            with open(text, encoding="utf-8") as sentences:
                for sentence in filter(str.strip, sentences):
                    new = f" {_new_word(written)}" if written % _NEW_WORD == 0 else ""
                    file.write(f"{sentence.strip()}{new}\n")
                    written += 1
                    if written == lines:
                        break
                    if written % _LINES_OF_DOCUMENT == 0:
                        file.write("\n")


def _new_word(number: int) -> str:
    """A word of letters for every number."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


def prepare(folder: Path, workers: int) -> tuple[float, float]:
    """Prepare the text of a folder.

    Returns:
        the megabytes that the largest of the command's processes has had, and the CPU seconds of
        them all.
    """
    command = [sys.executable, "-m", "gtrans", "prepare", "--out", str(folder / "data")]
    for flag, lang in zip(("--source-lang", "--target-lang"), _LANGUAGES, strict=True):
        command += [flag, lang]
    command += ["--train", str(folder / "train"), "--bpe-merges", _MERGES]
    command += ["--no-normalise", "--no-tokenise", "--workers", str(workers)]
    started = [sys.executable, "-c", _STARTER, *command]
    found = subprocess.run(started, check=True, stdout=subprocess.PIPE, text=True).stdout
    megabytes, seconds = map(float, found.split())
    return megabytes, seconds


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--text", type=Path, required=True, metavar="PREFIX",
        help="a text, PREFIX.en and PREFIX.de; empty lines are left out",
    )  # fmt: skip
    parser.add_argument(
        "--pairs", type=int, nargs="+", default=[100_000, 1_000_000], metavar="N",
        help="sentence pairs to prepare (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, default=2, help="as in gtrans prepare")
    parser.add_argument("--work", metavar="DIR", help="where to write (default: as Python finds)")


def shown(rows: Rows) -> str:
    """The table: a line for every size of the text."""
    heads = ["sentence pairs", "memory of the largest process, MB", "CPU seconds"]
    return table(
        heads,
        [
            [f"{row['pairs']:,}", f"{row['megabytes']:,.0f}", f"{row['seconds']:,.0f}"]
            for row in rows
        ],
    )


def targets(rows: Rows) -> list[Target]:
    """Memory of 5 million pairs, as the growth between the smallest and the largest text says."""
    first, last = rows[0], rows[-1]
    growth = over(last["megabytes"] - first["megabytes"], last["pairs"] - first["pairs"])
    whole = growth and last["megabytes"] + growth * (5_000_000 - last["pairs"])
    return [("5 million pairs, as that growth says: gigabytes", whole and whole / 1024, 4.0, False)]


BENCHMARK = Benchmark(
    name="prepare-memory",
    title="Memory of preparation",
    text="`gtrans prepare` with {workers} processes on the text {text}, which is repeated until it "
    f"has as many pairs; a word that occurs nowhere else stands in one of {_NEW_WORD} sentences of "
    "both sides. Truecasing and BPE are learnt; Moses' normalisation and tokenisation, which "
    "take most of the time and work line by line, are left out. Time is that of all processes.",
    size="narrow",
    devices=("cpu",),
    rounds=None,
    measure=measure,
    table=shown,
    targets=targets,
    add_options=add_options,
)
