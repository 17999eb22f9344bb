"""Run scripts that start a process for each GPU, on one machine or several."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.recipes import PLACE, commands, the_error
from support.running import environment, free_port
from support.runs import SIZES, updates

TORCHRUN = ("--launcher", "torchrun")


def test_every_machine_gets_a_process_for_each_gpu(script):
    """The training divides the batch of the configuration (tests/cli/test_config.py)."""
    done = script("run-randinit", *PLACE, "--launcher", "srun", "--nodes", "2", "--gpus", "8",
                  "--dry-run")  # fmt: skip
    started = [command.split(" --config ")[0] for command in commands(done)]
    assert started[1].startswith(
        "srun --nodes 2 --ntasks 16 --ntasks-per-node 8 --kill-on-bad-exit=1 "
    )
    (one,) = [x for x in commands(script("run-randinit", *PLACE, *TORCHRUN, "--gpus", "4",
                                         "--dry-run")) if "torchrun" in x]  # fmt: skip
    assert "torchrun --standalone --nproc-per-node 4 --no-python " in one
    several = ("--nodes", "2", "--gpus", "8", "--master", "first:29500", "--dry-run")
    first = commands(script("run-randinit", *PLACE, *TORCHRUN, *several))
    (training,) = commands(script("run-randinit", *PLACE, *TORCHRUN, *several, "--node-rank", "1"))
    assert len(first) == 4 and training == first[1].replace("--node-rank 0", "--node-rank 1")
    assert " --master-addr first --master-port 29500 " in training


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--launcher", "mpi", "--gpus", "1"), "`--launcher` must be one of torchrun srun, but"),
        (TORCHRUN, "`--launcher` needs `--gpus`: how many each machine has."),
        ((*TORCHRUN, "--gpus", "1", "--nodes", "2"), "`--master` must be HOST:PORT of the first"),
    ],
)
def test_mistakes(words, message, script):
    done = script("run-finetune", *PLACE, *words, "--dry-run")
    assert the_error(done).startswith(f"run-finetune: error: {message}")


PROGRAMS = {
    # a process for each task, with what SLURM tells it
    "srun": """#!/usr/bin/env python3
import os, subprocess, sys
words, given = sys.argv[1:], {}
while words[0].startswith("--"):
    if "=" in words[0]:
        words = words[1:]
    else:
        given[words[0]] = int(words[1])
        words = words[2:]
count, each = given["--ntasks"], given["--ntasks-per-node"]
tasks = [
    subprocess.Popen(words, env={
        **os.environ, "SLURM_STEP_NUM_TASKS": str(count), "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % each), "SLURM_STEP_ID": "3", "SLURM_STEP_NODELIST": "node[1-2]",
    })
    for rank in range(count)
]
with open(os.environ["LOG"] + ".tasks", "w") as file:
    print(*(task.pid for task in tasks), file=file)
sys.exit(max(task.wait() for task in tasks))
""",
    "scontrol": """#!/bin/sh
case $1 in
  show) echo localhost; echo localhost ;;
  requeue)
    echo "$2" >>"$LOG.requeued"
    for task in $(cat "$LOG.tasks"); do kill -0 "$task" && echo "too early" >>"$LOG.requeued"; done
    ;;
esac
""",
    # does not answer at first, then lists the step until its tasks have ended
    "squeue": """#!/bin/sh
[ -e "$LOG.asked" ] || { touch "$LOG.asked"; exit 1; }
echo "$SLURM_JOB_ID.batch"
for task in $(cat "$LOG.tasks"); do kill -0 "$task" 2>/dev/null && echo "$SLURM_JOB_ID.3"; done
exit 0
""",
}


@pytest.fixture
def slurm(tmp_path):
    """Variables of a job of SLURM on two machines without GPUs, and its commands."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "LOG": str(tmp_path / "log"),
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NUM_NODES": "2",
        "MASTER_PORT": str(free_port()),
    }


