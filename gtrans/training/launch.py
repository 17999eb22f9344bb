"""Processes that torchrun or srun has started: what each is told, so that they train together."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import DictConfig, open_dict

from gtrans.errors import GtransError
from gtrans.models.base.model import DocumentModel
from gtrans.training import stopping

# What the launchers set; env:// reads torchrun's address itself.
_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_SRUN = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_JOB_ID",
         "SLURM_STEP_ID", "SLURM_STEP_NODELIST")  # fmt: skip
# What SLURM jobs of one machine must not share; as fairseq's own ports.
_PORTS = range(10000, 60000)
_SHARDED = (
    "needs fairscale, which is no longer developed and with which this project has not been run"
)
_UNSUPPORTED = {
    ("ddp_backend", "fully_sharded"): _SHARDED,
    ("ddp_backend", "slowmo"): _SHARDED,
    ("zero_sharding", "os"): _SHARDED,
}


@dataclass(frozen=True)
class Launched:
    """This process among those of its launcher.

    Attributes:
        by: the launcher.
        rank: number of the process among all.
        size: number of all processes.
        local: number of the process on its machine.
        address: where the first process listens, as ``--distributed-init-method``.
    """

    by: str
    rank: int
    size: int
    local: int
    address: str


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """What a launcher says in the environment; None if it started no other process.

    torchrun inside a step of srun counts, not srun. A shell in which SLURM runs a batch file is
    no step.

    Raises:
        GtransError: SLURM's list of machines cannot be read.
    """
    found = None
    if all(name in environment for name in _TORCHRUN):
        rank, size, local = (int(environment[name]) for name in _TORCHRUN[:3])
        found = Launched("torchrun", rank, size, local, "env://")
    elif all(name in environment for name in _SRUN):
        rank, size, local, job, step = (int(environment[name]) for name in _SRUN[:5])
        found = Launched("srun", rank, size, local, "")
        if size > 1:
            host = environment.get("MASTER_ADDR") or _first_machine(environment[_SRUN[5]])
            port = environment.get("MASTER_PORT") or _PORTS[(job * 101 + step) % len(_PORTS)]
            found = replace(found, address=f"tcp://{host}:{port}")
    return found if found is not None and found.size > 1 else None


def _first_machine(machines: str) -> str:
    """The first of a list of SLURM such as ``node[3-6,9]``."""
    try:
        shown = subprocess.run(
            ["scontrol", "show", "hostnames", machines], capture_output=True, text=True, check=True
        )
        return shown.stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError) as error:
        raise GtransError(
            f"SLURM_STEP_NODELIST={machines} cannot be read with scontrol ({error}); set "
            "MASTER_ADDR to the first machine."
        ) from error


def call_main(
    original: Callable[..., None], cfg: Any, work: Callable[..., None], **named: Any
) -> None:
    """fairseq's ``call_main``, in which a process knows the others that its launcher has started.

    fairseq itself asks for torchrun's and SLURM's variables only where a process sees several
    GPUs; elsewhere each process would train alone and write over the checkpoints of the others.
    Processes that fairseq starts get the signals that end a training.

    Args:
        original: fairseq's own.
        cfg: all options.
        work: what each process does.
        named: passed on.

    Raises:
        GtransError: there are more processes on a machine than GPUs, options that need GPUs where
            there are none, or what :func:`check_launch` refuses.
    """
    join(cfg)
    check_launch(cfg)
    options = cfg.distributed_training
    _check_gpus(options)
    distributed_utils.infer_init_method(options)
    if options.distributed_init_method is None or options.distributed_no_spawn:
        original(cfg, work, **named)
    else:
        stopping.pass_on_to_workers(lambda: original(cfg, work, **named))


def join(cfg: Any) -> None:
    """Set fairseq's options of distributed training to what the launcher of this process says.

    ``--distributed-init-method`` is a user's own way of doing so, which stays.

    Raises:
        GtransError: see :func:`call_main`.
    """
    options = cfg.distributed_training
    found = None if options.distributed_init_method is not None else launched()
    if found is None:
        return
    device = found.local
    gpus = 0 if cfg.common.cpu else torch.cuda.device_count()
    if found.by == "srun" and gpus == 1:
        device = 0  # SLURM shows each process its own
    backend, ddp = str(options.distributed_backend), str(options.ddp_backend)
    if gpus == 0 and (backend == "nccl" or ddp in ("c10d", "pytorch_ddp")):
        raise GtransError(
            f"`--distributed-backend {backend} --ddp-backend {ddp}` needs GPUs; processes on CPUs "
            "take --distributed-backend gloo --ddp-backend legacy_ddp."
        )
    if device >= gpus > 0:
        raise GtransError(
            f"{found.by} has started more processes on this machine than the {gpus} GPUs that "
            "they see; start one for each GPU."
        )
    with open_dict(options):
        options.distributed_init_method = found.address
        options.distributed_no_spawn = True
        options.distributed_world_size = found.size
        options.distributed_rank = found.rank
        options.device_id = device


def _check_gpus(options: Any) -> None:
    """Raises GtransError where fairseq is to start more processes than there are GPUs.

    It starts one for each GPU, also with ``--cpu``: without GPUs none, and trains nothing.
    """
    if options.distributed_world_size <= 1 or options.tpu:
        return
    gpus = torch.cuda.device_count()
    if options.distributed_init_method is not None:
        # of all machines; how many processes are for this one is not said
        too_few = gpus == 0 and not options.distributed_no_spawn
    else:
        in_slurm = any(f"SLURM_{kind}_NODELIST" in os.environ for kind in ("STEP", "JOB"))
        too_few = gpus < options.distributed_world_size and not in_slurm
    if too_few:
        raise GtransError(
            f"`--distributed-world-size {options.distributed_world_size}`: fairseq starts a "
            f"process for each GPU, but torch sees {gpus} here; leave it out, and start the "
            "processes with torchrun or srun."
        )


def check_launch(cfg: Any) -> None:
    """Refuse a training that would not be the one that was asked for.

    Args:
        cfg: all options of a training. What this project's models cannot do, other models may.

    Raises:
        GtransError: fairseq was told nothing of the other processes of its launcher, which
            happens under ``fairseq-hydra-train``; a way to share the work that this project does
            not have.
    """
    options = cfg.distributed_training
    for (name, value), why in _UNSUPPORTED.items():
        if str(options.get(name)) == value and _is_ours(cfg.get("model")):
            flag = f"--{name.replace('_', '-')}"
            way = "give --ddp-backend pytorch_ddp" if name == "ddp_backend" else "leave it out"
            raise GtransError(f"`{flag} {value}` {why}; {way}.")
    found = launched()
    alone = options.distributed_world_size == 1 and options.distributed_init_method is None
    if found is not None and alone:
        raise GtransError(
            f"{found.by} has started {found.size} processes, but fairseq has not been told, so "
            "that each would train alone; use `gtrans train`, which asks for them."
        )


def _is_ours(model: Any) -> bool:
    """Whether these are options of a model of this project."""
    # fairseq's older models have their options in a namespace.
    name = model.get("_name") if isinstance(model, DictConfig) else getattr(model, "arch", None)
    registered = ARCH_MODEL_REGISTRY.get(str(name))
    return isinstance(registered, type) and issubclass(registered, DocumentModel)


def is_training(cfg: Any) -> bool:
    """Whether these are all options of a training; None are not."""
    return cfg is not None and cfg.get("checkpoint") is not None and not cfg.common_eval.path


def setup_task(original: Callable[..., Any], cfg: Any, **named: Any) -> Any:
    """fairseq's ``tasks.setup_task``, which in a training checks the launch.

    ``fairseq-hydra-train`` imports the plugin too late for :func:`call_main`.

    Args:
        original: fairseq's own.
        cfg: options of the task.
        named: passed on.

    Raises:
        GtransError: see :func:`check_launch`.
    """
    root = cfg._get_parent() if isinstance(cfg, DictConfig) else None
    if is_training(root) and not named.get("from_checkpoint"):
        check_launch(root)
    return original(cfg, **named)
