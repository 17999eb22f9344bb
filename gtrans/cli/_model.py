"""Options of all commands that use a trained model."""

from __future__ import annotations

import argparse


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
