"""``gtrans score`` on translations without aligned sentences, and with ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.score_corpus import ADDED as EXTRA
from support.score_corpus import NEWS as REFERENCES
from support.score_corpus import NEWS_TRANSLATED as TRANSLATIONS
from support.score_corpus import text, write
from support.score_tools import Capture, jsonl, refusal, score

from gtrans.cli import main

ROWS = [(f"doc-{d}", k, s) for d, doc in enumerate(TRANSLATIONS) for k, s in enumerate(doc)]


@pytest.fixture
def ref(tmp_path: Path) -> str:
    return write(tmp_path / "ref.txt", text(REFERENCES))


@pytest.fixture
def hyp(tmp_path: Path) -> str:
    return write(tmp_path / "hyp.txt", text(TRANSLATIONS))


def run(capsys: Capture, *arguments: str) -> Any:
    report = score(capsys, *arguments)
    return report | report["of_one"]


LAYOUTS = {
    "one line a document": "\n".join(" ".join(d) for d in TRANSLATIONS) + "\n",
    "paragraphs": "\n\n".join(" ".join(d[:2]) + "\n" + " ".join(d[2:]) for d in TRANSLATIONS),
    "other sentences": "\n\n".join(" ".join(d).replace(", ", ",\n") for d in TRANSLATIONS),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_has_the_scores_of_aligned_sentences(
    layout: str, tmp_path: Path, hyp: str, ref: str, capsys: Capture
) -> None:
    any_layout = write(tmp_path / "any", LAYOUTS[layout])
    aligned = run(capsys, "--hyp", hyp, "--ref", ref)
    found = run(capsys, "--hyp", any_layout, "--ref", ref, "--resegment")
    for key in ("s_bleu", "d_bleu", "d_bleu_chunk", "chrf", "ter", "meteor"):
        assert found[key]["score"] == aligned[key]["score"]
        signature = aligned[key]["signature"] + "|resegmented:edit-distance.6"
        assert found[key]["signature"] == signature
        assert (found[key]["omitted"], found[key]["added"]) == (0, 0)


def test_omitted_and_added_text_is_told_beside_every_score(
    tmp_path: Path, ref: str, capsys: Capture
) -> None:
    first, second, third = TRANSLATIONS
    documents = [[first[0], first[1], first[3]], [*second[:1], EXTRA, *second[1:]], third]
    free = write(tmp_path / "free", "\n".join(" ".join(d) for d in documents) + "\n")
    found = run(capsys, "--hyp", free, "--ref", ref, "--resegment")
    whole = found["resegmented"]
    assert whole["omitted_sentences"] == [
        {"document": 1, "sentence": 3, "reference": REFERENCES[0][2]}
    ]
    assert whole["added_text"] == [{"document": 2, "after_sentence": 1, "text": EXTRA}]
    assert whole["omitted"] == pytest.approx(100 * 8 / 67)  # words and punctuation marks
    assert found["s_bleu"]["omitted"] == found["ter"]["omitted"] == whole["omitted"]
    assert found["s_bleu"]["added"] == whole["added"]
    arguments = ["--hyp", f"a={free}", f"b={ref}", "--ref", ref, "--resegment"]
    assert main(["score", *arguments, "--metrics", "s_bleu", "chrf"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[-2:] == ["omitted", "added"]
    shares = [f"{whole['omitted']:.1f}%", f"{whole['added']:.1f}%"]
    assert lines[1].split()[-2:] == lines[3].split()[-2:] == shares
    assert lines[2].split()[-2:] == lines[4].split()[-2:] == ["0.0%", "0.0%"]


def test_resegmented_translations_can_be_written(tmp_path: Path, ref: str, capsys: Capture) -> None:
    documents = [TRANSLATIONS[0][:-1], *TRANSLATIONS[1:]]
    free = write(tmp_path / "free", "\n".join(" ".join(d) for d in documents) + "\n")
    out = tmp_path / "out"
    options = ["--ref", ref, "--src", ref, "--metrics", "s_bleu"]
    arguments = ["--hyp", f"x={free}", *options, "--resegment", "--resegment-dir", str(out)]
    found = run(capsys, *arguments)
    assert (out / "ref.txt").read_text() == (out / "src.txt").read_text() == Path(ref).read_text()
    written = (out / "hyp.x.txt").read_text()
    assert written == text([[*documents[0], ""], *documents[1:]])
    again = run(capsys, "--hyp", f"x={out / 'hyp.x.txt'}", *options)
    assert again["s_bleu"]["score"] == found["s_bleu"]["score"]
    assert "needs --resegment" in refusal(
        capsys, "--hyp", free, "--ref", ref, "--resegment-dir", str(out)
    )
    # What is there as it was written is replaced; what was corrected by hand stays.
    assert run(capsys, *arguments)["s_bleu"] == found["s_bleu"]
    (out / "src.txt").write_text("of the user")
    assert "--resegment-dir" in refusal(capsys, *arguments) and "--force" in refusal(
        capsys, *arguments
    )
    assert (out / "src.txt").read_text() == "of the user"
    assert run(capsys, *arguments, "--force")["s_bleu"] == found["s_bleu"]
    arguments[1:2] = [f"o/x={free}", f"o_x={free}"]
    assert "differ in '/' and '_' alone" in refusal(capsys, *arguments)


def test_a_single_document_may_have_empty_lines(tmp_path: Path, capsys: Capture) -> None:
    one = write(tmp_path / "one", text([[s for d in REFERENCES for s in d]]))
    paragraphs = write(tmp_path / "paragraphs", text(TRANSLATIONS))  # boundaries are no documents
    assert run(capsys, "--hyp", paragraphs, "--ref", one, "--resegment")["sentences"] == 9


# --- document ids ----------------------------------------------------------------------------


def test_wmt24pp_files_are_read_as_they_are(
    tmp_path: Path, hyp: str, ref: str, capsys: Capture
) -> None:
    flat = [s for d in REFERENCES for s in d]
    rows = [
        {"lp": "en-de_DE", "domain": "news", "document_id": document, "segment_id": number,
         "is_bad_source": number == 4, "source": reference, "target": reference,
         "original_target": "no"}
        for number, ((document, _, _), reference) in enumerate(zip(ROWS, flat, strict=True))
    ]  # fmt: skip
    published = jsonl(tmp_path / "en-de_DE.jsonl", rows)
    ours = [
        {"document_id": row["document_id"], "segment_id": row["segment_id"], "translation": s}
        for row, (_, _, s) in zip(rows, ROWS, strict=True)
    ]
    shuffled = jsonl(tmp_path / "ours.jsonl", ours[::-1])
    found = run(capsys, "--hyp", shuffled, "--ref", published, "--src", published)
    assert found["sentences"] == 8  # without the bad source
    assert found["notes"][0] == "1 of 9 segments are left out: they are marked is_bad_source"
    kept = [[s for s in d if s != REFERENCES[1][0]] for d in REFERENCES]
    kept_hyp = [[s for s in d if s != TRANSLATIONS[1][0]] for d in TRANSLATIONS]
    plain = run(
        capsys, "--hyp", write(tmp_path / "h", text(kept_hyp)),
        "--ref", write(tmp_path / "r", text(kept)),
    )  # fmt: skip
    assert found["s_bleu"]["score"] == plain["s_bleu"]["score"]
    # Whole documents, which include the bad source, in another order.
    documents = [{"doc_id": f"doc-{d}", "hypothesis": " ".join(TRANSLATIONS[d])} for d in (2, 0, 1)]
    free = jsonl(tmp_path / "free.jsonl", documents)
    again = run(capsys, "--hyp", free, "--ref", published, "--resegment")
    assert again["s_bleu"]["score"] == plain["s_bleu"]["score"]


def test_wmt25_files_are_read_as_they_are(
    tmp_path: Path, hyp: str, ref: str, capsys: Capture
) -> None:
    def paragraphs(documents: list[list[str]]) -> list[str]:
        return [f"{d[0]}\n\n{' '.join(d[1:])}" for d in documents]

    blind = jsonl(
        tmp_path / "wmt25.jsonl",
        [{"doc_id": f"en-de_DE_#_{n}", "src_text": t, "refs": {"refA": {"ref": t}}}
         for n, t in enumerate(paragraphs(REFERENCES))],
    )  # fmt: skip
    answers = [
        {"doc_id": f"en-de_DE_#_{n}", "hypothesis": t}
        for n, t in enumerate(paragraphs(TRANSLATIONS))
    ]
    system = jsonl(tmp_path / "system.jsonl", answers[::-1])
    found = run(capsys, "--hyp", system, "--ref", blind, "--src", blind)
    assert (found["documents"], found["sentences"]) == (3, 6)  # paragraphs
    joined = [row | {"hypothesis": row["hypothesis"].replace("\n\n", " ")} for row in answers]
    one_line = jsonl(tmp_path / "joined.jsonl", joined)
    assert "--resegment" in refusal(capsys, "--hyp", one_line, "--ref", blind)
    again = run(capsys, "--hyp", one_line, "--ref", blind, "--resegment")
    assert again["s_bleu"]["score"] == found["s_bleu"]["score"]
    whole = run(capsys, "--hyp", one_line, "--ref", blind, "--documents-only")
    assert whole["d_bleu"]["score"] == found["d_bleu"]["score"]
    plain = write(tmp_path / "plain", "\n".join(row["hypothesis"] for row in joined) + "\n")
    assert run(capsys, "--hyp", plain, "--ref", blind, "--resegment")["s_bleu"] == again["s_bleu"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS[:4] + ROWS[7:], "lacks the document 'doc-1', which"),
        ([*ROWS, ("doc-9", 0, "x")], "lacks the document 'doc-9', which"),
        (ROWS[:3] + ROWS[4:], "lacks the segment '3' of document 'doc-0', which"),
        ([*ROWS, ROWS[1]], ":10: the segment '1' of document 'doc-0' comes twice"),
    ],
    ids=["missing document", "unknown document", "missing segment", "doubled segment"],
)
def test_missing_and_doubled_ids_are_one_line(
    rows: list[tuple[str, int, str]],
    message: str,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    named = ("doc_id", "seg_id", "text")
    ref = jsonl(tmp_path / "ref", [dict(zip(named, row, strict=True)) for row in ROWS])
    hyp = jsonl(tmp_path / "hyp", [dict(zip(named, row, strict=True)) for row in rows])
    assert message in refusal(capsys, "--hyp", hyp, "--ref", ref)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"doc_id": "a", "text": "x"}\n{"doc_id": "a"}\n', ":2: there is no translation; a row"),
        ('{"doc_id": "a", "text": "x"}\nplain\n', ":2: not JSON"),
        ('{"doc_id": "a", "text": "x\\ny"}\n' * 2, ":2: document 'a' comes again"),
        ('{"doc_id": null, "text": "x"}\n', ":1: there is no document id"),
        ("docid\ttext\na\tx\nb\n", ":3: 1 cells, but the header has 2"),
        ("docid\ttext\n", "holds no translation"),
        ('{"doc_id": "d", "text": NaN}\n', "NaN"),
        ('{"doc_id": "d", "text": "It is."\n', "hyp:1"),
        (
            '{"doc_id": "a", "hyp": "x"}\n{"doc_id": "a", "hyp": null, "text": "y"}\n',
            ":2: there is no translation; a row needs a text under 'hyp'",
        ),
        ("a\tx\n", "is no plain text but a table without document ids"),
    ],
)
def test_rows_that_cannot_be_read_are_named(
    content: str, message: str, tmp_path: Path, capsys: Capture
) -> None:
    ref = jsonl(tmp_path / "ref", [{"doc_id": "a", "text": "x"}])
    assert message in refusal(capsys, "--hyp", write(tmp_path / "hyp", content), "--ref", ref)
