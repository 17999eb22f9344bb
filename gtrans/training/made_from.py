"""What a training run is made from: its training data, and the model that it starts from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gtrans.checkpoints.reading import reading
from gtrans.files import digest, fingerprint
from gtrans.models.base.model import BERT_PIECES
from gtrans.text.prepared_folder import check_recorded
from gtrans.training.settings import group_of

MadeFrom = dict[str, Any]
"""``data``: digest of the training data. ``start``: by flag, ``path`` and ``digest`` of what the
flag names; the digest is None if it is unknown, because there is no such file any more."""

# Of a folder in the format of transformers, what its model consists of.
_MODEL_FILES = ("config.json", "*.safetensors", "*.bin", "*.index.json")


def recorded(state: Mapping[str, Any], path: str | Path) -> MadeFrom | None:
    """What the run of a checkpoint is made from; None if the checkpoint does not say.

    Raises:
        GtransError: what it says has not the form of :data:`MadeFrom`.
    """
    found = (state.get("task_state") or {}).get("run")
    if not found:
        return None
    with reading(path, "what it says of its run"):
        if not isinstance(found.get("data"), str | None):
            raise TypeError("the digest of the data is no text")
        for flag, file in (found.get("start") or {}).items():
            named = flag, file["path"], file["digest"]
            if not all(isinstance(text, str | None) for text in named):
                raise TypeError("the start is no text")
    return dict(found)


def made_from(trainer: Any) -> MadeFrom:
    """What the run of a fairseq trainer is made from; reads all files once.

    Raises:
        GtransError: a file of the training data is not the one that ``gtrans prepare`` wrote.
    """
    task = trainer.task
    symbols = [
        dictionary.symbols for dictionary in (task.source_dictionary, task.target_dictionary)
    ]
    paths: list[Path] = task.run.files()
    files = [[path.name, digest(path)] for path in paths]
    for path, (name, found) in zip(paths, files, strict=True):
        check_recorded(path.parent, [name], whole=True, known={name: found})
    return {
        "data": fingerprint(symbols, files),
        "start": {
            flag: {"path": os.path.abspath(path), "digest": _digest_of(Path(path))}
            for flag, path in _starts(trainer).items()
        },
    }


def _starts(trainer: Any) -> dict[str, str]:
    """The files and folders from which the model starts, by flag."""
    cfg, bert = trainer.cfg, trainer.task.bert
    named = {
        "--init-from": group_of(cfg, "task").get("init_from"),
        "--init-xlmr": cfg.model.get("init_xlmr"),
        "--finetune-from-model": cfg.checkpoint.finetune_from_model,
        "the BERT": bert.pieces.name if bert is not None and bert.use == BERT_PIECES else None,
    }
    return {flag: str(path) for flag, path in named.items() if path}


def _digest_of(path: Path) -> str | None:
    if path.is_file():
        return digest(path)
    if not path.is_dir():
        return None
    parts = sorted({part for pattern in _MODEL_FILES for part in path.glob(pattern)})
    found = hashlib.sha256()
    for part in parts:
        found.update(f"{part.name} {digest(part)}\n".encode())
    return found.hexdigest()


def differences(
    recorded: Mapping[str, Any], now: Mapping[str, Any], data: Iterable[str]
) -> list[str]:
    """What differs between the things that two runs are made from, in words.

    Args:
        recorded: of the run in the folder; what it does not have is unknown.
        now: of this run.
        data: ``--data`` of both.
    """
    found = []
    if recorded.get("data") not in (None, now["data"]):
        old, new = data
        found.append(
            f"the training data in {new} (it has changed)"
            if old == new
            else f"the training data (--data {old} -> {new})"
        )
    new_start = now["start"]
    old_start = recorded.get("start", new_start)
    for flag in sorted({**old_start, **new_start}):
        old_file, new_file = old_start.get(flag), new_start.get(flag)
        if not _same(old_file, new_file):
            found.append(_change(flag, old_file, new_file))
    return found


def _same(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> bool:
    if old is None or new is None:
        return old is new
    key = "digest" if old["digest"] and new["digest"] else "path"
    return bool(old[key] == new[key])


def _change(flag: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> str:
    names = ["none" if file is None else file["path"] for file in (old, new)]
    if names[0] == names[1]:
        return f"{flag} {names[0]} (it has changed)"
    return f"{flag} {names[0]} -> {names[1]}"


def completed(now: MadeFrom, recorded: Mapping[str, Any]) -> MadeFrom:
    """``now`` with the digests of files that are gone, as the run in the folder knows them."""
    known = recorded.get("start") or {}
    start = {
        flag: known[flag] if file["digest"] is None and flag in known else file
        for flag, file in now["start"].items()
    }
    return {**now, "start": start}


def missing(now: MadeFrom) -> str | None:
    """The flag, with its value, of a file that is missing although the run starts from it."""
    for flag in ("--init-from", "--init-xlmr"):
        file = now["start"].get(flag)
        if file is not None and file["digest"] is None:
            return f"{flag} {file['path']}"
    return None
