"""Scores of sentences or documents that another program has computed.

A file has one score a line, in the order of the reference's sentences (or one for each document),
or it is JSON: a list of scores, or an object with a list for every system.
"""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path

import numpy as np

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import METRICS
from gtrans.evaluation.scores import Measurement
from gtrans.identity.json_files import parse_json

_FLAG = "--segment-scores"
_LARGEST = 1e100


def read_segment_scores(
    arguments: Sequence[str],
    systems: Sequence[str],
    counted: Sequence[Sequence[bool]],
    lower_is_better: Iterable[str] = (),
) -> dict[str, Measurement]:
    """Measurements of other metrics, by their names.

    Args:
        arguments: ``NAME=FILE`` each; as many files of a name as there are systems, in their
            order, or a single one that is an object with a list for every system.
        systems: names of the systems.
        counted: for each sentence of each document, whether it is scored. Files may have scores
            of all sentences (or documents), or of those only.
        lower_is_better: names of the metrics that are error rates.

    Returns:
        measurements whose score is the mean over sentences, or over documents if there is one
        score for each of these.

    Raises:
        GtransError: a file is missing, has no numbers, or fits neither sentences nor documents.
    """
    files: dict[str, list[str]] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or not path or not re.fullmatch(r"[\w.+-]+", name):
            raise GtransError(f"{_FLAG} {argument}: give NAME=FILE, such as metricx=scores.txt")
        if name in METRICS:
            raise GtransError(f"{_FLAG} {argument}: '{name}' is a metric of this command")
        files.setdefault(name, []).append(path)
    if unknown := sorted(set(lower_is_better) - files.keys()):
        raise GtransError(f"--lower-is-better {unknown[0]}: there is no {_FLAG} {unknown[0]}=FILE")
    return {
        name: _measurement(name, paths, systems, counted, name not in set(lower_is_better))
        for name, paths in files.items()
    }


def _measurement(
    name: str,
    paths: Sequence[str],
    systems: Sequence[str],
    counted: Sequence[Sequence[bool]],
    higher_is_better: bool,
) -> Measurement:
    scores = _of_systems(name, paths, systems)
    sentences = [flag for flags in counted for flag in flags]
    documents = [any(flags) for flags in counted]
    shape = [sum(flags) for flags in counted if any(flags)]
    numbers = {len(found) for _, found in scores.values()}
    if numbers <= {len(sentences), sum(sentences)}:
        unit, kept, of_segments = "sentence", sentences, np.repeat(np.arange(len(shape)), shape)
    elif numbers <= {len(documents), sum(documents)}:
        unit, kept, of_segments = "document", documents, np.arange(len(shape))
    else:
        fits = {len(documents), sum(documents)}
        fits = fits if fits & numbers else {len(sentences), sum(sentences)}
        place, found = next(
            (place, found) for place, found in scores.values() if len(found) not in fits
        )
        raise GtransError(
            f"{place} has {len(found)} scores, but there are {sum(sentences)} sentences in "
            f"{sum(documents)} documents; all systems need a score for each of either"
        )
    sources = ",".join(Path(path).name for path in paths)
    return Measurement(
        key=name,
        label=name,
        unit="sentence" if unit == "sentence" else "document",
        higher_is_better=higher_is_better,
        signature=f"scores:{sources}|aggregate:mean|unit:{unit}",
        statistics={
            system: np.column_stack([values, np.ones(len(values))])
            for system, (_, found) in scores.items()
            for values in ([*compress(found, kept)] if len(found) == len(kept) else found,)
        },
        documents=of_segments,
        compute=lambda sums: sums[0] / sums[1],
        digits=4,
    )


def _of_systems(
    name: str, paths: Sequence[str], systems: Sequence[str]
) -> dict[str, tuple[str, list[float]]]:
    """The place and the scores of every system."""
    first = _read(paths[0])
    if isinstance(first, Mapping):
        if len(paths) > 1:
            raise GtransError(f"{_FLAG} {name}: {paths[0]} has all systems; give only this file")
        missing = [system for system in systems if system not in first]
        if missing:
            raise GtransError(
                f"{paths[0]} has no scores of '{missing[0]}', only of {', '.join(first)}"
            )
        return {
            system: (f"{paths[0]}: {system}", _numbers(first[system], f"{paths[0]}: {system}"))
            for system in systems
        }
    if len(paths) != len(systems):
        raise GtransError(
            f"{_FLAG} {name}: {len(paths)} files for {len(systems)} systems; give one for each "
            "--hyp, in their order, or a JSON object with a list for every system"
        )
    return {
        system: (path, _numbers(_read(path), path))
        for system, path in zip(systems, paths, strict=True)
    }


def _read(path: str) -> object:
    """What JSON has, or the lines that are not empty."""
    try:
        data = Path(path).read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise GtransError(f"{_FLAG} {path}: {reason}") from None
    if text.lstrip()[:1] in ("[", "{"):
        return parse_json(text, path)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _numbers(values: object, place: str) -> list[float]:
    if not isinstance(values, list):
        raise GtransError(f"{place} is no list of scores")
    found = []
    for number, value in enumerate(values, start=1):
        try:
            score = float(value) if isinstance(value, (int, float, str)) else math.nan
        except ValueError:
            score = math.nan
        # Larger ones could not be added up.
        if not abs(score) <= _LARGEST or isinstance(value, bool):
            raise GtransError(f"{place}: score {number} is '{value}', which is no score")
        found.append(score)
    return found
