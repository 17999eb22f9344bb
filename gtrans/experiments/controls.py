"""Translate a text whose sentences have other neighbours than their own.

``python -m gtrans.experiments.controls KIND gtrans translate .. --input TEXT --output FILE ..``
runs the command on the rearranged text, FILE.KIND.in, and puts the translations, FILE.KIND.out,
back into the lines of TEXT:

* ``alone``: every sentence is a document of its own;
* ``shuffled``: documents have as many sentences as before, drawn from all of the text; always the
  same ones.

The translations of a model that reads single sentences stay the same. What the others lose shows
what they owe to a context, and what a wrong one costs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from gtrans.data.documents import read_documents
from gtrans.data.neighbours import in_documents, put_back, shuffled_order
from gtrans.errors import GtransError
from gtrans.identity.files import atomic_writer
from gtrans.messages import say

Kind = Literal["alone", "shuffled"]


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status of the command, or 1 with one line that says what is wrong."""
    words = sys.argv[1:] if argv is None else argv
    kind, command = "".join(words[:1]), list(words[1:])
    try:
        if kind not in get_args(Kind):
            raise GtransError(f"'{kind}' is none of {', '.join(get_args(Kind))}.")
        return _run(kind, command)
    except GtransError as error:
        say(f"gtrans: error: {error}")
        return 1


def _run(kind: str, command: list[str]) -> int:
    text, output = (Path(_value(command, flag)) for flag in ("--input", "--output"))
    documents = read_documents(text)
    lengths = [len(document) for document in documents]
    sentences = [sentence for document in documents for sentence in document]
    order = list(range(len(sentences)))
    if kind == "shuffled":
        order = shuffled_order(len(sentences))
    given, made = (output.with_name(f"{output.name}.{kind}.{end}") for end in ("in", "out"))
    parts = [1] * len(sentences) if kind == "alone" else lengths
    _write(given, in_documents((sentences[number] for number in order), parts))
    command[command.index("--input") + 1] = str(given)
    command[command.index("--output") + 1] = str(made)
    status = subprocess.run(command, check=False).returncode
    if status:
        return status
    # A sentence may have an empty translation, so lines are counted and not read as documents.
    lines = made.read_text(encoding="utf-8").split("\n")[:-1]
    expected = sum(parts) + len(parts) - 1
    if len(lines) != expected:
        raise GtransError(
            f"{made}: it has {len(lines)} lines, but {given} has {expected}; the command has not "
            "translated line by line."
        )
    translated: list[str] = []
    start = 0
    for part in parts:
        translated += lines[start : start + part]
        start += part + 1
    _write(output, in_documents(put_back(translated, order), lengths))
    return 0


def _value(command: Sequence[str], flag: str) -> str:
    if flag not in command[:-1]:
        raise GtransError(f"`{flag}` is missing in: {' '.join(command)}")
    return command[command.index(flag) + 1]


def _write(path: Path, documents: Sequence[Sequence[str]]) -> None:
    """An empty line stands between documents."""
    with atomic_writer(path) as file:
        file.write("\n".join("".join(f"{line}\n" for line in document) for document in documents))


if __name__ == "__main__":
    sys.exit(main())
