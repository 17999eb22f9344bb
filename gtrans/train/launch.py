"""The processes of a training: started here, one per GPU, or by a launcher."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from fairseq.distributed import utils as distributed_utils
from omegaconf import open_dict

from gtrans.errors import GtransError
from gtrans.train import signals

# What the launchers set; env:// reads torchrun's address itself.
_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_SRUN = (
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NODELIST",
)
# What SLURM jobs of one machine must not share; as fairseq's own ports.
_PORTS = range(10000, 60000)


class Launched(NamedTuple):
    """This process among all of its launcher.

    Attributes:
        by: ``torchrun`` or ``srun``.
        local: number of the process on its machine.
        address: the value of ``--distributed-init-method``.
    """

    by: str
    rank: int
    size: int
    local: int
    address: str


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """Return this process as its launcher describes it; None if it is the only one.

    torchrun inside a step of srun wins. The shell of a SLURM batch file is no step.
    """
    if all(name in environment for name in _TORCHRUN):
        rank, size, local = (int(environment[name]) for name in _TORCHRUN[:3])
        if size == 1:
            return None
        return Launched("torchrun", rank, size, local, "env://")
    if not all(name in environment for name in _SRUN):
        return None
    rank, size, local, job, step = (int(environment[name]) for name in _SRUN[:5])
    if size == 1:
        return None
    host = environment.get("MASTER_ADDR") or _first_machine(environment[_SRUN[5]])
    port = environment.get("MASTER_PORT") or _PORTS[(job * 101 + step) % len(_PORTS)]
    return Launched("srun", rank, size, local, f"tcp://{host}:{port}")


def _first_machine(machines: str) -> str:
    command = ["scontrol", "show", "hostnames", machines]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError) as error:
        raise GtransError(
            f"SLURM_STEP_NODELIST={machines} cannot be read with scontrol ({error}); set "
            "MASTER_ADDR to the first machine."
        ) from error


def launch(cfg: Any, work: Callable[[Any], None]) -> None:
    """Run ``work(cfg)`` in every process of a training."""
    join(cfg)
    options = cfg.distributed_training
    gpus = torch.cuda.device_count()
    wanted = options.distributed_world_size
    address = options.distributed_init_method
    if options.distributed_no_spawn or (wanted == 1 and address is None):
        distributed_utils.call_main(cfg, work)
        return
    # With an address, the processes are spread over machines, nobody knows how.
    needed = wanted if address is None else 1
    if gpus < needed:
        raise GtransError(  # fairseq would start none
            f"`--distributed-world-size {wanted}`: a process is started for each GPU, but torch "
            f"sees {gpus} here; leave it out, and start the processes with torchrun or srun."
        )
    signals.pass_on_to_workers(lambda: distributed_utils.call_main(cfg, work))


def join(cfg: Any) -> None:
    """Set fairseq's distributed options from the launcher; ``--distributed-init-method`` wins.

    fairseq reads the launcher's variables only where a process sees several GPUs; elsewhere each
    process would train alone and overwrite the checkpoints of the others.
    """
    options = cfg.distributed_training
    gpus = 0 if cfg.common.cpu else torch.cuda.device_count()
    launcher = launched() if options.distributed_init_method is None else None
    if launcher is None:
        if cfg.common.cpu and options.distributed_world_size == torch.cuda.device_count():
            options.distributed_world_size = 1  # fairseq's default is a process for each GPU
        return
    device = launcher.local
    if launcher.by == "srun" and gpus == 1:
        device = 0  # SLURM shows each process its own
    if device >= gpus > 0:
        raise GtransError(
            f"{launcher.by} has started more processes on this machine than the {gpus} GPUs that "
            "they see; start one for each GPU."
        )
    with open_dict(options):
        options.distributed_init_method = launcher.address
        options.distributed_no_spawn = True
        options.distributed_world_size = launcher.size
        options.distributed_rank = launcher.rank
        options.device_id = device
        if gpus == 0:
            options.distributed_backend, options.ddp_backend = "gloo", "legacy_ddp"


def check_launch(options: Any) -> None:
    """Raise GtransError for processes of a launcher that fairseq would train separately."""
    launcher = launched()
    is_single = options.distributed_world_size == 1 and options.distributed_init_method is None
    if launcher is not None and is_single:
        raise GtransError(
            f"{launcher.by} has started {launcher.size} processes, but fairseq has not been told, "
            "so that each would train alone; use `gtrans train`, which asks for them."
        )
