"""What the recipes leave in a run folder: trainings, translations, tables of scores.

A table ``scores.NAME.txt`` begins with the ``gtrans score`` that made it. So the folder itself says
which translations there are, and with which reference they were compared.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtrans.decoding.translation_record import SUFFIX, read_record
from gtrans.errors import GtransError
from gtrans.identity.json_files import read_object
from gtrans.lab.analysis.history import LOG
from gtrans.lab.page.training import Training, read_training

_TRANSLATION = "test."
# Sentence models of the recipes; no other model may have these names.
_SENTENCE = re.compile("sentence|memory-sentence.*")
_WAY_OUT = "run its recipe again, which makes what is missing"


@dataclass(frozen=True)
class ScoreTable:
    """A table of a run folder.

    Attributes:
        path: ``scores.NAME.txt``.
        words: the words after ``gtrans score`` that made it, with the files as they lie now.
        systems: the translation of each model, the baseline first.
        references: the references.
        source: the source text; None if nothing names it.
        languages: of source and target; empty if unknown.
        scores: what ``scores.NAME.json`` has beside it; None without that file.
    """

    path: Path
    words: list[str]
    systems: Mapping[str, Path]
    references: list[Path]
    source: Path | None
    languages: tuple[str, str]
    scores: Mapping[str, Any] | None = None

    @property
    def resegmented(self) -> bool:
        """Whether its translations are split into the sentences of the reference."""
        return "--resegment" in self.words


@dataclass
class Run:
    """A finished run folder.

    Attributes:
        name: how it is called on the page.
        path: the folder.
        tables: its tables of scores.
        trained: what the logs of its models say.
    """

    name: str
    path: Path
    tables: list[ScoreTable] = field(default_factory=list)
    trained: dict[str, Training] = field(default_factory=dict)

    @property
    def systems(self) -> dict[str, Path]:
        """The translation of each model that is in a table."""
        return {name: file for table in self.tables for name, file in table.systems.items()}

    @property
    def inputs(self) -> list[Path]:
        """The files that are read."""
        tables = [table.path for table in self.tables]
        texts = [path for table in self.tables for path in (*table.references, table.source)]
        logs = [self.path / model / LOG for model in self.trained]
        read = [*tables, *(table.with_suffix(".json") for table in tables), *logs]
        return [*read, *self.systems.values(), *filter(None, texts)]


def read_run(
    name: str,
    path: Path,
    references: Sequence[str] = (),
    source: str | None = None,
    models: Sequence[str] = (),
) -> Run:
    """What is in a run folder.

    Args:
        name: how it is called on the page.
        path: the folder, ``--out`` of a recipe.
        references: read these instead of those that the tables name.
        source: the same for the source text.
        models: what else is in the folder is not read; empty: all of it is.

    Raises:
        GtransError: there is no such folder, or something of it is missing or not finished.
    """
    if not path.is_dir():
        raise GtransError(f"{path}: there is no such run folder (`--out` of a recipe).")
    run = Run(name, path)
    for log in sorted(path.glob(f"*/{LOG}")):
        if models and log.parent.name not in models:
            continue
        training = read_training(log)
        if not training.finished:
            raise GtransError(
                f"{log.parent}: its training has not come to its end ({log.name}); {_WAY_OUT}."
            )
        run.trained[log.parent.name] = training
    for table in sorted(path.glob("scores.*.txt")):
        words = _command(table)
        if words is None:
            continue
        found = _read_table(table, words, references, source)
        if not models or set(found.systems) <= set(models):
            run.tables.append(found)
    if references and (words := _words_for(run, models)):
        run.tables.append(_read_table(path / "scores.txt", words, references, source))
    untested = [model for model in (models or run.trained) if model not in run.systems]
    if not run.tables or untested:
        missing = path / f"scores.{untested[0] if untested else 'MODEL'}.txt"
        raise GtransError(f"{missing}: there are no such scores yet; {_WAY_OUT}.")
    return run


def _source_language(data: Path) -> str:
    """The source language of a prepared corpus; empty if it is not there."""
    try:
        return str(read_object(data / "prepare.json").get("source_lang") or "")
    except FileNotFoundError:
        return ""


def _words_for(run: Run, models: Sequence[str]) -> list[str]:
    """A ``gtrans score`` of the translations that are in no table: ``models``, or all of them.

    They stand in the order of ``models``; without them those of sentence models are the first.

    A workflow may keep its scores elsewhere.
    """
    files = [
        file
        for file in sorted(run.path.glob(f"{_TRANSLATION}*.*"))
        if not file.name.endswith(SUFFIX)
        and _model(file.name) not in run.systems
        and (not models or _model(file.name) in models)
    ]
    if models:
        files.sort(key=lambda file: models.index(_model(file.name)))
    else:
        files.sort(key=lambda file: not _SENTENCE.fullmatch(_model(file.name)))
    if not files:
        return []
    record = read_record(files[0])
    names = {} if record is None else record.names
    found = ["--hyp", *(f"{_model(file.name)}={file}" for file in files), "--ref", ""]
    found += ["--target-lang", files[0].suffix[1:]]
    found += ["--src", str(names["input"])] if names.get("input") else []
    return [*found, "--data", str(names["data"])] if names.get("data") else found


def _command(table: Path) -> list[str] | None:
    """The words after ``gtrans score``; None if the table does not begin with it.

    A table of means over several runs does not.
    """
    first = next(iter(_lines(table)), "")
    if not first.startswith("$ "):
        return None
    try:
        words = shlex.split(first[2:])
    except ValueError:
        words = []
    if len(words) < 2 or Path(words[0]).name != "gtrans" or words[1] != "score":
        return None
    return words[2:]


def _read_table(
    table: Path, words: Sequence[str], references: Sequence[str], source: str | None
) -> ScoreTable:
    """A table, with the files that it was made from as they lie now."""
    folder = table.parent
    given = _options(words)
    systems = {}
    for word in given.pop("--hyp", []):
        name, equals, typed = word.partition("=")
        file = folder / Path(typed if equals else word).name
        systems[name if equals else _model(file.name)] = _there(file, table)
    data = folder / "data"
    if not data.is_dir():
        data = Path(*given.get("--data", [str(data)]))
    if "--data" in given:
        given["--data"] = [str(data)]
    if references:
        given["--ref"] = list(references)
    if source is not None:
        given["--src"] = [source]
    found = [_there(Path(word), table, "--ref") for word in given.get("--ref", [])]
    if not (systems and found):
        raise GtransError(f"{table}: its first line names no translation or no reference.")
    src = [_there(Path(word), table, "--src") for word in given.get("--src", [])]
    scores = table.with_suffix(".json")
    return ScoreTable(
        table,
        [
            *("--hyp", *(f"{name}={file}" for name, file in systems.items())),
            *(word for flag, values in given.items() for word in (flag, *values)),
        ],
        systems,
        found,
        src[0] if src else None,
        (_source_language(data), (given.get("--target-lang") or [""])[0]),
        _read_scores(scores, list(systems)) if scores.is_file() else None,
    )


def _options(words: Sequence[str]) -> dict[str, list[str]]:
    """The values of each option of a command line; the last one of an option counts."""
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            values = found[flag] = [value] if equals else []
        else:
            values.append(word)
    return found


def _model(file: str) -> str:
    """The model of ``test.MODEL.LANG``; any other name as it is."""
    if file.startswith(_TRANSLATION) and file.count(".") > 1:
        return file.removeprefix(_TRANSLATION).rpartition(".")[0]
    return file


def _there(file: Path, table: Path, flag: str = "") -> Path:
    if not file.is_file():
        way_out = f"name it with `{flag}`" if flag else _WAY_OUT
        raise GtransError(f"{file}: there is no such file, which {table} was made from; {way_out}.")
    return file


def _read_scores(path: Path, systems: Sequence[str]) -> dict[str, Any]:
    """What ``gtrans score --json`` wrote, by the names of the models."""
    scores = read_object(path)
    found = scores.get("systems")
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise GtransError(f"{path}: it is not what `gtrans score --json` writes; {_WAY_OUT}.")
    named = {name if name in systems else _model(name): one for name, one in found.items()}
    if list(named) != list(systems):
        raise GtransError(
            f"{path}: it has scores of {', '.join(named)}, but {path.with_suffix('.txt').name} "
            f"beside it of {', '.join(systems)}; {_WAY_OUT}."
        )
    return {**scores, "systems": named}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise GtransError(f"{path}: cannot be read ({error.strerror}).") from None