def test_a_job_that_is_stopped_is_requeued(stand_ins, slurm, tmp_path):
    """With a training that only says that a signal has stopped it."""
    program = tmp_path / ".venv" / "bin" / "gtrans"
    stand_in = program.read_text(encoding="utf-8")
    stopping = "[[ $1 != train ]] || { echo 'gtrans: SIGUSR1: stopped after 3'; exit 75; }"
    texts = [part for split in ("train", "valid", "test") for part in (f"--{split}-prefix", split)]

    def batch(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "exp_gtransformer/slurm.sbatch", *words], cwd=tmp_path, text=True,
            env={**os.environ, **slurm}, capture_output=True, timeout=60, check=False,
        )  # fmt: skip

    requeued = tmp_path / "log.requeued"
    job = ("run-randinit.sh", *texts, "--out", "out")
    program.write_text(stand_in.replace("\n", f"\n{stopping}\n", 1), encoding="utf-8")
    done = batch(*job)
    assert done.returncode == 75, done.stderr
    assert requeued.read_text(encoding="utf-8") == "4711\n"
    program.write_text(stand_in, encoding="utf-8")
    done = batch(*job)
    assert done.returncode == 0, done.stderr
    assert requeued.read_text(encoding="utf-8") == "4711\n"
    calls = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    # Of two tasks, whose stand-ins know nothing of each other, the later may find it finished.
    assert sum(call.startswith("gtrans train") for call in calls) in (1, 2)
    assert sum(call.startswith("gtrans translate") for call in calls) == 1
    refused = batch("run-nothing.sh")
    assert refused.returncode == 1 and "'run-nothing.sh' is no script in" in refused.stderr


# ---- really run ---------------------------------------------------------------------------------


@pytest.fixture
def recipe(repo, tiny, tmp_path):
    """Words of a tiny training of a run script, and what starts it."""
    texts = [
        str(part)
        for split in ("train", "valid", "test")
        for part in (f"--{split}-prefix", tiny.text / split)
    ]
    words = [
        *texts, "--source-lang", "en", "--target-lang", "de", "--out", str(tmp_path / "out"),
        "--gpus", "0", "--bpe-merges", "300",
        "--max-tokens", "512", "--update-freq", "1", "--document-updates", "30", "--beam", "1",
        "--", *SIZES, "--arch", "gtransformer_tiny", "--encoder-global-layers", "1",
        "--decoder-global-layers", "1", "--cross-global-layers", "1", "--num-workers", "0",
        "--log-interval", "1",
    ]  # fmt: skip

    def start(*first: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", *first, *words], cwd=repo, text=True,
            env={**environment(repo), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                 **more},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


@pytest.mark.long
def test_two_machines_of_torchrun_train_one_model(recipe, tmp_path):
    """Both are this one, on the CPU; the second waits for the preparation of the first."""
    where = ("--nodes", "2", "--master", f"127.0.0.1:{free_port()}", "--node-rank")
    run = "exp_gtransformer/run-randinit.sh"
    machines = [recipe(run, *TORCHRUN, *where, rank) for rank in "01"]
    (first, errors), (second, more) = [machine.communicate(timeout=500) for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], errors + more
    assert "gtrans translate" in first and "gtrans translate" not in second
    assert updates(tmp_path / "out" / "randinit") == 30
    log = (tmp_path / "out" / "randinit" / "train.log").read_text(encoding="utf-8")
    assert "training on 2 devices" in log
    assert (tmp_path / "out" / "scores.randinit.txt").exists()


@pytest.mark.long
def test_a_job_of_slurm_goes_on_after_a_signal(recipe, slurm, tmp_path):
    """SLURM tells the batch file, which has it tell the tasks."""
    scancel = Path(slurm["PATH"].partition(":")[0], "scancel")
    scancel.write_text('#!/bin/sh\nkill -USR1 $(cat "$LOG.tasks")\n', encoding="utf-8")
    scancel.chmod(0o755)
    batch = ("exp_gtransformer/slurm.sbatch", "run-randinit.sh")
    job = recipe(*batch, **slurm)
    assert job.stdout is not None
    for line in job.stdout:
        if "train_inner" in line:  # an update has been made
            break
    job.send_signal(signal.SIGUSR1)
    _, errors = job.communicate(timeout=300)
    assert job.returncode == 75, errors
    assert (tmp_path / "log.requeued").read_text(encoding="utf-8") == "4711\n"
    after = updates(tmp_path / "out" / "randinit")
    assert 0 < after < 30
    again = recipe(*batch, **slurm)
    _, errors = again.communicate(timeout=500)
    assert again.returncode == 0, errors
    assert updates(tmp_path / "out" / "randinit") == 30
