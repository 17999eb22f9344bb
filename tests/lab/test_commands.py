"""The commands that the lab registers: their help, and what they import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gtrans.cli import main
from gtrans.lab import COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_each_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"example:\n  gtrans {command} " in capsys.readouterr().out


@pytest.mark.parametrize("module", ["make_corpus", "get_corpus", "corpus_report"])
def test_corpora_need_neither_torch_nor_fairseq(module: str, repo: Path) -> None:
    code = f"import sys, gtrans.lab.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=repo, capture_output=True, text=True)
    assert not {"torch", "fairseq"} & set(done.stdout.split()), done.stderr
