"""One-line errors of ``gtrans score``: options, files, margins, scores of other programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.score_tools import REFERENCE, Capture, refusal, write_files


def rows(**documents: str) -> str:
    """JSON lines of whole documents."""
    lines = [json.dumps({"doc_id": name, "text": text}) for name, text in documents.items()]
    return "\n".join([*lines, ""])


SCORES = "0.1\n0.2\n0.3\n0.4\n0.5\n0.6\n"
FILES = {
    "empty": "",
    "longer": f"{REFERENCE}\nSieben.\n",
    "good": SCORES,
    "short": "0.1\n0.2\n0.3\n0.4\n0.5\n",
    "word": "1\nx\n",
    "nan": "nan\n",
    "large": "1\n1e308\n",
    "only_a": json.dumps({"a": [1]}),
    "of_a": json.dumps({"a": [0.1] * 6}),
    "of_b": json.dumps({"b": [0.1] * 6}),
    "two_lines": "One.\nTwo.\n",
    "ids": rows(d0="Eins.", d1="Zwei."),
    "texts": rows(d0="It is.\nSo it is.\nIs it?", d1="It is.\nSo it is.\nIs it?"),
    "twice": rows(d0="It is. So it is.", d1="It is. So it is.") + rows(d1="It is. So it is."),
}
"""Files beside the source ``src``, the reference ``ref`` and the systems ``a`` and ``b``."""

ONE = "--hyp {b} --ref {ref}"
TWO = "--hyp {a} {b} --ref {ref}"
MARGIN = f"{TWO} --metrics chrf --non-inferior"
OTHER = f"{TWO} --segment-scores"
NO_NUMBER = "the margin must be a number of at least 0"

MISTAKES = {
    "no such translation": ("--hyp {missing} --ref {ref}", "{missing}"),
    "no such reference": ("--hyp {b} --ref {missing}", "{missing}"),
    "not UTF-8": ("--hyp {latin} --ref {ref}", "{latin}"),
    "empty reference": ("--hyp {b} --ref {empty}", "{empty}"),
    "empty translation": ("--hyp {empty} --ref {ref}", "{empty}"),
    "a document more": (
        "--hyp {longer} --ref {ref}",
        "lacks 1 document of {longer}: no. 3 ({longer}:9)",
    ),
    "a document more in the source": (f"{ONE} --src {{longer}}", "no. 3 ({longer}:9)"),
    "ids in one reference": (
        "--hyp {ref} --ref {ref} {ids}",
        "{ids} has document ids, but {ref} has none",
    ),
    "ids in the source": (
        "--hyp {ref} --ref {ref} --src {ids}",
        "{ids} has document ids, but {ref} has none",
    ),
    "a document twice, resegmented": (
        "--hyp {twice} --ref {texts} --resegment",
        "has the same text of document 'd1' several times",
    ),
    "a document twice, whole": (
        "--hyp {twice} --ref {texts} --documents-only",
        "has the same text of document 'd1' several times",
    ),
    "documents without boundaries": (
        "--hyp {two_lines} --ref {longer} --resegment",
        "{two_lines} has 1 documents in 2 lines, but {longer} has 3 documents",
    ),
    "sentences and none": (f"{ONE} --resegment --documents-only", "give one of them"),
    "resegmenting without a reference": (
        "--hyp {b} --src {src} --segment-scores x=y --resegment",
        "--resegment needs the reference",
    ),
    "no reference": ("--hyp {b}", "--ref is missing"),
    "a name twice": ("--hyp {b} {b} --ref {ref}", "have the same name 'b'"),
    "an impossible name": ("--hyp a:b={b} --ref {ref}", "'a:b' cannot name a system"),
    "COMET without sentences": (f"{ONE} --documents-only --comet", "aligned sentences"),
    "TER without sentences": (
        f"{ONE} --documents-only --metrics ter",
        "--metrics ter needs aligned sentences",
    ),
    # Margins and the data folder are checked before the files are read.
    "margin of no metric, before reading": (
        "--hyp a={missing} b={missing} --ref {missing} --non-inferior 1 --documents-only",
        "chrf is not among the scores here",
    ),
    "no data folder, before reading": (
        "--hyp {missing} --ref {missing} --target-lang de --data {none}",
        "there is no '{none}/prepare.json'",
    ),
    "negative margin": (f"{MARGIN} -1", NO_NUMBER),
    "infinite margin": (f"{MARGIN} 1e999", NO_NUMBER),
    "margin in words": (f"{MARGIN} chrf=much", NO_NUMBER),
    "margin of an unknown metric": (f"{MARGIN} blue=1", "blue is not among the scores here"),
    "margin of another metric": (
        f"{MARGIN} ter=1",
        "ter is not among the scores here, which are chrf; name one of these",
    ),
    "margin without resampling": (f"{MARGIN} 1 --resample none", "--resample is none"),
    "scores of one system": (f"{OTHER} m={{good}}", "1 files for 2 systems"),
    "scores of fewer sentences": (
        f"{OTHER} m={{good}} m={{short}}",
        "there are scores 6 of a, 5 of b, but 6 sentences in 2 documents",
    ),
    "no such scores": (f"{OTHER} m={{good}} m={{missing}}", "missing: No such file"),
    "scores without a name": (f"{OTHER} {{good}}", "give NAME=FILE"),
    "scores with the name of a metric": (
        f"{OTHER} s_bleu={{good}} s_bleu={{good}}",
        "'s_bleu' is a metric of this command",
    ),
    "a word among scores": (f"{OTHER} m={{good}} m={{word}}", "score 2 is 'x', which is no"),
    "NaN among scores": (f"{OTHER} m={{good}} m={{nan}}", "score 1 is 'nan'"),
    "a score too large": (f"{OTHER} m={{good}} m={{large}}", "score 2 is '1e308'"),
    "scores lack a system": (f"{OTHER} m={{only_a}}", "only_a has no scores of 'b', only of a"),
    "scores of systems in another order": (
        f"{OTHER} m={{of_b}} m={{of_a}}",
        "of_b has no scores of 'a', only of b; name",
    ),
    "an error rate without scores": (
        f"{OTHER} m={{good}} m={{good}} --lower-is-better k",
        "--lower-is-better k: there is no",
    ),
}


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, str]:
    write_files(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "latin").write_bytes("Grüße\n".encode("latin-1"))
    names = ("a", "b", "ref", "src", "latin", "missing", "none", *FILES)
    return {name: str(tmp_path / name) for name in names}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(
    arguments: str, message: str, paths: dict[str, str], capsys: Capture
) -> None:
    words = [word.format_map(paths) for word in arguments.split()]
    assert message.format_map(paths) in refusal(capsys, *words)


@pytest.mark.parametrize("seed", ["abc", "-1"])
def test_a_wrong_seed_is_found_before_reading(
    seed: str, paths: dict[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    message = f"`SACREBLEU_SEED` must be a number or none, but is '{seed}'"
    assert message in refusal(capsys, "--hyp", paths["missing"], "--ref", paths["missing"])


def test_a_tokeniser_that_is_not_installed(
    paths: dict[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    files = ("--hyp", paths["b"], "--ref", paths["ref"])
    error = refusal(capsys, *files, "--target-lang", "ja")
    assert "the tokeniser for --target-lang ja cannot be used: " in error
