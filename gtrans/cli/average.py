"""Average the parameters of several checkpoints of one training run.

Give the checkpoints, or the folder of the run and the number of last checkpoints to average:
--last-epochs for checkpointE.pt (kept by fairseq-train --keep-last-epochs), --last-updates for
checkpoint_E_U.pt (kept by --save-interval-updates and --keep-interval-updates).

The average can translate and can start other models (--init-from). It has no optimizer state,
so training cannot be resumed from it. No code inside a checkpoint is run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gtrans.environment import ENGINE
from gtrans.errors import GtransError
from gtrans.messages import print_lines
from gtrans.option_types import whole

EXAMPLE = "gtrans average --last-epochs 5 --output checkpoints/average.pt checkpoints"
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "inputs",
        type=Path,
        nargs="+",
        metavar="CKPT|DIR",
        help="checkpoints; with --last-epochs or --last-updates: the folder of the run",
    )
    parser.add_argument("--output", type=Path, metavar="CKPT", help="file to write")
    parser.add_argument(
        "--force", action="store_true", help="replace a file that this command did not write"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--last-epochs",
        type=whole(1),
        metavar="N",
        help="average the checkpoints of the last N epochs",
    )
    which.add_argument(
        "--last-updates",
        type=whole(1),
        metavar="N",
        help="average the last N checkpoints made by updates",
    )


def run(args: argparse.Namespace) -> None:
    """Average, and print which checkpoints went in."""
    # Imported on demand: torch needs seconds, which --help should not.
    from gtrans.conversion.checkpoint import (
        BY_EPOCH,
        BY_UPDATE,
        average_checkpoints,
        last_checkpoints,
    )

    paths: list[Path] = args.inputs
    if args.last_epochs is not None:
        paths = last_checkpoints(_only(paths, "--last-epochs"), args.last_epochs, BY_EPOCH)
    elif args.last_updates is not None:
        paths = last_checkpoints(_only(paths, "--last-updates"), args.last_updates, BY_UPDATE)
    else:
        _refuse_folders(paths)
    if args.output is None:
        raise GtransError("`--output` is missing: the file to write, such as average.pt.")
    tensors = average_checkpoints(paths, args.output, args.force)
    summary = f"average of {len(paths)} checkpoints, {tensors} tensors, written to {args.output}"
    print_lines(*map(str, paths), summary)


def _only(folders: Sequence[Path], flag: str) -> Path:
    if len(folders) > 1:
        raise GtransError(f"`{flag}` takes one folder, but {len(folders)} paths are given.")
    return folders[0]


def _refuse_folders(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.is_dir():
            raise GtransError(
                f"'{path}' is a folder; say how many of its checkpoints to average "
                "(`--last-epochs N` or `--last-updates N`), or name their files."
            )
