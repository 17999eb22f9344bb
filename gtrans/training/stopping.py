"""Ctrl-C, SIGTERM and SIGUSR1 end a training with a checkpoint; the same command goes on from it.

All processes end after the same update, which they agree on with the sums that fairseq exchanges
for its log in any case. The status is :data:`STOPPED`, so that a batch system tries again, or after
Ctrl-C :data:`INTERRUPTED`, so that a script ends.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from omegaconf import open_dict
from torch.multiprocessing.spawn import ProcessExitedException

from gtrans.training.validating import around

STOPPED = 75  # EX_TEMPFAIL of sysexits.h: to be tried again
INTERRUPTED = 128 + signal.SIGINT  # as a shell reports it
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
_OF_CTRL_C = 1 << 16  # what a process adds to the sum in place of 1, more than there are processes
# Seconds in which several signals are one: a launcher passes on what its processes got as well.
_TOGETHER = 2.0
# What a checkpoint of its own kind costs is not what the user has asked for.
_LAST_ONLY = {
    "no_epoch_checkpoints": True,
    "no_last_checkpoints": False,
    "save_interval_updates": 0,
    "keep_interval_updates": -1,
    "keep_last_epochs": -1,
    "keep_best_checkpoints": -1,
}


@dataclass
class _Request:
    """What this process has been told.

    Attributes:
        signal: the first signal; 0: none.
        time: of the first signal.
        told: the sum of what all processes had been told at the last update, 1 or ``_OF_CTRL_C``
            each; a tensor where it was exchanged.
        master: whether this process speaks for all.
        saved: updates at the last checkpoint that this process has written.
    """

    signal: int = 0
    time: float = 0.0
    told: Any = 0
    master: bool = True
    saved: int = -1


_request = _Request()
_before: dict[int, Any] = {}
_pipe: tuple[int, int] | None = None


def watch(trainer: Any) -> None:
    """From now on, end the training of ``trainer`` with a checkpoint when a signal asks for it.

    A second signal ends the process at once, also while it waits for others.
    """
    global _request, _pipe
    if threading.current_thread() is not threading.main_thread():
        return  # only there can signals be received
    _request = _Request(master=trainer.is_data_parallel_master)
    around("validate_and_save", _then_stop)
    if _pipe is None:
        _pipe = os.pipe()
        os.set_blocking(_pipe[1], False)
        os.register_at_fork(after_in_child=_leave_to_the_parent)
        threading.Thread(target=_receive, args=(_pipe[0],), daemon=True).start()
    # Python calls a handler only between two steps of its own, but writes to the pipe at once.
    signal.set_wakeup_fd(_pipe[1], warn_on_full_buffer=False)
    for number in SIGNALS:
        handler = signal.signal(number, lambda *_: None)
        _before.setdefault(number, handler)


def unwatch() -> None:
    """Leave signals to Python again."""
    for number, handler in _before.items():
        signal.signal(number, handler)
    _before.clear()


def _receive(pipe: int) -> None:
    while True:
        for number in os.read(pipe, 64):
            if number not in SIGNALS:
                continue
            now, name = time.monotonic(), signal.Signals(number).name
            if not _request.signal:
                _request.signal, _request.time = number, now
                if _request.master:
                    _say(f"{name}: the training ends after this update; a second one ends it now")
            elif now - _request.time > _TOGETHER:
                os._exit(128 + number)


def _leave_to_the_parent() -> None:
    """In a process that loads data: of these signals, only its parent's end it."""
    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
        return  # the training is not watched
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    while signal.sigwaitinfo(SIGNALS).si_pid != os.getppid():
        pass
    os._exit(0)


def summed(
    original: Callable[..., Any], trainer: Any, logged: Any, *stats: Any, ignore: bool = False
) -> tuple[Any, Sequence[Any]]:
    """fairseq's ``Trainer._aggregate_logging_outputs``, which adds up the requests as well."""
    logged, sums = original(trainer, logged, *stats, _told(), ignore=ignore)
    *sums, _request.told = sums
    return logged, sums


def _told() -> int:
    return _OF_CTRL_C if _request.signal == signal.SIGINT else int(_request.signal != 0)


def saved(trainer: Any) -> None:
    """Say that this process has written a checkpoint, or that none is wanted."""
    _request.saved = trainer.get_num_updates()


def saved_updates() -> int:
    """The updates of the last checkpoint that this process has written or read."""
    return _request.saved


def _then_stop(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def validate_and_save(
        cfg: Any, trainer: Any, task: Any, batches: Any, subsets: Any, end_of_epoch: bool
    ) -> Any:
        losses, at_its_end = original(cfg, trainer, task, batches, subsets, end_of_epoch)
        told = int(_request.told) if trainer.data_parallel_world_size > 1 else _told()
        if not told or at_its_end:
            return losses, at_its_end
        complete = _is_complete(trainer)
        # Between two epochs only fairseq's own checkpoint has the loss that the schedule needs.
        if complete or not end_of_epoch:
            status = INTERRUPTED if told >= _OF_CTRL_C else STOPPED
            _stop(cfg.checkpoint, trainer, batches, complete, status)
        return losses, at_its_end

    return validate_and_save


def _is_complete(trainer: Any) -> bool:
    """Whether the process that writes has a checkpoint of this update; all must call this."""
    complete: bool = _request.saved == trainer.get_num_updates()
    if trainer.data_parallel_world_size > 1:
        complete = distributed_utils.broadcast_object(
            complete,
            src_rank=0,
            group=trainer.data_parallel_process_group,
            dist_device=trainer.device,
        )
    return complete


def _stop(cfg: Any, trainer: Any, batches: Any, complete: bool, status: int) -> None:
    """Save, unless that is done, and end.

    Raises:
        SystemExit: always, with this status.
    """
    if not complete:
        cfg = copy.deepcopy(cfg)
        with open_dict(cfg):
            cfg.update(_LAST_ONLY)
        checkpoint_utils.save_checkpoint(cfg, trainer, batches, None)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if trainer.data_parallel_world_size > 1:
        # A launcher ends all others as soon as one has ended, also the one that still writes.
        torch.distributed.barrier(trainer.data_parallel_process_group)
    # torchrun shows each machine only its own processes
    if _request.master or os.environ.get("LOCAL_RANK") == "0":
        default = signal.SIGINT if status == INTERRUPTED else signal.SIGTERM
        name = signal.Signals(_request.signal or default).name
        kept = "nothing is saved (--no-save)" if cfg.no_save else (
            f"the same command goes on with the checkpoint in {cfg.save_dir}"
        )  # fmt: skip
        _say(f"{name}: stopped after {trainer.get_num_updates()} updates; {kept}")
    raise SystemExit(status)


def pass_on_to_workers(work: Callable[[], None]) -> None:
    """Run ``work``, which starts the processes of a training; they get this process's signals.

    Raises:
        SystemExit: they have ended because of a signal.
    """
    received: list[int] = []

    def pass_on(number: int, frame: Any) -> None:
        received.append(number)
        for worker in multiprocessing.active_children():
            if worker.pid is not None:
                os.kill(worker.pid, number)

    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        work()
        if signal.SIGINT in received:  # torch takes it for no error of a process that it started
            raise SystemExit(INTERRUPTED)
    except ProcessExitedException as end:
        if end.exit_code in (STOPPED, INTERRUPTED):
            raise SystemExit(end.exit_code) from None
        if received:
            raise SystemExit(128 + received[0]) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(message: str) -> None:
    os.write(2, f"gtrans: {message}\n".encode())
