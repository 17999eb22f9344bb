"""Decodes batches, in this process or in several: on processor cores, or on GPUs.

One process reads and writes everything; the others only decode. So progress, finished work on
disk and errors are those of a single process, and so is every batch.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from gtrans.data.examples import Example
from gtrans.decoding.document_search import SentenceHypothesis
from gtrans.decoding.options import DecodingOptions
from gtrans.decoding.translator import BatchedDocuments, Parts, Translator
from gtrans.errors import GtransError
from gtrans.messages import say

Task = tuple[BatchedDocuments, int, list[Example]]
"""Documents in translation, the number of one of their batches, and its rows."""


class Workers:
    """Processes that decode; none for ``--workers 1``. A context.

    On CPUs a process is a copy of this one with one thread, so that models are in memory once. On
    GPUs each process loads the models on its own device.

    Args:
        translator: loaded with ``options``.
        options: ``workers`` processes, 0: as many as there are cores or GPUs.
    """

    def __init__(self, translator: Translator, options: DecodingOptions) -> None:
        self._translator = translator
        self._options = options
        self._on_gpus = translator.device.type == "cuda"
        self._processes: list[Any] = []
        self._connections: list[Connection] = []

    def __enter__(self) -> Workers:
        most = torch.cuda.device_count() if self._on_gpus else len(os.sched_getaffinity(0))
        count = self._options.workers or most
        if self._on_gpus and count > most:
            raise GtransError(f"`--workers` {count}: there are {most} GPUs; give at most {most}.")
        if count > most:
            say(f"`--workers` {count}: more than the {most} cores, which does not help")
        context: Any = mp.get_context("spawn" if self._on_gpus else "fork")
        for number in range(count if count > 1 else 0):
            ours, theirs = context.Pipe()
            if self._on_gpus:
                arguments: Any = theirs, self._options, self._translator.checkpoints, number
                process = context.Process(target=_serve_gpu, args=arguments, daemon=True)
            else:
                arguments = theirs, self._translator, [*self._connections, ours]
                process = context.Process(target=_serve_copy, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._connections.append(ours)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()  # it only computes
            process.join()
        for connection in self._connections:
            connection.close()

    def decode(self, tasks: Iterator[Task]) -> Iterator[BatchedDocuments]:
        """Decode all batches; yields the documents of each one that is decoded.

        Raises:
            GtransError: out of memory, or a process has ended.
        """
        if not self._connections:
            for work, number, rows in tasks:
                work.add(number, self._translator.decode_or_say(rows, work.parts(number)))
                yield work
            return
        idle, busy = [*self._connections], dict[Connection, tuple[BatchedDocuments, int]]()
        while True:
            while idle and (task := next(tasks, None)) is not None:
                work, number, rows = task
                busy[idle[-1]] = work, number
                _send(idle.pop(), (rows, work.known_parts(number)))
            if not busy:
                return
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                work, number = busy[connection]
                place, value = _receive(connection)
                if isinstance(value, Exception):
                    raise value
                if place:
                    work.add_part(value, number, *place)
                    continue
                work.add(number, value)
                del busy[connection]
                idle.append(connection)
                yield work


def _send(connection: Connection, value: Any) -> None:
    try:
        connection.send(value)
    except OSError:
        raise _ended() from None


def _receive(connection: Connection) -> tuple[Sequence[int], Any]:
    try:
        found: tuple[Sequence[int], Any] = connection.recv()
        return found
    except (EOFError, OSError):
        raise _ended() from None


def _ended() -> GtransError:
    return GtransError(
        "`--workers`: a process has ended, perhaps because memory is short; give fewer. What is "
        "finished is kept: the same command goes on."
    )


def _serve_copy(connection: Connection, translator: Translator, others: list[Connection]) -> None:
    """Decode in a copy of the process that has loaded the models."""
    for other in others:  # so that they end with their own process
        other.close()
    torch.set_num_threads(1)
    _serve(connection, translator)


def _serve_gpu(
    connection: Connection, options: DecodingOptions, checkpoints: Sequence[str], device: int
) -> None:
    """Decode on a GPU of its own."""
    torch.cuda.set_device(device)
    translator = Translator.of(options)
    if translator.checkpoints != checkpoints:
        connection.send(((), GtransError("a checkpoint was replaced; run this again.")))
    _serve(connection, translator)


def _serve(connection: Connection, translator: Translator) -> None:
    """Decode what comes, until the other process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    parent = mp.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()

    def add(hypotheses: list[list[SentenceHypothesis]], *place: int) -> None:
        connection.send((place, hypotheses))

    while True:
        rows, known = connection.recv()
        try:
            value: Any = translator.decode_or_say(rows, Parts(known, add))
        except Exception as error:
            value = error if isinstance(error, GtransError) else RuntimeError(repr(error))
        connection.send(((), value))
