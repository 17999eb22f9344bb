"""SIGTERM, SIGUSR1 and Ctrl-C: a checkpoint, the status, and a run that goes on undisturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from support.running import command, environment, in_two, two_ranks
from support.runs import differing, log_of, outcome, train, updates
from support.tiny_models import Finished

STOPPED = 75
GOAL = ("--max-update", "12")
# A plugin of the user's that is the project's, and sends this process a signal in an update.
SIGNALLING = """
import os
from fairseq.trainer import Trainer
import gtrans.models, gtrans.tasks
step = Trainer.train_step
def train_step(trainer, *rest):
    done = step(trainer, *rest)
    if trainer.get_num_updates() == {update} and trainer.data_parallel_rank == {rank}:
        os.kill(os.getpid(), {number})
        import time
        time.sleep(0.3)  # the signal is on its way
    return done
Trainer.train_step = train_step
"""


@pytest.fixture
def signalling(tmp_path):
    """Makes a ``--user-dir`` that sends a signal at the end of an update."""

    def make(update: int, number: int = signal.SIGTERM, rank: int = 0) -> tuple[str, str]:
        folder = tmp_path / f"signal_at_{update}_{rank}"
        folder.mkdir()
        text = SIGNALLING.format(update=update, number=int(number), rank=rank)
        (folder / "__init__.py").write_text(text, encoding="utf-8")
        return "--user-dir", str(folder)

    return make


def stopped(done: Finished, after: int, name: str = "SIGTERM") -> None:
    assert done.status == (130 if name == "SIGINT" else STOPPED), done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("gtrans: ")]
    assert "ends after this update" in lines[0]
    assert f"{name}: stopped after {after} updates; the same command goes on" in lines[-1]


def test_a_requeued_run_goes_on_exactly(tiny, stock, signalling, tmp_path):
    """With validations: the one that is due is held, and no other."""
    often = ("--validate-interval-updates", "4", "--patience", "50", *GOAL)
    log_of(train(stock, tiny.data, tmp_path / "whole", *often))
    again = partial(train, stock, tiny.data, tmp_path / "parts", *often)
    for update, number in ((3, signal.SIGTERM), (5, signal.SIGINT), (8, signal.SIGUSR1)):
        stopped(again(*signalling(update, number)), update, number.name)
        assert updates(tmp_path / "parts") == update
    log_of(again())
    assert differing(*(outcome(tmp_path / name) for name in ("whole", "parts"))) == []


@pytest.mark.long
def test_the_end_of_an_epoch(tiny, stock, signalling, tmp_path):
    """fairseq's own checkpoint serves; where it writes none, the next update is waited for."""
    epoch = 0
    for name, every in (("own", "1"), ("none", "5")):
        options = ("--save-interval", every, "--max-update", "40")
        whole = log_of(train(stock, tiny.data, tmp_path / f"{name}-whole", *options))
        if not epoch:
            epoch = next(n for n in range(1, 40) if f"epoch 1 @ {n} updates" in whole)
        folder = tmp_path / f"{name}-parts"
        plugin = signalling(epoch, rank=0) if name == "own" else ("--user-dir", str(
            tmp_path / f"signal_at_{epoch}_0"))  # fmt: skip
        done = train(stock, tiny.data, folder, *options, *plugin)
        stopped(done, epoch if name == "own" else epoch + 1)
        log_of(train(stock, tiny.data, folder, *options))
        assert differing(*map(outcome, (tmp_path / f"{name}-whole", folder))) == []
    # Options with which fairseq writes no file at all.
    no_file = ("--max-update", "40", "--no-last-checkpoints")
    stopped(train(stock, tiny.data, tmp_path / "no", *no_file, *plugin), epoch + 1)
    assert updates(tmp_path / "no") == epoch + 1


def test_the_last_update_ends_the_run_as_ever(tiny, stock, signalling, tmp_path):
    log_of(train(stock, tiny.data, tmp_path, *GOAL, *signalling(12)))
    assert updates(tmp_path) == 12


@pytest.mark.long
def test_all_processes_stop_after_the_same_update(tiny, stock, signalling, tmp_path):
    """Only one of them was told, the one that does not save, when its update 5 was over."""
    for done in in_two(stock, tiny.data, tmp_path / "whole", *GOAL):
        log_of(done)
    told = signalling(5, signal.SIGINT, rank=1)
    parts = in_two(stock, tiny.data, tmp_path / "parts", *GOAL, *told)
    assert [done.status for done in parts] == [130, 130], parts[0].stderr
    assert "stopped after 6 updates" in parts[0].stderr
    assert "stopped after" not in parts[1].stderr
    assert updates(tmp_path / "parts") == 6
    for done in in_two(stock, tiny.data, tmp_path / "parts", *GOAL):
        log_of(done)
    assert differing(*(outcome(tmp_path / name) for name in ("whole", "parts"))) == []


SLEEPING = """
import time
from gtrans.train.signals import Signals
with Signals(speaks=True):
    print("ready", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:  # no handler of Python runs while it waits for others
        time.sleep(1)
"""


@pytest.mark.long
def test_a_second_signal_ends_at_once(repo):
    """One that comes right after the first is the same, passed on by a launcher."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPING], cwd=repo, env=environment(repo),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGUSR1)
    time.sleep(2.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM
    assert errors.count("gtrans: ") == 1


@pytest.mark.long
def test_the_whole_process_group_is_told(tiny, repo, tmp_path):
    """As a batch system does: also the process that loads data, and twice the training."""
    goal = ("--max-update", "400", "--log-interval", "1", "--num-workers", "1")
    run = subprocess.Popen(
        command(tiny, tmp_path, *goal), cwd=repo, env=environment(repo), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert run.stdout is not None
    for line in run.stdout:
        if "num_updates" in line or "train_inner" in line:
            break
    os.killpg(run.pid, signal.SIGTERM)
    run.send_signal(signal.SIGTERM)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == STOPPED, errors
    assert "Traceback" not in errors
    assert 0 < updates(tmp_path) < 400


@pytest.mark.long
def test_a_lost_process_is_an_error_and_the_restarted_job_goes_on(tiny, stock, repo, tmp_path):
    """As when a machine is lost: no process waits for it, and nothing is lost but its updates."""
    saved = ("--save-interval-updates", "10", "--keep-interval-updates", "1")
    options = ("--max-update", "60", *saved)
    words = command(tiny, tmp_path / "lost", *options, "--ddp-backend", "legacy_ddp")
    ranks = [
        subprocess.Popen(
            rank, cwd=repo, env=environment(repo), stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )
        for rank in two_ranks(words)
    ]  # fmt: skip
    deadline = time.monotonic() + 120
    while not (tmp_path / "lost" / "checkpoint_last.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    ranks[1].kill()
    _, errors = ranks[0].communicate(timeout=60)
    assert ranks[0].returncode not in (0, STOPPED)
    assert "closed" in errors or "reset" in errors, errors
    at = updates(tmp_path / "lost")  # of its last epoch or save
    assert 0 < at < 60
    for name in ("lost", "whole"):
        again = command(tiny, tmp_path / name, *options)
        for done in stock.together("gtrans", *two_ranks(again[3:])):
            log_of(done)
    assert differing(*(outcome(tmp_path / name) for name in ("whole", "lost"))) == []
