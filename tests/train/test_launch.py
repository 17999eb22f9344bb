"""What a process is told of the others that torchrun or srun has started."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf
from support.runs import refusal, stock_train

from gtrans.errors import GtransError
from gtrans.train import launch
from gtrans.train.launch import Launched, check_launch, launched, set_distributed_options
from gtrans.train.main import misses_bf16

TORCHRUN = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "2", "SLURM_STEP_NODELIST": "node[8-9]", "SLURM_NTASKS": "4",
}  # fmt: skip


@pytest.fixture
def joined(monkeypatch):
    """Joins the processes that variables tell of; returns the options of distributed training."""
    # scontrol, as it names the machines of a step
    shown = SimpleNamespace(stdout="node8\nnode9\n")
    monkeypatch.setattr(subprocess, "run", lambda words, **_: shown)

    def join_as(variables, gpus=0, **distributed):
        monkeypatch.setattr(launch, "launched", lambda: launched(variables))
        monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
        cfg = OmegaConf.structured(FairseqConfig())
        cfg.common.cpu = gpus == 0
        cfg.distributed_training.distributed_world_size = 1
        for name, value in distributed.items():
            cfg.distributed_training[name] = value
        set_distributed_options(cfg)
        check_launch(cfg.distributed_training)
        return cfg.distributed_training

    return join_as


def test_what_launchers_say(joined):
    assert launched(TORCHRUN) == Launched("torchrun", 5, 8, 1, "env://")
    found = launched(SRUN)
    assert found is not None and found[:4] == ("srun", 3, 4, 1)
    host, port = found.address.removeprefix("tcp://").split(":")
    assert host == "node8" and 10000 <= int(port) < 60000
    given = launched({**SRUN, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "2222"})
    assert given is not None and given.address == "tcp://10.0.0.1:2222"
    inside = launched({**SRUN, **TORCHRUN})
    assert inside is not None and inside.by == "torchrun"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {**TORCHRUN, "WORLD_SIZE": "1"},
        {**SRUN, "SLURM_STEP_NUM_TASKS": "1"},
        # the shell of a batch file
        {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"},
        {"RANK": "3", "WORLD_SIZE": "4"},  # of something else
    ],
)
def test_a_process_that_is_alone(variables, joined):
    assert joined(variables).distributed_world_size == 1


def test_it_joins_the_others(joined):
    """On CPUs they exchange gradients with gloo; on GPUs each has one."""
    told = joined(TORCHRUN, ddp_backend="pytorch_ddp", distributed_backend="nccl")
    assert (told.distributed_world_size, told.distributed_rank, told.device_id) == (8, 5, 1)
    assert told.distributed_no_spawn and told.distributed_init_method == "env://"
    assert (told.distributed_backend, told.ddp_backend) == ("gloo", "legacy_ddp")
    own = joined(TORCHRUN, distributed_init_method="tcp://me:1", distributed_world_size=2)
    assert own.distributed_world_size == 2
    assert joined(SRUN, gpus=1).device_id == 0  # SLURM shows each process its own
    with pytest.raises(GtransError, match="more processes on this machine than the 1 GPUs"):
        joined(TORCHRUN, gpus=1)


@pytest.mark.parametrize(
    ("device", "has_it", "given", "misses"),
    [
        ("cuda", True, "", True),
        ("cuda", True, "bf16", False),
        ("cuda", True, "fp16", False),
        ("cuda", True, "amp", False),
        ("cuda", False, "", False),
        ("cpu", True, "", False),
    ],
)
def test_a_gpu_with_bf16_that_is_not_used(device, has_it, given, misses, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda **_: has_it)
    common = SimpleNamespace(bf16=given == "bf16", fp16=given == "fp16", amp=given == "amp")
    assert misses_bf16(common, torch.device(device)) == misses


def test_strangers_are_refused_under_the_own_task(tiny, stock, tmp_path, monkeypatch):
    """Under fairseq's own command, which does not ask for them where there is no GPU."""
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    more = ("--arch", "gtrans_fusion_tiny", "--source-lang", "en", "--target-lang", "de")
    task = ("--task", "document_translation")
    line = refusal(stock_train(stock, tiny.data, tmp_path / "run", *task, *more))
    assert line.startswith("torchrun has started 8 processes, but fairseq has not been told, ")
