"""``fusion/prepare-multilingual.sh``: one dictionary for all languages."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.recipes import commands, run_script, the_error

SCRIPT = "fusion/prepare-multilingual"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Two pairs with English, as `gtrans get-corpus` writes them."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for other in ("de", "it"):
        for split in ("train", "dev", "test"):
            for lang in (other, "en"):
                text = f"{split} {lang}, {other}.\n\nEnd & {lang}.\n"
                (folder / f"{split}.{other}-en.{lang}").write_text(text, encoding="utf-8")
    return folder


def test_the_commands(texts: Path, repo: Path, tmp_path: Path) -> None:
    words = ("--text", texts, "--out", "out", "--dry-run")
    done = commands(run_script(repo, tmp_path, SCRIPT, *words))
    (learnt,) = [command for command in done if "learn-bpe" in command]
    assert learnt.endswith("learn-bpe -i out/text/train.tok -s 40000 > out/codes.bpe")
    assert sum("fairseq-preprocess" in command for command in done) == 2
    assert not (tmp_path / "out").exists()


def test_mistakes_are_one_line(texts: Path, repo: Path, tmp_path: Path) -> None:
    def error(*words: str | Path) -> str:
        return the_error(run_script(repo, tmp_path, SCRIPT, "--out", "out", *words))

    assert "`--text` is missing" in error()
    assert "there is no file train.L-en.en" in error("--text", tmp_path)
    (texts / "dev.it-en.it").unlink()
    assert "dev.it-en.it: there is no such file" in error("--text", texts)


@pytest.mark.long
def test_one_dictionary_and_no_boundaries(texts: Path, repo: Path, tmp_path: Path) -> None:
    done = run_script(repo, tmp_path, SCRIPT, "--text", texts, "--out", "out", "--bpe-merges", "20")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    assert len({(out / f"dict.{lang}.txt").read_bytes() for lang in ("de", "en", "it")}) == 1
    assert (out / "references" / "test.de-en.en").read_text() == "test en, de.\nEnd & en.\n"
    assert (out / "train.it-en.it.bin").is_file() and (out / "test.de-en.en.idx").is_file()
