"""Translate a binarised split: fairseq-generate with the tasks and models of this project.

All options are fairseq-generate's; no --user-dir is needed, and --task is document_translation
unless it is given. For text, use 'gtrans translate', which keeps its work if it is interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gtrans.cli.shared.before_torch import check_words
from gtrans.environment import ENGINE
from gtrans.errors import GtransError

EXAMPLE = "gtrans generate data-bin --path checkpoints/checkpoint_best.pt --beam 5 --remove-bpe"
NEEDS = ENGINE


def hand_over(argv: Sequence[str]) -> None:
    """Translate with the options of ``fairseq-generate ARGV``."""
    check_words("generate", argv)
    # Imported on demand: torch and fairseq need seconds. fairseq's command is first, because it
    # sets the log up.
    from fairseq_cli.generate import main  # isort: skip
    from fairseq import options

    from gtrans.checkpoints.fingerprint import ModelFingerprint
    from gtrans.checkpoints.reading import read_checkpoint
    from gtrans.cli.shared.fairseq_commands import parse
    from gtrans.search.options import split_paths

    args, _ = parse(sys.modules[__name__], options.get_generation_parser, argv)
    if args.path is None:
        raise GtransError("`--path` is missing: the checkpoint, or several: A.pt:B.pt.")
    for path in split_paths(args.path):
        # Both raise GtransError that names the file, which fairseq's loader does not.
        state = read_checkpoint(path)
        ModelFingerprint.of_state(state.get("task_state"), path)
    main(args)
