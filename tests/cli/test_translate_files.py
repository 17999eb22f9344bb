"""``gtrans translate FILE|FOLDER --output-dir``, ``--json``, ``--stream``, and from Python."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.mixed_documents import tree_of, write_mixed
from support.translating import FAST, Interrupted, command, error, interrupt_after

import gtrans
from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.search.options import SearchOptions
from gtrans.translating.output import Alternative

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

GREEDY = SearchOptions(beam=2, max_len_a=0.0, max_len_b=8.0)


def contents(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if "made.json" not in name}


def test_a_folder_of_twenty_documents(
    tiny: TinyWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Names, formats and trees stay; a killed run goes on; a finished file is not done again."""
    source, output = tmp_path / "in", tmp_path / "out"
    places = write_mixed(source)
    assert len(places) == 20
    (source / "logo.png").write_bytes(b"no text")
    argv = command(tiny, source, "--output-dir", output, *FAST)
    with monkeypatch.context() as patch:
        interrupt_after(7, patch)
        with pytest.raises(Interrupted):
            main(argv)
    finished = contents(output)
    assert 0 < len(finished) < 20
    with monkeypatch.context() as patch:
        decoded = interrupt_after(-1, patch)
        assert main(argv) == 0
    assert "left out, because their format is not known" in (told := capsys.readouterr().err)
    assert re.search(r"\d+ of 20 files are translated already", told)
    assert len(decoded) + 7 >= 18  # two files have nothing to translate
    written = contents(output)
    assert sorted(written) == sorted(map(str, places))
    for place in places:
        assert tree_of(output / place) == tree_of(source / place), place
    assert written["manual/code.md"] == (source / "manual" / "code.md").read_bytes()
    assert (output / "page.md").read_text() != (source / "page.md").read_text()
    with monkeypatch.context() as patch:
        decoded = interrupt_after(-1, patch)
        assert main(argv) == 0
        assert decoded == []
        (source / "rows.jsonl").write_text('{"doc_id": "a", "text": "It sang."}\n')
        assert main(argv) == 0
        assert decoded == [1]


def test_a_file_is_one_document(tiny: TinyWorld, tmp_path: Path):
    """The sentences of a page are translated as those of a text without empty lines."""
    (tmp_path / "page.md").write_text("# The old man\n\nIt was heavy. You are late.\n\n* It sang\n")
    (tmp_path / "text").write_text("The old man\nIt was heavy.\nYou are late.\nIt sang\n")
    page, text, out = tmp_path / "page.md", tmp_path / "text", tmp_path / "out"
    assert main(command(tiny, page, "--output-dir", out, *FAST)) == 0
    assert main(command(tiny, "--input", text, "--output", tmp_path / "lines", *FAST)) == 0
    one, two, three, four = (tmp_path / "lines").read_text().splitlines()

    def plain(markdown: str) -> str:
        return re.sub(r"\\(.)", r"\1", markdown).replace("&#124;", "|")

    found = plain((out / "page.md").read_text())
    assert found == f"# {one}\n\n{two} {three}\n\n* {four}\n"
    # The same as lines of sentences, in a compressed file.
    packed = tmp_path / "lines.txt.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    assert main(command(tiny, packed, "--output-dir", out, *FAST)) == 0
    unpacked = gzip.decompress((out / "lines.txt.gz").read_bytes())
    assert unpacked == (tmp_path / "lines").read_bytes()
    assert main(command(tiny, "--input", text, "--output", tmp_path / "o.gz", *FAST)) == 0
    assert gzip.decompress((tmp_path / "o.gz").read_bytes()) == unpacked


