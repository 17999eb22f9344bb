"""BlonDe and METEOR 1.5: texts out, counts in, and the scores that follow from them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.score_tools import LINES, SYSTEM, read, refusal, score, write_files

from gtrans.evaluation.meteor15 import score as meteor_15_score
from gtrans.evaluation.meteor15 import whole_matches_unbroken


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return write_files(tmp_path)


# Counts of texts that the tools themselves have scored.
# (documents, 24) and F1 by BlonDe 0.1.4 with spaCy 3.8.18.
BLONDE_DOCUMENTS: list[list[float]] = [
    [
        3.75,
        2.0,
        1.0,
        0.5,
        0.428571428571,
        0.0,
        0.0,
        0.2,
        4.75,
        4.0,
        3.25,
        2.5,
        0.428571428571,
        0.0,
        0.0,
        0.2,
        5.25,
        4.5,
        3.75,
        3.0,
        0.571428571429,
        0.0,
        0.0,
        0.2,
    ],
    [
        2.75,
        0.75,
        0.25,
        0.0,
        0.428571428571,
        0.5,
        1.0,
        0.4,
        6.0,
        5.25,
        4.5,
        3.75,
        0.857142857143,
        1.0,
        1.0,
        0.4,
        6.25,
        5.5,
        4.75,
        4.0,
        0.714285714286,
        1.5,
        1.0,
        0.6,
    ],
]
BLONDE_F1 = 0.3817378720971445
# A line for each sentence of -ssOut, and the scores that METEOR 1.5 prints without it.
METEOR_COUNTS = """\
7.0 7.0 4.0 4.0 3.0 3.0 3.0 3.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 2.0 6.0 6.0
4.0 4.0 3.0 3.0 1.0 1.0 3.0 3.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 1.0 4.0 4.0
10.0 8.0 5.0 4.0 1.0 1.0 3.0 3.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 2.0 2.0 1.0 1.0 2.0 7.0 7.0
10.0 8.0 4.0 3.0 3.0 3.0 1.0 1.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 3.0 2.0 2.0 1.0 1.0 9.0 7.0
8.0 10.0 5.0 6.0 1.0 1.0 3.0 3.0 0.0 0.0 0.0 0.0 1.0 1.0 1.0 1.0 0.0 0.0 0.0 0.0 3.0 6.0 6.0
7.0 6.0 3.0 2.0 1.0 1.0 1.0 1.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 2.0 1.0 1.0 1.0 4.0 5.0 4.0
"""
METEOR_SEGMENTS = [
    0.47848159656356454,
    1.0,
    0.32749230636788157,
    0.4733734828539557,
    0.25256097072444805,
    0.1940085915572366,
]
METEOR_SYSTEM = 0.35345236766727095


def test_blonde(tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*files, "--blonde"]
    assert "English only" in refusal(capsys, *arguments, "--target-lang", "de")
    assert "aligned sentences" in refusal(
        capsys, *arguments[:-3], "--blonde", "--documents-only", "--metrics", "d_bleu"
    )
    pending = score(capsys, *arguments)["not_scored_yet"]["blonde"]
    # There is no version on PyPI that pip can install.
    assert "pip install git+https://github.com/EleanorJiang/BlonDe" in pending["install"]
    folder = Path(pending["folder"])
    texts = (folder / "documents.json").read_bytes()
    one = {"score": BLONDE_F1, "documents": BLONDE_DOCUMENTS}
    result = {
        "texts": hashlib.sha256(texts).hexdigest(),
        "versions": "blonde-0.1.4",
        "systems": {"a": one, "b": one},
    }
    (folder / "scores.json").write_text(json.dumps(result))
    report = score(capsys, *arguments)["systems"]
    assert report["a"]["blonde"]["score"] == pytest.approx(100 * BLONDE_F1, abs=1e-9)
    assert report["a"]["blonde"]["confidence"]["units"] == 2
    assert report["b"]["blonde"]["comparison"]["paired_randomisation"]["p"] == 1
    one["score"] = BLONDE_F1 + 0.01
    (folder / "scores.json").write_text(json.dumps(result))
    assert "this version of BlonDe" in refusal(capsys, *arguments)
    result["texts"] = hashlib.sha256(b"other").hexdigest()
    (folder / "scores.json").write_text(json.dumps(result))
    assert "scores of other texts" in refusal(capsys, *arguments)


FAKE_BLONDE = """
weights = categories = None
class BLONDE:
    weights = categories = None
    def __init__(self, references): self.references = references[0]
    def _extract_corpus_statistics(self, system, references): return system, self.references
    def _aggregate_and_compute(self, statistics):
        return type("Score", (), {"F1": 1.0})()
