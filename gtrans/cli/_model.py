"""Options of all commands that use a trained model."""

from __future__ import annotations

import argparse
from typing import Any

from gtrans.data.units import CONTEXT_KINDS
from gtrans.errors import GtransError


def add_model_files(files: argparse._ArgumentGroup) -> None:
    """``--path`` and ``--data``."""
    files.add_argument(
        "--path", required=True, metavar="CKPT[:CKPT..]", help="checkpoint; several: an ensemble"
    )
    files.add_argument(
        "--data", required=True, metavar="DIR", help="folder made by 'gtrans prepare'"
    )


def add_device(group: argparse._ArgumentGroup) -> None:
    """``--cpu`` and ``--fp16``."""
    group.add_argument("--cpu", action="store_true", help="stay on the CPU")
    group.add_argument("--fp16", action="store_true", help="half precision, on a GPU")


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """What commands that score given translations share: size of batches, device, JSON."""
    size = parser.add_argument_group("size")
    size.add_argument(
        "--max-tokens",
        type=int,
        default=2000,
        metavar="N",
        help="tokens of a batch, padding included; what is longer stands alone "
        "(default: %(default)s)",
    )
    add_device(size)
    parser.add_argument("--json", action="store_true", help="write JSON to standard output")


def check_scoring(args: argparse.Namespace) -> None:
    """Raises GtransError for a size that makes no batch."""
    if args.max_tokens < 1:
        raise GtransError(f"`--max-tokens` must be at least 1, but is {args.max_tokens}.")


def add_context(parser: argparse.ArgumentParser) -> None:
    """``--context-kind`` and ``--context-sentence``, of models that read windows."""
    group = parser.add_argument_group("context, of models that read windows")
    group.add_argument(
        "--context-kind",
        choices=CONTEXT_KINDS,
        help="what stands in the place of the other sentences: themselves, a fixed sentence, as "
        "many random words, nothing (default: as trained)",
    )
    group.add_argument(
        "--context-sentence",
        metavar="'TOKENS ..'",
        help="the fixed sentence, in tokens of the corpus (default: as trained)",
    )


def context_of(args: argparse.Namespace) -> dict[str, Any]:
    """What these flags replace of a checkpoint's options.

    For :func:`gtrans.decoding.loading.load_models`.
    """
    given = {name: getattr(args, name) for name in ("context_kind", "context_sentence")}
    return {name: value for name, value in given.items() if value is not None}
