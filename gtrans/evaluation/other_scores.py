"""Scores with an option of their own: COMET, and scores in files."""

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
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import METRICS, Documents, Measurement, Options, mean_of
from gtrans.files import parse_json

DEFAULT_MODEL = "Unbabel/wmt22-comet-da"
_LARGEST = 1e100
_COMET_LINE = re.compile(r"(?:(?P<system>.*)\t)?Segment \d+\t(?:.*\t)?score: (?P<score>\S+)")
_KEYS = ("prediction", "COMET", "score")


@dataclass(frozen=True)
class ScoreInput:
    """The input of a score.

    Attributes:
        files: paths of the translations by system.
        references: the first reference.
        counted: see :class:`gtrans.evaluation.texts.Texts`.
    """

    args: argparse.Namespace
    files: Mapping[str, str]
    sources: Documents | None = None
    references: Documents | None = None
    systems: Mapping[str, Documents] = field(default_factory=dict)
    counted: Sequence[Sequence[bool]] = ()
    options: Options = field(default_factory=Options)


@dataclass
class ScoreResult:
    """A score's part of the report.

    Attributes:
        details: more JSON values of the first score, by system.
        lines: a table for ``--details``.
    """

    measurements: list[Measurement]
    notes: list[str] = field(default_factory=list)
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class OtherScore:
    """Scores that are computed if their option is given.

    Attributes:
        settings: argparse's keyword arguments for the option.
        reads_texts: needs the reference or the source.
        needs: other required options.
        file: the option names a file to read.
    """

    settings: Mapping[str, Any]
    measure: Callable[[ScoreInput], ScoreResult]
    reads_texts: bool = False
    aligned: bool = False
    needs: tuple[str, ...] = ()
    file: bool = False


def value_of(args: argparse.Namespace, flag: str) -> Any:
    """Return the value of an option."""
    return getattr(args, flag.removeprefix("--").replace("-", "_"))


def chosen_scores(args: argparse.Namespace) -> dict[str, OtherScore]:
    """Return the scores whose options are given."""
    chosen = {}
    for flag, kind in SCORES.items():
        if value_of(args, flag) not in (None, False, []):
            chosen[flag] = kind
    return chosen


def _mean(
    key: str,
    label: str,
    unit: Literal["sentence", "document"],
    signature: str,
    scores: Mapping[str, Sequence[float]],
    documents: NDArray[np.int64],
    higher_is_better: bool = True,
) -> Measurement:
    statistics = {}
    for name, values in scores.items():
        ones = np.ones(len(values))
        statistics[name] = np.column_stack([values, ones])
    return Measurement(
        key=key,
        label=label,
        unit=unit,
        higher_is_better=higher_is_better,
        signature=f"{signature}|aggregate:mean|unit:{unit}",
        statistics=statistics,
        documents=documents,
        compute=mean_of,
        digits=4,
    )


# --- COMET ----------------------------------------------------------------------------------------


def measure_comet(score_input: ScoreInput) -> ScoreResult:
    """Return COMET (Rei et al., 2020, 2022) of every sentence."""
    if score_input.sources is None:
        raise GtransError("--comet needs the source; give it with --src")
    model = _comet_model(score_input.args.comet)
    compares = bool(model.requires_references())
    if compares and score_input.references is None:
        raise GtransError("--comet: this model needs the reference; give it with --ref.")
    gpus = min(1, importlib.import_module("torch").cuda.device_count())
    scores = {}
    for system, documents in score_input.systems.items():
        sides = {"src": score_input.sources, "mt": documents}
        if compares and score_input.references is not None:
            sides["ref"] = score_input.references
        sentences_of_sides = map(chain.from_iterable, sides.values())
        samples = []
        for texts in zip(*sentences_of_sides, strict=True):
            samples.append(dict(zip(sides, texts, strict=True)))
        scores[system] = model.predict(samples, batch_size=8, gpus=gpus).scores
    lengths = list(map(len, score_input.sources))
    measurement = _mean(
        key="comet" if compares else "comet_qe",
        label="COMET" if compares else "COMET (no reference)",
        unit="sentence",
        signature=_comet_signature(score_input.args.comet, model, compares),
        scores=scores,
        documents=np.repeat(np.arange(len(lengths)), lengths),
    )
    return ScoreResult([measurement], _comet_notes(score_input))


def _comet_model(name: str) -> Any:
    if find_spec("comet") is None:
        raise GtransError(
            "--comet needs the library unbabel-comet; type: pip install unbabel-comet, here or, as "
            "it needs older libraries, in a second environment, whose scores --segment-scores reads"
        )
    library = importlib.import_module("comet")
    try:
        path = name if Path(name).is_file() else library.download_model(name)
        return library.load_from_checkpoint(path)
    except Exception as error:  # the library raises nothing more precise
        reason = f"{str(error).strip():.300}"
        raise GtransError(f"--comet {name}: it cannot be loaded ({reason}).") from None