"""
FAKE_SIM = """
def sim(one, other, weights, categories):
    counts = dict.fromkeys((1, 2, 3, 4, "tense"), 2.0)
    return 0, counts, counts, counts
"""


def test_the_program_for_blonde_counts_documents(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It runs, with something in the place of blonde."""
    arguments = [*files, "--blonde"]
    pending = score(capsys, *arguments)["not_scored_yet"]["blonde"]
    package = tmp_path / "blonde"
    package.mkdir()
    (package / "__init__.py").write_text(FAKE_BLONDE)
    (package / "dBlonDe.py").write_text(FAKE_SIM)
    for name in ("blonde", "spacy"):
        (tmp_path / f"{name}-1.0.dist-info").mkdir()
        (tmp_path / f"{name}-1.0.dist-info" / "METADATA").write_text(
            f"Name: {name}\nVersion: 1.0\n"
        )
    subprocess.run(
        [sys.executable, *pending["commands"][0].split()[1:]],
        cwd=pending["folder"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )
    entry = score(capsys, *arguments)["systems"]["a"]["blonde"]
    assert entry["score"] == pytest.approx(100)
    assert "|version:blonde-1.0,spacy-1.0|" in entry["signature"]


def test_meteor_15(tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*files, "--meteor15", "--meteor-jar", "meteor.jar"]
    assert "--target-lang is ''" in refusal(capsys, *arguments)
    arguments += ["--target-lang", "English"]
    pending = score(capsys, *arguments)["not_scored_yet"]["meteor_15"]
    assert pending["commands"][0].startswith(
        "java -Xmx2G -jar meteor.jar hyp.a.txt ref.txt -l en -norm "
        "-m 'exact stem synonym paraphrase' -p '0.85 0.2 0.6 0.75' -w '1.0 0.6 0.8 0.6' -ssOut > "
    )
    folder = Path(pending["folder"])
    assert read(folder / "hyp.a.txt") == LINES
    results = [folder / command.split()[-1] for command in pending["commands"]]
    for result in results:
        result.write_text(METEOR_COUNTS)
    report = score(capsys, *arguments)["systems"]
    assert report["a"]["meteor_15"]["score"] == pytest.approx(100 * METEOR_SYSTEM, abs=1e-9)
    sentences = score(capsys, *arguments, "--resample", "sentence")["systems"]["a"]["meteor_15"]
    assert sentences["confidence"]["units"] == 6
    (tmp_path / "a").write_text(SYSTEM.replace("eins", "neu"))
    assert "meteor_15" in score(capsys, *arguments)["not_scored_yet"]  # counts of other texts
    (tmp_path / "a").write_text(SYSTEM)
    results[1].write_text("1 2\n")
    assert "must have 6 rows of 23 numbers" in refusal(capsys, *arguments)


def test_meteor_15_of_sentences() -> None:
    lines = METEOR_COUNTS.splitlines()
    parameters, weights = (0.85, 0.2, 0.6, 0.75), (1.0, 0.6, 0.8, 0.6)
    for line, expected in zip(lines, METEOR_SEGMENTS, strict=True):
        counts = whole_matches_unbroken(np.array([line.split()], dtype=float))[0].tolist()
        found = meteor_15_score(counts, parameters, weights)
        assert found == pytest.approx(100 * expected, abs=1e-9)
