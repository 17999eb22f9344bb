"""Text in lines for programs that know neither documents nor SentencePiece.

``python -m gtrans.text.lines pairs SOURCE TARGET SOURCE-OUT TARGET-OUT`` reads both sides of a
text together and writes a sentence per line, without the boundaries of documents. With
``--documents`` every sentence is a document of its own, with a boundary after it.

``python -m gtrans.text.lines subwords --model FILE`` prints the dictionary that fairseq reads, all
subwords of a SentencePiece model in their order; with ``--input``, the subwords of every line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.files import replacing
from gtrans.messages import print_message
from gtrans.text.reader import Sides
from gtrans.text.subwords import load_sentencepiece, model_subwords


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, or 1 after a line with the mistake."""
    parser = argparse.ArgumentParser(prog="python -m gtrans.text.lines")
    commands = parser.add_subparsers(dest="command", required=True)
    pairs, subwords = (commands.add_parser(name) for name in ("pairs", "subwords"))
    pairs.add_argument("--documents", action="store_true")
    names = "source", "target", "source-out", "target-out"
    for name in names:
        pairs.add_argument(name, type=Path)
    subwords.add_argument("--model", type=Path, required=True)
    subwords.add_argument("--input", type=Path)
    args = parser.parse_args(argv)
    try:
        if args.command == "pairs":
            source, target, *outputs = (vars(args)[name] for name in names)
            write_pairs((source, target), outputs, "\n" * (1 + args.documents))
        else:
            sys.stdout.writelines(f"{line}\n" for line in in_subwords(args.model, args.input))
    except GtransError as error:
        print_message(f"gtrans: error: {error}")
        return 1
    return 0


def write_pairs(inputs: tuple[Path, Path], outputs: Sequence[Path], end: str) -> None:
    """Write the sentences of both sides, each followed by ``end``; both files or none.

    Raises:
        GtransError: as :meth:`Sides.read`, or a file cannot be written.
    """
    with (
        replacing(*outputs, inputs=inputs) as (source, target),
        open(source, "w", encoding="utf-8", newline="\n") as source_file,
        open(target, "w", encoding="utf-8", newline="\n") as target_file,
    ):
        for pair in filter(None, Sides(*inputs).read()):
            # Other programs take a carriage return for the end of a line.
            source_file.write(pair[0].replace("\r", " ") + end)
            target_file.write(pair[1].replace("\r", " ") + end)


def in_subwords(model: Path, text: Path | None) -> Iterator[str]:
    """The lines of a text in subwords with a space between them; without a text, a dictionary.

    Raises:
        GtransError: the model or the text cannot be read.
    """
    processor = load_sentencepiece(model)
    if text is None:
        yield from (f"{subword} 1" for subword in model_subwords(processor))
    else:
        for line in iterate_raw_lines(text, strip=False):
            yield " ".join(processor.encode(line, out_type=str))


if __name__ == "__main__":
    sys.exit(main())
