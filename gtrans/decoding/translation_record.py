"""The record beside a finished translation: what it was made from.

``gtrans translate --output FILE`` writes ``FILE.made.json``. It has the fingerprint of the run, and
what this is a digest of: checkpoints, input, preparation, options, version. It also has the digest
of the text that was written, so that a changed translation is recognised.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.identity.digests import digest
from gtrans.identity.files import atomic_writer
from gtrans.identity.json_files import read_json

SUFFIX = ".made.json"
_FORMAT = "translation 1"


@dataclass(frozen=True)
class TranslationRecord:
    """What a translation was made from.

    Attributes:
        run: fingerprint of ``made_from``; the same command on the same files has the same.
        made_from: digests of ``checkpoints``, ``input`` (the encoded lines) and ``preparation``
            (empty if there is none), all options that matter, and the version.
        names: the paths of these files, as they were given.
        sentences: number of translated sentences.
        output: digest of the translation as it was written.
    """

    run: str
    made_from: Mapping[str, Any]
    names: Mapping[str, Any]
    sentences: int
    output: str

    def describes(self, output: str | os.PathLike[str]) -> bool:
        """Whether ``output`` is the translation as it was written."""
        return Path(output).is_file() and digest(Path(output)) == self.output


def record_path(output: str | os.PathLike[str]) -> Path:
    """The file of the record; if ``output`` is a symbolic link, beside the file behind it."""
    target = Path(os.path.realpath(output))
    return target.with_name(f"{target.name}{SUFFIX}")


def read_record(output: str | os.PathLike[str]) -> TranslationRecord | None:
    """The record of a translation; None if it has none.

    Raises:
        GtransError: the file in its place is no such record.
    """
    path = record_path(output)
    try:
        fields = read_json(path)
        if fields.pop("format") != _FORMAT:
            raise ValueError
        record = TranslationRecord(**fields)
        dict(record.made_from), dict(record.names), int(record.sentences)
        return record
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise GtransError(
            f"'{path}' is in the way of the record of '{os.fspath(output)}', but is none; move it "
            "away, or name another output."
        ) from None


def write_record(output: str | os.PathLike[str], record: TranslationRecord) -> None:
    """Write the record beside ``output``.

    Raises:
        GtransError: it cannot be written.
    """
    written = json.dumps({"format": _FORMAT, **asdict(record)}, indent=2, ensure_ascii=False)
    with atomic_writer(record_path(output)) as file:
        # A name of a file need not be UTF-8, but JSON is.
        file.write(written.encode("utf-8", "replace").decode() + "\n")
