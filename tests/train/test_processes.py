"""Runs in processes of their own: killed, on a full disk, of several processes."""

from __future__ import annotations

import re
import signal
import subprocess
import time

import pytest
from support.running import command, environment, in_two
from support.runs import G_TRANSFORMER, differing, log_of, outcome, train

from gtrans.checkpoints.reading import read_checkpoint

SAVED = ("--save-interval-updates", "1", "--keep-interval-updates", "1")


@pytest.mark.long
def test_killed_while_it_trains_and_saves(tiny, stock, repo, tmp_path):
    """With a data worker, which must not keep the folder locked."""
    goal = ("--max-update", "9", *SAVED, "--num-workers", "1")
    log_of(train(stock, tiny.data, tmp_path / "whole", *goal))
    folder = tmp_path / "killed"
    run = subprocess.Popen(
        command(tiny, folder, *goal), cwd=repo, env=environment(repo), stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not (folder / "checkpoint_last.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    # A new name beside the next checkpoint: it is being written.
    while not list(folder.glob(".checkpoint_last.pt.*.tmp")) and run.poll() is None:
        pass
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    log = log_of(train(stock, tiny.data, folder, *goal))
    assert "Loaded checkpoint" in log
    assert differing(*(outcome(tmp_path / name) for name in ("whole", "killed"))) == []
    assert not list(folder.glob(".*.tmp"))


@pytest.mark.long
def test_a_full_disk_is_one_line_and_costs_no_checkpoint(tiny, stock, repo, tmp_path):
    """A limit on the size of files fails in the middle of a file as a full disk does."""
    log_of(train(stock, tiny.data, tmp_path, updates=1))
    last = tmp_path / "checkpoint_last.pt"
    before = last.read_bytes()
    blocks = len(before) // 2 // 1024
    limited = ("bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash")
    done = subprocess.run(
        [*limited, *command(tiny, tmp_path, "--max-update", "2")],
        cwd=repo, env=environment(repo), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith(f"gtrans: error: {last}: cannot be")
    assert "Traceback" not in done.stderr
    assert last.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


MEMORY = (
    *("--arch", "memory_transformer_tiny", "--max-tokens", "200", "--dropout", "0"),
    *("--min-window", "1", "--max-window", "2"),
)


@pytest.mark.long
def test_streams_of_two_processes_go_on_exactly(tiny, stock, tmp_path):
    for name, goal in (("whole", 4), ("parts", 2), ("parts", 4)):
        for done in in_two(stock, tiny.data, tmp_path / name, *MEMORY, updates=goal):
            log_of(done)
    assert differing(*(outcome(tmp_path / name) for name in ("whole", "parts"))) == []


@pytest.mark.parametrize(
    "options",
    [MEMORY, pytest.param((*G_TRANSFORMER, "--dropout", "0"), marks=pytest.mark.long)],
    ids=lambda o: o[1],
)
@pytest.mark.long
def test_two_processes_become_one_with_twice_as_many_batches(options, tiny, stock, tmp_path):
    """In the middle of an epoch; sums of gradients differ in their last digits only."""
    for name, goal in (("two", 4), ("mixed", 2)):
        for done in in_two(stock, tiny.data, tmp_path / name, *options, updates=goal):
            log_of(done)
    one = (*options, "--update-freq", "2")
    log_of(train(stock, tiny.data, tmp_path / "mixed", *one, updates=4))
    states = [read_checkpoint(tmp_path / x / "checkpoint_last.pt") for x in ("two", "mixed")]
    positions = [state["extra_state"]["train_iterator"] for state in states]
    assert positions[1]["iterations_in_epoch"] == 2 * positions[0]["iterations_in_epoch"] > 0
    for name, weights in states[0]["model"].items():
        # The bias of a key has no effect, so Adam steps by the signs of rounding errors.
        bound = 1e-4 if name.endswith("k_proj.bias") else 1e-5
        assert (weights - states[1]["model"][name]).abs().max() < bound, name


@pytest.mark.long
def test_an_epoch_counts_every_word_once(tiny, stock, tmp_path):
    """At its end a process has dummies after its batches, and the other process has batches."""
    options = (*MEMORY, "--max-tokens", "400", "--max-epoch", "1", "--log-format", "json")
    options += ("--log-interval", "1", "--update-freq")
    two = "".join(map(log_of, in_two(stock, tiny.data, tmp_path / "two", *options, "2")))
    one = log_of(train(stock, tiny.data, tmp_path / "one", *options, "4"))
    words = [list(map(float, re.findall(r'"wpb": "([0-9.]+)", "bsz"', log))) for log in (one, two)]
    # At the end one process reads in one update what two read in several.
    assert words[0][:4] == words[1][:4] and sum(words[0]) == sum(words[1])
