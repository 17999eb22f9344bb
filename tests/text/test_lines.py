"""``python -m gtrans.text.lines pairs``: both sides of a text without boundaries."""

from __future__ import annotations

import gzip
from pathlib import Path

from gtrans.text.lines import main


def pairs(folder: Path, german: bytes, english: bytes, *options: str) -> tuple[int, list[bytes]]:
    """The exit status, and the files that are written."""
    inputs, outputs = [folder / "de", folder / "en"], [folder / "de.out", folder / "en.out"]
    for path, text in zip(inputs, (german, english), strict=True):
        path.write_bytes(text)
    status = main(["pairs", *options, *map(str, (*inputs, *outputs))])
    return status, [path.read_bytes() for path in outputs if path.exists()]


def test_boundaries_are_left_out_of_both_sides(tmp_path):
    german, english = b"\neins\n\n <d>\nzwei\r\n\x00drei\xe2\x80\xa8", b"one\n<d>\ntwo\nth\rree\n\n"
    written = [b"eins\nzwei\n\x00drei\n", b"one\ntwo\nth ree\n"]
    assert pairs(tmp_path, german, english) == (0, written)
    assert pairs(tmp_path, german, gzip.compress(english)) == (0, written)
    apart = [text.replace(b"\n", b"\n\n") for text in written]
    assert pairs(tmp_path, german, english, "--documents") == (0, apart)


def test_nothing_is_written_of_sides_that_do_not_fit(tmp_path, capsys):
    assert pairs(tmp_path, b"eins\n\ndrei\n", b"one\ntwo\n\n") == (1, [])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gtrans: error: document 1: {tmp_path / 'de'}:2 is a document boundary")
