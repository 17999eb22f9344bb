"""Sentence pairs without the boundaries of documents, for programs that read lines.

``python -m gtrans.text.sentence_pairs SOURCE TARGET SOURCE-OUT TARGET-OUT`` reads both sides of a
text together, gzipped or not, and writes a sentence per line. With ``--documents`` every sentence
is a document of its own, with a boundary after it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.files import replacing
from gtrans.messages import say
from gtrans.text.reader import Sides


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0, or 1 with one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m gtrans.text.sentence_pairs")
    parser.add_argument("--documents", action="store_true")
    for name in ("source", "target", "source-out", "target-out"):
        parser.add_argument(name, type=Path)
    args = vars(parser.parse_args(argv))
    inputs, outputs = (args["source"], args["target"]), (args["source-out"], args["target-out"])
    try:
        write_pairs(inputs, outputs, "\n\n" if args["documents"] else "\n")
    except GtransError as error:
        say(f"gtrans: error: {error}")
        return 1
    return 0


def write_pairs(inputs: tuple[Path, Path], outputs: tuple[Path, Path], end: str) -> None:
    """Write the sentences of both sides, each followed by ``end``; both files or none.

    Raises:
        GtransError: as :meth:`Sides.read`, or a file cannot be written.
    """
    with (
        replacing(*outputs, inputs=inputs) as (source_path, target_path),
        open(source_path, "w", encoding="utf-8", newline="\n") as source_file,
        open(target_path, "w", encoding="utf-8", newline="\n") as target_file,
    ):
        for pair in Sides(*inputs).read():
            if pair is not None:
                # Other programs take a carriage return for the end of a line.
                source_file.write(pair[0].replace("\r", " ") + end)
                target_file.write(pair[1].replace("\r", " ") + end)


if __name__ == "__main__":
    sys.exit(main())
