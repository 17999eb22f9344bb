"""A process that has imported fairseq and forks a process for every command that it is asked for.

What a command asks for is a line of JSON on the standard input: see :func:`serve`.
"""

from __future__ import annotations

import copy
import importlib
import json
import logging
import os
import sys
import traceback
from argparse import Namespace
from typing import Any

COMMANDS = ("generate", "hydra_train", "interactive", "preprocess", "train", "validate")


def serve(plugin: str | None) -> None:
    """Fork a process for every command that the standard input asks for.

    Args:
        plugin: ``--user-dir`` to import before; None: each command imports its own.
    """
    modules = {name: importlib.import_module(f"fairseq_cli.{name}") for name in COMMANDS}
    importlib.import_module("torch._dynamo")  # by the first optimizer otherwise
    if plugin is not None:
        importlib.import_module("fairseq.utils").import_user_module(Namespace(user_dir=plugin))
        _keep_what_hydra_reads()
    _let_ddp_train_on_cpus()
    answers = os.fdopen(os.dup(1), "w")
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        children = [_forked(modules, asked["name"], order) for order in asked["orders"]]
        ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(ended), file=answers, flush=True)


def _keep_what_hydra_reads() -> None:
    """Parse an option once, and do not copy what hydra stores.

    fairseq lets hydra compose its options. That takes most of a second for every command, and
    nearly all of it is the same each time: some 340 options are parsed, also those with their
    default, and the store of configurations is copied, which nobody changes.
    """
    store = importlib.import_module("hydra.core.config_store").ConfigStore
    store.__deepcopy__ = lambda self, memo: self
    parser = importlib.import_module("hydra.core.override_parser.overrides_parser").OverridesParser
    parse, kept = parser.parse_rule, {}

    def parse_rule(self: Any, text: str, rule: str) -> Any:
        if (text, rule) not in kept:
            kept[text, rule] = parse(self, text, rule)
        return copy.deepcopy(kept[text, rule])

    parser.parse_rule = parse_rule
    options = importlib.import_module("fairseq.options")
    words = ["data", "--task", "document_translation", "--arch", "gtransformer_tiny"]
    words += ["--optimizer", "adam", "--lr-scheduler", "inverse_sqrt"]
    words += ["--criterion", "chunked_cross_entropy"]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    importlib.import_module("fairseq.dataclass.utils").convert_namespace_to_omegaconf(args)


def _let_ddp_train_on_cpus() -> None:
    """fairseq gives its default DDP the number of a GPU, which torch refuses on CPUs."""
    module = importlib.import_module("fairseq.models.distributed_fairseq_model")
    wrapper = module.DistributedDataParallel

    def on_cpus(*arguments: Any, **named: Any) -> Any:
        return wrapper(*arguments, **{**named, "device_ids": None, "output_device": None})

    module.DistributedDataParallel = on_cpus


def _forked(modules: dict[str, Any], name: str, order: dict[str, Any]) -> int:
    """Start a process for a command of fairseq or for ``gtrans``; returns its number."""
    child = os.fork()
    if child:
        return child
    for number, path in enumerate(order["streams"]):
        os.dup2(os.open(path, os.O_RDWR | (number and os.O_CREAT | os.O_TRUNC)), number)
    sys.argv = [f"fairseq-{name}", *order["argv"]]
    os.environ.update(order["environment"])
    status = 0
    try:
        if name == "gtrans":
            logging.getLogger().handlers.clear()  # as in a process that has not imported fairseq
            status = importlib.import_module("gtrans.cli").main()
        else:
            modules[name].cli_main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # what Python itself does at the top
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1] if len(sys.argv) > 1 else None)
