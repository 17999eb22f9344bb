"""``gtrans train`` and ``gtrans generate``: fairseq's commands without ``--user-dir``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.running import environment, free_port
from support.tiny_models import TINY, TinyWorld

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.cli import main

TRAINING = (
    *("--arch", "gtransformer_tiny", *TINY, "--optimizer", "adam", "--lr", "0.003"),
    *("--criterion", "label_smoothed_cross_entropy", "--max-tokens", "512", "--max-update", "2"),
    *("--disable-validation", "--no-epoch-checkpoints", "--num-workers", "0", "--cpu"),
)
STOCK = ("--user-dir", "gtrans", "--task", "document_translation")
ON_CPUS = ("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp")


def python(repo: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python in the folder of the project."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=repo,
        env=environment(repo),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def same_parameters(one: Path, other: Path) -> None:
    first, second = (read_checkpoint(x / "checkpoint_last.pt")["model"] for x in (one, other))
    assert first.keys() == second.keys()
    assert all(first[name].equal(second[name]) for name in first)


@pytest.fixture(scope="module")
def by_fairseq(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of ``fairseq-train``."""
    folder = tmp_path_factory.mktemp("stock")
    tiny.run.succeed("train", tiny.data, *STOCK, *TRAINING, "--save-dir", folder)
    return folder


@pytest.fixture
def plugin_of_the_user(tmp_path: Path) -> Path:
    """A ``--user-dir`` of the user's own."""
    folder = tmp_path / "their_plugin"
    folder.mkdir()
    (folder / "__init__.py").write_text("print('their plugin is imported')\n")
    return folder


def test_it_trains_the_model_of_fairseq_train(tiny, repo, by_fairseq, tmp_path):
    done = python(repo, "-m", "gtrans", "train", tiny.data, *TRAINING, "--save-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    same_parameters(tmp_path, by_fairseq)


@pytest.mark.long
def test_it_generates_what_fairseq_generate_does(tiny, repo):
    search = (tiny.data, "--path", tiny.checkpoints["document"], "--beam", "1", "--cpu",
              "--max-len-b", "3")  # fmt: skip
    by_fairseq = tiny.run.succeed("generate", *search, *STOCK)
    done = python(repo, "-m", "gtrans", "generate", *search, "--user-dir", "gtrans")
    assert done.returncode == 0, done.stderr
    assert done.stdout == by_fairseq.stdout


# fairseq starts a worker for each GPU; here it believes in one, and the worker computes on the CPU.
AS_IF_WITH_A_GPU = """
import sys
import torch
from gtrans.cli import main
torch.cuda.device_count = lambda: 1
sys.exit(main(sys.argv[1:]))
"""


def spawning(repo: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    init = ("--distributed-world-size", "1", "--distributed-init-method",
            f"tcp://localhost:{free_port()}")  # fmt: skip
    return python(repo, "-c", AS_IF_WITH_A_GPU, "train", *arguments, *TRAINING, *ON_CPUS, *init)


@pytest.mark.long
def test_a_worker_that_fairseq_starts_has_the_plugin(
    tiny, repo, by_fairseq, plugin_of_the_user, tmp_path
):
    saved = tmp_path / "saved"
    done = spawning(repo, tiny.data, "--save-dir", saved, "--user-dir", plugin_of_the_user)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("their plugin is imported") == 2  # here and in the worker
    same_parameters(saved, by_fairseq)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("train", "no-data", *TRAINING), "no-data: there is no such data folder."),
        (("train", "no-data", "--user-dir", "/no-plugin"), "`--user-dir` cannot be imported: /no-"),
        (("generate", "no-data", "--path", "no.pt"), "no-data: there is no such data folder."),
        (("generate", "data"), "`--path` is missing: the checkpoint, or several: A.pt:B.pt."),
        (("generate", "data", "--path", "no.pt"), "no.pt: there is no such checkpoint."),
    ],
)
def test_a_mistake_is_one_line(command, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dict.en.txt").touch()
    assert main(command) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"gtrans: error: {message}")


def test_help_has_the_options_of_the_architecture(capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", "--arch", "gtransformer_base", "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for option in ("--max-doc-tokens", "--gate-bias", "--save-dir"):
        assert f"\n  {option} " in text


def test_help_shows_the_options_of_this_project_first(capsys):
    texts = {}
    for command in (["train"], ["train", "--arch", "han_transformer_tiny"], ["generate"]):
        with pytest.raises(SystemExit):
            main([*command, "--help" if command == ["generate"] else "--help-all"])
        texts[" ".join(command)] = capsys.readouterr().out
    for command, text in texts.items():
        ours, _, fairseqs = text.partition("\nOptions of fairseq\n")
        assert "\n  --max-doc-tokens " in ours and "\n  --distributed-port " in fairseqs, command
    assert "gtransformer_base " in texts["train"] and " tiny, tiny_open\n" in texts["train"]
    one = texts["train --arch han_transformer_tiny"]
    assert "\n  --han-side" in one and "\n  --gate-bias" not in one
    assert "both sides (default: 256)" in " ".join(one.split())
