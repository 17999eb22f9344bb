"""Reading of plain-text documents."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtrans.data.documents import (
    iterate_lines,
    iterate_parallel,
    read_documents,
    read_parallel,
    resolve,
)
from gtrans.errors import GtransError


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        "a b\nc\n\nd\n",
        "a b\nc\n\nd",
        "\n\na b\nc\n\n\n \t\nd\n\n",
        "<d>\na b\nc\n<d>\nd\n",
        "<d>\n\na b\nc\n\n<d>\n\nd\n<d>\n",
        "\ufeffa b\r\nc\r\n\r\nd\r\n",
        " a b \n\tc\n\u3000\nd\n",
    ],
)
def test_boundaries_count_once(tmp_path: Path, content: str) -> None:
    assert read_documents(write(tmp_path / "x", content)) == [["a b", "c"], ["d"]]


def test_gzip_is_told_by_its_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "no-suffix", gzip.compress(b"a\n\nb\n"))
    assert read_documents(path) == [["a"], ["b"]]


def test_only_line_feed_ends_a_line(tmp_path: Path) -> None:
    sentence = "a\u2028b\x85c\x0bd\x1ee\rf"
    path = write(tmp_path / "x", f"{sentence}\ng\n")
    assert read_documents(path) == [[sentence, "g"]]


def test_a_mark_inside_a_line_is_text(tmp_path: Path) -> None:
    assert read_documents(write(tmp_path / "x", "<d> a\n<d>b\n")) == [["<d> a", "<d>b"]]


def test_lines_carry_their_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "x", "\na\n\n\nb\nc\n\n")
    assert list(iterate_lines(path)) == [(2, "a"), (3, None), (5, "b"), (6, "c")]


def test_parallel(tmp_path: Path) -> None:
    source = write(tmp_path / "x.en", "a\nb\n\nc\n")
    target = write(tmp_path / "x.de", "<d>\nA\nB\n<d>\n<d>\nC\n")
    assert read_parallel(source, target) == [(["a", "b"], ["A", "B"]), (["c"], ["C"])]
    assert list(iterate_parallel(source, target)) == [("a", "A"), ("b", "B"), None, ("c", "C")]


RULE = "both sides need the same sentences and boundaries"


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\n", "A\n", "x.en:2 is a sentence but {}/x.de ends after line 1"),
        ("a\n", "A\n\nB\n", "x.en ends after line 1 but {}/x.de:2 is a document boundary"),
        ("a\n\nb\n", "A\nB\n", "x.en:2 is a document boundary but {}/x.de:2 is a sentence"),
        ("a\n\nb\nc\n", "A\n\n\nB\n\nC\n", "x.en:4 is a sentence but {}/x.de:5 is a document"),
        ("a\nb\n", "\n", "x.en:1 is a sentence but {}/x.de ends after line 0"),
    ],
)
def test_first_difference_is_named(tmp_path: Path, source: str, target: str, message: str) -> None:
    paths = write(tmp_path / "x.en", source), write(tmp_path / "x.de", target)
    with pytest.raises(GtransError) as caught:
        read_parallel(*paths)
    assert message.format(tmp_path) in str(caught.value)
    assert RULE in str(caught.value) and "\n" not in str(caught.value)


def test_bad_bytes_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "x", b"good\n\nb\xe4d\n")
    with pytest.raises(GtransError, match=r"x:3: not UTF-8 \(byte 2 of the line is 0xe4\)"):
        read_documents(path)


@pytest.mark.parametrize("content", ["", "\n\n", "<d>\n", "\ufeff"])
def test_no_sentence(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "x", content)
    with pytest.raises(GtransError, match="holds no sentence"):
        read_documents(path)
    with pytest.raises(GtransError, match="hold no sentence"):
        read_parallel(path, path)


def test_damaged_gzip(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gz", gzip.compress(b"a\n" * 5000)[:-12])
    with pytest.raises(GtransError, match="damaged as a gzip file"):
        read_documents(path)


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(GtransError, match="there is no file '.*/x'"):
        read_documents(tmp_path / "x")
    with pytest.raises(GtransError, match="is a folder"):
        read_documents(tmp_path)


def test_resolve(tmp_path: Path) -> None:
    prefix = str(tmp_path / "dev.v1")
    with pytest.raises(GtransError, match=r"dev\.v1\.en' and no file '.*dev\.v1\.en\.gz'"):
        resolve(prefix, "en")
    named = write(tmp_path / "train.en", b"a\n")
    with pytest.raises(GtransError, match=r"give its name without the language \('.*/train'\)"):
        resolve(str(named), "de")
    packed = write(tmp_path / "dev.v1.en.gz", gzip.compress(b"a\n"))
    assert resolve(prefix, "en") == packed
    plain = write(tmp_path / "dev.v1.en", "a\n")
    assert resolve(prefix, "en") == plain


SENTENCE = (
    st.text(min_size=1)
    .map(lambda text: " ".join(text.split("\n")).strip())
    .filter(lambda text: text not in ("", "<d>") and not text.startswith("\ufeff"))
)


@given(documents=st.lists(st.lists(SENTENCE, min_size=1), min_size=1))
def test_every_sentence_is_read(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("documents") / "x"
    text = "\n\n".join("\n".join(sentences) for sentences in documents)
    path.write_bytes(f"{text}\n".encode())
    assert read_documents(path) == documents


def test_real_corpora(real_data: Path) -> None:
    prefix = real_data / "ted-iwslt2017" / "test"
    pairs = read_parallel(resolve(str(prefix), "en"), resolve(str(prefix), "de"))
    assert all(len(source) == len(target) > 0 for source, target in pairs)
    assert (len(pairs), sum(len(source) for source, _ in pairs)) == (23, 2271)
