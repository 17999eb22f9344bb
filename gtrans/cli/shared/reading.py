"""Options that say what to read of files with more than one text: rows, SGM, WMT XML."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import get_args

from gtrans.errors import GtransError
from gtrans.text.reader import Choice, Role


def add_choice(
    group: argparse._ArgumentGroup,
    roles: Sequence[Role] = get_args(Role),
    direction: bool = True,
    several: bool = False,
) -> None:
    """Add ``--direction``, ``--columns`` and ``--reference``.

    Args:
        group: of the options.
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


def choice_of(args: argparse.Namespace, direction: str = "", target_lang: str = "") -> Choice:
    """What these options choose.

    Args:
        args: the options.
        direction: the direction if they give none.
        target_lang: the target language, where no direction is known.

    Raises:
        GtransError: a value of ``--columns`` has another form.
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
    return Choice(
        direction=getattr(args, "direction", "") or direction,
        target_lang=target_lang,
        references=(names,) if isinstance(names, str) else tuple(names),
        columns=columns,
    )
