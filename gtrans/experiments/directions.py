"""Score the translations of one model in several directions: each, their means, how many are won.

``python -m gtrans.experiments.directions --hyp row=STEM --ref DIR --directions en-de,de-en,..``
reads STEM.en-de.de and DIR/test.en-de.de or DIR/test.de-en.de, and so on, a sentence in a line, and
prints JSON in the form of ``gtrans score``: for the system ``row`` the s-BLEU of each direction and
their ``mean``. With ``--hyp baseline=STEM row=STEM`` each has a test of its difference from the
baseline, in which sentences that are the same in the language that all directions have in common
are one (:mod:`gtrans.evaluation.several_sets`). With ``--pairs FILE`` (training pairs of sentences
by pair of languages) and ``--classes high=900000 medium=100000 low=0``, ``into`` and ``out of`` the
language that all pairs have in common have the mean over the pairs of each class (those with at
least so many training pairs that are in no class before it) and over ``all``, and the ``win
ratio``: on how many per cent of the pairs the row is better than the baseline.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Options
from gtrans.evaluation.scores import Corpus, measure
from gtrans.evaluation.several_sets import MeanScore, SetScore, mean_of, on_set
from gtrans.evaluation.significance import BOOTSTRAP_TRIALS, RANDOMISATION_TRIALS
from gtrans.messages import json_text, say

ROW, BASELINE = "row", "baseline"
_METRIC = "s_bleu"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0, or 1 with one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m gtrans.experiments.directions")
    parser.add_argument("--hyp", nargs="+", required=True, metavar="NAME=STEM")
    parser.add_argument("--ref", type=Path, required=True, metavar="DIR")
    parser.add_argument("--directions", required=True, metavar="L-M,M-L,..")
    parser.add_argument("--pairs", type=Path, metavar="FILE")
    parser.add_argument("--classes", nargs="+", default=[], metavar="NAME=N")
    args = parser.parse_args(argv)
    try:
        stems = dict(it.partition("=")[::2] for it in args.hyp)
        unknown = stems.keys() - {ROW, BASELINE}
        if ROW not in stems or unknown:
            raise GtransError(f"`--hyp` names {', '.join(stems)}; it takes row= and baseline=.")
        found = _Scores(stems, args.ref, args.directions.split(","))
        entry = found.entry()
        if args.pairs is not None:
            entry |= found.of_classes(_counts(args.pairs), _classes(args.classes))
        print(json_text({"systems": {ROW: entry}, "baseline": BASELINE in stems}))
    except GtransError as error:
        say(f"gtrans: error: {error}")
        return 1
    return 0


class _Scores:
    """The scores of all directions.

    Raises:
        GtransError: a text is missing, or has another number of lines than its reference.
    """

    def __init__(self, stems: Mapping[str, str], folder: Path, directions: Sequence[str]) -> None:
        self._baseline = BASELINE if BASELINE in stems else None
        self._scores: dict[str, SetScore] = {}
        self._signatures: dict[str, str] = {}
        common = set.intersection(*(set(direction.split("-")) for direction in directions))
        for direction in directions:
            target = direction.partition("-")[2]
            reference = _text(folder, direction, target)
            references = _lines(reference)
            shared = _text(folder, direction, min(common, default=target))
            units = _lines(shared)
            if len(units) != len(references):
                raise GtransError(
                    f"{shared}: it has {len(units)} lines, but {reference} has {len(references)}."
                )
            if not common:  # what is the same cannot be known from the text
                pair = "-".join(sorted(direction.split("-")))
                units = [f"{pair} {number}" for number in range(len(units))]
            systems = {}
            for name, stem in stems.items():
                path = Path(f"{stem}.{direction}.{target}")
                systems[name] = [_lines(path)]
                if len(systems[name][0]) != len(references):
                    raise GtransError(
                        f"{path}: it has {len(systems[name][0])} lines, but {reference} has "
                        f"{len(references)}."
                    )
            corpus = Corpus([references], [[range(len(references))]])
            found = measure(corpus, systems, [_METRIC], Options(target_lang=target))[_METRIC]
            self._scores[direction] = on_set(found, ROW, self._baseline, units)
            self._signatures[direction] = found.signature

    def entry(self) -> dict[str, Any]:
        """Every direction and the mean."""
        each = {it: self._mean([it]) for it in self._scores}
        return {**each, "mean": self._mean(list(self._scores))}

    def of_classes(
        self, counts: Mapping[str, int], least: Mapping[str, int]
    ) -> dict[str, dict[str, Any]]:
        """Both ways, the mean over the pairs of each class, over all, and the win ratio."""
        ways: dict[str, dict[str, list[str]]] = {"into": {}, "out of": {}}
        for pair, count in counts.items():
            name = next((name for name, number in least.items() if count >= number), None)
            if name is None:
                raise GtransError(
                    f"`--classes`: {pair} has {count} training pairs, too few for each; let the "
                    "last one be NAME=0."
                )
            for way, direction in (("into", pair), ("out of", "-".join(pair.split("-")[::-1]))):
                if direction not in self._scores:
                    raise GtransError(f"`--pairs` has {pair}, but `--directions` no {direction}.")
                ways[way].setdefault(name, []).append(direction)
        return {way: self._of_way(classes) for way, classes in ways.items()}

    def _of_way(self, classes: Mapping[str, list[str]]) -> dict[str, Any]:
        every = [direction for directions in classes.values() for direction in directions]
        means = {name: self._mean(directions) for name, directions in classes.items()}
        won = {"win ratio": self._won(every)} if self._baseline else {}
        return {**means, "all": self._mean(every), **won}

    def _mean(self, directions: Sequence[str]) -> dict[str, Any]:
        """The mean over directions, in the form of ``gtrans score``."""
        found: MeanScore = mean_of([self._scores[it] for it in directions])
        signature = "; ".join(sorted({self._signatures[it] for it in directions}))
        if len(directions) > 1:
            signature = f"mean over {len(directions)} directions; {signature}"
        entry: dict[str, Any] = {
            "score": found.score,
            "directions": list(directions),
            "signature": signature,
            "confidence": {"interval": found.interval, "trials": BOOTSTRAP_TRIALS},
        }
        if found.p is not None:
            test = {"p": found.p, "trials": RANDOMISATION_TRIALS}
            entry["comparison"] = {"paired_randomisation": test}
        return entry

    def _won(self, directions: Sequence[str]) -> dict[str, Any]:
        """On how many per cent of the directions the row is better, with a sign test.

        The test takes the directions as independent. Where their sentences are the same, p is
        too small.
        """
        differences = [self._scores[it].difference or 0.0 for it in directions]
        better = sum(it > 0 for it in differences)
        decided = sum(it != 0 for it in differences)
        p = float(binomtest(better, decided).pvalue) if decided else 1.0
        entry = {"score": 100 * better / len(directions), "better": better, "of": len(directions)}
        return {**entry, "comparison": {"sign_test_over_directions": {"p": p}}}


def _text(folder: Path, direction: str, lang: str) -> Path:
    """The test text of a pair of languages in one of them."""
    source, _, target = direction.partition("-")
    names = [folder / f"test.{pair}.{lang}" for pair in (direction, f"{target}-{source}")]
    return next((path for path in names if path.is_file()), names[0])


def _lines(path: Path) -> list[str]:
    """All lines; an empty one is a sentence, too."""
    return list(iterate_raw_lines(path))


def _counts(path: Path) -> dict[str, int]:
    try:
        return {pair: int(count) for pair, count in json.loads(path.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise GtransError(f"{path}: no counts of training pairs ({error}).") from None


def _classes(words: Sequence[str]) -> dict[str, int]:
    found = dict(word.partition("=")[::2] for word in words)
    for name, number in found.items():
        if not number.isdigit():
            raise GtransError(f"`--classes` {name}={number}: give NAME=N, such as high=900000.")
    return {name: int(number) for name, number in found.items()}


if __name__ == "__main__":
    sys.exit(main())