def _comet_signature(name: str, model: Any, compares: bool) -> str:
    parameter = next(model.parameters())
    precision = str(parameter.dtype).removeprefix("torch.")
    parts = [f"model:{name}", f"nrefs:{int(compares)}", f"precision:{precision}"]
    if not compares:
        parts.append("reference:none")
    parts.append(f"version:{_comet_version()}")
    return "|".join(parts)


def _comet_notes(score_input: ScoreInput) -> list[str]:
    notes = []
    references = len(score_input.args.ref)
    if references > 1:
        notes.append(f"COMET reads the first reference only; the other scores use all {references}")
    for system, documents in score_input.systems.items():
        sentences = chain.from_iterable(documents)
        empty = sum(not sentence.strip() for sentence in sentences)
        if empty:
            notes.append(f"COMET also scores the {empty} empty translations of {system}")
    return notes


def _comet_version() -> str:
    try:
        return version("unbabel-comet")
    except PackageNotFoundError:
        return "unknown"


# --- files of other programs ----------------------------------------------------------------------


def segment_score_files(args: argparse.Namespace) -> dict[str, list[str]]:
    """Return the files of each metric of ``--segment-scores``."""
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


def measure_segment_scores(score_input: ScoreInput) -> ScoreResult:
    """Return means over sentences or documents of scores that other programs computed.

    A file has one score a line, or is a JSON list, a JSON object with a list for every system, or
    an output of ``comet-score``, MetricX, mt-metrics-eval (``.seg.score``) or ``--segments``.
    """
    files = segment_score_files(score_input.args)
    lower = set(score_input.args.lower_is_better)
    for name in sorted(lower - files.keys()):
        raise GtransError(f"--lower-is-better {name}: there is no --segment-scores {name}=FILE")
    measurements = []
    for name, paths in files.items():
        measurements.append(_mean_of_files(name, paths, score_input, name not in lower))
    return ScoreResult(measurements)


def _mean_of_files(
    name: str,
    paths: Sequence[str],
    score_input: ScoreInput,
    higher_is_better: bool,
) -> Measurement:
    files = {}
    for system in score_input.systems:
        files[system] = score_input.files.get(system, system)
    by_system = _scores_by_system(name, paths, files)
    signature = f"scores:{','.join(Path(path).name for path in paths)}"
    sizes = [sum(flags) for flags in score_input.counted if any(flags)]
    document_numbers = np.arange(len(sizes))
    of_sentences = _counted_scores(by_system, list(chain.from_iterable(score_input.counted)))
    if of_sentences is not None:
        return _mean(
            key=name,
            label=name,
            unit="sentence",
            signature=signature,
            scores=of_sentences,
            documents=np.repeat(document_numbers, sizes),
            higher_is_better=higher_is_better,
        )
    of_documents = _counted_scores(by_system, list(map(any, score_input.counted)))
    if of_documents is not None:
        return _mean(
            key=name,
            label=name,
            unit="document",
            signature=signature,
            scores=of_documents,
            documents=document_numbers,
            higher_is_better=higher_is_better,
        )
    counts = ", ".join(f"{len(scores)} of {system}" for system, scores in by_system.items())
    raise GtransError(
        f"--segment-scores {name}: there are scores {counts}, but {sum(sizes)} sentences in "
        f"{len(sizes)} documents; all systems need a score for each of either"
    )


def _counted_scores(
    by_system: Mapping[str, Sequence[float]],
    flags: Sequence[bool],
) -> dict[str, Sequence[float]] | None:
    counted: dict[str, Sequence[float]] = {}
    for system, scores in by_system.items():
        if len(scores) == len(flags):
            counted[system] = list(compress(scores, flags))
        elif len(scores) == sum(flags):
            counted[system] = list(scores)
        else:
            return None
    return counted


def _scores_by_system(
    name: str,
    paths: Sequence[str],
    systems: Mapping[str, str],
) -> dict[str, list[float]]:
    contents = [_read_scores(path) for path in paths]
    if len(paths) == 1 and "" not in contents[0]:
        paths = [*paths] * len(systems)
        contents *= len(systems)
    if len(paths) != len(systems):
        raise GtransError(
            f"--segment-scores {name}: {len(paths)} files for {len(systems)} systems; give one for "
            "each --hyp, in their order, or a JSON object with a list for every system"
        )
    numbers = {}
    for system, path, scores in zip(systems, paths, contents, strict=True):
        keys = _keys_of_systems(scores, systems)
        is_only_system = len(scores) == 1 and keys.keys() <= {system}
        key = next(iter(scores)) if is_only_system else keys.get(system)
        keys_in_use = list(keys.values())
        if key is None or keys_in_use.count(key) > 1:
            raise GtransError(
                f"{path} has no scores of '{system}', only of {', '.join(scores)}; name the "
                "systems as there, --hyp NAME=FILE"
            )
        numbers[system] = _numbers(scores[key], f"{path}: {system}" if key else path)
    return numbers


