"""``gtrans score``: where the documents of a translation end, and which segments count."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.score_corpus import ADDED as EXTRA
from support.score_corpus import NEWS, NEWS_TRANSLATED, text, write
from support.score_tools import Capture, jsonl, refusal, score

from gtrans.cli import main
from gtrans.evaluation.texts import read_texts

REFERENCES, TRANSLATIONS = NEWS[:2], NEWS_TRANSLATED[:2]


@pytest.fixture
def ref(tmp_path: Path) -> str:
    return write(tmp_path / "ref.txt", text(REFERENCES))


def with_ids(path: Path, documents: list[list[str]], bad: int | None = None) -> str:
    """A file with an id for every document and segment; ``bad``: that segment of the second."""
    rows = [
        {
            "doc_id": f"doc-{d}",
            "segment_id": k,
            "text": sentence,
            "is_bad_source": (d, k) == (1, bad),
        }
        for d, document in enumerate(documents)
        for k, sentence in enumerate(document)
    ]
    return jsonl(path, rows)


def one_line_each(path: Path, documents: list[list[str]]) -> str:
    return write(path, "".join(" ".join(document) + "\n" for document in documents))


@pytest.mark.parametrize("option", ["--resegment", "--documents-only"])
@pytest.mark.parametrize("ids", [False, True], ids=["plain", "ids"])
def test_an_empty_translation_is_no_end_of_a_document(
    option: str, ids: bool, tmp_path: Path, ref: str, capsys: Capture
) -> None:
    """Line by line as the reference, the second document is empty, and so is the third sentence."""
    first = [*TRANSLATIONS[0][:2], "", TRANSLATIONS[0][3]]
    lines = [*first, *([] if ids else [""]), "", "", ""]
    hyp = write(tmp_path / "hyp", "\n".join(lines) + "\n")
    reference = ref
    if ids:  # seven segments, or two documents by its empty line
        reference = with_ids(tmp_path / "ids", REFERENCES)
        arguments = ["--hyp", hyp, "--ref", reference, option]
        assert "give it with document ids" in refusal(capsys, *arguments)
        hyp = with_ids(tmp_path / "hyp", [first, ["", "", ""]])
    found = score(capsys, "--hyp", hyp, "--ref", reference, option)["systems"]["hyp"]
    true = write(tmp_path / "true", text([first, ["", "", ""]]))
    aligned = score(capsys, "--hyp", true, "--ref", ref, "--metrics", "d_bleu")["systems"]["true"]
    assert found["d_bleu"]["score"] == aligned["d_bleu"]["score"]
    if option == "--resegment":
        omitted = found["resegmented"]["omitted_sentences"]
        assert [(one["document"], one["sentence"]) for one in omitted] == [
            (1, 3), (2, 1), (2, 2), (2, 3),
        ]  # fmt: skip


def test_plain_documents_for_a_reference_with_ids(
    tmp_path: Path, ref: str, capsys: Capture
) -> None:
    hyp = one_line_each(tmp_path / "hyp", TRANSLATIONS)
    reference = with_ids(tmp_path / "ids", REFERENCES)
    expected = score(capsys, "--hyp", hyp, "--ref", ref, "--documents-only")["systems"]["hyp"]
    assert score(capsys, "--hyp", hyp, "--ref", reference, "--documents-only")["systems"] == {
        "hyp": expected
    }
    assert main_says_free(capsys, hyp, reference) and main_says_free(capsys, hyp, ref)


def main_says_free(capsys: Capture, hyp: str, ref: str) -> bool:
    assert main(["score", "--hyp", hyp, "--ref", ref]) == 0
    return f"{hyp} has one line for each document: no s-BLEU" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n\n\n", "'{hyp}' holds no sentence"),
        ("", "'{hyp}' holds no sentence"),
        ("a b\nc\n\n\n\n", "{hyp} has text in its first 2 lines alone, as many as there are"),
    ],
)
def test_text_that_could_mean_anything(
    text: str, message: str, tmp_path: Path, capsys: Capture
) -> None:
    hyp, ref = tmp_path / "hyp", tmp_path / "ref"
    hyp.write_text(text)
    ref.write_text("a\nb\n\nc\n")
    for option in ((), ("--documents-only",), ("--resegment",)):
        found = refusal(capsys, "--hyp", str(hyp), "--ref", str(ref), *option)
        assert message.format(hyp=hyp) in found


def test_shares_of_text_count_the_segments_that_are_scored(tmp_path: Path, capsys: Capture) -> None:
    """The bad source is the second document's first; so what stands behind it counts no more."""
    first, second = TRANSLATIONS
    documents = [[first[0], first[1], first[3]], [second[0], EXTRA, *second[1:]]]
    hyp = one_line_each(tmp_path / "hyp", documents)
    all_of_it, chosen = (
        score(
            capsys,
            "--hyp",
            hyp,
            "--ref",
            with_ids(tmp_path / f"r{bad}", REFERENCES, bad),
            "--resegment",
        )["systems"]["hyp"]["resegmented"]
        for bad in (None, 0)
    )
    assert [one["text"] for one in all_of_it["added_text"]] == [EXTRA]
    assert (chosen["added_text"], chosen["added"]) == ([], 0)
    (lost,) = all_of_it["omitted_sentences"]
    assert chosen["omitted_sentences"] == [lost]
    place = {"document": 1, "doc_id": "doc-0", "sentence": 3, "segment_id": "2"}
    assert lost == place | {"reference": REFERENCES[0][2]}
    assert all_of_it["omitted"] == pytest.approx(100 * 8 / 50)  # words and punctuation marks
    assert chosen["omitted"] == pytest.approx(100 * 8 / (50 - 7))


