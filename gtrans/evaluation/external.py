"""Scores of tools that need an environment of their own: COMET, Doc-COMET, BlonDe.

These tools pin old packages, so they are not imported: data are exchanged in files. The first
call of ``gtrans score`` writes the texts for a tool into a folder and prints the commands of
the tool. The user runs them in a second environment. The next call of ``gtrans score`` reads
the results. A result that does not belong to the texts in the folder is refused.

Texts are written only if they have changed, so that a result stays valid.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gtrans.errors import GtransError
from gtrans.evaluation.scores import Documents, Measurement, Statistics
from gtrans.identity.files import atomic_writer, check_output, unwritable
from gtrans.identity.json_files import read_object

CONTEXT_SENTENCES = 2
SEPARATOR = " </s> "
RESULT = "scores.json"
COMET_MODEL = "Unbabel/wmt22-comet-da"
_AGAIN = "run the tool's command again"

_BLONDE_PROGRAM = '''\
"""Scores documents.json with BlonDe: run it where blonde is installed."""
import hashlib, json, pathlib
from blonde import BLONDE

folder = pathlib.Path(__file__).parent
text = (folder / "documents.json").read_bytes()
documents = json.loads(text)
blonde = BLONDE(references=[documents["references"]])
scores = {}
for name, system in documents["systems"].items():
    result = blonde.corpus_score(system)
    scores[name] = {"score": 100 * result.F1, "recall": 100 * result.recall,
                    "precision": 100 * result.precision}
checked = hashlib.sha256(text).hexdigest()
(folder / "scores.json").write_text(json.dumps({"texts": checked, "systems": scores}, indent=2))
'''


@dataclass(frozen=True)
class Texts:
    """The texts to score: documents of sentences; sentences in ``systems`` may be empty.

    ``files`` are those that they were read from.
    """

    sources: Documents | None
    references: Documents
    systems: Mapping[str, Documents]
    files: Sequence[str] = ()


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


_COMET_INSTALL = (
    "python3 -m venv comet-env && . comet-env/bin/activate",
    "pip install 'unbabel-comet>=2.2.2'",
)


def comet(
    folder: Path, texts: Texts, model: str, context: bool
) -> tuple[Instructions, Measurement | None]:
    """COMET of every sentence; with ``context``, Doc-COMET (Vernikos et al., 2022).

    Doc-COMET reads up to two preceding sentences of the document before each sentence,
    joined by ``</s>``: the source's before the source, the reference's before the
    reference and before the translation.

    Returns:
        instructions, and the scores (from about 0 to 1) if they have been computed.

    Raises:
        GtransError: there is no source, or the scores belong to other texts.
    """
    label = "Doc-COMET" if context else "COMET"
    if texts.sources is None:
        raise GtransError(f"{label} needs the source; give it with --src")
    references = _flat(texts.references)
    columns = {"src.txt": _flat(texts.sources), "ref.txt": references}
    columns |= {f"hyp.{name}.txt": _flat(system) for name, system in texts.systems.items()}
    if context:
        joined = {"src.txt": columns["src.txt"]}
        before = {name: joined.get(name, references) for name in columns}
        sizes = [len(document) for document in texts.references]
        columns = {
            name: _with_context(lines, before[name], sizes) for name, lines in columns.items()
        }
    contents = {name: "".join(f"{x}\n" for x in lines) for name, lines in columns.items()}
    _write(folder, contents, texts.files)
    files = [f"hyp.{name}.txt" for name in texts.systems]
    command = ["comet-score", "-s", "src.txt", "-t", *files, "-r", "ref.txt", "--model", model]
    if context:
        command.append("--enable-context")
    command += ["--to_json", RESULT]
    instructions = Instructions(label, folder, _COMET_INSTALL, (shlex.join(command),))
    result = _object_in(folder / RESULT)
    if result is None:
        return instructions, None
    statistics = {
        name: _comet_statistics(folder / RESULT, result, file, columns[file])
        for name, file in zip(texts.systems, files, strict=True)
    }
    unit = f"context:{CONTEXT_SENTENCES},reference|" if context else ""
    return instructions, Measurement(
        key="doc_comet" if context else "comet",
        label=label,
        unit="sentence",
        higher_is_better=True,
        signature=f"model:{model}|{unit}aggregate:mean|unit:sentence",
        statistics=statistics,
        documents=np.repeat(
            np.arange(len(texts.references)), [len(document) for document in texts.references]
        ),
        compute=lambda sums: sums[0] / sums[1],
    )


def _with_context(lines: list[str], context: list[str], sizes: Sequence[int]) -> list[str]:
    """Each line, preceded by the context lines just before it in its document."""
    joined = []
    starts = np.cumsum([0, *sizes]).tolist()
    for start, end in pairwise(starts):
        for number in range(start, end):
            before = context[max(start, number - CONTEXT_SENTENCES) : number]
            joined.append(SEPARATOR.join([*before, lines[number]]))
    return joined


def _comet_statistics(path: Path, result: Any, file: str, lines: list[str]) -> Statistics:
    """Statistics ``(score, 1)`` of each sentence; their sums give the mean score."""
    found = {Path(name).name: entries for name, entries in result.items()}.get(file)
    if found is None:
        raise GtransError(f"{path} has no scores of {file}; {_AGAIN}")
    try:
        scored = [(str(entry["mt"]), float(entry["COMET"])) for entry in found]
    except (KeyError, TypeError, ValueError):
        raise GtransError(f"{path} is not what comet-score --to_json writes") from None
    for number, line in enumerate(lines):
        if number >= len(scored) or scored[number][0].strip() != line.strip():
            raise GtransError(
                f"{path} holds the scores of other texts: it lacks line {number + 1} of {file}; "
                "run the tool's command again"
            )
    return np.array([[score, 1.0] for _, score in scored])


def blonde(
    folder: Path, texts: Texts, target_lang: str
) -> tuple[Instructions, dict[str, dict[str, float]] | None]:
    """BlonDe (Jiang et al., 2022) of every system: its F1, recall and precision times 100.

    Raises:
        GtransError: the target language is not English, or the scores belong to other texts.
    """
    if target_lang not in ("", "en"):
        raise GtransError(f"BlonDe supports English only, but --target-lang is {target_lang}")
    documents = json.dumps(
        {
            "references": [list(document) for document in texts.references],
            "systems": {
                name: [list(document) for document in system]
                for name, system in texts.systems.items()
            },
        },
        ensure_ascii=False,
    )
    contents = {"documents.json": documents, "blonde_scores.py": _BLONDE_PROGRAM}
    _write(folder, contents, texts.files)
    instructions = Instructions(
        "BlonDe",
        folder,
        (
            "python3 -m venv blonde-env && . blonde-env/bin/activate",
            "pip install blonde && python -m spacy download en_core_web_sm",
        ),
        ("python blonde_scores.py",),
    )
    result = _object_in(folder / RESULT)
    if result is None:
        return instructions, None
    if result.get("texts") != hashlib.sha256(documents.encode()).hexdigest():
        raise GtransError(
            f"{folder / RESULT} holds the scores of other texts; run blonde_scores.py again"
        )
    scores: dict[str, dict[str, float]] = result["systems"]
    return instructions, scores


def _flat(documents: Documents) -> list[str]:
    return [sentence for document in documents for sentence in document]


def _write(folder: Path, files: Mapping[str, str], inputs: Sequence[str]) -> None:
    """Write the files whose contents have changed, none of them onto one of ``inputs``."""
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


def _object_in(path: Path) -> dict[str, Any] | None:
    try:
        return read_object(path, f"; {_AGAIN}")
    except FileNotFoundError:
        return None
