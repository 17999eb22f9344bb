"""Train a model, with the options of fairseq-train.

--config NAME reads a file of configs/, --config FILE one of your own; options on the command line
win. No --user-dir is needed, and --task is document_translation unless it is given. A process is
started for each GPU, or by torchrun or srun. The same command goes on with a training that was
stopped.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from gtrans.cli.shared import VERBOSE
from gtrans.cli.shared.before_torch import asks_for_first_help, check_words, first_help
from gtrans.cli.shared.config_file import take_config
from gtrans.environment import ENGINE, hide_known_warnings
from gtrans.errors import GtransError

EXAMPLE = "gtrans train data-bin --config tiny --save-dir checkpoints"
NEEDS = ENGINE
# Of fairseq's own lines; those of epochs, updates and validations have loggers of other names.
_SHOWN = ("Loaded checkpoint", "begin training epoch")


def hand_over(argv: Sequence[str]) -> None:
    """Train with the options of ``fairseq-train ARGV``."""
    if asks_for_first_help(argv):
        print(first_help(__doc__, EXAMPLE), end="")
        sys.exit(0)
    verbose = VERBOSE in argv
    config, own = take_config([word for word in argv if word != VERBOSE])
    check_words("train", own)
    words_of_file = [] if config is None else config.words_before(own)
    _set_up_log()
    # Imported on demand: torch and fairseq need seconds.
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    from gtrans.cli.shared.fairseq_commands import parse
    from gtrans.option_types import check_limits
    from gtrans.train.launch import launch

    args, unread = parse(
        sys.modules[__name__],
        options.get_training_parser,
        [*words_of_file, *own],
        trains=True,
        ignorable=words_of_file,
    )
    if config is not None:
        config.check_unread(unread, own, vars(args))
        config.share_batch(args, own)
    if args.lr_scheduler == "polynomial_decay" and args.total_num_update is None:
        raise GtransError("`--lr-scheduler polynomial_decay` needs `--total-num-update`.")
    cfg = convert_namespace_to_omegaconf(args)
    check_limits(cfg)
    launch(cfg, partial(work, verbose=verbose))


def work(cfg: Any, verbose: bool) -> None:
    """Train in one process, which may not have imported the plugin yet."""
    _set_up_log()
    hide_known_warnings()
    from fairseq.utils import import_user_module

    from gtrans.environment import import_plugin
    from gtrans.train.folder import RunLog
    from gtrans.train.main import train

    import_plugin()
    with _short_log(verbose), RunLog() as log:
        import_user_module(cfg.common)
        train(cfg, log)


def _set_up_log() -> None:
    """Log to standard output; fairseq, if imported before, would log everything."""
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
        level=os.environ.get("LOGLEVEL", "INFO").upper(),
        stream=sys.stdout,
    )


@contextmanager
def _short_log(verbose: bool) -> Iterator[None]:
    """Hide fairseq's lines of options and layers, unless ``verbose``."""
    handlers = [] if verbose else list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(_is_shown)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_is_shown)


def _is_shown(record: logging.LogRecord) -> bool:
    inside = record.name.startswith("fairseq") and record.levelno <= logging.INFO
    return not inside or str(record.msg).startswith(_SHOWN)
