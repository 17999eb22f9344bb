"""Exchange of files with tools that need an environment of their own.

COMET, BlonDe and METEOR 1.5 (:mod:`gtrans.evaluation.comet` and its neighbours) pin old packages or
are no Python, so they are not imported: data are exchanged in files. The first call of ``gtrans
score`` writes the texts for a tool into a folder and prints the commands of the tool. The user runs
them in a second environment. The next call of ``gtrans score`` reads the results. A result that
does not belong to the texts in the folder is refused.

Texts are written only if they have changed, so that a result stays valid.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.scores import Statistics
from gtrans.identity.files import atomic_writer, check_output, unwritable
from gtrans.identity.json_files import read_object

RESULT = "scores.json"
AGAIN = "run the tool's command again"


@dataclass(frozen=True)
class ToolTexts:
    """The texts to score: documents of sentences; sentences in ``systems`` may be empty.

    ``files`` are those that they were read from.
    """

    sources: Documents | None
    references: Documents | None
    systems: Mapping[str, Documents]
    files: Sequence[str] = ()

    @property
    def shape(self) -> list[int]:
        """Number of sentences of each document."""
        documents = self.sources if self.references is None else self.references
        return [len(document) for document in documents or ()]

    def document_of_sentences(self) -> NDArray[np.int64]:
        """The document of every sentence, counted from 0."""
        return np.repeat(np.arange(len(self.shape)), self.shape)


@dataclass(frozen=True)
class Instructions:
    """How to get the scores of a tool.

    Attributes:
        label: the tool's name.
        folder: where its files are.
        install: commands that create its environment, to be run once.
        commands: commands that compute the scores, to be run in ``folder`` in that environment.
    """

    label: str
    folder: Path
    install: tuple[str, ...]
    commands: tuple[str, ...]

    def lines(self) -> list[str]:
        """The instructions in words."""
        return [
            f"{self.label}: the texts are in {self.folder}, which has no scores yet. Create a "
            "second environment (once):",
            *(f"    {command}" for command in self.install),
            "Compute the scores in it, then run this command again:",
            f"    cd {shlex.quote(str(self.folder))}",
            *(f"    {command}" for command in self.commands),
        ]


def flat(documents: Documents) -> list[str]:
    """All sentences, in order."""
    return [sentence for document in documents for sentence in document]


def lines(texts: Sequence[str]) -> str:
    """The contents of a file with a line for each text."""
    return "".join(f"{text}\n" for text in texts)


def write_texts(folder: Path, files: Mapping[str, str], inputs: Sequence[str]) -> None:
    """Write the files whose contents have changed, none of them onto one of ``inputs``.

    Raises:
        GtransError: the folder cannot be written, or a file is one of ``inputs``; then none is
            written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            check_output("--external-dir", folder / name, inputs)
        for name, text in files.items():
            path = folder / name
            if not path.exists() or path.read_bytes() != text.encode():
                with atomic_writer(path, inputs) as file:
                    file.write(text)
    except OSError as error:
        raise unwritable(f"`--external-dir` '{folder}'", error) from None


def read_result(path: Path) -> dict[str, Any] | None:
    """The object in a result of a tool; None if the tool has not been run.

    Raises:
        GtransError: the file is damaged.
    """
    try:
        return read_object(path, f"; {AGAIN}")
    except FileNotFoundError:
        return None


def result_of(path: Path, texts: str, program: str) -> dict[str, Any] | None:
    """The result of one of our programs; None if it has not been run.

    Args:
        path: the result: the digest of the ``texts``, and ``systems`` by name.
        texts: the file of texts that it must belong to.
        program: what has to be run again.

    Raises:
        GtransError: the file is damaged, or belongs to other texts.
    """
    result = read_result(path)
    if result is None:
        return None
    if result.get("texts") != hashlib.sha256(texts.encode()).hexdigest():
        raise GtransError(f"{path} holds the scores of other texts; run {program} again")
    if not isinstance(result.get("systems"), dict):
        raise GtransError(f"{path} is not what {program} writes; run it again")
    return result


def matrix(rows: Any, shape: tuple[int, int], place: str) -> Statistics:
    """The numbers of a result, (rows, columns).

    Raises:
        GtransError: they are no finite numbers, or more or fewer of them.
    """
    try:
        found = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != shape or not np.isfinite(found).all():
        raise GtransError(f"{place}: it must have {shape[0]} rows of {shape[1]} numbers; {AGAIN}")
    return found