def test_json_lines_have_ids_scores_and_the_n_best(tiny: TinyWorld, tmp_path: Path):
    text, out = tmp_path / "in.txt", tmp_path / "out"
    text.write_text("You are late.\nIt sang.\n\nThe old man.\n")
    argv = command(tiny, "--input", text, "--output", tmp_path / "o.jsonl", *FAST)
    assert main([*argv, "--json", "--nbest", "2"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [(row["doc_id"], row["seg_id"], row["source"]) for row in rows] == [
        ("1", "1", "You are late."), ("1", "2", "It sang."), ("2", "1", "The old man."),
    ]  # fmt: skip
    for row in rows:
        assert len(row["nbest"]) == 2
        assert row["nbest"][0] == {"hypothesis": row["hypothesis"], "score": row["score"]}
        assert row["score"] < 0
    assert main(command(tiny, "--input", text, "--output", tmp_path / "plain", *FAST)) == 0
    lines = [line for line in (tmp_path / "plain").read_text().splitlines() if line]
    assert [row["hypothesis"] for row in rows] == lines
    # Of files, with their own ids; `gtrans score` reads them.
    (tmp_path / "r.tsv").write_text("doc_id\tseg_id\tsource\nx\t5\tIt sang.\n")
    argv = command(tiny, tmp_path / "r.tsv", "--output-dir", out, *FAST, "--json")
    assert main(argv) == 0
    (row,) = map(json.loads, (out / "r.tsv.jsonl").read_text().splitlines())
    assert (row["doc_id"], row["seg_id"], row["source"]) == ("x", "5", "It sang.")
    (tmp_path / "two.txt").write_text("It sang.\n\n\nYou are late.\n")
    assert main(command(tiny, tmp_path / "two.txt", "--output-dir", out, *FAST, "--json")) == 0
    rows = [json.loads(line) for line in (out / "two.txt.jsonl").read_text().splitlines()]
    assert [row["source"] for row in rows] == ["It sang.", "You are late."]
    (tmp_path / "ref.tsv").write_text("doc_id\tseg_id\ttarget\nx\t5\tEs sang.\n")
    scored = ("--hyp", out / "r.tsv.jsonl", "--ref", tmp_path / "ref.tsv", "--target-lang", "de")
    assert main(["score", *map(str, scored)]) == 0


def test_rows_of_another_direction_stay(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = "It sang.\n\nYou are late."
    other = {"doc_id": "o", "src_lang": "en", "tgt_lang": "cs_CZ", "src_text": text, "refs": {}}
    ours = other | {"doc_id": "w", "tgt_lang": "de_DE"}
    rows = tmp_path / "wmt25.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in (other, ours)))
    argv = command(tiny, rows, "--output-dir", tmp_path / "out", *FAST)
    assert main(argv) == 0
    assert "1 rows of other directions stay as they are" in capsys.readouterr().err
    found = [json.loads(line) for line in (tmp_path / "out/wmt25.jsonl").read_text().splitlines()]
    assert found[0] == other
    assert list(map(bool, found[1].pop("hypothesis").split("\n"))) == [True, False, True]
    assert found[1] == ours
    assert "only of en-cs_CZ, en-de_DE" in error([*argv, "--direction", "en-fr"], capsys)


def test_a_test_set_has_a_line_for_each_segment(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    source, plain = tmp_path / "set.sgm", tmp_path / "plain"
    source.write_text(
        '<srcset srclang="en"><doc docid="1"><seg id="1">It sang.</seg><seg id="2"></seg>\n'
        '</doc><doc docid="2"><seg id="1">You are late.</seg></doc></srcset>\n'
    )
    plain.write_text("It sang.\n\nYou are late.\n")
    for path in (source, plain):
        assert main(command(tiny, "--input", path, "--output", f"{path}.de", *FAST)) == 0
    one, _, two = Path(f"{plain}.de").read_text().splitlines()
    assert Path(f"{source}.de").read_text() == f"{one}\n\ufffd\n\n{two}\n"
    argv = command(tiny, "--input", source, "--output", tmp_path / "o.jsonl", *FAST, "--json")
    assert main(argv) == 0
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [(row["doc_id"], row["seg_id"]) for row in found] == [("1", "1"), ("2", "1")]
    capsys.readouterr()
    running = tmp_path / "running.txt"
    running.write_text("It sang. You are late. The old man.\n")
    assert main(command(tiny, running, "--output-dir", tmp_path / "out", *FAST)) == 0
    assert "1 of 1 lines have several sentences" in capsys.readouterr().err
    rows = tmp_path / "tags.jsonl"
    rows.write_text('{"doc_id": "1", "source": "<p>It sang.</p>"}\n')
    argv = command(tiny, "--input", rows, "--output", tmp_path / "tags.txt", *FAST)
    assert "most texts begin with a tag or a fence" in error(argv, capsys)
    assert not (tmp_path / "tags.txt").exists()
    rows.write_text('{"doc_id": "1", "source": "```json\\n{}\\n```"}\n')
    argv = command(tiny, rows, "--output-dir", tmp_path / "tags", *FAST)
    assert "holds no text but tags and fenced code" in error(argv, capsys)
    page = tmp_path / "page.txt"
    page.write_text("<html>\n<p>It sang.</p>\n</html>\n")
    argv = command(tiny, page, "--output-dir", tmp_path / "other", *FAST)
    assert "is no plain text but markup (line 1: <" in error(argv, capsys)
    titles = io.TextIOWrapper(io.BytesIO(b"1\n00:00:01,000 --> 00:00:02,000\nIt sang.\n\n2\n"))
    monkeypatch.setattr(sys, "stdin", titles)
    assert "is no plain text but subtitles" in error(command(tiny, "--stream", *FAST), capsys)


def test_a_bad_file_does_not_stop_the_others(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.docx").write_bytes(b"PK")
    (source / "b.html").write_bytes(b"<p>\xff\xfe</p>")
    (source / "c.md").write_text("The old man.\n")
    name = os.fsdecode(b"d\xe9.txt")
    (source / name).write_text("It sang.\n")
    argv = command(tiny, source, "--output-dir", out, *FAST)
    assert main(argv) == 1
    told = capsys.readouterr().err.splitlines()
    assert "a.docx' is no DOCX file, or damaged" in told[0] and "b.html:1: not UTF-8" in told[1]
    assert told[2] == f"2 sentences in 2 files written to {out}"
    assert told[3].startswith("gtrans: error: 2 of 4 files are not translated, as told above")
    assert sorted(contents(out)) == sorted(["c.md", name])
    # The good ones are finished; the only file of a command is its error.
    assert main(argv) == 1 and "2 of 2 files are translated already" in capsys.readouterr().err
    line = error(command(tiny, source / "a.docx", "--output-dir", out, *FAST), capsys)
    assert "a.docx' is no DOCX file, or damaged" in line


def test_what_others_wrote_is_kept(
    tiny: TinyWorld,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    monkeypatch.setattr("gtrans.translating.translator.Translator.decode", sums_of_ids)
    for name in ("a.md", "b.md", "c.md"):
        (source / name).write_text("The old man.\n")
    (out / "b.md").write_text("My own page.\n")
    (out / "c.md").touch()  # empty, so there is nothing to lose
    argv = command(tiny, source, "--output-dir", out, *FAST)
    assert main(argv) == 1
    told = capsys.readouterr().err
    assert f"'{out / 'b.md'}' was not written by gtrans and is kept" in told
    assert "2 sentences in 2 files" in told and "1 of 3 files are not translated" in told
    translated = (out / "a.md").read_text()
    assert (out / "c.md").read_text() == translated
    (out / "a.md").write_text("Corrected by hand.\n")
    (source / "c.md").write_text("It sang.\n")
    assert main(argv) == 1
    assert f"'{out / 'a.md'}' was changed since it was written" in capsys.readouterr().err
    assert (out / "a.md").read_text() == "Corrected by hand.\n"
    assert (out / "b.md").read_text() == "My own page.\n"
    assert (out / "c.md").read_text() != translated  # its own translation of before is replaced
    assert main([*argv, "--force"]) == 0
    assert (out / "a.md").read_text() == (out / "b.md").read_text() == translated
    # A run that is killed after its record and before its output goes on.
    (source / "a.md").write_text("You are late.\n")
    with monkeypatch.context() as patch:
        patch.setattr("gtrans.translating.output.binary_writer", killed)
        with pytest.raises(Interrupted):
            main(argv)
    assert (out / "a.md").read_text() == translated
    assert main(argv) == 0
    assert (out / "a.md").read_text() != translated
    # A text is kept in the same way.
    text, output = tmp_path / "text", tmp_path / "output"
    text.write_text("It sang.\n")
    output.write_text("Mine.\n")
    argv = command(tiny, "--input", text, "--output", output, *FAST)
    assert "'output' was not written by gtrans" in error(argv, capsys).replace(f"{tmp_path}/", "")
    assert output.read_text() == "Mine.\n" and main([*argv, "--force"]) == 0 == main(argv)


def killed(*arguments: object) -> None:
    raise Interrupted


@pytest.mark.parametrize("times", [0, 1])
def test_a_locked_output_does_not_stop_the_others(
    tiny: TinyWorld,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    times: int,
):
    """Another process writes it from the begin, or when its turn has come."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (source / name).write_text("The old man.\n")
    asked: list[str] = []

    def lock(path: str) -> AbstractContextManager[None]:
        asked.append(Path(path).name)
        if asked[-1] == "b.md" and asked.count("b.md") > times:
            raise GtransError(f"{path}: another process is writing it; wait for its end.")
        return nullcontext()

    monkeypatch.setattr("gtrans.translating.output.locked", lock)
    assert main(command(tiny, source, "--output-dir", out, *FAST)) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith(f"{out / 'b.md'}: another process is writing it")
    assert told[1] == f"2 sentences in 2 files written to {out}"
    assert told[2].startswith("gtrans: error: 1 of 3 files are not translated")
    assert sorted(contents(out)) == ["a.md", "c.md"]


def test_a_linked_folder_is_said_to_be_left_out(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder, other = tmp_path / "texts", tmp_path / "other"
    for place in (folder, other):
        place.mkdir()
        (place / "a.txt").write_text("The cat sang.\n")
    (folder / "link").symlink_to(other)
    assert main(command(tiny, *FAST, str(folder), "--output-dir", str(tmp_path / "out"))) == 0
    assert f"it is a link to a folder: '{folder / 'link'}'" in capsys.readouterr().err
    assert not (tmp_path / "out" / "link").exists()


def as_many(rows: Sequence[Any], finished: object) -> list[Any]:
    """For each sentence of each row a translation."""
    return [[[Alternative("", 0.0)]] * row["predicted_sentences"] for row in rows]


def sums_of_ids(translator: object, rows: Sequence[Any], finished: object) -> list[Any]:
    """Translations of single sentences, different for different sentences."""
    return [[[Alternative(f"Text {int(row['source'].sum())}", 0.0)]] for row in rows]


def test_a_stream_is_answered_document_by_document(tiny: TinyWorld, tmp_path: Path):
    text = tmp_path / "in"
    text.write_text("You are late.\nIt sang.\n\nThe old man.\n")
    assert main(command(tiny, "--input", text, "--output", tmp_path / "o", *FAST)) == 0
    expected = (tmp_path / "o").read_text().split("\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "gtrans", *command(tiny, "--stream", *FAST)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("You are late.\nIt sang.\n\n")
    process.stdin.flush()
    # Read before more is written: the answer did not wait for the end of the input.
    assert [process.stdout.readline().rstrip("\n") for _ in range(3)] == expected[:3]
    rest, _ = process.communicate("The old man.\n", timeout=120)
    assert rest.split("\n") == expected[3:] and process.returncode == 0


def test_from_python(
    tiny: TinyWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    translator = gtrans.Translator.load(
        tiny.checkpoints["document"], cpu=True, search=GREEDY, nbest=2
    )
    documents = [["You are late.", "It sang."], [], ["The old man."]]
    found = translator.translate(documents)
    assert [len(document) for document in found] == [2, 0, 1]
    best = [[one[0].text for one in document] for document in translator.alternatives(documents)]
    assert best == found
    assert translator.translate([]) == []
    for wrong, message in (
        (["a text"], "document 1 is a text; a document is a list of sentences"),
        ([["a", " "]], "document 1, sentence 2: it is empty"),
    ):
        with pytest.raises(GtransError, match=message):
            translator.translate(wrong)
    # Far longer than anything in training: told before it is translated.
    monkeypatch.setattr(translator, "decode", as_many)
    capsys.readouterr()
    translator.translate([["It sang.", "late " * 600]])
    told = capsys.readouterr().err
    assert re.search(r"document 1, sentence 2: a sentence of [\d,]+ tokens, but the model", told)
    assert "--max-doc-tokens 512" in told and told.count("\n") == 1
    with pytest.raises(AttributeError, match="module 'gtrans' has no attribute 'Other'"):
        _ = gtrans.Other


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.odt", "--output-dir", "o"], "the format of '.odt' is not known; known are text"),
        (["none.md", "--output-dir", "o"], "there is no file or folder 'none.md'"),
        (["empty", "--output-dir", "o"], "'empty' has no files of a known format"),
        (["a.md", "sub/a.md", "--output-dir", "o"], "would both become 'o/a.md'"),
        (["sub", "--output-dir", "sub"], "is the input 'sub'"),
        (["sub", "--output-dir", "way"], "must be a folder, but 'way/x' is a file"),
        (["a.md"], "`--output-dir` is missing"),
        (["a.md", "--output-dir", "."], "is the input 'a.md'"),
        (["--input", "a.md"], "`--output` is missing"),
        ([], "nothing to translate"),
        (["a.md", "--output-dir", "o", "--stream"], "give one of"),
        (["--stream", "--output", "o"], "`--output` belongs to `--input`"),
        (["--stream", "--workers", "2"], "`--workers` is for files and texts"),
        (["a.md", "--output-dir", "o", "--nbest", "2"], "`--nbest` 2: it must be at least 1, and"),
        (["a.md", "--output-dir", "o", "--json", "--nbest", "9"], "`--nbest` 9: a search with"),
        (["--input", "a.md", "--output", "o", "--json", "--free"], "`--json` needs the score"),
        (["a.md", "--output-dir", "o", "--free"], "`--free` gives no translation for each"),
        (["--path", "sub", "a.md", "--output-dir", "o"], "`--path` 'sub' is a folder"),
        (["--path", "run", "a.md", "--output-dir", "o"], "give 'run/checkpoint_best.pt'"),
    ],
)
def test_mistakes_are_told_in_one_line(
    tiny: TinyWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
):
    monkeypatch.chdir(tmp_path)
    for name in (
        *("a.odt", "a.md", "sub/a.md", "sub/x/a.md", "way/x"),
        *("run/checkpoint_best.pt", "run/z.pt"),
    ):
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text("It sang.\n")
    Path("empty").mkdir()
    monkeypatch.setattr("gtrans.translating.translator.Translator.from_options", None)  # not yet
    assert message in error(command(tiny, *FAST, *words), capsys)
    assert not Path("o").exists() and not Path("way/a.md").exists()


def test_sentences_of_a_segment_have_ids_of_their_own(tiny: TinyWorld, tmp_path: Path):
    rows, out = tmp_path / "r.jsonl", tmp_path / "out"
    rows.write_text('{"doc_id": "a", "seg_id": "7", "source": "It sang. You are late."}\n')
    argv = command(tiny, rows, "--output-dir", out, *FAST, "--json", "--split-sentences")
    assert main(argv) == 0
    reference = tmp_path / "ref.tsv"
    reference.write_text("doc_id\tseg_id\ttarget\na\t7.1\tEs sang.\na\t7.2\tSpät.\n")
    scored = ("--hyp", out / "r.jsonl.jsonl", "--ref", reference, "--target-lang", "de")
    assert main(["score", *map(str, scored)]) == 0
