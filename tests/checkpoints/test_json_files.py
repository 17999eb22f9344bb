"""The reader of JSON, and what may be printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.writing import refused

from gtrans.errors import GtransError
from gtrans.files import parse_json, read_object
from gtrans.messages import json_text, printable


def test_json_that_others_write_is_read(tmp_path: Path) -> None:
    value = {"a": [1, -2.5, 1e-9, True, None, "ü \U0001f600", {"b": {}}], "": "\x1b"}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert parse_json(text, "x") == value
        (tmp_path / "x.json").write_bytes(b"\xef\xbb\xbf" + text.encode() + b"\r\n")
        assert read_object(tmp_path / "x.json") == value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x: not JSON (Expecting value: line 1 column 1 (char 0)); do it"),
        (b"[1]\n[2]\n", "x: not JSON (Extra data: line 2 column 1 (char 4)); do it"),
        (b'{"a": NaN}', "x: not JSON (NaN is no number); do it"),
        (b'["\xff"]', "x: not JSON (not UTF-8); do it"),
        (b"[1,\nx]", "x: not JSON (Expecting value: line 2 column 1 (char 4)); do it"),
        (rb'["\ud83d"]', r"x: not JSON (\ud83d is half of a character, a lone surrogate); do it"),
        (b"[" * 100_000, "x: not JSON (maximum recursion depth exceeded"),
    ],
)
def test_what_is_refused(content: bytes, message: str) -> None:
    refused(lambda: parse_json(content, "x", "; do it"), message)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_object(tmp_path / "none")
    refused(lambda: read_object(tmp_path, "; x"), f"{tmp_path}: cannot be read (Is a directory); x")


def test_what_is_printed_stays_on_its_line() -> None:
    text = "größe 日本 \U0001f600 \u200d"
    assert printable(text) == text
    hostile = "".join(map(chr, [*range(32), *range(127, 160), 0x2028, 0x202E, 0x2066, 0xDCFF]))
    assert printable(hostile).isascii() and printable(hostile).isprintable()
    assert str(GtransError(f"a{hostile}b")).isprintable()
    value = {"a\x9b": [hostile.replace("\udcff", ""), text]}
    assert json.loads(json_text(value)) == value
    assert all(map(str.isprintable, json_text({"a": hostile}).split("\n")))


def test_what_is_no_number_in_json_is_null() -> None:
    value = {"a": [float("inf"), (1.5, float("nan"))], "b": -float("inf"), "c": 1}
    assert parse_json(json_text(value), "x") == {"a": [None, [1.5, None]], "b": None, "c": 1}
