"""``gtrans train`` with a configuration file: fairseq-hydra-train in the folder where one is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
from fairseq.dataclass.initialize import hydra_init
from fairseq_cli.hydra_train import _hydra_main
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

import gtrans
from gtrans.cli import VERBOSE
from gtrans.cli.shared.short_log import short_log
from gtrans.decoding.loading import import_plugin
from gtrans.errors import GtransError, mistake_in
from gtrans.tasks.hydra import check_configuration, leave_exceptions
from gtrans.training import saving, stopping
from gtrans.training.limits import check_limits

_FAIRSEQS = "pkg://fairseq.config"


def train(argv: Sequence[str]) -> None:
    """Train with the options of ``fairseq-hydra-train ARGV``.

    ``common.user_dir`` is this package unless it is given, and hydra stays in the current folder.

    Raises:
        GtransError: a mistake in the options, the data or the run folder.
    """
    given, words = _read([word for word in argv if word != VERBOSE])
    check_configuration(given.config_name, _loader(given))
    import_plugin()
    leave_exceptions()
    ours = {
        "common.user_dir": gtrans.__path__[0],
        "hydra.job.chdir": "false",
        "hydra.job.name": "gtrans_train",
    }
    chosen = {word.lstrip("+").partition("=")[0] for word in given.overrides}
    more = [f"{name}={value}" for name, value in ours.items() if name not in chosen]
    # argparse takes KEY=VALUE in one place only, and hydra reads the words from there.
    sys.argv = ["gtrans train", *given.overrides, *more, *words]
    mistakes: list[Exception] = []

    def work(cfg: Any) -> None:
        """Keep a mistake from hydra, which would print all KEY=VALUE before it."""
        try:
            _work(cfg, VERBOSE in argv)
        except Exception as error:
            if mistake_in(error) is None and not isinstance(error, OmegaConfBaseException):
                raise
            mistakes.append(error)

    hydra_init(given.config_name)
    try:
        hydra.main(config_path=_FAIRSEQS, config_name="config", version_base=None)(work)()
        if mistakes:
            raise mistakes[0]
    except (HydraException, OmegaConfBaseException) as error:
        cause = f" ({_line(error.__cause__)})" if error.__cause__ is not None else ""
        raise GtransError(f"{_line(error).rstrip('.')}{cause}.") from error


def _read(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """What the command line says, and its words without KEY=VALUE.

    Raises:
        GtransError: an option that hydra does not have, or no ``--config-name``.
    """
    parser = get_args_parser()
    parser.prog = "gtrans train"
    given, unknown = parser.parse_known_intermixed_args(argv)
    if unknown:
        raise GtransError(
            f"`{unknown[0]}`: there is no such option beside a configuration, where all are "
            "KEY=VALUE, as in optimization.max_update=1000."
        )
    if given.config_name is None:
        raise GtransError("`--config-name` is missing: the name of a file of `--config-dir`.")
    if given.config_dir is not None and not Path(given.config_dir).is_dir():
        raise GtransError(f"`--config-dir {given.config_dir}`: there is no such folder.")
    words = list(argv)
    for override in given.overrides:
        words.remove(override)
    return given, words


def _loader(given: argparse.Namespace) -> ConfigLoaderImpl:
    """hydra's own view of the folders with configurations."""
    folders = create_config_search_path(given.config_path or _FAIRSEQS)
    if given.config_dir is not None:
        folders.prepend("command-line", f"file://{Path(given.config_dir).resolve()}")
    return ConfigLoaderImpl(folders)


def _work(cfg: Any, verbose: bool) -> None:
    """Train with the options that hydra has put together.

    Raises:
        GtransError: a mistake in the options, the data or the run folder.
    """
    if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
        raise GtransError(
            "dataset.max_tokens is missing: the largest batch (or give dataset.batch_size)."
        )
    check_limits(cfg)
    try:
        with short_log(verbose):
            _hydra_main(cfg)
        saving.check_end()
    finally:
        stopping.unwatch()


def _line(error: BaseException) -> str:
    """A message in one line."""
    return " ".join(str(error).split())
