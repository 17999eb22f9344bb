"""``gtrans score --segment-scores``: scores of other programs, with intervals and tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU
from support.score_tools import Capture, jsonl, refusal, score, write_files

from gtrans.version import __version__


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return write_files(tmp_path)


def lines(path: Path, values: list[object]) -> str:
    path.write_text("".join(f"{value}\n" for value in values))
    return str(path)


A, B = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.2, 0.2, 0.3, 0.4, 0.5, 0.8]


def test_scores_of_sentences(tmp_path: Path, files: list[str], capsys: Capture) -> None:
    one, other = lines(tmp_path / "m.a", [*A[:4], "", *A[4:]]), lines(tmp_path / "m.b", [*B])
    scores = ["--segment-scores", f"metricx={one}", f"metricx={other}"]
    found = score(capsys, *files, *scores)
    entry = found["systems"]["b"]["metricx"]
    assert entry["score"] == pytest.approx(sum(B) / 6)
    assert entry["signature"] == "scores:m.a,m.b|aggregate:mean|unit:sentence"
    assert entry["confidence"]["units"] == 2  # documents are resampled
    comparison = entry["comparison"]
    assert comparison["difference"] == pytest.approx(0.05)
    assert comparison["direction"] == "better"
    lower = ["--lower-is-better", "metricx"]
    found = score(capsys, *files, "--segment-scores", f"metricx={one}", f"metricx={other}", *lower)
    comparison = found["systems"]["b"]["metricx"]["comparison"]
    assert (comparison["direction"], comparison["higher_is_better"]) == ("worse", False)


def test_json_and_scores_of_documents(tmp_path: Path, files: list[str], capsys: Capture) -> None:
    path = tmp_path / "scores.json"
    path.write_text(json.dumps({"b": [3, 4.0], "a": [1, 2], "c": []}))
    found = score(capsys, *files, "--segment-scores", f"judge={path}")["systems"]
    assert found["a"]["judge"]["score"] == 1.5 and found["b"]["judge"]["score"] == 3.5
    assert found["a"]["judge"]["signature"].endswith("|unit:document")
    path.write_text(json.dumps(A))
    found = score(capsys, *files, "--segment-scores", f"judge={path}", f"judge={path}")["systems"]
    assert found["a"]["judge"]["score"] == pytest.approx(0.35)


def test_no_reference_is_needed(tmp_path: Path, files: list[str], capsys: Capture) -> None:
    path = lines(tmp_path / "m", [*A])
    hyp = [str(tmp_path / "a"), "--src", str(tmp_path / "src")]
    found = score(capsys, "--hyp", *hyp, "--segment-scores", f"qe={path}")
    assert list(found["systems"]["a"]) == ["qe"]
    assert (found["sentences"], found["documents"]) == (6, 2)


def test_segments_that_are_left_out_may_have_scores(tmp_path: Path, capsys: Capture) -> None:
    places = [(document, k) for document in "abc" for k in range(2)]
    bad = [("a", 1), ("b", 0), ("b", 1)]
    rows = [
        {"doc_id": d, "segment_id": k, "text": "So.", "is_bad_source": (d, k) in bad}
        for d, k in places
    ]
    ref = jsonl(tmp_path / "ref", rows)
    for values, mean, unit in [
        ([1, 9, 9, 9, 2, 6], 3, "sentence"),
        ([1, 2, 6], 3, "sentence"),
        ([4, 5], 4.5, "document"),
    ]:
        files = ["--hyp", f"x={ref}", "--ref", ref, "--metrics", "s_bleu", "--resample", "none"]
        found = score(capsys, *files, "--segment-scores", f"m={lines(tmp_path / 'm', values)}")
        entry = found["systems"]["x"]["m"]
        assert entry["score"] == mean and entry["signature"].endswith(f"|unit:{unit}")


SIX = range(6)
FORMATS = {
    "json of comet-score": json.dumps(
        {f"dir/{name}": [{"src": "s", "COMET": n + 1} for n in SIX] for name in "ab"}
    ),
    "lines of comet-score": "".join(
        f"{name}\tSegment {n}\tscore: {n + 1}\n" for name in "ab" for n in SIX
    ) + "a\tscore: 9\nb\tscore: 9\n",
    "mt-metrics-eval": "".join(f"{name}\t{n + 1}\n" for name in ("ref", "a", "b") for n in SIX),
    "a heading that begins like a list": "[domain]\tsystem\tscore\n" + "".join(
        f"news\t{name}\t{n + 1}\n" for name in "ab" for n in SIX
    ),
    "a heading that begins like an object": "{domain}\tsystem\tscore\n" + "".join(
        f"news\t{name}\t{n + 1}\n" for name in "ab" for n in SIX
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_files_of_other_programs_with_all_systems(
    form: str, tmp_path: Path, files: list[str], capsys: Capture
) -> None:
    (tmp_path / "scores").write_text(FORMATS[form])
    found = score(capsys, *files, "--segment-scores", f"m={tmp_path / 'scores'}")["systems"]
    assert found["a"]["m"]["score"] == found["b"]["m"]["score"] == 3.5


def test_files_of_other_programs_with_one_system(
    tmp_path: Path, files: list[str], capsys: Capture
) -> None:
    metricx = lines(tmp_path / "metricx", [json.dumps({"prediction": n + 1}) for n in SIX])
    comet = lines(tmp_path / "comet", [*(f"Segment {n}\tscore: {n + 1}" for n in SIX), "score: 9"])
    found = score(capsys, *files, "--segment-scores", f"m={metricx}", f"m={comet}")["systems"]
    assert found["a"]["m"]["score"] == found["b"]["m"]["score"] == 3.5


@pytest.mark.parametrize("form", ["json", "lines"])
def test_files_of_one_name_in_two_folders_keep_their_scores(
    form: str, tmp_path: Path, files: list[str], capsys: Capture
) -> None:
    """COMET names systems by their files, as two runs call both of them out.de."""
    hyp = []
    for name in "ab":
        (tmp_path / f"run-{name}").mkdir()
        (tmp_path / name).rename(tmp_path / f"run-{name}/out.de")
        hyp.append(f"{name}={tmp_path}/run-{name}/out.de")
    values = {"run-a/out.de": A, "run-b/out.de": B}
    text = json.dumps({name: [{"COMET": it} for it in of] for name, of in values.items()})
    if form == "lines":
        text = "".join(
            f"{name}\tSegment 0\tscore: {it}\n" for name in values for it in values[name]
        )
    (tmp_path / "scores").write_text(text)
    rest = [*files[files.index("--ref") :], "--segment-scores", f"m={tmp_path / 'scores'}"]
    found = score(capsys, "--hyp", *hyp, *rest)["systems"]
    assert found["a"]["m"]["score"] == pytest.approx(sum(A) / 6)
    assert found["b"]["m"]["score"] == pytest.approx(sum(B) / 6)
    # From elsewhere it is not clear which of them the other files are.
    (tmp_path / "out.de").write_text((tmp_path / "run-a/out.de").read_text())
    said = refusal(capsys, "--hyp", f"x={tmp_path}/out.de", hyp[1], *rest)
    assert "has no scores of 'x', only of run-a/out.de, run-b/out.de; name" in said


@pytest.mark.parametrize("form", ["jsonl", "tsv"])
def test_written_scores_of_segments_are_read_again(
    form: str, tmp_path: Path, files: list[str], capsys: Capture
) -> None:
    written = tmp_path / f"s.{form}"
    score(capsys, *files, "--segments", str(written))
    found = score(capsys, *files, "--segment-scores", f"m={written}")["systems"]
    rows = [line.split("\t") for line in written.read_text().splitlines()]
    if form == "jsonl":
        rows = [[], *([*map(str, json.loads(row[0]).values())] for row in rows)]
    for name in "ab":
        mean = sum(float(row[-1]) for row in rows[1:] if row[0] == name) / 6
        assert found[name]["m"]["score"] == pytest.approx(mean)
    score(capsys, *files, "--segments", str(written), "--metrics", "s_bleu", "chrf")
    said = refusal(capsys, *files, "--segment-scores", f"m={written}")
    assert "has scores of several metrics (s_bleu, chrf); write a file for each" in said


def test_scores_of_segments_are_written(tmp_path: Path, files: list[str], capsys: Capture) -> None:
    """They are sacreBLEU's sentence scores; names of systems may have slashes."""
    hyp = ["--hyp", f"org/a={tmp_path / 'a'}", *files[files.index("--ref") :]]
    report = score(capsys, *hyp, "--segments", str(tmp_path / "s.jsonl"))
    assert (report["schema"], report["version"]) == ("gtrans.score/1", __version__)
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert {row["system"] for row in rows} == set(report["systems"]) == {"org/a"}
    places = [(row["document"], row["segment"]) for row in rows if row["metric"] == "s_bleu"]
    assert places == [(1, n) for n in range(1, 5)] + [(2, 1), (2, 2)]
    texts = (tmp_path / "a").read_text().split("\n"), (tmp_path / "ref").read_text().split("\n")
    for row, (own, other) in zip(
        [row for row in rows if row["metric"] == "s_bleu"],
        [pair for pair in zip(*texts, strict=True) if pair[1]],
        strict=True,
    ):
        assert row["score"] == BLEU(effective_order=True).sentence_score(own, [other]).score
    score(capsys, *hyp, "--segments", str(tmp_path / "s.tsv"))
    table = (tmp_path / "s.tsv").read_text().splitlines()
    assert table[0].split("\t") == list(rows[0]) and len(table) == len(rows) + 1
