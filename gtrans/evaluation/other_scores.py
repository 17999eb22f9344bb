"""Scores beside :data:`gtrans.evaluation.metrics.METRICS`: COMET, and scores in files.

Each is computed where its option is given, see :data:`SCORES`; :mod:`gtrans.lab` adds its own.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import METRICS, Documents, Measurement, Options, mean_of
from gtrans.files import parse_json

DEFAULT_MODEL = "Unbabel/wmt22-comet-da"
_LARGEST = 1e100
_COMET_LINE = re.compile(r"(?:(?P<system>.*)\t)?Segment \d+\t(?:.*\t)?score: (?P<score>\S+)")
_KEYS = ("prediction", "COMET", "score")
"""Where an object has a score."""


@dataclass(frozen=True)
class Given:
    """What a score is measured from.

    Attributes:
        args: the options of ``gtrans score``.
        files: the translations, by system.
        sources, references: documents of sentences, the first reference; None: not given.
        systems: the translations in the lines of the reference; empty without one.
        counted: for each sentence of each document of the files, whether it is among these.
        options: how words are found.
    """

    args: argparse.Namespace
    files: Mapping[str, str]
    sources: Documents | None = None
    references: Documents | None = None
    systems: Mapping[str, Documents] = field(default_factory=dict)
    counted: Sequence[Sequence[bool]] = ()
    options: Options = field(default_factory=Options)


@dataclass
class Found:
    """What a score adds to the report.

    Attributes:
        measurements: scores with what intervals and tests need; none if there is nothing to score.
        notes: printed below the table.
        details: for JSON, by system: what the first score is made of.
        lines: for ``--details``: a table.
    """

    measurements: list[Measurement]
    notes: list[str] = field(default_factory=list)
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class OtherScore:
    """A score, or several, that is computed where its option is given.

    Attributes:
        settings: what argparse is told of the option.
        measure: computes it.
        reads: whether it compares texts beside the reference or the source, not only files.
        aligned: whether it compares sentences of source, reference and translation.
        needs: the options that it needs.
        file: whether the value of its option is a file.
    """

    settings: Mapping[str, Any]
    measure: Callable[[Given], Found]
    reads: bool = False
    aligned: bool = False
    needs: tuple[str, ...] = ()
    file: bool = False


def value_of(args: argparse.Namespace, flag: str) -> Any:
    """The value of the option of a score."""
    return getattr(args, flag.removeprefix("--").replace("-", "_"))


def chosen_scores(args: argparse.Namespace) -> dict[str, OtherScore]:
    """The scores whose options are given."""
    chosen = {}
    for flag, kind in SCORES.items():
        if value_of(args, flag) not in (None, False, []):
            chosen[flag] = kind
    return chosen


def _mean(
    key: str,
    label: str,
    unit: str,
    signature: str,
    scores: Mapping[str, Sequence[float]],
    documents: Any,
    higher_is_better: bool = True,
) -> Measurement:
    """The mean of scores of sentences or documents; ``documents``: the document of each score."""
    statistics = {}
    for name, values in scores.items():
        statistics[name] = np.column_stack([values, np.ones(len(values))])
    return Measurement(
        key=key,
        label=label,
        unit="sentence" if unit == "sentence" else "document",
        higher_is_better=higher_is_better,
        signature=f"{signature}|aggregate:mean|unit:{unit}",
        statistics=statistics,
        documents=documents,
        compute=mean_of,
        digits=4,
    )


# --- COMET ----------------------------------------------------------------------------------------


def measure_comet(given: Given) -> Found:
    """COMET (Rei et al. 2020, 2022) of every sentence, by the library ``unbabel-comet``.

    Raises:
        GtransError: no library, no such model; no source, or no reference where one is needed.
    """
    if given.sources is None:
        raise GtransError("--comet needs the source; give it with --src")
    if find_spec("comet") is None:
        raise GtransError(
            "--comet needs the library unbabel-comet; type: pip install unbabel-comet, here or, as "
            "it needs older libraries, in a second environment, whose scores --segment-scores reads"
        )
    library, name = importlib.import_module("comet"), given.args.comet
    try:
        path = name if Path(name).is_file() else library.download_model(name)
        model = library.load_from_checkpoint(path)
    except Exception as error:  # the library raises nothing more precise
        reason = f"{str(error).strip():.300}"
        raise GtransError(f"--comet {name}: it cannot be loaded ({reason}).") from None
    compares = bool(model.requires_references())
    if compares and given.references is None:
        raise GtransError("--comet: this model needs the reference; give it with --ref.")
    gpus = min(1, importlib.import_module("torch").cuda.device_count())
    scores = {}
    for system, documents in given.systems.items():
        sides = {"src": given.sources, "mt": documents}
        if compares and given.references is not None:
            sides["ref"] = given.references
        flat = [chain.from_iterable(side) for side in sides.values()]
        samples = [dict(zip(sides, texts, strict=True)) for texts in zip(*flat, strict=True)]
        scores[system] = model.predict(samples, batch_size=8, gpus=gpus).scores
    lengths = [len(document) for document in given.sources]
    places = np.repeat(np.arange(len(lengths)), lengths)
    key, label, more = "comet", "COMET", ""
    if not compares:
        key, label, more = "comet_qe", "COMET (no reference)", "|reference:none"
    precision = str(next(model.parameters()).dtype).removeprefix("torch.")
    signature = f"model:{name}|nrefs:{int(compares)}|precision:{precision}{more}"
    signature += f"|version:{_comet_version()}"
    measurement = _mean(key, label, "sentence", signature, scores, places)
    notes = []
    several = len(given.args.ref)
    if several > 1:
        notes.append(f"COMET reads the first reference only; the other scores use all {several}")
    for system, documents in given.systems.items():
        empty = sum(not sentence.strip() for sentence in chain.from_iterable(documents))
        if empty:
            notes.append(f"COMET also scores the {empty} empty translations of {system}")
    return Found([measurement], notes)


def _comet_version() -> str:
    try:
        return version("unbabel-comet")
    except PackageNotFoundError:
        return "unknown"


# --- files of other programs ----------------------------------------------------------------------


def segment_score_files(args: argparse.Namespace) -> dict[str, list[str]]:
    """The files of each metric of ``--segment-scores``.

    Raises:
        GtransError: a word is not NAME=FILE, or a name belongs to another metric.
    """
    files: dict[str, list[str]] = {}
    for word in args.segment_scores:
        name, equals, path = word.partition("=")
        if not equals or not path or not re.fullmatch(r"[\w.+-]+", name):
            raise GtransError(
                f"--segment-scores {word}: give NAME=FILE, such as metricx=scores.txt"
            )
        if name in METRICS:
            raise GtransError(f"--segment-scores {word}: '{name}' is a metric of this command")
        files.setdefault(name, []).append(path)
    return files


def measure_segment_scores(given: Given) -> Found:
    """Means over sentences or documents of the scores that other programs have computed.

    A file has one score a line, in the order of the reference's sentences (or one for each
    document), or it is JSON: a list of scores, or an object with a list for every system. It may
    also be what ``comet-score`` prints or writes as JSON, JSON lines of MetricX, a ``.seg.score``
    of mt-metrics-eval, or what ``--segments`` writes of one metric. It may have scores of all
    sentences (or documents), or only of those that are scored.

    Raises:
        GtransError: a file is missing, has no numbers, or fits neither sentences nor documents.
    """
    files = segment_score_files(given.args)
    lower = set(given.args.lower_is_better)
    for name in sorted(lower - files.keys()):
        raise GtransError(f"--lower-is-better {name}: there is no --segment-scores {name}=FILE")
    measurements = []
    for name, paths in files.items():
        measurements.append(_of_files(name, paths, given, name not in lower))
    return Found(measurements)


def _of_files(name: str, paths: Sequence[str], given: Given, higher_is_better: bool) -> Measurement:
    systems = {system: given.files.get(system, system) for system in given.systems}
    by_system = _of_systems(name, paths, systems)
    shape = [sum(flags) for flags in given.counted if any(flags)]
    sentences = list(chain.from_iterable(given.counted))
    documents = [any(flags) for flags in given.counted]
    for unit, flags, places in (
        ("sentence", sentences, np.repeat(range(len(shape)), shape)),
        ("document", documents, np.arange(len(shape))),
    ):
        lengths = {len(scores) for scores in by_system.values()}
        if not lengths <= {len(flags), sum(flags)}:
            continue
        kept = {}
        for system, values in by_system.items():
            is_whole = len(values) == len(flags)
            kept[system] = list(compress(values, flags)) if is_whole else values
        signature = f"scores:{','.join(Path(path).name for path in paths)}"
        return _mean(name, name, unit, signature, kept, places, higher_is_better)
    counts = ", ".join(f"{len(scores)} of {system}" for system, scores in by_system.items())
    raise GtransError(
        f"--segment-scores {name}: there are scores {counts}, but {sum(shape)} sentences in "
        f"{len(shape)} documents; all systems need a score for each of either"
    )


def _of_systems(
    name: str,
    paths: Sequence[str],
    systems: Mapping[str, str],
) -> dict[str, list[float]]:
    """The scores of every system; ``systems``: their files by name.

    Raises:
        GtransError: a file of several systems lacks one, or names another one than it is for.
    """
    read = [_read(path) for path in paths]
    if len(paths) == 1 and "" not in read[0]:
        paths, read = [*paths] * len(systems), read * len(systems)
    if len(paths) != len(systems):
        raise GtransError(
            f"--segment-scores {name}: {len(paths)} files for {len(systems)} systems; give one for "
            "each --hyp, in their order, or a JSON object with a list for every system"
        )
    numbers = {}
    for system, path, scores in zip(systems, paths, read, strict=True):
        known = {system_name: key for system_name, key in _keys(scores, systems).items() if key}
        alone = len(scores) == 1 and known.keys() <= {system}
        key = next(iter(scores)) if alone else known.get(system)
        if key is None or [*known.values()].count(key) > 1:
            raise GtransError(
                f"{path} has no scores of '{system}', only of {', '.join(scores)}; name the "
                "systems as there, --hyp NAME=FILE"
            )
        numbers[system] = _numbers(scores[key], f"{path}: {system}" if key else path)
    return numbers


def _keys(scores: Mapping[str, object], systems: Mapping[str, str]) -> dict[str, str | None]:
    """Under which name scores have each system: its own, or its file's, as COMET has it.

    Of several files the one counts whose path ends most alike; None: there is none, or several.
    """
    keys: dict[str, str | None] = {}
    for system, file in systems.items():
        if system in scores:
            keys[system] = system
            continue
        alike = {key: _equal_ends(Path(file), Path(key)) for key in scores}
        most = max(alike.values(), default=0)
        best = [key for key, count in alike.items() if count == most > 0]
        if not best:
            best = [key for key in scores if Path(key).name == system]
        keys[system] = best[0] if len(best) == 1 else None
    return keys


def _equal_ends(path: Path, other: Path) -> int:
    """How many names at the end of two paths are equal."""
    count = 0
    for name, other_name in zip(reversed(path.parts), reversed(other.parts), strict=False):
        if name != other_name:
            break
        count += 1
    return count


def _read(path: str) -> Mapping[str, object]:
    """The scores in a file by system; "" is the only system of a file without names."""
    text = _text_of(path)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    head = lines[0].split("\t") if lines else []
    if {"system", "score"} <= set(head):
        rows = []
        for line in lines[1:]:
            rows.append(dict(zip(head, line.split("\t"), strict=False)))
    elif len(lines) > 1 and all(line[0] == "{" for line in lines):
        rows = [parse_json(line, path) for line in lines]
    elif lines and lines[0][0] in "[{":
        value = parse_json(text, path)
        return value if isinstance(value, Mapping) else {"": value}
    else:
        rows = [row for row in map(_row, lines) if row]
    metrics = dict.fromkeys(str(row.get("metric", "")) for row in rows)
    if len(metrics) > 1:
        raise GtransError(
            f"{path} has scores of several metrics ({', '.join(metrics)}); write a file for each, "
            "with --metrics"
        )
    by_system: dict[str, list[Any]] = {}
    for row in rows:
        by_system.setdefault(str(row.get("system", "")), []).append(row)
    return by_system or {"": []}


def _text_of(path: str) -> str:
    """The text of a file, gzipped or not.

    Raises:
        GtransError: it cannot be read.
    """
    try:
        data = Path(path).read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise GtransError(f"--segment-scores {path}: {reason}") from None


def _row(line: str) -> dict[str, str]:
    """The score of a line, maybe with its system; empty: the score of all segments together.

    COMET prints "FILE  Segment 0  score: 0.81" and ends with the score of the system;
    mt-metrics-eval has "SYSTEM  0.81".
    """
    match = _COMET_LINE.fullmatch(line)
    if match:
        return match.groupdict("")
    cells = line.split("\t")
    if cells[-1].startswith("score:"):
        return {}
    return {"system": cells[0], "score": cells[1]} if len(cells) == 2 else {"score": line}


def _numbers(values: object, place: str) -> list[float]:
    if not isinstance(values, list):
        raise GtransError(f"{place} is no list of scores")
    numbers = []
    for number, value in enumerate(values, start=1):
        if isinstance(value, Mapping):  # of MetricX, of COMET
            value = next((value[key] for key in _KEYS if key in value), value)
        try:
            score = math.nan if isinstance(value, bool) else float(value)
        except (ValueError, TypeError):
            score = math.nan
        if not abs(score) <= _LARGEST:  # larger ones could not be added up
            raise GtransError(f"{place}: score {number} is '{value}', which is no score")
        numbers.append(score)
    return numbers


SCORES: dict[str, OtherScore] = {
    "--comet": OtherScore(
        {
            "nargs": "?",
            "const": DEFAULT_MODEL,
            "metavar": "MODEL",
            "help": "score with COMET: a model with a reference or one without, a name or a "
            f"checkpoint (default: {DEFAULT_MODEL}); needs --src and unbabel-comet",
        },
        measure_comet,
        reads=True,
        aligned=True,
    ),
    "--segment-scores": OtherScore(
        {
            "nargs": "+",
            "default": [],
            "metavar": "NAME=FILE",
            "help": "scores of a metric NAME, a line per sentence (or document): a FILE "
            "for each --hyp, in their order; or one JSON object with a list of scores for every "
            "system",
        },
        measure_segment_scores,
        reads=True,
    ),
}
"""By the flag of their option."""
