"""Translate a binarised split: fairseq-generate with the tasks and models of this project.

All options are fairseq-generate's; no --user-dir is needed, and --task is document_translation
unless it is given. 'gtrans translate' is the command for text, and keeps its work if it is
interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gtrans.libraries import ENGINE
from gtrans.text.prepared_folder import check_data_folder

EXAMPLE = "gtrans generate data-bin --path checkpoints/checkpoint_best.pt --beam 5 --remove-bpe"
NEEDS = ENGINE


def hand_over(argv: Sequence[str]) -> None:
    """Translate with the options of ``fairseq-generate ARGV``.

    Raises:
        GtransError: a mistake in the options or the data, or a checkpoint that is missing.
    """
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--path")
    given, rest = early.parse_known_args(argv)
    if given.path is not None and rest and not rest[0].startswith("-"):
        for folder in filter(None, rest[0].split(os.pathsep)):
            check_data_folder(Path(folder))
    # Imported on demand: torch and fairseq need seconds. fairseq's command is first, because it
    # sets the log up.
    from fairseq_cli.generate import main  # isort: skip
    from fairseq import options

    from gtrans.cli.shared.fairseq_commands import parse
    from gtrans.decoding.options import split_paths
    from gtrans.errors import GtransError

    # fairseq-generate declares an architecture, too, for tasks that ask the model for options.
    args, _ = parse(
        sys.modules[__name__],
        options.get_generation_parser,
        argv,
        add=lambda parser: parser.add_argument("--arch", "-a", metavar="ARCH", default="wav2vec2"),
    )
    if args.path is None:
        raise GtransError("`--path` is missing: the checkpoint, or several: A.pt:B.pt.")
    if not args.checkpoint_suffix and args.checkpoint_shard_count == 1:
        for path in split_paths(args.path):
            if not Path(path).is_file():
                raise GtransError(f"{path}: there is no such checkpoint (`--path`).")
    main(args)
