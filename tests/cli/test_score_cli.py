"""``gtrans score`` as a user types it: reports and files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.score_corpus import HYPOTHESES, REFERENCES, scores, text, write
from support.score_tools import Capture, refusal, score

from gtrans.cli import main
from gtrans.evaluation.metrics import METRICS
from gtrans.text.prepared_folder import STATE_FILE, STATE_FORMAT


@pytest.fixture
def hyp(tmp_path: Path) -> str:
    return write(tmp_path / "hyp.txt", text(HYPOTHESES))


@pytest.fixture
def ref(tmp_path: Path) -> str:
    return write(tmp_path / "ref.txt", text(REFERENCES))


def test_json_of_one_system(hyp: str, ref: str, capsys: Capture) -> None:
    report = score(capsys, "--hyp", hyp, "--ref", ref, "--src", ref)
    expected, entry = scores(), report["of_one"]
    for key in METRICS:
        assert list(entry[key]) == ["score", "higher_is_better", "signature", "confidence"]
        assert entry[key]["higher_is_better"] == (key != "ter")
        assert entry[key]["score"] == expected["d_bleu" if key == "d_bleu_chunk" else key]
        low, high = entry[key]["confidence"].pop("interval")
        assert low <= high
        assert set(entry[key]["confidence"]) == {
            "level", "mean", "radius", "resampled", "units", "trials", "seed",
        }  # fmt: skip
        assert entry[key]["confidence"]["resampled"] == "document"
        assert entry[key]["confidence"]["units"] == 2
    assert entry["d_bleu_chunk"]["signature"].endswith("|unit:chunk(512,words)")
    assert (report["sentences"], report["documents"], report["chunks"]) == (5, 2, 2)
    assert [bucket["sentences"] for bucket in report["by_position"]] == [5]
    assert [bucket["sentences"] for bucket in report["by_sentence_length"]] == [5, 0, 0, 0]
    assert report["by_sentence_length"][-1]["s_bleu"] == {"hyp.txt": None}
    assert report["notes"][1:] == ["an interval from 2 documents is rough, and often too narrow"]
    assert "the source" in report["notes"][0] and "have the same text" in report["notes"][0]


def test_json_of_several_systems(hyp: str, ref: str, capsys: Capture) -> None:
    systems = [f"ours={hyp}", f"base={ref}", f"twin={hyp}"]
    report = score(capsys, "--hyp", *systems, "--ref", ref, "--all-tests")
    assert list(report["systems"]) == ["ours", "base", "twin"]
    assert report["baseline"] == "ours"
    assert report["systems"]["ours"]["s_bleu"]["score"] == scores()["s_bleu"]
    assert "comparison" not in report["systems"]["ours"]["s_bleu"]
    for key in METRICS:
        better = report["systems"]["base"][key]["comparison"]
        assert better["difference"] == pytest.approx(
            report["systems"]["base"][key]["score"] - report["systems"]["ours"][key]["score"]
        )
        assert (better["difference"] > 0) == better["higher_is_better"]
        assert better["baseline"] == "ours"
        assert (better["resampled"], better["units"]) == ("document", 2)
        assert set(better["paired_bootstrap"]) == {"p", "p_sacrebleu", "trials"}
    assert set(report["by_position"][0]["s_bleu"]) == {"ours", "base", "twin"}
    assert "its smallest p is 0.5" in report["notes"][-1]
    assert "no significant difference between base and ours in s-BLEU (2 d" in report["notes"][1]
    comparison = score(capsys, "--hyp", *systems, "--ref", ref)["systems"]["base"]["s_bleu"]
    assert "paired_bootstrap" not in comparison["comparison"]


def test_text_report(hyp: str, ref: str, capsys: Capture) -> None:
    assert main(["score", "--hyp", hyp, "--ref", ref]) == 0
    lines = capsys.readouterr().out.splitlines()
    header, *rows = lines[: lines.index("")]
    assert header.split() == ["score", "95%", "interval"]
    expected = scores()
    for key, row in zip(METRICS, rows, strict=True):
        value = expected["d_bleu" if key == "d_bleu_chunk" else key]
        assert re.match(rf"{re.escape(METRICS[key].label)} +{value:.2f} ", row)
    assert any(line.endswith("|unit:chunk(512,words)|lengths:ref") for line in lines)
    assert "5 sentences, 2 documents, 2 chunks" in lines


def test_text_report_of_several_systems(hyp: str, ref: str, capsys: Capture) -> None:
    arguments = ["--hyp", f"ours={hyp}", "--hyp", f"human={ref}", "--ref", ref, "--details"]
    assert main(["score", *arguments, "--metrics", "s_bleu", "ter"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["system", "score", "95%", "interval", "change", "p", "rand"]
    human = lines[2].split()
    assert human[:2] == ["human", "100.00"]
    assert human[5] == f"+{100 - scores()['s_bleu']:.2f}"
    assert lines[4].split()[5].startswith("-")  # fewer edits are better
    assert "sentence in its document  sentences" in "\n".join(lines)


def test_only_some_metrics(hyp: str, ref: str, capsys: Capture) -> None:
    report = score(capsys, "--hyp", hyp, "--ref", ref, "--metrics", "chrf", "d_bleu")
    assert [key for key in report["of_one"] if key in METRICS] == ["d_bleu", "chrf"]
    assert "by_position" not in report
    as_sacrebleu_is_used = score(capsys, "--hyp", hyp, "--ref", ref, "-m", "bleu", "chrF++", "TER")
    assert list(as_sacrebleu_is_used["of_one"]) == ["s_bleu", "chrf_pp", "ter"]


def test_another_number_of_sentences_is_scored_by_documents_on_request(
    tmp_path: Path, ref: str, capsys: Capture
) -> None:
    split = [[*HYPOTHESES[0][:2], "Then it ran", "into the garden."], HYPOTHESES[1]]
    hyp = write(tmp_path / "split", text(split))
    error = refusal(capsys, "--hyp", hyp, "--ref", ref)
    assert f"document 1: {hyp}:4 is a sentence but {ref}:4 is a document boundary" in error
    assert "--documents-only" in error
    report = score(capsys, "--hyp", hyp, "--ref", ref, "--documents-only")
    expected = scores()
    assert list(report["of_one"]) == ["d_bleu"]
    assert report["of_one"]["d_bleu"]["score"] == expected["d_bleu"]
    assert "chunks" not in report
    one = write(tmp_path / "one", "All of it.\n")
    error = refusal(capsys, "--hyp", one, "--ref", ref, "--documents-only")
    assert f"{one} has 1 documents in 1 lines, but {ref} has 2" in error


def test_a_single_document_has_scores_and_no_interval(tmp_path: Path, capsys: Capture) -> None:
    ref = write(tmp_path / "ref", "\n".join(REFERENCES[0]))
    hyp = write(tmp_path / "hyp", "\n".join(HYPOTHESES[0]))
    arguments = ["--hyp", f"a={hyp}", f"b={ref}", "--ref", ref, "--metrics", "s_bleu"]
    report = score(capsys, *arguments)
    entry = report["systems"]["b"]["s_bleu"]
    assert "confidence" not in entry
    assert list(entry["comparison"]) == [
        "baseline", "higher_is_better", "difference", "direction",
    ]  # fmt: skip
    (note,) = report["notes"]
    assert "a single document cannot be resampled" in note and "--resample sentence" in note
    report = score(capsys, *arguments, "--resample", "sentence")
    entry = report["systems"]["b"]["s_bleu"]
    assert entry["confidence"]["resampled"] == entry["comparison"]["resampled"] == "sentence"
    assert entry["confidence"]["units"] == 3


@pytest.mark.parametrize("line", ["It is so .", "It &apos;s so.", "It i@@ s so.", "▁It ▁i s"])
def test_tokenised_text_is_told(line: str, tmp_path: Path, capsys: Capture) -> None:
    ref, hyp = write(tmp_path / "ref", "It is so.\n" * 9), write(tmp_path / "hyp", f"{line}\n" * 9)
    report = score(capsys, "--hyp", hyp, "--ref", ref, "--metrics", "s_bleu")
    assert re.search(r"^hyp: it is tokenised.* already \(9 of 9 sent", report["notes"][0])


def test_bpe_lengths_of_a_prepared_folder(
    tmp_path: Path,
    hyp: str,
    ref: str,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    class Characters:
        def encode(self, sentence: str) -> str:
            return " ".join(sentence.replace(" ", "_"))

    def load_pipeline(data_dir: str, lang: str) -> Characters:
        asked.append((data_dir, lang))
        return Characters()

    monkeypatch.setattr("gtrans.text.prepared_folder.load_pipeline", load_pipeline)
    data = tmp_path / "data"
    data.mkdir()
    arguments = ["--hyp", hyp, "--ref", ref, "--src", ref, "--data", str(data)]
    assert "there is no" in refusal(capsys, *arguments)
    state: dict[str, object] = {"format": STATE_FORMAT}
    write(data / STATE_FILE, json.dumps(state))
    assert "source_lang" in refusal(capsys, *arguments)
    state |= {"source_lang": "en", "target_lang": "de", "subwords": "sentencepiece"}
    write(data / STATE_FILE, json.dumps(state))
    report = score(capsys, *arguments, "--max-doc-tokens", "40")
    assert sorted(asked) == [(str(data), "de"), (str(data), "en")]
    entry = report["of_one"]
    assert entry["d_bleu_chunk"]["signature"].endswith("|unit:chunk(40,bpe)")
    assert "stem[snowball-german]" in entry["meteor"]["signature"]  # the folder's language
    # In characters and marks: 25 + 15, 34; 34, 36.
    assert report["chunks"] == 4
    asked.clear()
    score(capsys, "--hyp", hyp, "--ref", ref, "--data", str(data))
    assert asked == [(str(data), "de")]  # the reference is encoded once


def test_the_command_starts_without_torch_and_fairseq(hyp: str, ref: str) -> None:
    program = (
        "import sys; from gtrans.cli import main; status = main(sys.argv[1:]);"
        "assert not {'torch', 'fairseq'} & set(sys.modules); sys.exit(status)"
    )
    arguments = ["score", "--hyp", hyp, "--ref", ref, "--json"]
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"\xef\xbb\xbf" + data.rstrip(b"\n").replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n\n", b"\n<d>\n"),
        lambda data: b"\n\n" + data.replace(b"\n\n", b"\n\n\n") + b"\n",
    ],
    ids=["byte order mark, CRLF, no final newline", "<d>", "boundaries in a row"],
)
def test_the_way_lines_end_makes_no_difference(
    change: Callable[[bytes], bytes],
    tmp_path: Path,
    hyp: str,
    ref: str,
    capsys: Capture,
) -> None:
    expected = score(capsys, "--hyp", f"x={hyp}", "--ref", ref, "--src", ref)
    expected["notes"] = expected["notes"][1:]  # the first has the name of a file
    changed = tmp_path / "hyp", tmp_path / "ref"
    for path, original in zip(changed, (hyp, ref), strict=True):
        path.write_bytes(change(Path(original).read_bytes()))
    found = score(capsys, "--hyp", f"x={changed[0]}", "--ref", str(changed[1]), "--src", ref)
    found["notes"] = found["notes"][1:]
    assert found == expected


def test_the_longer_side_decides_about_chunks(
    tmp_path: Path, hyp: str, ref: str, capsys: Capture
) -> None:
    long_source = [[f"{sentence} {'word ' * 20}" for sentence in doc] for doc in REFERENCES]
    src = write(tmp_path / "src", text(long_source))
    arguments = ["--hyp", hyp, "--ref", ref, "--max-doc-tokens", "25"]
    assert score(capsys, *arguments)["chunks"] == 2
    report = score(capsys, *arguments, "--src", src)
    assert report["chunks"] == 5
    entry = report["of_one"]
    assert entry["d_bleu_chunk"]["score"] == entry["s_bleu"]["score"]
