"""``gtrans train`` with a configuration file: fairseq-hydra-train in the folder where one is."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_cli.hydra_train import cli_main
from hydra.errors import HydraException

import gtrans
from gtrans.decoding.loading import import_plugin
from gtrans.errors import GtransError


def train(argv: Sequence[str]) -> None:
    """Train with the options of ``fairseq-hydra-train ARGV``.

    ``common.user_dir`` is this package unless it is given, and hydra stays in the current folder.

    Raises:
        GtransError: a mistake in the options, the data or the run folder.
    """
    _check_config(argv)
    import_plugin()
    # hydra then leaves exceptions to its caller.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    ours = [f"common.user_dir={gtrans.__path__[0]}", "hydra.job.chdir=false"]
    given = {word.lstrip("+").partition("=")[0] for word in argv}
    more = [word for word in ours if word.partition("=")[0] not in given]
    sys.argv = ["fairseq-hydra-train", *argv, *more]
    try:
        cli_main()
    except HydraException as error:
        cause = f" ({_line(error.__cause__)})" if error.__cause__ is not None else ""
        raise GtransError(f"{_line(error).rstrip('.')}{cause}.") from error


def _check_config(argv: Sequence[str]) -> None:
    """Refuse the name of a file that is not there, which fairseq takes for an empty one."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-name", "-cn")
    parser.add_argument("--config-dir", "-cd")
    given, _ = parser.parse_known_args(argv)
    if given.config_name is None or given.config_dir is None:
        return
    folder = Path(given.config_dir)
    name = given.config_name.removesuffix(".yaml")
    if not (folder / f"{name}.yaml").is_file():
        known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml")))
        raise GtransError(
            f"`--config-name {given.config_name}`: there is no {(folder / name).resolve()}.yaml"
            + (f"; there are {known}." if known else ".")
        )


def _line(error: BaseException) -> str:
    """A message in one line."""
    return " ".join(str(error).split())
