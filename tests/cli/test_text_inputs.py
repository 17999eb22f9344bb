"""Text of every kind: as many lines out as in, or one line that says where it is damaged."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.translating import FAST, error

from gtrans import Translator
from gtrans.cli import main
from gtrans.search.options import SearchOptions

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

# Everything that other programs take for the end of a line, or for nothing at all.
ODD = (
    b"\xef\xbb\xbfthe cat\n\x00\na\rb\n\r\n\xe2\x80\xa8 a\xe2\x80\xa9b\n\xc2\x85\n\x0b\x0c\x1c a\n"
    b"\x1b[2J\n<d>\n\xef\xbb\xbf\n\xe2\x80\x8b\n<s> </s> <pad>\n\xf0\x9f\x98\x80\n\xef\xbf\xbf last"
)
# The lines of ODD that are boundaries between documents: they hold white space only, or <d>.
BOUNDARIES = (3, 5, 8)


def translate(tiny: TinyWorld, source: Path | str, output: Path) -> list[str]:
    model = str(tiny.checkpoints["document"])
    return ["translate", "--path", model, "--input", str(source), "--output", str(output), *FAST]


def test_as_many_lines_out_as_in(tiny: TinyWorld, tmp_path: Path) -> None:
    source, output = tmp_path / "odd.en", tmp_path / "odd.de"
    source.write_bytes(ODD)
    assert main(translate(tiny, source, output)) == 0
    lines = output.read_bytes().removesuffix(b"\n").split(b"\n")
    assert len(lines) == ODD.count(b"\n") + 1
    assert [number for number, line in enumerate(lines) if line in (b"", b"<d>")] == [*BOUNDARIES]
    for line in lines:
        assert len(line.decode().splitlines()) <= 1

    fifo, again = tmp_path / "fifo", tmp_path / "again.de"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(gzip.compress(ODD)))
    writer.start()
    assert main(translate(tiny, fifo, again)) == 0
    writer.join()
    assert again.read_bytes() == output.read_bytes()


PACKED = gzip.compress(b"".join(b"%d is a number\n" % number for number in range(3000)))
CONTENTS = {
    "not UTF-8": (b"\ntwo \xff\n", "{}:2: not UTF-8 (byte 5 of the line is 0xff)"),
    "UTF-16": ("one\n".encode("utf-16"), "'{}' is no text but UTF-16"),
    "a surrogate": (b"\n\xed\xa0\x80\n", "{}:2: not UTF-8"),
    "10 MB in a line": (b"\n" + b"a b " * 2_500_000, "{}:2: a line of 9,999,999 characters"),
    "cut off": (PACKED[:-9], "'{}' is damaged as a gzip file"),
    "damaged": (PACKED[:4000] + b"\0" * 9 + PACKED[4009:], "{}"),
    "only the mark of gzip": (PACKED[:2], "'{}' is damaged as a gzip file"),
}


@pytest.mark.parametrize("kind", [*CONTENTS, "missing", "a folder"])
def test_what_cannot_be_read_is_one_line(
    kind: str, tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In every command that reads text."""
    good, output = str(tiny.text / "test"), tmp_path / "out"
    path = tmp_path / "bad.en"
    content, message = CONTENTS.get(
        kind, (None, "there is no file '{}" if kind == "missing" else "'{}")
    )
    if content is not None:
        path.write_bytes(content)
    elif kind == "a folder":
        path.mkdir()
    (tmp_path / "bad.de").write_bytes(path.read_bytes() if path.is_file() else b"one\n")
    languages = ("--source-lang", "en", "--target-lang", "de")
    model = str(tiny.checkpoints["document"])
    commands = [
        translate(tiny, path, output),
        ["score", "--hyp", str(path), "--ref", f"{good}.de"],
        ["score", "--hyp", f"{good}.de", "--ref", str(path)],
        ["cxmi", "--path", model, "--src", str(path), "--ref", f"{tmp_path}/bad.de", "--cpu"],
        ["prepare", *languages, "--train", str(tmp_path / "bad"), "--out", str(output)],
        ["prepare", *languages, "--train", good, "--valid", str(tmp_path / "bad"),
         "--out", str(output)],
    ]  # fmt: skip
    for command in commands:
        assert message.format(path) in error(command, capsys)
        assert not output.exists()
    # Another mistake may be found first: these lines are no items, and not those of the reference.
    for command in (
        ["contrast", "--path", model, "--set", str(path), "--cpu"],
        ["score", "--hyp", f"{good}.de", "--ref", f"{good}.de", "--src", str(path)],
    ):
        assert str(path) in error(command, capsys)