# ---- documents that one side lacks ---------------------------------------------------------------


@pytest.mark.parametrize("ids", [False, True], ids=["plain", "ids"])
@pytest.mark.parametrize("gone", [0, 1, 2])
@pytest.mark.parametrize("lacking", ["hyp", "ref"])
def test_a_document_that_one_side_lacks_is_named_and_can_be_left_out(
    ids: bool, gone: int, lacking: str, tmp_path: Path, capsys: Capture
) -> None:
    documents = {"hyp": list(NEWS_TRANSLATED), "ref": list(NEWS)}
    both = {name: [*them[:gone], *them[gone + 1 :]] for name, them in documents.items()}
    documents[lacking] = both[lacking]

    def files(texts: dict[str, list[list[str]]], folder: str) -> list[str]:
        (tmp_path / folder).mkdir()
        names = {name: str(tmp_path / folder / name) for name in texts}
        for name, path in names.items():
            if ids:
                numbers = [n for n in range(3) if len(texts[name]) == 3 or n != gone]
                rows = [
                    {"doc_id": f"d{number}", "text": "\n".join(document)}
                    for number, document in zip(numbers, texts[name], strict=True)
                ]
                jsonl(Path(path), rows)
            else:
                write(Path(path), text(texts[name]))
        return ["--hyp", names["hyp"], "--ref", names["ref"], "--metrics", "s_bleu"]

    given = files(documents, "given")
    message = refusal(capsys, *given)
    assert "--common-documents" in message and f"given/{lacking} lacks" in message
    assert (f"'d{gone}'" if ids else f"no. {gone + 1} (") in message
    found = score(capsys, *given, "--common-documents")
    expected = score(capsys, *files(both, "both"))
    assert found["of_one"]["s_bleu"]["score"] == expected["of_one"]["s_bleu"]["score"]
    assert found["documents"] == 2
    assert any("lacks 1 document" in note for note in found["notes"])


