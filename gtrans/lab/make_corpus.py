"""Write the embedded English-German document corpus and its contrastive sets.

The corpus comes from a small grammar in which some translations depend on earlier
sentences: pronouns, forms of address, verb ellipsis, and words with two translations of
which a document keeps one. The command writes train, valid and test (`.en` and `.de`, one
sentence per line, an empty line between documents), contrastive/PHENOMENON.jsonl and
corpus.json to DIR. The same options always give the same bytes. By construction, a system
that translates sentence by sentence scores 50% on the contrastive sets.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.lab.synthetic.writing import MIN_DOCS, PAIR, SPLITS, write_corpus
from gtrans.messages import print_lines

EXAMPLE = "gtrans make-corpus --seed 1 --docs 4000 --pair en-de --out corpus"
NEEDS = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans make-corpus``."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="S",
        help="random seed of the corpus (default: %(default)s)",
    )
    parser.add_argument(
        "--docs",
        type=int,
        default=4000,
        metavar="N",
        help="documents of train, valid and test together (default: %(default)s); valid and"
        f" test get a twentieth each, but at least 50 and at most 200; N is at least {MIN_DOCS}",
    )
    parser.add_argument("--pair", default=PAIR, help="language pair; there is only %(default)s")
    parser.add_argument(
        "--items",
        type=int,
        default=400,
        metavar="N",
        help="contrastive items per phenomenon and distance, an even number (default: %(default)s)",
    )
    parser.add_argument(
        "--join",
        type=int,
        default=1,
        metavar="N",
        help="N documents of a split become one long document, as experiments on the length of "
        "documents need (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Write the corpus, and print what was written."""
    if args.pair != PAIR:
        raise GtransError(
            f"`--pair` must be {PAIR}, but is {args.pair}; the grammar knows no other pair."
        )
    summary = write_corpus(args.out, args.seed, args.docs, args.items, args.join)
    for split in SPLITS:
        counts = summary["splits"][split]
        print(f"{split}: {counts['documents']} documents, {counts['sentences']} sentences")
    for phenomenon, contrastive in summary["contrastive"].items():
        total = sum(contrastive["items"].values())
        print(f"contrastive/{phenomenon}: {total} items, cue on the {contrastive['cue']} side")
    print_lines(f"written to {args.out}")
