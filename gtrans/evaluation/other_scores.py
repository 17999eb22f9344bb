"""Scores that are not of :data:`gtrans.evaluation.metrics.METRICS`: COMET, and those of files.

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
from functools import partial
from importlib.util import find_spec
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import METRICS, Documents, Measurement, Options, mean_of
from gtrans.files import parse_json

CONTEXT_SENTENCES = 2
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
    return {
        flag: it for flag, it in SCORES.items() if value_of(args, flag) not in (None, False, [])
    }


def _mean(
    key: str, label: str, unit: str, signature: str, scores: Mapping[str, Sequence[float]],
    documents: Any, higher_is_better: bool = True,
) -> Measurement:  # fmt: skip
    """The mean of scores of sentences or documents; ``documents``: that of each score."""
    return Measurement(
        key, label, "sentence" if unit == "sentence" else "document", higher_is_better,
        f"{signature}|aggregate:mean|unit:{unit}",
        {name: np.column_stack([it, np.ones(len(it))]) for name, it in scores.items()},
        documents, mean_of, digits=4,
    )  # fmt: skip


# --- COMET ----------------------------------------------------------------------------------------


def measure_comet(given: Given, context: bool = False) -> Found:
    """COMET (Rei et al. 2020, 2022) of every sentence, by the library ``unbabel-comet``.

    Over context (Doc-COMET, Vernikos et al. 2022), a sentence is read after up to two before it.
    The context of a translation is the reference's; a model without reference reads what the system
    has translated. The encoder cuts a text at its end, so the oldest context is left out until it
    fits.

    Raises:
        GtransError: no library, no such model; no source, reference or context where one is needed.
    """
    flag = "--doc-comet" if context else "--comet"
    models = value_of(given.args, flag)
    if given.sources is None:
        raise GtransError(f"{flag} needs the source; give it with --src")
    found = [_comet(f"{flag} {model}", model, given, given.sources, context) for model in models]
    if len({it.key for it in found}) < len(found):
        raise GtransError(
            f"{flag} {' '.join(models)}: give one model with a reference and one without at most"
        )
    more = len(given.args.ref)
    notes = ["COMET reads the first reference only; the other scores use all " + str(more)]
    return Found(found, notes if more > 1 and not context else [])


def _comet(flag: str, name: str, given: Given, sources: Documents, context: bool) -> Measurement:
    model, references = _load(name, flag), given.references
    compares = bool(model.requires_references())
    if compares and references is None:
        raise GtransError(f"{flag}: this model needs the reference; give it with --ref.")
    most = CONTEXT_SENTENCES if context else 0
    if context:
        model.enable_context()
        if not getattr(model, "use_context", False):
            raise GtransError(f"{flag}: this model reads no context; {DEFAULT_MODEL} does.")
    gpus = min(1, importlib.import_module("torch").cuda.device_count())
    scores = {}
    for system, documents in given.systems.items():
        sides = {"src": (sources, sources), "mt": (documents, documents)}
        if compares and references is not None:
            sides |= {"mt": (documents, references), "ref": (references, references)}
        samples = [
            _sample(model, {key: (texts[i], of[i]) for key, (texts, of) in sides.items()}, n, most)
            for i, document in enumerate(sources)
            for n in range(len(document))
        ]
        scores[system] = model.predict(samples, batch_size=8, gpus=gpus).scores
    parts = [f"model:{name}", *([] if compares else ["reference:none"])]
    parts += [f"context:{most},{'reference' if compares else 'own'}"] if most else []
    return _mean(
        ("doc_" if context else "") + "comet" + ("" if compares else "_qe"),
        ("Doc-COMET" if context else "COMET") + ("" if compares else " (no reference)"),
        "sentence", "|".join(parts), scores,
        np.repeat(np.arange(len(sources)), [*map(len, sources)]),
    )  # fmt: skip


def _load(name: str, flag: str) -> Any:
    if find_spec("comet") is None:
        raise GtransError(
            f"{flag} needs the library unbabel-comet; type: pip install unbabel-comet, here or, as "
            "it needs older libraries, in a second environment, whose scores --segment-scores reads"
        )
    library = importlib.import_module("comet")
    try:
        path = name if Path(name).is_file() else library.download_model(name)
        return library.load_from_checkpoint(path)
    except Exception as error:  # the library raises nothing more precise
        raise GtransError(f"{flag}: it cannot be loaded ({str(error).strip():.300}).") from None


def _sample(model: Any, sides: Mapping[str, Any], place: int, most: int) -> dict[str, str]:
    """What the model reads of a sentence; ``sides``: its documents, and those of its context."""
    tokenizer, limit = model.encoder.tokenizer, model.encoder.max_positions - 2
    for size in range(min(place, most), 0, -1):
        joined = {
            side: f" {tokenizer.sep_token} ".join([*of[place - size : place], texts[place]])
            for side, (texts, of) in sides.items()
        }
        if all(len(tokenizer(text)["input_ids"]) <= limit for text in joined.values()):
            return joined
    return {side: texts[place] for side, (texts, _) in sides.items()}


# --- files of other programs ----------------------------------------------------------------------


def segment_score_files(args: argparse.Namespace) -> dict[str, list[str]]:
    """The files of each metric of ``--segment-scores``.

    Raises:
        GtransError: a word is not NAME=FILE, or a name is that of another metric.
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
    also be what ``comet-score`` prints or writes as JSON, JSON lines of MetricX, or a
    ``.seg.score`` of mt-metrics-eval. It may have scores of all sentences (or documents), or only
    of those that are scored.

    Raises:
        GtransError: a file is missing, has no numbers, or fits neither sentences nor documents.
    """
    files, lower = segment_score_files(given.args), set(given.args.lower_is_better)
    if unknown := sorted(lower - files.keys()):
        raise GtransError(
            f"--lower-is-better {unknown[0]}: there is no --segment-scores {unknown[0]}=FILE"
        )
    return Found(
        [_of_files(name, paths, given, name not in lower) for name, paths in files.items()]
    )


def _of_files(name: str, paths: Sequence[str], given: Given, higher_is_better: bool) -> Measurement:
    found = _of_systems(name, paths, {it: given.files.get(it, it) for it in given.systems})
    counted = given.counted
    shape = [sum(flags) for flags in counted if any(flags)]
    flags = {
        "sentence": [flag for of in counted for flag in of],
        "document": [any(of) for of in counted],
    }
    places = {
        "sentence": np.repeat(np.arange(len(shape)), shape),
        "document": np.arange(len(shape)),
    }
    numbers = {len(scores) for _, scores in found.values()}
    fits = {unit: {len(kept), sum(kept)} for unit, kept in flags.items()}
    unit = next((unit for unit in flags if numbers <= fits[unit]), "")
    if not unit:
        near = fits["document" if fits["document"] & numbers else "sentence"]
        place, scores = next(it for it in found.values() if len(it[1]) not in near)
        raise GtransError(
            f"{place} has {len(scores)} scores, but there are {sum(flags['sentence'])} sentences "
            f"in {sum(flags['document'])} documents; all systems need a score for each of either"
        )
    kept = flags[unit]
    counted_scores = {
        system: [*compress(of, kept)] if len(of) == len(kept) else of
        for system, (_, of) in found.items()
    }
    signature = f"scores:{','.join(Path(path).name for path in paths)}"
    return _mean(name, name, unit, signature, counted_scores, places[unit], higher_is_better)


def _of_systems(
    name: str, paths: Sequence[str], systems: Mapping[str, str]
) -> dict[str, tuple[str, list[float]]]:
    """The place and the scores of every system; ``systems``: their files by name."""
    first = _read(paths[0])
    if isinstance(first, Mapping) and (len(paths) == 1 or len(first) > 1):
        if len(paths) > 1:
            raise GtransError(
                f"--segment-scores {name}: {paths[0]} has all systems; give only this file"
            )
        found = {}
        for system, file in systems.items():
            # COMET names systems by their files.
            wanted = (system, file, Path(file).name)
            keys = [key for key in first if key in wanted or Path(key).name in wanted]
            keys = keys or (list(first) if len(first) == len(systems) == 1 else [])
            if not keys:
                raise GtransError(
                    f"{paths[0]} has no scores of '{system}', only of {', '.join(first)}"
                )
            place = f"{paths[0]}: {system}"
            found[system] = place, _numbers(first[keys[0]], place)
        return found
    if len(paths) != len(systems):
        raise GtransError(
            f"--segment-scores {name}: {len(paths)} files for {len(systems)} systems; give one for "
            "each --hyp, in their order, or a JSON object with a list for every system"
        )
    pairs = zip(systems, paths, strict=True)
    return {system: (path, _numbers(_only(_read(path)), path)) for system, path in pairs}


def _only(found: object) -> object:
    """The scores of a file with one system, which it may name."""
    if isinstance(found, Mapping) and len(found) == 1:
        return next(iter(found.values()))
    return found


def _read(path: str) -> object:
    """What JSON has, or the lines that are not empty."""
    try:
        data = Path(path).read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise GtransError(f"--segment-scores {path}: {reason}") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0][0] in "[{":
        several = len(lines) > 1 and lines[0][-1] == "}" and lines[1][0] == "{"
        if several:  # JSON lines, as those of MetricX
            return [parse_json(line, path) for line in lines]
        return parse_json(text, path)
    by_system: dict[str, list[str]] = {}
    for line in lines:
        # "FILE  Segment 0  score: 0.81" of comet-score, which ends with the score of the system;
        # "SYSTEM  0.81" of mt-metrics-eval.
        if found := _COMET_LINE.fullmatch(line):
            by_system.setdefault(found["system"] or "", []).append(found["score"])
        elif len(cells := line.split("\t")) == 2 and not cells[1].startswith("score:"):
            by_system.setdefault(cells[0], []).append(cells[1])
    return by_system or lines


def _numbers(values: object, place: str) -> list[float]:
    if not isinstance(values, list):
        raise GtransError(f"{place} is no list of scores")
    found = []
    for number, value in enumerate(values, start=1):
        if isinstance(value, Mapping):  # of MetricX, of COMET
            value = next((value[key] for key in _KEYS if key in value), value)
        try:
            score = float(value) if isinstance(value, (int, float, str)) else math.nan
        except ValueError:
            score = math.nan
        # Larger ones could not be added up.
        if not abs(score) <= _LARGEST or isinstance(value, bool):
            raise GtransError(f"{place}: score {number} is '{value}', which is no score")
        found.append(score)
    return found


def _comet_settings(what: str) -> dict[str, Any]:
    return {
        "nargs": "*",
        "metavar": "MODEL",
        "help": f"score with {what}: a model with a reference, one without, or both, each a name "
        f"or a checkpoint (default: {DEFAULT_MODEL}); needs --src and unbabel-comet",
    }


SCORES: dict[str, OtherScore] = {
    "--comet": OtherScore(
        _comet_settings("COMET"), measure_comet, reads=True, aligned=True
    ),
    "--doc-comet": OtherScore(
        _comet_settings("Doc-COMET, COMET over a sentence and up to two before it"),
        partial(measure_comet, context=True), reads=True, aligned=True,
    ),
    "--segment-scores": OtherScore(
        {
            "nargs": "+",
            "default": [],
            "metavar": "NAME=FILE",
            "help": "scores of a metric NAME, one a line for every sentence (or document): a FILE "
            "for each --hyp, in their order; or one JSON object with a list of scores for every "
            "system",
        },
        measure_segment_scores, reads=True,
    ),
}  # fmt: skip
"""By the flag of their option."""