def _keys_of_systems(scores: Mapping[str, object], systems: Mapping[str, str]) -> dict[str, str]:
    """Map systems to keys of ``scores``: their names, or a path like theirs, as in COMET."""
    keys = {}
    for system, path in systems.items():
        if system in scores:
            keys[system] = system
            continue
        candidates = _most_similar_paths(path, list(scores))
        if not candidates:
            candidates = [key for key in scores if Path(key).name == system]
        if len(candidates) == 1 and candidates[0]:
            keys[system] = candidates[0]
    return keys


def _most_similar_paths(path: str, others: Sequence[str]) -> list[str]:
    best: list[str] = []
    most = 1
    for other in others:
        count = _equal_ends(Path(path), Path(other))
        if count > most:
            most = count
            best = []
        if count == most:
            best.append(other)
    return best


def _equal_ends(path: Path, other: Path) -> int:
    count = 0
    names = reversed(path.parts)
    other_names = reversed(other.parts)
    for name, other_name in zip(names, other_names, strict=False):
        if name != other_name:
            break
        count += 1
    return count


def _read_scores(path: str) -> Mapping[str, object]:
    """Return the scores in a file by system; "" in a file without names."""
    text = _text_of(path)
    lines = list(filter(None, map(str.strip, text.splitlines())))
    if _is_single_json_value(lines):
        value = parse_json(text, path)
        return value if isinstance(value, Mapping) else {"": value}
    rows = _rows(path, lines)
    metrics = dict.fromkeys(str(row.get("metric", "")) for row in rows)
    if len(metrics) > 1:
        raise GtransError(
            f"{path} has scores of several metrics ({', '.join(metrics)}); write a file for each, "
            "with --metrics"
        )
    by_system: dict[str, list[Any]] = {}
    for row in rows:
        system = str(row.get("system", ""))
        by_system.setdefault(system, []).append(row)
    return by_system or {"": []}


def _is_single_json_value(lines: Sequence[str]) -> bool:
    if not lines or not lines[0].startswith(("[", "{")):
        return False
    if _is_table(lines):  # whose first heading begins with a bracket
        return False
    are_objects = all(line.startswith("{") for line in lines)
    return len(lines) == 1 or not are_objects


def _is_table(lines: Sequence[str]) -> bool:
    heads = lines[0].split("\t") if lines else []
    return "system" in heads and "score" in heads


def _rows(path: str, lines: Sequence[str]) -> list[Any]:
    rows: list[Any] = []
    if _is_table(lines):
        heads = lines[0].split("\t")
        for line in lines[1:]:
            cells = line.split("\t")
            rows.append(dict(zip(heads, cells, strict=False)))
    elif lines and lines[0].startswith("{"):
        rows = [parse_json(line, path) for line in lines]
    else:
        rows = list(filter(None, map(_row_of_line, lines)))
    return rows


def _text_of(path: str) -> str:
    try:
        data = Path(path).read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise GtransError(f"--segment-scores {path}: {reason}") from None


def _row_of_line(line: str) -> dict[str, str]:
    """Return system and score of a line; empty for the score of a whole system.

    COMET: "FILE  Segment 0  score: 0.81"; mt-metrics-eval: "SYSTEM  0.81".
    """
    match = _COMET_LINE.fullmatch(line)
    if match:
        return match.groupdict("")
    cells = line.split("\t")
    if cells[-1].startswith("score:"):
        return {}
    if len(cells) == 2:
        return {"system": cells[0], "score": cells[1]}
    return {"score": line}


def _numbers(values: object, place: str) -> list[float]:
    if not isinstance(values, list):
        raise GtransError(f"{place} is no list of scores")
    numbers = []
    for number, entry in enumerate(values, start=1):
        value = _value_of_entry(entry)
        try:
            score = math.nan if isinstance(value, bool) else float(value)
        except (ValueError, TypeError):
            score = math.nan
        if not abs(score) <= _LARGEST:  # larger ones could not be added up
            raise GtransError(f"{place}: score {number} is '{value}', which is no score")
        numbers.append(score)
    return numbers


def _value_of_entry(entry: Any) -> Any:
    if isinstance(entry, Mapping):
        for key in _KEYS:
            if key in entry:
                return entry[key]
    return entry


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
        reads_texts=True,
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
        reads_texts=True,
    ),
}
"""Scores by their option."""
