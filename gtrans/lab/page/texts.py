"""The test sets of the runs: documents, references, and every translation of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gtrans.decoding.translation_record import read_record
from gtrans.errors import GtransError
from gtrans.evaluation.hypotheses import has_a_line_for_each_document
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.resegment import SIGNATURE
from gtrans.evaluation.scores import Corpus, Measurement, measure
from gtrans.evaluation.texts import Texts, read_texts
from gtrans.lab.page.differences import differences
from gtrans.lab.page.folders import Run, ScoreTable

CHRF = "chrf"
_DIGITS = 1  # of the scores of sentences
_OTHER_SCORES = "--segment-scores"


@dataclass
class TestSet:
    """A test set, and the translations of it.

    Attributes:
        title: its name on the page.
        references: its documents.
        source: the same documents in the source language; None if no run says where they are.
        languages: of source and target; empty if unknown.
        tables: the tables of scores over it, with the label of each of their systems.
        aligned: the translations that have its sentences, by the labels of the systems.
        whole: the translations that have only its documents (``gtrans translate --free``).
    """

    title: str
    references: Documents
    source: Documents | None
    languages: tuple[str, str]
    tables: list[tuple[ScoreTable, dict[str, str]]] = field(default_factory=list)
    aligned: dict[str, Documents] = field(default_factory=dict)
    whole: dict[str, Documents] = field(default_factory=dict)

    @property
    def systems(self) -> list[str]:
        """The labels of all systems."""
        return list(dict.fromkeys(label for _, labels in self.tables for label in labels.values()))

    @property
    def baseline(self) -> str:
        """The system that the first comparison compares with; the first one if there is none."""
        compared = [labels for _, labels in self.tables if len(labels) > 1]
        return next(iter(compared[0].values())) if compared else self.systems[0]


def read_test_sets(runs: Sequence[Run]) -> list[TestSet]:
    """The test sets of all runs; tables of the same reference and source belong to one.

    Raises:
        GtransError: a text is unreadable, or does not fit its reference.
    """
    names = [name for run in runs for name in run.systems]
    found: dict[Any, TestSet] = {}
    for run in runs:
        for table in run.tables:
            aligned, whole = _read(table)
            texts = aligned or whole
            assert texts is not None
            reference, source = texts.references[0], texts.sources
            key = _key(reference), _key(source or ())
            if key not in found:
                files = [path.name for path in (table.source, table.references[0]) if path]
                found[key] = TestSet(", ".join(files), reference, source, table.languages)
            labels = {
                name: f"{run.name}/{name}" if names.count(name) > 1 else name
                for name in table.systems
            }
            found[key].tables.append((table, labels))
            for kind, read in ((found[key].aligned, aligned), (found[key].whole, whole)):
                if read is not None:
                    kind |= {labels[name]: one for name, one in read.systems.items()}
    return list(found.values())


def compared_with(test: TestSet, baseline: str) -> TestSet:
    """The test set with one table of all systems instead of its own, ``baseline`` first.

    The table has the options of that of the baseline, and no scores yet.

    Raises:
        GtransError: these have scores of other programs, of some of the systems only.
    """
    own, own_labels = next(
        (table, labels) for table, labels in test.tables if baseline in labels.values()
    )
    files = {
        label: table.systems[name]
        for table, labels in test.tables
        for name, label in labels.items()
    }
    order = sorted(files, key=lambda label: label != baseline)
    others = own.words[1 + len(own.systems) :]
    if {*files} == {*own_labels.values()}:
        name_of = {label: name for name, label in own_labels.items()}
        names = {name_of[label]: label for label in order}
        others = _in_order(others, list(own.systems), list(names))
    elif _OTHER_SCORES in others:
        raise GtransError(
            f"{own.path}: its `{_OTHER_SCORES}` are of {', '.join(own_labels.values())} alone, and "
            "`--baseline` compares all systems of the test set; score them in one call of `gtrans "
            "score`, or leave `--baseline` out."
        )
    else:
        # A label may have characters that a name on the command line may not.
        names = {f"system{number}": label for number, label in enumerate(order)}
    words = ["--hyp", *(f"{name}={files[label]}" for name, label in names.items())]
    systems = {name: files[label] for name, label in names.items()}
    table = replace(own, words=[*words, *others], systems=systems, scores=None)
    return replace(test, tables=[(table, names)])


def _in_order(words: Sequence[str], before: Sequence[str], systems: Sequence[str]) -> list[str]:
    """Options of ``gtrans score`` for the same systems in another order.

    ``before``: the order of the files of ``--segment-scores``, which has one for each system, or
    one with the scores of all.
    """
    if _OTHER_SCORES not in words:
        return list(words)
    start = words.index(_OTHER_SCORES) + 1
    end = next((n for n in range(start, len(words)) if words[n].startswith("--")), len(words))
    of_metric: dict[str, list[str]] = {}
    for word in words[start:end]:
        of_metric.setdefault(word.partition("=")[0], []).append(word)
    for metric, given in of_metric.items():
        if len(given) == len(before):
            of_metric[metric] = [given[before.index(system)] for system in systems]
    return [*words[:start], *(it for given in of_metric.values() for it in given), *words[end:]]


def _key(documents: Documents) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, documents))


def _read(table: ScoreTable) -> tuple[Texts | None, Texts | None]:
    """The texts of a table with the translations that are aligned, and with those that are not."""
    main = str(table.references[0])
    source = None if table.source is None else str(table.source)
    if table.resegmented:
        files = {name: str(path) for name, path in table.systems.items()}
        return read_texts([main], source, files, "resegmented"), None
    sizes = [len(document) for document in read_texts([main], None, {}, "aligned").references[0]]
    free = {name: _is_free(path, sizes) for name, path in table.systems.items()}
    aligned = {name: str(path) for name, path in table.systems.items() if not free[name]}
    whole = {name: str(path) for name, path in table.systems.items() if free[name]}
    return (
        read_texts([main], source, aligned, "aligned") if aligned else None,
        read_texts([main], source, whole, "whole") if whole else None,
    )


def _is_free(path: Path, sizes: Sequence[int]) -> bool:
    """Whether a translation has one line for each document."""
    record = read_record(path)
    if record is not None and record.describes(path):
        return bool(record.made_from.get("search", {}).get("free"))
    return has_a_line_for_each_document(path, sizes)


# ---- for the reader ------------------------------------------------------------------------------


def for_reader(test: TestSet, chrf: Measurement | None, baseline: str) -> dict[str, Any]:
    """What the page's reader is given; keys are short, because a test set has many sentences.

    ``{"title": .., "lang": [source, target], "systems": [label, ..], "baseline": its place or -1,
    "whole": [label, ..], "documents": [{"s": [source sentence, ..], "r": [reference, ..], "h":
    [[translation of each system, ..], ..], "c": [[sentence chrF of each system, ..], ..], "d":
    [[differences to the reference of each system, ..], ..], "b": [[differences to the baseline,
    ..], ..], "w": [whole translation, ..]}, ..]}``; differences are those of
    :func:`~gtrans.lab.page.differences.differences`.

    Args:
        test: the test set.
        chrf: what :func:`measure_chrf` found.
        baseline: the label of the system to compare with.
    """
    scores = {} if chrf is None else {
        system: [_finite(chrf.compute(row.tolist())) for row in rows]
        for system, rows in chrf.statistics.items()
    }
    systems = [label for label in test.systems if label in test.aligned]
    base = test.aligned.get(baseline)
    documents, place = [], 0
    for number, reference in enumerate(test.references):
        entry: dict[str, Any] = {
            "s": list(test.source[number]) if test.source is not None else [],
            "r": list(reference),
            "h": [], "c": [], "d": [], "b": [],
            "w": [" ".join(filter(None, one[number])) for one in test.whole.values()],
        }  # fmt: skip
        for index, right in enumerate(reference):
            texts = [test.aligned[system][number][index] for system in systems]
            entry["h"].append(texts)
            entry["c"].append([round(scores[system][place], _DIGITS) for system in systems])
            entry["d"].append([differences(text, right) for text in texts])
            if base is not None:
                entry["b"].append([differences(text, base[number][index]) for text in texts])
            place += 1
        documents.append(entry)
    return {
        "title": test.title,
        "lang": test.languages,
        "systems": systems,
        "baseline": systems.index(baseline) if base is not None else -1,
        "whole": list(test.whole),
        "documents": documents,
    }


def measure_chrf(test: TestSet) -> Measurement | None:
    """chrF2 of the aligned systems; None if there are none."""
    if not test.aligned:
        return None
    instances = [[range(len(document))] for document in test.references]
    return measure(Corpus(test.references, instances), test.aligned, [CHRF])[CHRF]


def _finite(score: float) -> float:
    return score if math.isfinite(score) else 0.0


def check_scores(
    test: TestSet, chrf: Measurement | None, scores: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse scores that are not those of the translations beside them.

    Args:
        test: the translations.
        chrf: what :func:`measure_chrf` found.
        scores: what ``gtrans score --json`` says of each system.

    Raises:
        GtransError: chrF2 is another one. A table with several references or with other options
            of chrF2 is not checked.
    """
    if chrf is None:
        return
    for label in test.aligned:
        entry = scores[label].get(CHRF)
        signatures = (chrf.signature, f"{chrf.signature}|{SIGNATURE}")
        if not isinstance(entry, dict) or entry.get("signature") not in signatures:
            continue
        if not math.isclose(entry["score"], chrf.score(label), abs_tol=1e-6):
            table = next(table for table, labels in test.tables if label in labels.values())
            raise GtransError(
                f"{table.path}: chrF2 of {label} is {entry['score']:.2f} there, but its "
                f"translation has {chrf.score(label):.2f}: one of them is of another time; run the "
                "recipe again."
            )
