"""The fingerprint of a model: its vocabularies, preparation and unit.

With it, in fairseq's ``task_state``, a checkpoint translates without its data folder.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gtrans.data.vocabulary import Vocabulary
from gtrans.errors import GtransError
from gtrans.files import atomic_writer, digest_of_values
from gtrans.messages import print_message
from gtrans.text.prepared_folder import Preparation, plain_name
from gtrans.version import __version__

STATE = "fingerprint"
PUBLISHED = "published"
"""The entry beside :data:`STATE` with ``name`` and ``licence`` of a published model."""
_FORMAT = 1


@dataclass(frozen=True)
class ModelFingerprint:
    """Vocabularies, preparation and unit of a model.

    Attributes:
        languages: source and target; empty: several or unknown.
        preparation: None: not by ``gtrans prepare``.
        unit: its options and special tokens.
        version: of gtrans.
    """

    languages: tuple[str, str]
    source: Vocabulary
    target: Vocabulary
    preparation: Preparation | None
    unit: Mapping[str, Any]
    version: str = __version__

    def state(self) -> dict[str, Any]:
        """Return the fingerprint in types for a checkpoint."""
        prepared = None
        if self.preparation is not None:
            prepared = {
                "state": json.dumps(self.preparation.state, sort_keys=True),
                "files": _all_as_tensors(self.preparation.files),
                "tokenizer": _all_as_tensors(self.preparation.tokenizer),
            }
        joint = self.source == self.target
        return {
            "format": _FORMAT,
            "version": self.version,
            "languages": list(self.languages),
            "source": _vocabulary_state(self.source),
            "target": None if joint else _vocabulary_state(self.target),
            "preparation": prepared,
            "unit": dict(self.unit),
        }

    @classmethod
    def of_checkpoint(
        cls, checkpoint: Mapping[str, Any], path: str | Path
    ) -> ModelFingerprint | None:
        """Return the fingerprint in a checkpoint, or None; it must fit the embeddings."""
        fingerprint = cls.of_state(checkpoint.get("task_state"), path)
        if fingerprint is None:
            return None
        for side, vocabulary in (("encoder", fingerprint.source), ("decoder", fingerprint.target)):
            table = checkpoint["model"].get(f"{side}.embed_tokens.weight")
            if table is not None and table.size(0) != len(vocabulary.entries):
                raise GtransError(
                    f"{path}: its fingerprint is damaged ({len(vocabulary.entries)} entries "
                    f"for {table.size(0)} embeddings of the {side})."
                )
        return fingerprint

    @classmethod
    def of_state(cls, task_state: object, path: str | Path) -> ModelFingerprint | None:
        """Return the fingerprint in ``task_state``, or None; ``path`` is for messages."""
        state = task_state.get(STATE) if isinstance(task_state, dict) else None
        if state is None:
            return None
        try:
            return cls._parsed(state, Path(path))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise GtransError(f"{path}: its fingerprint is damaged ({error}).") from None

    @classmethod
    def _parsed(cls, state: Mapping[str, Any], path: Path) -> ModelFingerprint:
        if state["format"] != _FORMAT:
            raise ValueError(f"format {state['format']} is not known to this version")
        source = _vocabulary(state["source"])
        target = source if state["target"] is None else _vocabulary(state["target"])
        preparation = None
        prepared = state["preparation"]
        if prepared is not None:
            preparation = Preparation.of_checkpoint(
                prepared["state"],
                _all_as_bytes(prepared["files"]),
                _all_as_bytes(prepared["tokenizer"]),
                path,
            )
        source_lang, target_lang = state["languages"]
        for lang in (source_lang, target_lang):
            if lang:
                plain_name(lang)  # files are named after it
        return cls(
            languages=(source_lang, target_lang),
            source=source,
            target=target,
            preparation=preparation,
            unit={str(name): value for name, value in dict(state["unit"]).items()},
            version=str(state["version"]),
        )

    @property
    def digest(self) -> str:
        """A digest of everything but the version."""
        prepared = None if self.preparation is None else self.preparation.digest
        vocabularies = self.source.digest, self.target.digest
        return digest_of_values(self.languages, vocabularies, prepared, dict(self.unit))

    def differences(self, other: ModelFingerprint) -> list[str]:
        """Describe differences in languages, vocabularies and known preparations."""
        differences = []
        are_known = all(self.languages) and all(other.languages)
        if are_known and self.languages != other.languages:
            here, there = "-".join(self.languages), "-".join(other.languages)
            differences.append(f"languages {here}, not {there}")
        if self.source != other.source:
            differences.append(f"source vocabulary ({self.source.difference(other.source)})")
        if self.target != other.target:
            differences.append(f"target vocabulary ({self.target.difference(other.target)})")
        if self.preparation is not None and other.preparation is not None:
            names = self.preparation.differences(other.preparation)
            if names:
                differences.append(f"preparation ({', '.join(names)})")
        return differences

    def data_folder(self) -> tempfile.TemporaryDirectory[str]:
        """Return a temporary data folder without a corpus."""
        # transformers reads the tokenizer of a BERT from a folder only: its class and options stand
        # in several files there, and older tokenizers are no single file.
        folder = tempfile.TemporaryDirectory(prefix="gtrans-")
        if self.preparation is not None:
            self.preparation.write(Path(folder.name))
        for lang, vocabulary in zip(self.languages, (self.source, self.target), strict=True):
            path = Path(folder.name) / f"dict.{lang}.txt"
            with atomic_writer(path) as file:
                file.writelines(vocabulary.dictionary_lines())
        return folder


def published(checkpoint: Mapping[str, Any]) -> dict[str, str]:
    """Return name and licence of the published model in a checkpoint or at its start."""
    task_state = checkpoint.get("task_state") or {}
    return dict(task_state.get(PUBLISHED) or {})


def report_missing_fingerprint(checkpoint: str | Path) -> None:
    """Print that a checkpoint has no fingerprint."""
    print_message(f"{checkpoint}: no fingerprint: it does not say what it was made from")


def check_same_fingerprint(
    paths: Sequence[str | Path], fingerprints: Sequence[ModelFingerprint | None]
) -> None:
    """Raise GtransError if known vocabularies, preparations or units of checkpoints differ."""
    first_path: str | Path = ""
    first: ModelFingerprint | None = None
    for path, fingerprint in zip(paths, fingerprints, strict=True):
        if fingerprint is None:
            continue
        if first is None:
            first_path, first = path, fingerprint
            continue
        differences = fingerprint.differences(first)
        differences += unit_differences(fingerprint.unit, first.unit)
        if differences:
            raise GtransError(
                f"{path} and {first_path} do not belong together: {'; '.join(differences)}; take "
                "checkpoints of one model."
            )


def check_same_data(first: str, others: Sequence[str], languages: Sequence[str]) -> None:
    """Raise GtransError if folders of ``--data A:B`` differ in dictionary or preparation."""
    prepared = Preparation.read(Path(first))
    for folder in others:
        differences = []
        for lang in languages:
            name = f"dict.{lang}.txt"
            if _contents(first, name) != _contents(folder, name):
                differences.append(name)
        other = Preparation.read(Path(folder))
        if prepared is not None and other is not None:
            for name in prepared.differences(other):
                if name not in differences:
                    differences.append(name)
            if _bert_tokenizer(prepared) != _bert_tokenizer(other):
                differences.append("subwords of BERT")
        if differences:
            raise GtransError(
                f"{folder}: it does not fit {first}, it has other {', '.join(differences)}; "
                f"prepare it with `gtrans prepare --reuse {first}`."
            )


def _bert_tokenizer(preparation: Preparation) -> str | None:
    bert = preparation.state.get("bert") or {}
    tokenizer: str | None = bert.get("tokenizer")
    return tokenizer


def _contents(folder: str, name: str) -> bytes | None:
    path = Path(folder) / name
    return path.read_bytes() if path.is_file() else None


def unit_differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Describe the options that differ: ``--unit VALUE-HERE, not VALUE-THERE``."""
    differences = []
    for name, value in here.items():
        if name in there and value != there[name]:
            flag = f"--{name.replace('_', '-')}"
            differences.append(f"{flag} {value}, not {there[name]}")
    return differences


def _vocabulary_state(vocabulary: Vocabulary) -> dict[str, Any]:
    # Entries contain no line breaks. Tensors are read from a checkpoint only when they are needed.
    words = "\n".join(vocabulary.words)
    return {"words": _as_tensor(words.encode()), "added": list(vocabulary.added)}


def _vocabulary(state: Mapping[str, Any]) -> Vocabulary:
    words = _as_bytes(state["words"]).decode()
    added = [str(entry) for entry in state["added"]]
    return Vocabulary(tuple(words.split("\n")), tuple(added))


def _as_tensor(contents: bytes) -> Tensor:
    values = np.frombuffer(contents, np.uint8).copy()
    return torch.from_numpy(values)


def _as_bytes(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


def _all_as_tensors(files: Mapping[str, bytes]) -> dict[str, Tensor]:
    return {name: _as_tensor(contents) for name, contents in files.items()}


def _all_as_bytes(tensors: Mapping[str, Tensor]) -> dict[str, bytes]:
    return {name: _as_bytes(tensor) for name, tensor in tensors.items()}
