"""Importing the plugin registers names, and changes nothing else of a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# fairseq and its commands are imported first; then, as by --user-dir, the plugin.
PROGRAM = """
import json, logging, os, signal, sys, types, warnings
import torch
import fairseq_cli.generate, fairseq_cli.hydra_train, fairseq_cli.train, fairseq_cli.validate
from argparse import Namespace
from fairseq.utils import import_user_module

def members():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in ("fairseq", "fairseq_cli", "hydra", "omegaconf", "torch"):
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, (types.FunctionType, type)):
                found[f"{name}.{key}"] = id(value)
            if isinstance(value, type) and value.__module__ == name:
                found |= {f"{name}.{key}.{it}": id(of) for it, of in vars(value).items()
                          if callable(of) or isinstance(of, (classmethod, staticmethod, property))}
    return found

def others():
    loggers = {None: logging.root, **logging.root.manager.loggerDict}
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return {
        "excepthook": id(sys.excepthook), "argv": list(sys.argv), "environment": dict(os.environ),
        "filters": [str(it) for it in warnings.filters], "showwarning": id(warnings.showwarning),
        "levels": {str(name): it.level for name, it in loggers.items() if hasattr(it, "level")},
        "handlers": [id(it) for it in logging.root.handlers],
        "signals": [str(signal.getsignal(it)) for it in sorted(signal.valid_signals())],
        "flags": [
            cuda.cudnn_sdp_enabled(), cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(),
            cuda.math_sdp_enabled(), cuda.matmul.allow_tf32, cudnn.enabled, cudnn.benchmark,
            cudnn.deterministic, cudnn.allow_tf32, torch.get_float32_matmul_precision(),
            torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled(),
            str(torch.get_default_dtype()), torch.get_num_threads(),
        ],
    }

before = members(), others()
import_user_module(Namespace(user_dir="gtrans"))
after = members(), others()
changed = [name for name, it in before[0].items() if after[0].get(name) != it]
for name in before[1]:
    old, new = before[1][name], after[1][name]
    if isinstance(old, dict):
        # a new module makes a logger, which has no level of its own
        new = {key: it for key, it in new.items() if key in old or it}
    changed += [] if old == new else [name]
print(json.dumps([changed, len(before[0]), "document_translation" in fairseq.tasks.TASK_REGISTRY]))
"""


def test_nothing_is_replaced(repo: Path) -> None:
    """Functions and methods of fairseq, and the state of Python and torch, are as before."""
    done = subprocess.run(
        [sys.executable, "-c", f"import fairseq.tasks\n{PROGRAM}"], cwd=repo, check=True,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(repo)},
    )  # fmt: skip
    changed, looked_at, registered = json.loads(done.stdout.splitlines()[-1])
    assert changed == []
    assert looked_at > 5000 and registered
