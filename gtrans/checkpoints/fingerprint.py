"""The fingerprint of a model: vocabularies, preparation and unit, which its checkpoint stores.

fairseq saves the state of the task with every checkpoint (``task_state``). It holds both
vocabularies, entry by entry in the order of the embeddings; the preparation, with the files that
turn text into tokens; the unit and its special tokens. So a checkpoint can translate without its
data folder. Wherever it meets a data folder or another checkpoint, their contents are compared, not
their places or sizes.
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
        languages: source and target; empty if there are several, or they are not known.
        source, target: the vocabularies.
        preparation: how the text was prepared; None: not by ``gtrans prepare``.
        unit: options of the unit and its special tokens.
        version: version of this project that wrote it.
    """

    languages: tuple[str, str]
    source: Vocabulary
    target: Vocabulary
    preparation: Preparation | None
    unit: Mapping[str, Any]
    version: str = __version__

    def state(self) -> dict[str, Any]:
        """The fingerprint in types that every checkpoint can hold: text, numbers, tensors."""
        prepared = None
        if self.preparation is not None:
            prepared = {
                "state": json.dumps(self.preparation.state, sort_keys=True),
                "files": _as_tensors(self.preparation.files),
                "tokenizer": _as_tensors(self.preparation.tokenizer),
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
        """The fingerprint that a checkpoint stores; None if it stores none.

        Raises:
            GtransError: it is damaged, or its vocabularies do not fit the embeddings.
        """
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
        """The fingerprint in the state of a task; ``path`` of the checkpoint is for messages.

        Raises:
            GtransError: it is damaged.
        """
        state = task_state.get(STATE) if isinstance(task_state, dict) else None
        if state is None:
            return None
        try:
            if state["format"] != _FORMAT:
                raise ValueError(f"format {state['format']} is not known to this version")
            source = _vocabulary(state["source"])
            target = source if state["target"] is None else _vocabulary(state["target"])
            prepared, (first, second) = state["preparation"], state["languages"]
            preparation = None
            if prepared is not None:
                preparation = Preparation.of_checkpoint(
                    prepared["state"],
                    _as_bytes(prepared["files"]),
                    _as_bytes(prepared["tokenizer"]),
                    Path(path),
                )
            # Files are named of them; they may be empty.
            languages = first and plain_name(first), second and plain_name(second)
            unit = {str(name): value for name, value in dict(state["unit"]).items()}
            return cls(languages, source, target, preparation, unit, str(state["version"]))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise GtransError(f"{path}: its fingerprint is damaged ({error}).") from None

    @property
    def digest(self) -> str:
        """A digest of everything in it but the version."""
        prepared = None if self.preparation is None else self.preparation.digest
        vocabularies = self.source.digest, self.target.digest
        return digest_of_values(self.languages, vocabularies, prepared, dict(self.unit))

    def differences(self, other: ModelFingerprint) -> list[str]:
        """Describe the differences in languages, vocabularies and preparation.

        A preparation that one of them does not know is not compared.
        """
        differences = []
        if all((*self.languages, *other.languages)) and self.languages != other.languages:
            here, there = map("-".join, (self.languages, other.languages))
            differences.append(f"languages {here}, not {there}")
        for side in ("source", "target"):
            own, theirs = getattr(self, side), getattr(other, side)
            if own != theirs:
                differences.append(f"{side} vocabulary ({own.difference(theirs)})")
        if self.preparation is not None and other.preparation is not None:
            names = self.preparation.differences(other.preparation)
            differences += [f"preparation ({', '.join(names)})"] if names else []
        return differences

    def data_folder(self) -> tempfile.TemporaryDirectory[str]:
        """A temporary folder with the files of a data folder, without the corpus."""
        folder = tempfile.TemporaryDirectory(prefix="gtrans-")
        if self.preparation is not None:
            self.preparation.write(Path(folder.name))
        for lang, vocabulary in zip(self.languages, (self.source, self.target), strict=True):
            path = Path(folder.name) / f"dict.{lang}.txt"
            with atomic_writer(path) as file:
                file.writelines(vocabulary.dictionary_lines())
        return folder


def published(checkpoint: Mapping[str, Any]) -> dict[str, str]:
    """Name and licence of the published model that a model is, or started from."""
    return dict((checkpoint.get("task_state") or {}).get(PUBLISHED) or {})


def say_unknown(checkpoint: str | Path) -> None:
    """Say that a checkpoint, such as one of fairseq, has no fingerprint."""
    print_message(f"{checkpoint}: no fingerprint: it does not say what it was made from")


def check_same_fingerprint(
    paths: Sequence[str | Path], fingerprints: Sequence[ModelFingerprint | None]
) -> None:
    """Compare checkpoints that are used together; those without a fingerprint are left out.

    Raises:
        GtransError: two differ in vocabulary, preparation, unit or special tokens.
    """
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


def same_data(first: str, others: Sequence[str], languages: Sequence[str]) -> None:
    """Compare the data folders of ``--data A:B`` with the first one, whose dictionaries are read.

    Raises:
        GtransError: a dictionary or a preparation differs.
    """
    prepared = Preparation.read(Path(first))
    for folder in others:
        names = [f"dict.{lang}.txt" for lang in languages]
        differences = [name for name in names if _contents(first, name) != _contents(folder, name)]
        other = Preparation.read(Path(folder))
        if prepared is not None and other is not None:
            changed = prepared.differences(other)
            differences += [name for name in changed if name not in differences]
            berts = [(each.state.get("bert") or {}).get("tokenizer") for each in (prepared, other)]
            differences += ["subwords of BERT"] if berts[0] != berts[1] else []
        if differences:
            raise GtransError(
                f"{folder}: it does not fit {first}, it has other {', '.join(differences)}; "
                f"prepare it with `gtrans prepare --reuse {first}`."
            )


def _contents(folder: str, name: str) -> bytes | None:
    path = Path(folder) / name
    return path.read_bytes() if path.is_file() else None


def unit_differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Describe the options of units that differ: ``--unit VALUE-HERE, not VALUE-THERE``."""
    differences = []
    for name, value in here.items():
        if name in there and value != there[name]:
            flag = f"--{name.replace('_', '-')}"
            differences.append(f"{flag} {value}, not {there[name]}")
    return differences


def _vocabulary_state(vocabulary: Vocabulary) -> dict[str, Any]:
    # Entries contain no line breaks. A tensor is read only when it is needed.
    words = "\n".join(vocabulary.words).encode()
    return {"words": _as_tensors({"words": words})["words"], "added": list(vocabulary.added)}


def _vocabulary(state: Mapping[str, Any]) -> Vocabulary:
    words = _as_bytes({"words": state["words"]})["words"].decode()
    return Vocabulary(tuple(words.split("\n")), tuple(map(str, state["added"])))


def _as_tensors(contents: Mapping[str, bytes]) -> dict[str, Tensor]:
    return {
        name: torch.from_numpy(np.frombuffer(value, np.uint8).copy())
        for name, value in contents.items()
    }


def _as_bytes(tensors: Mapping[str, Tensor]) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}
