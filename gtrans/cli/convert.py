"""Convert a checkpoint of another program into one that all gtrans commands can read.

--from g-transformer  IN is a checkpoint of the authors' G-Transformer (fairseq 0.9).
--from fairseq        IN is mBART or a Transformer as fairseq saves it (mbart.cc25/model.pt,
                      wmt19.en-de/model1.pt).
--from huggingface    IN is a folder with OPUS-MT, M2M100, NLLB-200 or mBART as Hugging Face saves
                      it (config.json and model.safetensors or pytorch_model.bin).

Numbers of layers, widths, global layers and shared embeddings are read from the tensors.
The subwords' files in IN's folder become part of the new checkpoint. Without them, --data DIR
holds the dictionaries of the model's training (dict.LANG.txt, as `gtrans prepare` writes them).
The command prints the sizes, and the renamed and ignored tensors. A model with parts that gtrans
does not have is rejected with an error.

The new checkpoint can translate (`gtrans translate`, or `fairseq-generate DIR
--user-dir $(gtrans --user-dir) --task document_translation --path OUT.pt`) and start training
(`--init-from`, `--finetune-from-model`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtrans.environment import ENGINE
from gtrans.messages import print_lines

EXAMPLE = "gtrans convert --from huggingface opus-mt-en-de opus.pt"
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--from",
        dest="program",
        required=True,
        choices=["g-transformer", "fairseq", "huggingface"],
        help="the program that wrote IN",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with the dictionaries")
    parser.add_argument(
        "--source-lang", metavar="LANG", help="source language (default: as in IN or in DIR)"
    )
    parser.add_argument(
        "--target-lang", metavar="LANG", help="target language (default: as in IN or in DIR)"
    )
    parser.add_argument(
        "--extend-positions",
        type=int,
        metavar="N",
        help="give the model N learned positions; the new ones start as copies of the old ones",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace a file that this command did not write"
    )
    parser.add_argument("source", type=Path, metavar="IN", help="checkpoint to read")
    parser.add_argument("target", type=Path, metavar="OUT", help="checkpoint to write")


def run(args: argparse.Namespace) -> None:
    """Convert, and print the report."""
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.conversion.foreign import convert

    lines = convert(
        args.program,
        args.source,
        args.target,
        args.data,
        source_lang=args.source_lang,
        target_lang=args.target_lang,
        positions=args.extend_positions,
        force=args.force,
    )
    indented = (f"  {line}" for line in lines)
    print_lines(f"{args.source}:", *indented, f"written to {args.target}")
