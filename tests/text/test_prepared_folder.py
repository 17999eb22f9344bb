"""``prepare.json`` is read once, and anew after every change."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gtrans.text.prepared_folder import STATE_FILE, read_state


def write_state(folder: Path, target_lang: str) -> None:
    state = {"source_lang": "en", "target_lang": target_lang, "subwords": "sentencepiece"}
    (folder / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")


def test_a_change_of_the_same_size_and_time_is_read(tmp_path: Path) -> None:
    for lang in ("de", "fr", "nl"):
        write_state(tmp_path, lang)
        os.utime(tmp_path / STATE_FILE, ns=(0, 0))
        assert read_state(tmp_path)["target_lang"] == lang


def test_an_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a caller changes is its own copy."""
    monkeypatch.setattr("gtrans.text.prepared_folder._SETTLED_NANOSECONDS", 0)
    write_state(tmp_path, "de")
    for _ in range(2):
        state = read_state(tmp_path)
        assert state["target_lang"] == "de"
        state["target_lang"] = "fr"
        monkeypatch.setattr("gtrans.text.prepared_folder.read_object", None)
