"""Files of a corpus are found in folders and archives, and nothing lands anywhere else."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from gtrans.errors import GtransError
from gtrans.lab.corpora import Finder


def tgz(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def found(folder: Path, unpacked: Path, *patterns: str) -> dict[str, bytes]:
    result = Finder(folder, unpacked).find([(pattern,) for pattern in patterns])
    return {group[0]: path.read_bytes() for group, path in result.items()}


def test_in_folders_and_gzipped(tmp_path: Path) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    (tmp_path / "in" / "a" / "train.en").write_bytes(b"one")
    (tmp_path / "in" / "top.de.gz").write_bytes(gzip.compress(b"two"))
    patterns = ("a/train.en", "train.en", "./top.de", "./train.en", "b/train.en", "rain.en")
    result = found(tmp_path / "in", tmp_path / "out", *patterns)
    assert list(result) == ["a/train.en", "train.en", "./top.de"]
    assert gzip.decompress(result["./top.de"]) == b"two"


@pytest.mark.parametrize("make", [tgz, zipped])
def test_in_archives_and_archives_inside_them(make, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    inner = tgz(tmp_path / "de-en.tgz", {"de-en/train.tags.de-en.de": b"inner"}).read_bytes()
    name = "outer.zip" if make is zipped else "outer.tgz"
    make(folder / name, {"2017/texts/de-en.tgz": inner, "dev/x.en": b"x", "nc/a.txt": b"a"})
    result = found(folder, tmp_path / "out", "train.tags.de-en.de", "dev/x.en", "none")
    assert result == {"train.tags.de-en.de": b"inner", "dev/x.en": b"x"}
    group = ("missing", "nc/")
    articles = Finder(folder, tmp_path / "out2").find([group])[group]
    assert [path.name for path in articles.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("make", [tgz, zipped])
def test_no_member_reaches_another_place(make, tmp_path: Path) -> None:
    folder = tmp_path / "in" / "deep"
    folder.mkdir(parents=True)
    evil = {"../../evil/train.en": b"1", "/tmp/gtrans-evil/train.de": b"2", "a/..": b"3"}
    make(folder / ("x.zip" if make is zipped else "x.tgz"), evil)
    before = {path for path in tmp_path.rglob("*") if "out" not in path.parts}
    result = Finder(folder, tmp_path / "out").find([("evil/train.en",), ("train.de",), ("a/",)])
    assert all((tmp_path / "out") in path.parents for path in result.values())
    assert len(result) == 2
    assert {path for path in tmp_path.rglob("*") if "out" not in path.parts} == before
    assert not Path("/tmp/gtrans-evil").exists()


def test_links_in_an_archive_count_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with tarfile.open(tmp_path / "in" / "x.tgz", "w:gz") as archive:
        link = tarfile.TarInfo("a/train.en")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert found(tmp_path / "in", tmp_path / "out", "train.en") == {}


def test_two_that_differ_are_refused(tmp_path: Path) -> None:
    for name, content in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "x.en").write_text(content)
    with pytest.raises(GtransError, match=r"differ, and both could be x\.en"):
        found(tmp_path / "in", tmp_path / "out", "x.en")
    (tmp_path / "in" / "c" / "x.en").unlink()
    assert found(tmp_path / "in", tmp_path / "out", "x.en") == {"x.en": b"one"}


@pytest.mark.parametrize("name", ["x.tgz", "x.zip", "x.tar"])
def test_a_damaged_archive_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    whole = tgz(tmp_path / "whole", {"a": b"a" * 99_999}).read_bytes()
    (tmp_path / "in" / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(GtransError, match="not readable as an archive") as error:
        found(tmp_path / "in", tmp_path / "out", "x.en")
    assert "\n" not in str(error.value)
