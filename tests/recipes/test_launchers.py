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
SRUN = ("--launcher", "srun")


def trainings(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [command for command in commands(done) if "gtrans train" in command]


def batch_of(command: str) -> tuple[int, int]:
    words = command.split()
    return tuple(int(words[words.index(flag) + 1]) for flag in ("--max-tokens", "--update-freq"))


@pytest.mark.parametrize(
    ("machines", "gpus", "tokens", "batches"),
    [(1, 1, 4096, 4), (1, 2, 4096, 2), (1, 8, 2048, 1), (2, 8, 1024, 1), (8, 4, 512, 1)],
)
def test_an_update_has_as_many_tokens_on_any_number_of_gpus(
    machines, gpus, tokens, batches, script
):
    place = (*PLACE, *SRUN, "--nodes", str(machines), "--gpus", str(gpus), "--dry-run")
    done = script("run-finetune", *place)
    for command in trainings(done):
        assert command.startswith(
            f"srun --nodes {machines} --ntasks {machines * gpus} --ntasks-per-node {gpus} "
            "--kill-on-bad-exit=1 "
        )
        assert batch_of(command) == (tokens, batches)
    assert "effective batch 16384 tokens" in done.stderr
    only_training = [command for command in commands(done) if "srun" in command]
    assert only_training == trainings(done)


def test_torchrun_on_one_machine_and_on_several(script):
    (one,) = trainings(script("run-randinit", *PLACE, *TORCHRUN, "--dry-run"))
    assert one.startswith("torchrun --standalone --nproc-per-node 4 --no-python ")
    several = ("--nodes", "2", "--gpus", "8", "--master", "first:29500", "--dry-run")
    first = commands(script("run-randinit", *PLACE, *TORCHRUN, *several))
    second = commands(script("run-randinit", *PLACE, *TORCHRUN, *several, "--node-rank", "1"))
    assert [command.split()[0] for command in first] == ["gtrans", "torchrun", "gtrans", "gtrans"]
    (training,) = second
    assert training == first[1].replace("--node-rank 0", "--node-rank 1")
    assert " --master-addr first --master-port 29500 " in training


def test_what_the_user_says_stays(script):
    given = ("--update-freq", "2", "--max-tokens", "3000", "--nodes", "2", "--gpus", "4")
    done = script("run-randinit", *PLACE, *SRUN, *given, "--dry-run")
    assert batch_of(trainings(done)[0]) == (3000, 2)
    assert "effective batch 48000 tokens" in done.stderr


def test_documents_side_by_side_are_shared(script):
    done = script("run-memory", *PLACE, *SRUN, "--gpus", "4", "--runs", "1", "--dry-run")
    sentence, memory = trainings(done)
    assert batch_of(sentence) == (1024, 1)
    assert batch_of(memory) == (4096, 1) and " --batch-size 2 " in memory
    error = script("run-memory", *PLACE, *SRUN, "--gpus", "4", "--documents", "6", "--dry-run")
    assert "4 processes cannot share the 6 documents of an update" in error.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nodes", "2"], "`--nodes 2` needs `--launcher torchrun` or `--launcher srun`."),
        ([*TORCHRUN, "--nodes", "2"], "`--master` must be HOST:PORT of the first machine, but is"),
        ([*SRUN, "--node-rank", "1", "--nodes", "2"], "are for `--launcher torchrun` with several"),
        ([*TORCHRUN, "--node-rank", "1"], "`--node-rank` must be below `--nodes` 1, but is '1'."),
        (["--launcher", "mpirun"], "`--launcher` must be one of torchrun srun, but is 'mpirun'."),
        ([*SRUN, "--gpus", "3"], "3 processes cannot share an update of 16384 tokens; give a"),
        ([*SRUN, "--nodes", "8", "--gpus", "8"], "have 256 tokens each of an update of 16384,"),
    ],
)
def test_mistakes(arguments, message, script):
    assert message in the_error(script("run-randinit", *PLACE, *arguments, "--dry-run"))


# ---- SLURM, played by programs that do here what it does on its machines -----------------------

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
    assert "out/randinit: stopped by a signal; the same command goes on" in done.stderr
    program.write_text(stand_in, encoding="utf-8")
    done = batch(*job)
    assert done.returncode == 0, done.stderr
    assert requeued.read_text(encoding="utf-8") == "4711\n"
    calls = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert sum(call.startswith("gtrans train") for call in calls) == 2  # two tasks
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
        *texts, "--out", str(tmp_path / "out"), "--gpus", "0", "--bpe-merges", "300",
        "--max-tokens", "512", "--update-freq", "1", "--document-updates", "30", "--beam", "1",
        "--", *SIZES, "--arch", "gtransformer_tiny", "--encoder-global-layers", "1",
        "--decoder-global-layers", "1", "--cross-global-layers", "1", "--num-workers", "0",
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
    assert "effective batch 1024 tokens" in errors
    assert "gtrans translate" in first and "gtrans translate" not in second
    assert updates(tmp_path / "out" / "randinit") == 30
    log = (tmp_path / "out" / "randinit" / "train.log").read_text(encoding="utf-8")
    assert "training on 2 devices" in log
    assert (tmp_path / "out" / "scores.randinit.txt").exists()


# torchrun needs a moment until it knows what it has started.
WAITING = "trap 'echo told; exit' USR1; sleep 3; echo ready; for n in {1..300}; do sleep 0.2; done"


@pytest.mark.long
def test_torchrun_passes_sigusr1_on(repo):
    """torchrun alone would end at SIGUSR1, and leave the training behind."""
    program = Path(sys.executable).with_name("torchrun")
    script = f"""
        declare -A OPTION=([launcher]=torchrun [nodes]=1 [gpus]=0)
        program() {{ printf '%s' '{program}'; }}
        . exp_gtransformer/lib/launching.sh
        use_launcher 1
        exec "${{LAUNCH[@]}}" bash -c "$WAITING"
    """
    job = subprocess.Popen(
        ["bash", "-c", script], cwd=repo, env={**environment(repo), "WAITING": WAITING}, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    job.send_signal(signal.SIGUSR1)
    assert job.communicate(timeout=100)[0] == "told\n"


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
        if "begin training epoch" in line or "Start iterating over samples" in line:
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
