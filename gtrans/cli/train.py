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
from typing import Any

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
    # Imported on demand: torch and fairseq need seconds. fairseq's command is first, because it
    # sets the log up.
    import fairseq_cli.train  # noqa: F401
    import torch
    from fairseq import options
    from fairseq.data.plasma_utils import PlasmaStore
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.distributed import utils as distributed_utils

    if any(word.partition("=")[0] in _OF_HYDRA for word in argv):
        if not _HELP & set(argv):
            from gtrans.cli.shared.hydra_front import train

            train(argv)
            return
        argv = ["--help"]

    from gtrans.cli.shared.fairseq_commands import parse
    from gtrans.errors import GtransError

    args = parse(sys.modules[__name__], options.get_training_parser, argv, trains=True)
    if args.max_tokens is None and args.batch_size is None:
        raise GtransError("`--max-tokens` is missing: the largest batch (or give `--batch-size`).")
    cfg = convert_namespace_to_omegaconf(args)
    with ExitStack() as stack:
        if cfg.common.use_plasma_view:
            server = PlasmaStore(path=cfg.common.plasma_path)
            stack.callback(server.server.kill)
        if args.profile:
            stack.enter_context(torch.cuda.profiler.profile())
        distributed_utils.call_main(cfg, work)


def work(cfg: Any) -> None:
    """What each process of the training does; a new one has not imported the plugin yet."""
    from fairseq_cli.train import main

    from gtrans.cli.shared.quiet_log import OptionsAfterChecks
    from gtrans.decoding.loading import import_plugin
    from gtrans.training import stopping

    import_plugin()
    try:
        with OptionsAfterChecks():
            main(cfg)
    finally:
        stopping.unwatch()