def test_a_pipe_that_would_be_read_twice(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for command in (
        ["score", "--hyp", str(fifo), "--ref", str(tiny.text / "test.de")],
        ["score", "--hyp", str(tiny.text / "test.de"), "--ref", str(fifo)],
    ):
        assert "which cannot be read twice" in error(command, capsys)


UNKNOWN = "Съешь ещё этих мягких\nфранцузских булок\n"
ESCAPED = "it &apos;s the cat\nthe well @-@ known cat\nthe cat\n"


@pytest.mark.parametrize(
    ("text", "part"),
    [(UNKNOWN, "% of the tokens are not in the vocabulary (<unk>)"),
     (ESCAPED, "it is tokenised or escaped already (2 of 3 sentences have `&apos;`, `@-@`"),
     ("the cat , she sat .\nthe cat\nthe old cat .\n", "it is tokenised or escaped already (2"),
     (None, None)],
)  # fmt: skip
def test_a_text_that_no_model_can_read_gets_a_line(
    text: str | None, part: str | None, tiny: TinyWorld, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """In preparing, translating a text or files, and from Python; other text gets none."""
    if text is None:
        text = (tiny.text / "test.en").read_text(encoding="utf-8").split("\n\n")[0] + "\n"
    source, model = tmp_path / "in.en", str(tiny.checkpoints["document"])
    for side in (source, tmp_path / "in.de", tmp_path / "in.txt"):
        side.write_text(text, encoding="utf-8")
    languages = ("--source-lang", "en", "--target-lang", "de", "--workers", "1")
    commands = [
        (translate(tiny, source, tmp_path / "out"), str(source)),
        (["translate", "--path", model, str(tmp_path / "in.txt"), "--output-dir",
          str(tmp_path / "outs"), *FAST], str(tmp_path / "in.txt")),
        (["prepare", *languages, "--test", str(tmp_path / "in"), "--reuse", str(tiny.data),
          "--out", str(tmp_path / "data")], "test.en" if text == UNKNOWN else str(source)),
    ]  # fmt: skip
    for command, name in commands:
        assert main(command) == 0
        warnings = [line for line in capsys.readouterr().err.splitlines() if "<unk>" in line or (
            "it is tokenised" in line)]  # fmt: skip
        told = [line for line in warnings if f"warning: {name}: " in line and str(part) in line]
        assert bool(told) == bool(warnings) == bool(part)
    translator = Translator.load(model, cpu=True, search=SearchOptions(beam=1))
    translator.translate([text.strip().split("\n")])
    assert (str(part) in capsys.readouterr().err) == bool(part)


def test_texts_of_the_wrong_side_get_a_line(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "in.en", tmp_path / "in.de"
    source.write_text("This is the house that he has.\nIt is in the city.\n", encoding="utf-8")
    target.write_text("Das ist das Haus, das er hat.\nEs ist in der Stadt.\n", encoding="utf-8")
    assert main(translate(tiny, target, tmp_path / "out")) == 0
    assert f"warning: {target}: it looks like German (de), not" in capsys.readouterr().err
    words = ["cxmi", "--path", str(tiny.checkpoints["document"]), "--cpu"]
    assert main([*words, "--src", str(target), "--ref", str(source)]) == 0
    assert "English (en): are the two sides swapped?" in capsys.readouterr().err
