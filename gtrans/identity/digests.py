"""Digests of files and values, to recognise what has changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def fingerprint(*parts: object) -> str:
    """SHA-256 of values that JSON can represent."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of the contents of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def digest_of_bytes(contents: bytes) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(contents).hexdigest()
