"""Downloads: retries, going on, checksums; from a server of this machine."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.lab.corpora import catalogue
from gtrans.lab.corpora.catalogue import corpus_named
from gtrans.lab.corpora.download import ATTEMPTS, download

CONTENT = bytes(range(256)) * 2000


class Home(HTTPServer):
    """Gives ``content``; each answer is what is next in ``behaviour``, then ``whole``."""

    content = CONTENT
    tag = '"1"'

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.behaviour: list[str] = []
        self.ranges: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/corpus.tgz"


class Answer(BaseHTTPRequestHandler):
    server: Home

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        home = self.server
        how = home.behaviour.pop(0) if home.behaviour else "whole"
        wanted = self.headers.get("Range", "")
        home.ranges.append(wanted)
        if how.isdecimal():
            self.send_error(int(how))
            return
        begin = 0
        if wanted and how != "no ranges" and self.headers.get("If-Range") == home.tag:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-*/{len(home.content)}")
        else:
            self.send_response(200)
        self.send_header("ETag", home.tag)
        self.send_header("Content-Length", str(len(home.content) - begin))
        self.end_headers()
        body = home.content[begin:]
        self.wfile.write(body[: len(body) // 2] if how == "half" else body)


@pytest.fixture
def home() -> Iterator[Home]:
    server = Home()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(home: Home, target: Path, md5: str = "") -> str:
    """The message of the error; empty if there is none."""
    try:
        download(home.url, target, md5, pause=0.001)
    except GtransError as error:
        return str(error)
    return ""


def test_a_download_is_recorded_and_not_repeated(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "corpus.tgz"
    assert fetch(home, target, hashlib.md5(CONTENT).hexdigest()) == ""
    assert target.read_bytes() == CONTENT
    record = json.loads((tmp_path / "corpus.tgz.download.json").read_text())
    assert record["sha256"] == hashlib.sha256(CONTENT).hexdigest()
    assert record["url"] == home.url and record["bytes"] == len(CONTENT)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "corpus.tgz", "corpus.tgz.download.json",
    ]  # fmt: skip
    assert fetch(home, target) == "" and len(home.ranges) == 1
    target.write_bytes(b"changed")
    assert "is not what was downloaded" in fetch(home, target)


def test_an_interrupted_download_goes_on(home: Home, tmp_path: Path) -> None:
    home.behaviour = ["half", "503", "half"]
    assert fetch(home, tmp_path / "x") == ""
    assert (tmp_path / "x").read_bytes() == CONTENT
    half = len(CONTENT) // 2
    assert home.ranges == ["", f"bytes={half}-", f"bytes={half}-", f"bytes={half + half // 2}-"]


def test_a_server_without_ranges_gives_all_of_it_again(home: Home, tmp_path: Path) -> None:
    home.behaviour = ["half", "no ranges"]
    assert fetch(home, tmp_path / "x") == ""
    assert (tmp_path / "x").read_bytes() == CONTENT


def test_the_next_command_goes_on_unless_the_file_has_changed(home: Home, tmp_path: Path) -> None:
    home.behaviour = ["half", *["500"] * (ATTEMPTS - 1)]
    assert f"{ATTEMPTS} times; run the command again" in fetch(home, tmp_path / "x")
    assert not (tmp_path / "x").exists() and (tmp_path / "x.part").exists()
    assert fetch(home, tmp_path / "x") == "" and home.ranges[-1] != ""
    home.behaviour = ["half", *["500"] * (ATTEMPTS - 1)]
    assert fetch(home, tmp_path / "y") != ""
    home.content, home.tag = b"another file", '"2"'
    assert fetch(home, tmp_path / "y") == ""
    assert (tmp_path / "y").read_bytes() == b"another file"


def test_a_wrong_checksum_is_refused(home: Home, tmp_path: Path) -> None:
    assert "not the file that is known by this name (MD5 0123)" in fetch(
        home, tmp_path / "x", "0123"
    )
    assert not (tmp_path / "x").exists() and not (tmp_path / "x.part").exists()
    assert fetch(home, tmp_path / "x") == ""
    (tmp_path / "x").unlink()
    home.content = b"another"
    assert "another file than at the first download" in fetch(home, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_file_that_lies_there_has_the_known_checksum(home: Home, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"cut")
    known = hashlib.md5(CONTENT).hexdigest()
    assert f"is not the file that is known by this name (MD5 {known})" in fetch(
        home, tmp_path / "x", known
    )
    (tmp_path / "x").write_bytes(CONTENT)
    assert fetch(home, tmp_path / "x", known) == "" and home.ranges == []


def test_a_missing_file_is_one_line_at_once(home: Home, tmp_path: Path) -> None:
    home.behaviour = ["404"]
    assert "answers 404" in fetch(home, tmp_path / "x")
    assert len(home.ranges) == 1 and not (tmp_path / "x").exists()


def test_the_command_downloads_and_reads(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The archive of a corpus at an address of this machine; the second time, it is there."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for split in ("train", "dev", "test"):
            for lang in ("en", "de"):
                name = f"selective-attn-master/data/Europarl7/concatenated_en2de_{split}_{lang}.txt"
                archive.writestr(name, f"<d>\r\n{lang}\r\n")
    home.content = packed.getvalue()
    corpus = corpus_named("europarl7")
    there = replace(corpus.forms[0], homes=(catalogue.Home(home.url, "corpus.zip"),))
    monkeypatch.setattr(
        "gtrans.lab.get_corpus.corpus_named", lambda name: replace(corpus, forms=(there,))
    )
    for _ in range(2):
        assert main(["get-corpus", "europarl7", "--out", str(tmp_path)]) == 0
        assert "test: 1 documents, 1 sentence pairs" in capsys.readouterr().out
    assert (tmp_path / "europarl7" / "train.de").read_text() == "de\n"
    assert (tmp_path / "downloads" / "corpus.zip").is_file() and len(home.ranges) == 1
    (tmp_path / "downloads" / "corpus.zip").write_bytes(b"PK")
    assert main(["get-corpus", "europarl7", "--out", str(tmp_path)]) == 1
    assert "is not what was downloaded" in capsys.readouterr().err


def test_only_the_web(tmp_path: Path) -> None:
    with pytest.raises(GtransError, match="no address that begins with http"):
        download("file:///etc/passwd", tmp_path / "x")
