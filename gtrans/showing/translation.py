"""What a translation is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gtrans.decoding.resuming import read_record
from gtrans.errors import GtransError
from gtrans.files import fingerprint
from gtrans.showing.facts import Facts


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def of_translation(path: Path) -> Facts | None:
    """What a translation is, by the record beside it; None if it has none.

    Raises:
        GtransError: the record is damaged, or of another text.
    """
    record = read_record(path)
    if record is None:
        return None
    if not record.describes(path) or fingerprint(record.made_from) != record.run:
        raise GtransError(
            f"{path}: it or its record was changed after `gtrans translate` wrote it, so nobody "
            "knows what it is; translate again."
        )
    found = Facts(str(path), "translation")
    found.facts = {
        "sentences": record.sentences,
        "files": _given(record.names),
        "made from": _given(record.made_from),
        "identity": record.run,
        "sha256": record.output,
    }
    return found
