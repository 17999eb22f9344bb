"""Train a model: fairseq-train with the tasks and models of this project.

All options are fairseq-train's; no --user-dir is needed, and --task is document_translation
unless it is given. torchrun and fairseq's own start of one worker for each device work as with
fairseq-train. With --config-dir DIR --config-name NAME, the options are those of
fairseq-hydra-train, KEY=VALUE, and paths are relative to the current folder.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from gtrans.cli import VERBOSE
from gtrans.cli.shared.train_words import check_words
from gtrans.libraries import ENGINE

EXAMPLE = (
    "gtrans train data-bin --arch gtransformer_base --save-dir checkpoints --optimizer adam "
    "--lr 5e-4 --lr-scheduler inverse_sqrt --max-tokens 4096"
)
NEEDS = ENGINE

_OF_HYDRA = ("--config-name", "-cn", "--config-dir", "-cd", "--config-path", "-cp")
_HELP = {"-h", "--help"}


def hand_over(argv: Sequence[str]) -> None:
    """Train with the options of ``fairseq-train ARGV``.

    Raises:
        GtransError: a mistake in the options, the data or the run folder.
    """
    hydra = any(word.partition("=")[0] in _OF_HYDRA for word in argv)
    asks = bool(_HELP & set(argv))
    if not (hydra or asks):
        check_words(argv)
    # Imported on demand: torch and fairseq need seconds. fairseq's command is first, because it
    # sets the log up.
    import fairseq_cli.train  # noqa: F401
    import torch
    from fairseq import options
    from fairseq.data.plasma_utils import PlasmaStore
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.distributed import utils as distributed_utils

    if hydra and not asks:
        from gtrans.cli.shared.hydra_front import train

        train(argv)
        return

    from gtrans.cli.shared.fairseq_commands import parse
    from gtrans.training.limits import check_limits

    words = ["--help"] if asks and hydra else [word for word in argv if word != VERBOSE]
    args = parse(sys.modules[__name__], options.get_training_parser, words, trains=True)
    cfg = convert_namespace_to_omegaconf(args)
    check_limits(cfg)
    with ExitStack() as stack:
        if cfg.common.use_plasma_view:
            server = PlasmaStore(path=cfg.common.plasma_path)
            stack.callback(server.server.kill)
        if args.profile:
            stack.enter_context(torch.cuda.profiler.profile())
        distributed_utils.call_main(cfg, partial(work, verbose=VERBOSE in argv))


def work(cfg: Any, verbose: bool) -> None:
    """What each process of the training does; a new one has not imported the plugin yet."""
    from fairseq_cli.train import main

    from gtrans.cli.shared.short_log import short_log
    from gtrans.decoding.loading import import_plugin
    from gtrans.training import saving, stopping

    import_plugin()
    try:
        with short_log(verbose):
            main(cfg)
        saving.check_end()
    finally:
        stopping.unwatch()
