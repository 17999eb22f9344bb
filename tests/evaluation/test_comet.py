"""COMET, with and without reference, over sentences and over context, by a library like it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.score_tools import LINES, refusal, score, write_files

KEYS = ("comet", "comet_qe", "doc_comet", "doc_comet_qe")


class Tokenizer:
    sep_token = "</s>"

    def __call__(self, text: str) -> dict[str, list[str]]:
        return {"input_ids": ["<s>", *text.split(), "</s>"]}


class Encoder:
    max_positions = 14
    tokenizer = Tokenizer()


class Model:
    """What the models of unbabel-comet 2.2 have; a score is the number of words divided by 10."""

    encoder = Encoder()
    use_context = False

    def __init__(self, name: str) -> None:
        if "none" in name:
            raise KeyError(f"Model '{name}' not supported by COMET.")
        self.name = name

    def requires_references(self) -> bool:
        return "qe" not in self.name

    def enable_context(self) -> None:
        self.use_context = "kiwi" not in self.name

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
    SEEN.clear()
    return [*write_files(tmp_path), "--src", str(tmp_path / "src")]


@pytest.mark.parametrize(
    ("flag", "model", "key", "sample", "signature"),
    [
        ("--comet", "m", "comet", ("Four.", "vier", "Vier."), "model:m|"),
        ("--comet", "qe", "comet_qe", ("Four.", "vier"), "model:qe|reference:none|"),
        (
            "--doc-comet", "m", "doc_comet",
            ("Two. </s> Three. </s> Four.", "Zwei. </s> Drei. </s> vier",
             "Zwei. </s> Drei. </s> Vier."),
            "model:m|context:2,reference|",
        ),
        (
            "--doc-comet", "qe", "doc_comet_qe",
            ("Two. </s> Three. </s> Four.", "zwei </s>  </s> vier"),
            "model:qe|reference:none|context:2,own|",
        ),
    ],
)  # fmt: skip
def test_what_a_model_reads_and_how_its_score_is_reported(
    files: list[str], capsys: pytest.CaptureFixture[str],
    flag: str, model: str, key: str, sample: tuple[str, ...], signature: str,
) -> None:  # fmt: skip
    report = score(capsys, *files, flag, model)["systems"]
    assert SEEN[0][3] == dict(zip(("src", "mt", "ref"), sample, strict=False))
    assert SEEN[0][4]["src"] == "Five."  # the first sentence of a document has no context
    entry = report["a"][key]
    words = [len(sample["mt"].split()) for sample in SEEN[0]]
    assert entry["score"] == pytest.approx(sum(words) / len(LINES) / 10)
    assert entry["signature"] == f"{signature}aggregate:mean|unit:sentence"
    assert entry["confidence"]["units"] == 2 and "comparison" in report["b"][key]


def test_the_oldest_context_is_left_out_before_the_sentence_would_be_cut(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The encoder of the model reads 12 tokens."""
    source = (tmp_path / "src").read_text()
    (tmp_path / "src").write_text(source.replace("Two.", "Two " * 9))
    score(capsys, *files, "--doc-comet", "m")
    assert [sample["src"].count("</s>") for sample in SEEN[0]] == [0, 0, 0, 1, 0, 1]
    assert [sample["mt"].count("</s>") for sample in SEEN[0]] == [0, 0, 0, 1, 0, 1]


def test_both_kinds_of_models_have_a_row(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    report = score(capsys, *files, "--comet", "m", "qe", "--doc-comet", "m", "qe")["systems"]
    assert [key for key in report["a"] if key in KEYS] == list(KEYS)
    assert score(capsys, *files, "--comet")["systems"]["a"]["comet"]["signature"].startswith(
        "model:Unbabel/wmt22-comet-da|"
    )


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--comet", "none"), "it cannot be loaded ("),
        (("--doc-comet", "kiwi"), "this model reads no context"),
        (("--comet", "m", "n"), "one model with a reference and one without"),
        (("--comet", "--segment-scores", "comet=s"), "a score 'comet' of its own"),
    ],
)
def test_mistakes_are_one_line(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], part: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").write_text('{"a": [1, 2, 3, 4, 5, 6], "b": [1, 2, 3, 4, 5, 6]}')
    assert part in refusal(capsys, *files, *arguments)


def test_what_is_missing_is_said(
    files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_source = files[: files.index("--src")]
    assert "give it with --src" in refusal(capsys, *without_source, "--comet")
    hyp, src = files[: files.index("--ref")], files[files.index("--src") :]
    assert "needs the reference" in refusal(capsys, *hyp, *src, "--comet", "m")
    assert list(score(capsys, *hyp, *src, "--comet", "qe")["systems"]["a"]) == ["comet_qe"]
    monkeypatch.delitem(sys.modules, "comet")
    assert "type: pip install unbabel-comet" in refusal(capsys, *files, "--comet")
