"""Typing errors of `gtrans train` and `gtrans generate` that are told before torch is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gtrans.cli.shared.before_torch import check_words
from gtrans.errors import GtransError

RUN = """
import sys
from gtrans.cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as end:
    status = end.code
sys.exit(99 if "torch" in sys.modules else status)
"""


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("train DATA --config tiny --droput 0.1", 2, "there is no option --droput; did you mean"),
        ("train nowhere --config tiny", 1, "nowhere: there is no such data folder."),
        ("train nowhere --arch gtransformer_tiny", 1, "nowhere: there is no such data folder."),
        ("train DATA:nowhere --arch gtransformer_tiny", 1, "nowhere: there is no such data fol"),
        ("generate nowhere --path x.pt", 1, "nowhere: there is no such data folder."),
        ("generate DATA --beeam 5", 2, "there is no option --beeam; did you mean"),
    ],
)
def test_a_typing_error_is_told_before_torch_is_loaded(
    words: str, status: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "dict.en.txt").touch()
    typed = [str(tmp_path) if word == "DATA" else word for word in words.split()]
    typed = [word.replace("DATA:", f"{tmp_path}:") for word in typed]
    done = subprocess.run([sys.executable, "-c", RUN, *typed], capture_output=True, text=True)
    assert message in done.stderr and done.returncode == status, done.stderr


def test_options_of_other_code_and_names_behind_dashes_pass(tmp_path: Path) -> None:
    (tmp_path / "dict.en.txt").touch()
    check_words("train", [str(tmp_path), "--user-dir", "x", "--of-my-own", "1"])
    check_words("train", [str(tmp_path), "--lr=5e-4", "--encoder-layers", "2", "--verbose"])
    with pytest.raises(GtransError, match="there is no such data folder"):
        check_words("train", [str(tmp_path / "no"), "--lr", "1"])