def test_documents_of_equal_size_are_told_apart_by_their_words(
    tmp_path: Path, capsys: Capture
) -> None:
    documents = [["The lamp is new."], ["A dog saw the cat."], ["It will rain tomorrow."]]
    ref = write(tmp_path / "ref", text(documents))
    hyp = write(tmp_path / "hyp", text([["A lamp is new."], ["It will rain soon."]]))
    arguments = ["--hyp", hyp, "--ref", ref, "--metrics", "s_bleu"]
    assert f"no. 2 ({ref}:3)" in refusal(capsys, *arguments)
    assert score(capsys, *arguments, "--common-documents")["documents"] == 2
    other = write(tmp_path / "other", text([["Eine Lampe!"], ["Morgen regnet es"]]))
    message = refusal(capsys, "--hyp", other, *arguments[2:], "--common-documents")
    assert "give both with ids" in message


def test_an_empty_reference_is_named_and_not_the_translation(
    tmp_path: Path, capsys: Capture
) -> None:
    ref = write(tmp_path / "ref", "One two.\n\nFive six.\n")
    hyp = write(tmp_path / "hyp", "One two.\nThree.\nFive six.\n")
    message = refusal(capsys, "--hyp", hyp, "--ref", ref)
    assert f"{hyp}:3 has no counterpart; {ref}:2 is empty, which separates documents" in message
    assert "empty translations" not in message


def test_a_source_in_the_file_of_the_reference(tmp_path: Path, capsys: Capture) -> None:
    """Both are read, and neither is taken for the other."""
    rows = [
        {"doc_id": "a", "segment_id": n, "source": f"Quelle {n} hier", "target": f"Ziel {n} ist da"}
        for n in range(5)
    ]
    both = jsonl(tmp_path / "both.jsonl", rows)
    texts = read_texts([both], both, {"x": both}, "aligned")
    assert texts.sources == [[row["source"] for row in rows]]
    assert texts.references == [[[row["target"] for row in rows]]]


MARKED = [  # text of the reference, of a translation, and both without markup
    (
        '<p>Die Lampe ist neu.</p>\n```json\n{"x": "y"}\n```\n<b class="x">Er &amp; sie.</b><br/>',
        '<p>Eine Leuchte da.</p>\n```json\n{"x": "y"}\n```\n<b class="x">Er &amp; es.</b><br/>',
        ("Die Lampe ist neu.\nEr & sie.", "Eine Leuchte da.\nEr & es."),
    ),
    ("Wo ist<br>das Buch?", "Wo ist<br>ein Buch?", ("Wo ist das Buch?", "Wo ist ein Buch?")),
    ('```json\n{"a": 1}\n```', '```json\n{"a": 1}\n```', None),
    ("3 < 4 und x <y>", "3 < 4 und y <x>", ("3 < 4 und x <y>", "3 < 4 und y <x>")),
]


def test_markup_of_rows_counts_for_nothing(tmp_path: Path, capsys: Capture) -> None:
    kept = [row for row in MARKED if row[2] is not None]
    texts = {
        "ref": [row[0] for row in MARKED],
        "hyp": [row[1] for row in MARKED],
        "plain_ref": [row[2][0] for row in kept],
        "plain_hyp": [row[2][1] for row in kept],
    }
    paths = {}
    for name, column in texts.items():
        rows = [{"doc_id": str(number), "text": text} for number, text in enumerate(column)]
        paths[name] = jsonl(tmp_path / name, rows)
    metrics = ["--metrics", "s_bleu", "chrf"]
    found = score(capsys, "--hyp", paths["hyp"], "--ref", paths["ref"], *metrics)
    expected = score(capsys, "--hyp", paths["plain_hyp"], "--ref", paths["plain_ref"], *metrics)
    for key in ("s_bleu", "chrf"):
        assert found["of_one"][key]["score"] == expected["of_one"][key]["score"]
    assert any("tags and fenced code are taken out of all texts" in it for it in found["notes"])
    assert "1 of 5 segments are left out: they are of markup alone" in found["notes"]
    assert not any("tags" in note for note in expected["notes"])
