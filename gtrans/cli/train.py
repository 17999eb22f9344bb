"""Train a model: fairseq-train with the tasks and models of this project.

--config NAME reads a file of configs/, --config FILE one of your own; options on the command line
win. All options are fairseq-train's; no --user-dir is needed, and --task is document_translation
unless it is given. torchrun and fairseq's own start of one worker for each device work as with
fairseq-train.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from gtrans.cli.shared import VERBOSE
from gtrans.cli.shared.config_file import take_config
from gtrans.cli.shared.early_checks import check_training
from gtrans.cli.shared.train_help import HELP, HELP_ALL, asks_for_first_help, first_help
from gtrans.libraries import ENGINE

EXAMPLE = "gtrans train data-bin --config tiny --save-dir checkpoints"
NEEDS = ENGINE


def hand_over(argv: Sequence[str]) -> None:
    """Train with the options of ``fairseq-train ARGV``.

    Raises:
        GtransError: a mistake in the options, the data or the run folder.
    """
    if asks_for_first_help(argv):
        print(first_help(__doc__, EXAMPLE), end="")
        sys.exit(0)
    config, own = take_config(argv)
    words = own if config is None else config.words(own)
    if not {*HELP, HELP_ALL} & set(argv):
        check_training(words)
    # Imported on demand: torch and fairseq need seconds. fairseq's command is first, because it
    # sets the log up.
    import fairseq_cli.train  # noqa: F401
    import torch
    from fairseq import options
    from fairseq.data.plasma_utils import PlasmaStore
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.distributed import utils as distributed_utils

    from gtrans.cli.shared.fairseq_commands import parse
    from gtrans.training.limits import check_limits

    words = [word for word in words if word != VERBOSE]
    of_file = words[: len(words) - len(own)] if config is not None else []
    args, unread = parse(
        sys.modules[__name__], options.get_training_parser, words, trains=True, may_leave=of_file
    )
    if config is not None:
        config.check_unread(unread, own)
        config.share_batch(args, own)
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
