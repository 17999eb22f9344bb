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

# Variables of the launchers; env:// reads torchrun's address itself.
_TORCHRUN = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
_SRUN = {
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NODELIST",
}
# SLURM jobs of one machine must not share a port; the range is fairseq's.
_PORTS = range(10000, 60000)


class Launched(NamedTuple):
    """This process among those that a launcher started.

    Attributes:
        by: ``torchrun`` or ``srun``.
        local: number of the process on its machine.
        address: for ``--distributed-init-method``.
    """

    by: str
    rank: int
    size: int
    local: int
    address: str


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """Return what a launcher says of this process; None if there is no other.

    torchrun inside a step of srun wins. The shell of a SLURM batch file is no step.
    """
    if environment.keys() >= _TORCHRUN:
        size = int(environment["WORLD_SIZE"])
        if size == 1:
            return None
        rank = int(environment["RANK"])
        local = int(environment["LOCAL_RANK"])
        return Launched("torchrun", rank, size, local, address="env://")
    if environment.keys() >= _SRUN:
        size = int(environment["SLURM_STEP_NUM_TASKS"])
        if size == 1:
            return None
        rank = int(environment["SLURM_PROCID"])
        local = int(environment["SLURM_LOCALID"])
        return Launched("srun", rank, size, local, address=_address_of_step(environment))
    return None


def _address_of_step(environment: Mapping[str, str]) -> str:
    host = environment.get("MASTER_ADDR")
    if not host:
        host = _first_machine(environment["SLURM_STEP_NODELIST"])
    port: int | str = environment.get("MASTER_PORT", "")
    if not port:
        job = int(environment["SLURM_JOB_ID"])
        step = int(environment["SLURM_STEP_ID"])
        port = _PORTS[(job * 101 + step) % len(_PORTS)]
    return f"tcp://{host}:{port}"


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
    set_distributed_options(cfg)
    options = cfg.distributed_training
    gpus = torch.cuda.device_count()
    wanted = options.distributed_world_size
    address = options.distributed_init_method
    if options.distributed_no_spawn or (wanted == 1 and address is None):
        distributed_utils.call_main(cfg, work)
        return
    # With an address, some of the processes are on other machines.
    needed = wanted if address is None else 1
    if gpus < needed:
        raise GtransError(  # fairseq would start none
            f"`--distributed-world-size {wanted}`: a process is started for each GPU, but torch "
            f"sees {gpus} here; leave it out, and start the processes with torchrun or srun."
        )
    signals.pass_on_to_workers(lambda: distributed_utils.call_main(cfg, work))


def set_distributed_options(cfg: Any) -> None:
    """Set fairseq's distributed options from the launcher; ``--distributed-init-method`` wins.

    fairseq reads the launcher's variables only where a process sees several GPUs; elsewhere each
    process would train alone and overwrite the others' checkpoints.
    """
    options = cfg.distributed_training
    launcher = launched() if options.distributed_init_method is None else None
    if launcher is None:
        if cfg.common.cpu and options.distributed_world_size == torch.cuda.device_count():
            options.distributed_world_size = 1  # fairseq's default is a process for each GPU
        return
    gpus = 0 if cfg.common.cpu else torch.cuda.device_count()
    device = _device_of(launcher, gpus)
    with open_dict(options):
        options.distributed_init_method = launcher.address
        options.distributed_no_spawn = True
        options.distributed_world_size = launcher.size
        options.distributed_rank = launcher.rank
        options.device_id = device
        if gpus == 0:
            options.distributed_backend, options.ddp_backend = "gloo", "legacy_ddp"


def _device_of(launcher: Launched, gpus: int) -> int:
    """Return the number of this process's device among ``gpus`` that it sees."""
    if launcher.by == "srun" and gpus == 1:
        return 0  # SLURM shows each process its own
    if launcher.local >= gpus > 0:
        raise GtransError(
            f"{launcher.by} has started more processes on this machine than the {gpus} GPUs that "
            "they see; start one for each GPU."
        )
    return launcher.local


def check_launch(options: Any) -> None:
    """Raise GtransError if fairseq would train each process of a launcher by itself."""
    launcher = launched()
    is_single = options.distributed_world_size == 1 and options.distributed_init_method is None
    if launcher is not None and is_single:
        raise GtransError(
            f"{launcher.by} has started {launcher.size} processes, but fairseq has not been told, "
            "so that each would train alone; use `gtrans train`, which asks for them."
        )
