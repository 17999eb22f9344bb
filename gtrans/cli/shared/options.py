"""Options that several commands share: models, size, context, selections of texts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, get_args

from gtrans.data.units import CONTEXT_KINDS
from gtrans.errors import GtransError
from gtrans.option_types import whole
from gtrans.search.options import MIN_DOC_TOKENS
from gtrans.text.reader import Role, TextSelection

# ---- models --------------------------------------------------------------------------------------


def add_model_files(files: argparse._ArgumentGroup, required: bool = True) -> None:
    """``--path``, which may be ``required``, and ``--data``."""
    files.add_argument(
        "--path",
        required=required,
        metavar="CKPT[:CKPT..]",
        help="checkpoint; several, separated by colons, are used as an ensemble",
    )
    files.add_argument(
        "--data",
        metavar="DIR",
        help="data folder that the model was trained with, made by 'gtrans prepare' (default: the "
        "vocabulary and the preparation in the checkpoint)",
    )


def add_read(files: argparse._ArgumentGroup) -> None:
    """``--data`` and ``--split``."""
    files.add_argument(
        "--data", required=True, metavar="DIR", help="data folder, made by 'gtrans prepare'"
    )
    files.add_argument(
        "--split", default="valid", help="split of --data to read (default: %(default)s)"
    )


def add_units(group: argparse._ArgumentGroup) -> None:
    """``--units``."""
    group.add_argument(
        "--units",
        type=whole(1),
        default=200,
        metavar="N",
        help="read at most N units, evenly spread over the split (default: %(default)s)",
    )


def add_device(group: argparse._ArgumentGroup) -> None:
    """``--cpu`` and ``--fp16``."""
    group.add_argument("--cpu", action="store_true", help="run on the CPU even if there is a GPU")
    group.add_argument("--fp16", action="store_true", help="compute in half precision (GPU only)")


def add_chunks(group: argparse._ArgumentGroup, default: str) -> None:
    """``--max-doc-tokens``, by default ``default``, and ``--overlap``."""
    group.add_argument(
        "--max-doc-tokens",
        type=int,
        metavar="N",
        help="longest chunk in tokens; a sentence counts two more for its special tokens. The "
        "source alone is measured; training, fairseq-generate and gtrans score take the longer "
        f"side (default: {default})",
    )
    group.add_argument(
        "--overlap",
        type=int,
        default=0,
        metavar="N",
        help="a chunk of a longer document begins with the last N sentences of the chunk before "
        "and their translations, so that its own sentences have a context, too (default: "
        "%(default)s)",
    )


def check_chunks(args: argparse.Namespace) -> None:
    """Raises GtransError for values out of range."""
    for flag, least in (("max_doc_tokens", MIN_DOC_TOKENS), ("overlap", 0)):
        value = getattr(args, flag)
        if value is not None and value < least:
            raise GtransError(
                f"`--{flag.replace('_', '-')}` must be at least {least}, but is {value}."
            )


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """Add batch size, device and ``--json``, for scores of given translations."""
    size = parser.add_argument_group("size")
    size.add_argument(
        "--max-tokens",
        type=int,
        default=2000,
        metavar="N",
        help="largest batch in tokens, padding included; a longer text makes a batch of its own "
        "(default: %(default)s)",
    )
    add_device(size)
    parser.add_argument("--json", action="store_true", help="write JSON to standard output")


def check_scoring(args: argparse.Namespace) -> None:
    """Raises GtransError for an impossible batch size."""
    if args.max_tokens < 1:
        raise GtransError(f"`--max-tokens` must be at least 1, but is {args.max_tokens}.")


def add_context(parser: argparse.ArgumentParser) -> None:
    """``--context-kind`` and ``--context-sentence``, for models of windows."""
    group = parser.add_argument_group("context (for models of windows)")
    group.add_argument(
        "--context-kind",
        choices=CONTEXT_KINDS,
        help="context shown to the model: the true sentences, one fixed sentence, as many "
        "random words, or nothing (default: the checkpoint's)",
    )
    group.add_argument(
        "--context-sentence",
        metavar="'TOKENS ..'",
        help="the fixed sentence, as tokens of the prepared corpus (default: the checkpoint's)",
    )


def context_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the overrides of :func:`~gtrans.translating.loading.load_models` by these flags."""
    given = {name: getattr(args, name) for name in ("context_kind", "context_sentence")}
    return {name: value for name, value in given.items() if value is not None}


# ---- what to read of a text ----------------------------------------------------------------------


def add_selection(
    group: argparse._ArgumentGroup,
    roles: Sequence[Role] = get_args(Role),
    direction: bool = True,
    several: bool = False,
) -> None:
    """Add ``--direction``, ``--columns`` and ``--reference``.

    Args:
        roles: what the command reads.
        direction: whether the direction has to be given.
        several: whether several references can be used.
    """
    if direction:
        group.add_argument(
            "--direction",
            default="",
            metavar="SRC-TGT",
            help="read the rows of this direction, of JSON lines or a table with several",
        )
    group.add_argument(
        "--columns",
        nargs="+",
        default=[],
        metavar="ROLE=NAME",
        help="names of the columns of JSON lines or a table that have a text; ROLE is "
        f"{' or '.join(roles)} (default: by their usual names, see docs/resegmenting.md)",
    )
    if "reference" in roles:
        group.add_argument(
            "--reference",
            nargs="+" if several else None,
            default=[],
            metavar="NAME",
            help="the reference to read of a file with several: the translator of WMT XML, the "
            "refid or sysid of SGM, the name in refs" + (" (default: all)" if several else ""),
        )


def selection_of(
    args: argparse.Namespace, direction: str = "", target_lang: str = ""
) -> TextSelection:
    """Return the selected text.

    ``direction``, ``target_lang``: used if the options give no direction.
    """
    columns = {}
    for word in args.columns:
        role, equals, name = word.partition("=")
        if not equals or not name or role not in get_args(Role):
            raise GtransError(
                f"`--columns {word}` must be ROLE=NAME, where ROLE is {', '.join(get_args(Role))}"
            )
        columns[role] = name
    names = getattr(args, "reference", [])
    return TextSelection(
        direction=getattr(args, "direction", "") or direction,
        target_lang=target_lang,
        references=(names,) if isinstance(names, str) else tuple(names),
        columns=columns,
    )
