"""The commands outside ``gtrans.lab`` work where that package is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.synthetic_corpus import write_corpus

# Importing gtrans.lab then fails as if it were not there.
WITHOUT = """
import sys
sys.modules["gtrans.lab"] = None
from gtrans.cli import main
from gtrans.cli.shared.dispatch import COMMANDS, all_commands
assert all_commands() == COMMANDS
for command in COMMANDS:
    try:
        assert main([command, "--help"]) is None, command
    except SystemExit as end:
        assert end.code == 0, command
text, scores = sys.argv[1:]
test = [f"{text}/test.{lang}" for lang in ("en", "de")]
assert main(["score", "--hyp", test[1], "--ref", test[1], "--src", test[0]]) == 0
assert main(["contrast", "--set", f"{text}/contrastive/pronoun.jsonl", "--scores", scores]) == 0
"""


def test_other_commands_do_without(repo: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path)
    (tmp_path / "scores").write_text("-1\n-2\n" * 8, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path), str(tmp_path / "scores")],
        cwd=repo, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "s-BLEU" in done.stdout and "pronoun" in done.stdout
