"""Reduce the vocabulary of a pretrained model to the subwords that a corpus uses.

CKPT is mBART as fairseq saves it (mbart.cc25/model.pt), or a checkpoint of this project, such
as `gtrans convert` writes. --data is the corpus, prepared with the model's whole vocabulary
(`gtrans prepare --reuse CKPT`, or --sentencepiece sentence.bpe.model). The command writes
model.pt to --out, with dict.txt and sentence.bpe.model if the model has them. Prepare the corpus
again with it, and train from the new model:

  gtrans prepare --reuse OUT/model.pt ...
  gtrans train ... --init-from OUT/model.pt

Special tokens, language tokens, the mask, and the single characters of all kept subwords are kept:
a removed subword is segmented into smaller kept ones. The logits of kept subwords do not change.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtrans.environment import ENGINE
from gtrans.messages import print_lines

EXAMPLE = "gtrans trim-vocab --data data-full --out mbart.small mbart.cc25/model.pt"
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="prepared corpus")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--splits",
        nargs="+",
        default=["train", "valid"],
        metavar="NAME",
        help="splits of --data whose subwords are kept (default: train valid)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace files that this command did not write"
    )
    parser.add_argument("checkpoint", type=Path, metavar="CKPT", help="checkpoint to read")


def run(args: argparse.Namespace) -> None:
    """Trim, and print how much is left."""
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.conversion.trimming import trim

    trimmed = trim(args.checkpoint, args.data, args.out, args.splits, args.force)
    subwords, kept = trimmed.subwords
    before, after = trimmed.parameters
    print(f"{kept:,} of {subwords:,} subwords kept, {after:,} of {before:,} parameters")
    names = sorted(path.name for path in args.out.iterdir())
    print_lines(f"written to {args.out}: {', '.join(names)}")
