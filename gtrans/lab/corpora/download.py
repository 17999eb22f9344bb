"""Fetch a file from its public home: with retries, going on where it stopped, with checksums.

``FILE.download.json`` beside a file says where it is from and has its SHA-256, taken at the first
download. A later one, or a file that has changed meanwhile, is compared with it. What has arrived
of an unfinished download is ``FILE.part``; it is continued only if the server says that the file is
still the same one.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gtrans.errors import GtransError
from gtrans.identity.digests import digest
from gtrans.identity.files import atomic_writer, locked, unwritable
from gtrans.identity.json_files import read_object
from gtrans.messages import json_text, say
from gtrans.version import __version__

ATTEMPTS = 5
_SECONDS = 60.0  # without a byte
_BLOCK = 1 << 18
_FINAL = (400, 401, 403, 404, 405, 410, 451)
_BROKEN = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)


@dataclass
class _Record:
    """What ``FILE.download.json`` says; ``validator``: the server's name of this very file."""

    url: str
    validator: str = ""
    sha256: str = ""
    bytes: int = 0


class _CutOff(ConnectionError):
    """The connection ended before the file did."""


def download(url: str, target: Path, md5: str = "", pause: float = 2.0) -> None:
    """Fetch a file unless it is there and is what it was.

    Args:
        url: http or https.
        target: how it is called here; its folder exists.
        md5: checksum that is published elsewhere; empty: none.
        pause: seconds before the second attempt; each further one waits twice as long.

    Raises:
        GtransError: the address does not answer, or another file comes than before.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise GtransError(f"'{url}' is no address that begins with http:// or https://")
    part = target.with_name(f"{target.name}.part")
    place = target.with_name(f"{target.name}.download.json")
    with locked(target):
        record = _read(place)
        if target.is_file() and record.sha256:
            if digest(target) != record.sha256:
                raise GtransError(
                    f"{target} is not what was downloaded (SHA-256 {record.sha256}); remove it and "
                    "run the command again"
                )
            return
        if target.is_file():
            if md5 and _md5(target) != md5:
                raise GtransError(
                    f"{target} is not the file that is known by this name (MD5 {md5}); remove it "
                    "and run the command again"
                )
            compared = "its MD5 is the known one" if md5 else "nothing is compared"
            say(f"{target} is there; it was not downloaded by this command; {compared}")
            return
        if not record.sha256 and record.url != url:
            part.unlink(missing_ok=True)
            record = _Record(url)
        _fetch_patiently(url, part, place, record, pause)
        _finish(part, target, place, record, md5)


def _read(place: Path) -> _Record:
    try:
        found = read_object(place, "; remove it")
        return _Record(**found)
    except FileNotFoundError:
        return _Record("")
    except TypeError:
        raise GtransError(f"{place}: not the record of a download; remove it") from None


def _keep(place: Path, record: _Record) -> None:
    with atomic_writer(place) as file:
        file.write(f"{json_text(asdict(record))}\n")


def _fetch_patiently(url: str, part: Path, place: Path, record: _Record, pause: float) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _fetch(url, part, place, record)
            return
        except urllib.error.HTTPError as error:
            if error.code in _FINAL:
                raise GtransError(
                    f"{url} answers {error.code} ({error.reason}); look for the file elsewhere and "
                    "give its folder with `--from`"
                ) from None
            reason = f"{error.code} ({error.reason})"
        except _BROKEN as error:
            reason = str(getattr(error, "reason", None) or error) or type(error).__name__
        if attempt < ATTEMPTS:
            say(f"{url}: {reason}; attempt {attempt + 1} of {ATTEMPTS} in {pause:g} s")
            time.sleep(pause)
            pause *= 2
    raise GtransError(
        f"{url}: {reason}, {ATTEMPTS} times; run the command again to go on, or fetch the file and "
        "give its folder with `--from`"
    )


def _fetch(url: str, part: Path, place: Path, record: _Record) -> None:
    """Fetch what is missing of a file, or all of it."""
    have = part.stat().st_size if part.is_file() and record.validator and not record.sha256 else 0
    headers = {"User-Agent": f"gtrans/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": record.validator}
    request = urllib.request.Request(url, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416 and error.headers.get("Content-Range") == f"bytes */{have}":
            return  # all of it was there
        if error.code == 416:
            part.unlink()
        raise
    with answer:
        continued = answer.status == 206
        if not continued:
            have = 0
        if not record.sha256:
            validator = answer.headers.get("ETag", "")
            record.validator = "" if validator.startswith("W/") else validator
            record.validator = record.validator or answer.headers.get("Last-Modified", "")
            _keep(place, record)
        said = answer.headers.get("Content-Length", "")
        length = int(said) if said.isdecimal() else -1
        arrived = _append(answer, part, continued)
        if 0 <= arrived < length:
            raise _CutOff(f"cut off after {have + arrived} of {have + length} bytes")


def _append(answer: Any, part: Path, continued: bool) -> int:
    """Write what arrives to a file that grows; returns the number of bytes."""
    arrived = 0
    try:
        with open(part, "ab" if continued else "wb") as file:
            while block := answer.read(_BLOCK):
                file.write(block)
                arrived += len(block)
    except OSError as error:
        if isinstance(error, _BROKEN):
            raise
        raise unwritable(part, error) from None
    return arrived


def _finish(part: Path, target: Path, place: Path, record: _Record, md5: str) -> None:
    """Compare the checksums and give the file its name."""
    found = digest(part)
    if record.sha256 and found != record.sha256:
        part.unlink()
        raise GtransError(
            f"{record.url}: another file than at the first download (SHA-256 {found}, then "
            f"{record.sha256}); remove {place} if that is right"
        )
    if md5 and _md5(part) != md5:
        part.unlink()
        raise GtransError(
            f"{record.url}: not the file that is known by this name (MD5 {md5}); look for it "
            "elsewhere, and give its folder with `--from`"
        )
    size = part.stat().st_size
    # First, so that the file is never there without it.
    _keep(place, _Record(record.url, record.validator, found, size))
    os.replace(part, target)


def _md5(path: Path) -> str:
    found = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
