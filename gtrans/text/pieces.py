"""Text in the pieces of a SentencePiece model: ``python -m gtrans.text.pieces --model FILE``.

With ``--input`` it prints the pieces of every line; else the dictionary that fairseq reads, all
pieces of the model in their order.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.messages import say
from gtrans.text.subwords import load_sentencepiece, model_pieces


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0, or 1 with one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m gtrans.text.pieces")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--input", type=Path)
    args = parser.parse_args(argv)
    try:
        for line in lines(args.model, args.input):
            sys.stdout.write(f"{line}\n")
    except GtransError as error:
        say(f"gtrans: error: {error}")
        return 1
    return 0


def lines(model: Path, text: Path | None) -> Iterator[str]:
    """The lines of a text in pieces with a space between them; without a text, a dictionary.

    Raises:
        GtransError: the model or the text cannot be read.
    """
    processor = load_sentencepiece(model)
    if text is None:
        yield from (f"{piece} 1" for piece in model_pieces(processor))
        return
    try:
        with open(text, encoding="utf-8", newline="\n") as file:
            for line in file:
                yield " ".join(processor.encode(line.rstrip("\n"), out_type=str))
    except (OSError, UnicodeDecodeError) as error:
        raise GtransError(f"{text}: not readable ({error}).") from None


if __name__ == "__main__":
    sys.exit(main())
