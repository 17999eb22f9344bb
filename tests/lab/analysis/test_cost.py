"""Time and memory of decoding, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.tiny_models import TinyWorld

from gtrans.cli import main
from gtrans.decoding.loading import load_models
from gtrans.decoding.search_options import SearchOptions
from gtrans.decoding.translator import Translator
from gtrans.lab.analyses import cost


def test_memory_is_what_was_taken_since(repo: Path) -> None:
    """64 MB that are gone again are in the peak; what was gone before is not in what is added."""
    code = """
from gtrans.lab.analyses import cost as resident
earlier = [bytes(20_000) for _ in range(5000)]
del earlier
before = resident.forget_peak()
taken = bytearray(b"x") * (64 * 2**20)
del taken
print(bool(resident._status("VmHWM")), resident.peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repo, capture_output=True, text=True, check=True
    )
    known, added = done.stdout.split()
    if known == "False":
        pytest.skip("this system does not tell the memory of a process")
    assert 60 * 2**20 < int(added) < 70 * 2**20


def test_translations_are_as_long_as_their_sources(
    tiny: TinyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 tokens in chunks of 8: a document model reads them at once, a sentence model does not."""
    for name, expected in (("document", [3]), ("sentence", [1, 1, 1])):
        models, task = load_models([str(tiny.checkpoints[name])], None, cpu=True)
        search = SearchOptions(beam=2, max_len_a=1, max_len_b=0, min_len=8)
        translator = Translator(models, task, str, search)
        rows = cost._rows(translator, 24, 8)
        assert [len(translator.decode([row])[0]) for row in rows] == expected
        written: list[int] = []
        monkeypatch.setattr(Translator, "_text", lambda _, tokens, w=written: w.append(len(tokens)))
        translator.decode(cost._rows(translator, 8, 8))
        assert written == [9]  # with the end of the sentence
        monkeypatch.undo()


@pytest.mark.long
def test_the_command(tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "cost.svg"
    path = str(tiny.checkpoints["document"])
    options = ["--cpu", "--lengths", "8", "--chunk", "4", "--beam", "1", "--json"]
    assert main(["analyse", "cost", "--path", f"doc={path}", *options, "--plot", str(plot)]) == 0
    figure = json.loads(capsys.readouterr().out)
    (found,) = figure["facts"]["models"]["doc"]
    assert found["tokens"] == 8 and found["seconds"] > 0 and found["peak"] > 50
    panels = {panel["title"]: panel for panel in figure["panels"]}
    (point,) = panels["time per token"]["series"][0]["points"]
    assert point["y"] == pytest.approx(1000 * found["seconds"] / 8)
    assert main(["analyse", "cost", "--path", f"a={path}", f"a={path}"]) == 1
    assert "are both 'a'" in capsys.readouterr().err
    for words, message in (
        (["--chunk", "0"], "`--chunk` must be at least 1, but is 0."),
        (["--chunk", "8", "--lengths", "20"], "`--lengths` must be multiples of --chunk 8, but"),
    ):
        assert main(["analyse", "cost", "--path", path, *words]) == 1
        assert message in capsys.readouterr().err
