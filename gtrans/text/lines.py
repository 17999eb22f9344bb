"""Text in lines for programs that know neither documents nor SentencePiece.

``python -m gtrans.text.lines pairs SOURCE TARGET SOURCE-OUT TARGET-OUT`` writes the sentences of
both sides without boundaries; with ``--documents``, a boundary after each.

``python -m gtrans.text.lines subwords --model FILE`` prints fairseq's dictionary of a SentencePiece
model; with ``--input``, the lines of a text in subwords.
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
    """Run a command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m gtrans.text.lines")
    commands = parser.add_subparsers(dest="command", required=True)
    pairs = commands.add_parser("pairs")
    pairs.add_argument("--documents", action="store_true")
    for name in ("source", "target", "source_out", "target_out"):
        pairs.add_argument(name, type=Path, metavar=name.replace("_", "-"))
    subwords = commands.add_parser("subwords")
    subwords.add_argument("--model", type=Path, required=True)
    subwords.add_argument("--input", type=Path)
    args = parser.parse_args(argv)
    try:
        if args.command == "pairs":
            inputs = args.source, args.target
            outputs = args.source_out, args.target_out
            end = "\n\n" if args.documents else "\n"
            write_pairs(inputs, outputs, end)
        else:
            for line in in_subwords(args.model, args.input):
                print(line)
    except GtransError as error:
        print_message(f"gtrans: error: {error}")
        return 1
    return 0


def write_pairs(inputs: tuple[Path, Path], outputs: Sequence[Path], end: str) -> None:
    """Write the sentences of both sides, each followed by ``end``; both files or none."""
    with (
        replacing(*outputs, inputs=inputs) as (source, target),
        open(source, "w", encoding="utf-8", newline="\n") as source_file,
        open(target, "w", encoding="utf-8", newline="\n") as target_file,
    ):
        for pair in Sides(*inputs).read():
            if pair is None:
                continue
            source_sentence, target_sentence = pair
            # Other programs take a carriage return for the end of a line.
            source_file.write(source_sentence.replace("\r", " ") + end)
            target_file.write(target_sentence.replace("\r", " ") + end)


def in_subwords(model: Path, text: Path | None) -> Iterator[str]:
    """Yield the lines of a text in subwords; without a text, a dictionary."""
    processor = load_sentencepiece(model)
    if text is None:
        for subword in model_subwords(processor):
            yield f"{subword} 1"
    else:
        for line in iterate_raw_lines(text, strip=False):
            subwords = processor.encode(line, out_type=str)
            yield " ".join(subwords)


if __name__ == "__main__":
    sys.exit(main())
