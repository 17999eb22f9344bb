"""COMET, with and without reference, by a library like it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support.score_tools import LINES, Capture, refusal, score, write_files

from gtrans.evaluation.other_scores import ScoreInput, measure_comet


class Model:
    """What the models of unbabel-comet 2.2 have; a score is the number of words divided by 10."""

    def __init__(self, name: str) -> None:
        if "none" in name:
            raise KeyError(f"Model '{name}' not supported by COMET.")
        self.name = name

    def requires_references(self) -> bool:
        return "qe" not in self.name

    def parameters(self) -> Iterator[torch.Tensor]:
        return iter([torch.zeros(1, dtype=torch.float16)])

    def predict(self, samples: list[dict[str, str]], batch_size: int, gpus: int) -> Any:
        SEEN.append(samples)
        scores = [len(sample["mt"].split()) / 10 for sample in samples]
        return type("Prediction", (), {"scores": scores})


SEEN: list[list[dict[str, str]]] = []


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a call of ``gtrans score``, with something in the place of COMET."""
    library: Any = ModuleType("comet")
    library.__spec__ = sys.__spec__
    library.download_model, library.load_from_checkpoint = str, Model
    monkeypatch.setitem(sys.modules, "comet", library)
    monkeypatch.setattr("gtrans.evaluation.other_scores.version", lambda name: "2.2.6")
    SEEN.clear()
    return [*write_files(tmp_path), "--src", str(tmp_path / "src")]


@pytest.mark.parametrize(
    ("model", "key", "sample", "signature"),
    [
        ("m", "comet", ("Four.", "vier", "Vier."), "model:m|nrefs:1|precision:float16|"),
        ("qe", "comet_qe", ("Four.", "vier"), "model:qe|nrefs:0|precision:float16|reference:none|"),
    ],
)  # fmt: skip
def test_what_a_model_reads_and_how_its_score_is_reported(
    files: list[str], capsys: Capture,
    model: str, key: str, sample: tuple[str, ...], signature: str,
) -> None:  # fmt: skip
    report = score(capsys, *files, "--comet", model)["systems"]
    assert SEEN[0][3] == dict(zip(("src", "mt", "ref"), sample, strict=False))
    entry = report["a"][key]
    words = [len(sample["mt"].split()) for sample in SEEN[0]]
    assert entry["score"] == pytest.approx(sum(words) / len(LINES) / 10)
    assert entry["signature"] == f"{signature}version:2.2.6|aggregate:mean|unit:sentence"
    assert entry["confidence"]["units"] == 2 and "comparison" in report["b"][key]


def test_empty_translations_get_a_note(files: list[str]) -> None:
    score_input = ScoreInput(
        args=Namespace(comet="m", ref=["r"]),
        files={"a": "a"},
        sources=[["one", "two"]],
        references=[["eins", "zwei"]],
        systems={"a": [["eins", ""]], "b": [["eins", "zwei"]]},
    )
    assert measure_comet(score_input).notes == ["COMET also scores the 1 empty translations of a"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--comet", "none"), "it cannot be loaded ("),
        (("--comet", "--segment-scores", "comet=s"), "a score 'comet' of its own"),
    ],
)
def test_mistakes_are_one_line(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: Capture, arguments: tuple[str, ...], part: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").write_text('{"a": [1, 2, 3, 4, 5, 6], "b": [1, 2, 3, 4, 5, 6]}')
    assert part in refusal(capsys, *files, *arguments)


def test_what_is_missing_is_said(
    files: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_source = files[: files.index("--src")]
    assert "give it with --src" in refusal(capsys, *without_source, "--comet")
    hyp, src = files[: files.index("--ref")], files[files.index("--src") :]
    assert "needs the reference" in refusal(capsys, *hyp, *src, "--comet", "m")
    assert list(score(capsys, *hyp, *src, "--comet", "qe")["systems"]["a"]) == ["comet_qe"]
    monkeypatch.delitem(sys.modules, "comet")
    assert "type: pip install unbabel-comet" in refusal(capsys, *files, "--comet")
