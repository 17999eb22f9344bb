"""A tiny corpus, tiny models trained on it, and fairseq's own commands to use them.

The commands run as processes of their own, with their standard streams, exit status and
``--user-dir gtrans``, but forked from one process that has imported fairseq and the plugin
before: the imports are most of what a small command costs. That a process of its own does the
same, tests/cli/test_fairseq_fronts.py tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import command_server
from support.synthetic_corpus import prepare, write_corpus

PLUGIN = "gtrans"
TINY = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "32"),
    *("--encoder-ffn-embed-dim", "64", "--decoder-ffn-embed-dim", "64"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
    *("--encoder-global-layers", "1", "--decoder-global-layers", "1", "--cross-global-layers", "1"),
    "--share-all-embeddings",
)


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str

    def lines(self, kind: str) -> list[tuple[int, str]]:
        """``(id, last column)`` of all lines ``KIND-id <tab> ..``, as printed."""
        found = []
        for line in self.stdout.split("\n"):
            name, *columns = line.split("\t")
            head, _, number = name.partition("-")
            if head == kind and number.isdigit():
                found.append((int(number), columns[-1]))
        return found


class StockCommands:
    """``fairseq-NAME`` for the names in :data:`command_server.COMMANDS`, and ``gtrans``."""

    def __init__(self, repo: Path, folder: Path) -> None:
        self._folder = folder
        self._repo = repo
        self._servers: dict[bool, subprocess.Popen[str]] = {}

    def _server(self, has_plugin: bool) -> subprocess.Popen[str]:
        """The process that forks commands, with the plugin imported before or not."""
        if has_plugin not in self._servers:
            self._servers[has_plugin] = subprocess.Popen(
                [sys.executable, command_server.__file__, *([PLUGIN] if has_plugin else [])],
                cwd=self._repo,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._servers[has_plugin]

    def __call__(self, name: str, *arguments: str | Path, stdin: str = "") -> Finished:
        return self._run(name, [arguments], stdin)[0]

    def together(self, name: str, *commands: Sequence[str | Path]) -> list[Finished]:
        """Run the command several times at once, as the processes of one training do."""
        return self._run(name, commands, "")

    def _run(
        self, name: str, commands: Sequence[Sequence[str | Path]], stdin: str
    ) -> list[Finished]:
        given = name == "preprocess" or all("--user-dir" in words for words in commands)
        server = self._server(has_plugin=given and name != "hydra_train")
        assert server.stdin is not None and server.stdout is not None
        orders = []
        for number, arguments in enumerate(commands):
            streams = [str(self._folder / f"{s}{number}") for s in ("stdin", "stdout", "stderr")]
            Path(streams[0]).write_text(stdin, encoding="utf-8")
            argv = [str(part) for part in arguments]
            orders.append({"argv": argv, "streams": streams, "environment": _environment()})
        print(json.dumps({"name": name, "orders": orders}), file=server.stdin, flush=True)
        answer = server.stdout.readline()
        assert answer, "the server of stock commands has died"
        return [
            Finished(status, *(Path(s).read_text(encoding="utf-8") for s in order["streams"][1:]))
            for status, order in zip(json.loads(answer), orders, strict=True)
        ]

    def succeed(self, name: str, *arguments: str | Path, stdin: str = "") -> Finished:
        """Run and insist on exit status 0."""
        done = self(name, *arguments, stdin=stdin)
        assert done.status == 0, done.stderr
        return done

    def close(self) -> None:
        """End the servers."""
        for server in self._servers.values():
            server.communicate(timeout=60)


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class TinyWorld:
    """Text, its binarised form, and checkpoints.

    ``text`` holds ``test.en`` and ``test.de``: some short documents, one of a single
    sentence and one that is much longer.
    """

    text: Path
    data: Path
    checkpoints: dict[str, Path]
    run: StockCommands

    def source(self) -> list[list[str]]:
        """The documents of the test set."""
        whole = (self.text / "test.en").read_text(encoding="utf-8")
        return [document.split("\n") for document in whole.strip().split("\n\n")]

    def subwords(self, lang: str) -> list[str]:
        """The BPE subwords of all sentences of the test set."""
        whole = (self.data / "text" / f"test.bpe.{lang}").read_text(encoding="utf-8")
        return [line for line in whole.split("\n") if line]


@pytest.fixture(scope="session")
def stock(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockCommands]:
    """fairseq's commands."""
    commands = StockCommands(repo, tmp_path_factory.mktemp("stock"))
    yield commands
    commands.close()


@pytest.fixture(scope="session")
def tiny(stock: StockCommands, tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    """The synthetic corpus and models after a few updates."""
    folder = tmp_path_factory.mktemp("tiny")
    text, data = folder / "text", folder / "data"
    write_corpus(text)
    for lang in ("en", "de"):
        shutil.copy(text / f"valid.{lang}", text / f"test.{lang}")
        documents = (text / f"test.{lang}").read_text(encoding="utf-8").strip().split("\n\n")
        long = "\n".join(documents[:5])
        short = documents[5].split("\n")[0]
        test = "\n\n".join([documents[6], long, short, documents[7], documents[8]])
        (text / f"test.{lang}").write_text(f"{test}\n", encoding="utf-8")
    assert prepare(text, data, "--bpe-merges", "300") == 0
    checkpoints = {}
    for name, unit, seed in (
        ("document", "document", 1), ("other", "document", 2), ("sentence", "sentence", 1)
    ):  # fmt: skip
        saved = folder / name
        stock.succeed(
            "gtrans", "train", data, "--user-dir", "gtrans", "--task", "document_translation",
            "--unit", unit, "--arch", "gtransformer_tiny", *TINY, "--optimizer", "adam",
            "--lr", "0.003", "--criterion", "label_smoothed_cross_entropy",
            "--max-tokens", "1024", "--max-update", "12", "--disable-validation",
            "--seed", str(seed), "--save-dir", saved, "--no-epoch-checkpoints",
            "--num-workers", "0", "--cpu",
        )  # fmt: skip
        checkpoints[name] = saved / "checkpoint_last.pt"
    return TinyWorld(text, data, checkpoints, stock)


class Harm:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.fixture(scope="session")
def harmful(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that makes a file ``harmed`` beside itself when it is loaded carelessly."""
    import torch

    path = tmp_path_factory.mktemp("harm") / "checkpoint.pt"
    state = torch.load(tiny.checkpoints["document"], weights_only=False)
    torch.save({**state, "extra_state": Harm(path.parent / "harmed")}, path)
    return path
