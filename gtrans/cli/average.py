"""Average the parameters of several checkpoints of one training run.

Give the checkpoints, or the folder of the run and how many of the last ones: of epochs
(checkpointE.pt, which fairseq-train keeps with --keep-last-epochs) or of updates
(checkpoint_E_U.pt, kept with --save-interval-updates and --keep-interval-updates). The
result decodes and starts other models; it has no state of the optimizer to resume from.
Nothing in a checkpoint is run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtrans.errors import GtransError

EXAMPLE = "gtrans average --last-epochs 5 --output checkpoints/average.pt checkpoints"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans average``."""
    parser.add_argument(
        "inputs", type=Path, nargs="+", metavar="CKPT|DIR",
        help="checkpoints, or with --last-epochs or --last-updates the folder of a run",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, required=True, metavar="CKPT", help="file to write"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--last-epochs", type=int, metavar="N", help="the last N checkpoints of epochs"
    )
    which.add_argument(
        "--last-updates", type=int, metavar="N", help="the last N checkpoints of updates"
    )
    parser.add_argument(
        "--upto", type=int, metavar="N", help="the last epoch (or update) that counts"
    )


def run(args: argparse.Namespace) -> None:
    """Average and say what."""
    # Imported on demand: torch needs seconds, which --help should not.
    from gtrans.averaging import BY_EPOCH, BY_UPDATE, average_checkpoints, last_checkpoints

    count = args.last_epochs if args.last_epochs is not None else args.last_updates
    paths: list[Path] = args.inputs
    if count is not None:
        flag = "--last-updates" if args.last_epochs is None else "--last-epochs"
        if count < 1:
            raise GtransError(f"`{flag}` must be at least 1, but is {count}.")
        if len(paths) > 1:
            raise GtransError(f"`{flag}` takes one folder, but {len(paths)} paths are given.")
        names = BY_UPDATE if args.last_epochs is None else BY_EPOCH
        paths = last_checkpoints(paths[0], count, names, args.upto)
    elif args.upto is not None:
        raise GtransError("`--upto` needs `--last-epochs` or `--last-updates`.")
    tensors = average_checkpoints(paths, args.output)
    for path in paths:
        print(path)
    print(f"average of {len(paths)} checkpoints, {tensors} tensors, written to {args.output}")
