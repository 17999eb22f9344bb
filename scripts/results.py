"""Write `results/results.csv`, a tidy table of every published score, from the JSON files there.

    python scripts/results.py            write results/results.csv
    python scripts/results.py --check    fail if the file there is not what would be written

A row is one value of one system, or its change from a baseline with the same seed. Only changes
have a p-value. Where a comparison has several seeds, a row "pooled" has the mean change, and a
p-value from the signed z-scores of the seeds (Stouffer). Primary comparisons are changes of d-BLEU
of a system with its own context from the sentence model with as many updates, one per corpus,
number of updates and system; their column `p_holm` is corrected for all of them (Holm).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import NormalDist, mean
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "results"
TABLE = FOLDER / "results.csv"
CORPORA = {"debian-web-ende": "Debian", "story": "chats+Bible", "tvsub": "TV subtitles"}
CONTINUED = "sentence, continued"
BATCHES = "sentence, document batches"
# Labels of the JSON files, the longest first, and the names of the pages.
NAMES = {
    "sentence, trained on in documents": BATCHES,
    "sentence, trained on with more pairs": "sentence, continued, more pairs",
    "sentence, trained on": CONTINUED,
    "G-Transformer, lossless start, with more pairs": "G-Transformer (gate bias 10), more pairs",
    "G-Transformer, lossless start": "G-Transformer (gate bias 10)",
    "G-Transformer, gates a little open": "G-Transformer (gate bias 3)",
    "G-Transformer with memory": "G-Transformer + memory",
    "G-Transformer with fusion": "G-Transformer + fusion",
    "G-Transformer random": "G-Transformer (random start)",
    "G-Transformer": "G-Transformer (paper's start)",
    "document Transformer, forced": "document Transformer, sentence-constrained",
    "document Transformer, free": "document Transformer, unconstrained",
    "gates closed": "G-Transformer (gate bias 10)",
    "gates a little open, copied": "G-Transformer (gate bias 3)",
}
CONTEXTS = {
    ", single sentences": "none",
    ", random context": "shuffled",
    ", twice as long": "chunks of 1,024",
    ", four times as long": "chunks of 2,048",
}
# What a model has whatever it reads: written once, with its own context.
OF_THE_MODEL = {
    "validation loss", "perplexity on dev", "parameters in millions",
    "true above random context in nats", "use of a random context in nats",
    "context use in nats", "log-probability above the baseline in nats",
}  # fmt: skip
METRICS = {
    "perplexity on dev": "validation perplexity",
    "METEOR of 2007": "METEOR (2007)",
    "context use in nats": "log-probability, true above no context (nats per sentence)",
    "true above random context in nats": "log-probability, true above shuffled (nats per sentence)",
    "use of a random context in nats": "log-probability, shuffled above none (nats per sentence)",
    "log-probability above the baseline in nats":
        "log-probability above baseline (nats per sentence)",
    "ContraPro margin by context at distance 0 in nats": "ContraPro margin, same sentence (nats)",
    "ContraPro margin by context at distance 1 in nats": "ContraPro margin, sentence before (nats)",
    "ContraPro margin by context at unknown distance in nats":
        "ContraPro margin, place unknown (nats)",
}  # fmt: skip
SPEED = "tokens a second in training"  # of a machine that did other work as well
NON_INFERIORITY = "p of not 0.2 chrF2 worse"
PRIMARY = "change of d-BLEU"


@dataclass(frozen=True)
class Row:
    """A line of the table; `low` and `high` bound the 95% interval over documents."""

    experiment: str
    corpus: str
    updates: str
    system: str
    seed: str
    context: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    baseline: str
    command: str

    @property
    def place(self) -> tuple[str, ...]:
        """What the value is of, whichever experiment has it."""
        return self.corpus, self.updates, self.system, self.seed, self.context, self.metric

    @property
    def primary(self) -> bool:
        """Whether the row belongs to the family of comparisons that Holm's correction is for."""
        return (
            self.metric == PRIMARY
            and self.context == "true"
            and not self.system.startswith("sentence")
            and self.baseline.startswith("sentence, continued")
        )


def named(label: str) -> tuple[str, str]:
    """The system and the context of a label such as `HAN, random context`."""
    context = "true"
    for ending, name in CONTEXTS.items():
        if label.endswith(ending):
            label, context = label.removesuffix(ending), name
    rate = ""
    head, _, last = label.rpartition(", ")
    if last in ("0.2", "0.5", "1"):
        label, rate = head, f", multiplier {last}"
    return NAMES.get(label, label) + rate, context


def rows_of(data: dict[str, Any]) -> Iterator[Row]:
    """The lines of one JSON file."""
    settings = data["settings"]
    updates = f"{settings['first-updates']}+{settings['further-updates']}"
    command = " ".join(data["command"])
    finished = {row["label"]: row for row in data["rows"] if row["cells"]}
    scale = ", multiplier 1" if data["experiment"] == "results-chosen-rates" else ""
    for label, row in finished.items():
        system, context = named(label)
        of_sentence = label == "sentence"
        first = Row(
            data["experiment"], CORPORA[row["corpus"]],
            f"{settings['first-updates']}" if of_sentence else updates,
            system if of_sentence else system + scale, "", context, "",
            None, None, None, None, None, "", command,
        )  # fmt: skip
        against = finished.get(row["baseline"])
        for metric, cell in row["cells"].items():
            if metric == SPEED or (metric in OF_THE_MODEL and context != "true"):
                continue
            for one in cell["seeds"]:
                yield from _values(first, metric, one, cell, against, scale)


def _values(
    first: Row, metric: str, one: dict[str, Any], cell: dict[str, Any], against: Any, scale: str
) -> Iterator[Row]:
    """A score, and its change from the baseline where the baseline has that seed."""
    first = replace(first, seed=str(one["seed"]), metric=METRICS.get(metric, metric))
    baseline = (
        named(against["label"])[0] + ("" if against["label"] == "sentence" else scale)
        if against
        else ""
    )
    if metric == NON_INFERIORITY:
        yield replace(
            first, metric="non-inferiority (margin 0.2 chrF2)", p=one["value"], baseline=baseline
        )
        return
    low, high = one.get("interval") or (None, None)
    yield replace(first, value=one["value"], low=low, high=high)
    if "p" not in one or against is None:
        return
    theirs = {x["seed"]: x["value"] for x in against["cells"].get(metric, {"seeds": []})["seeds"]}
    if one["seed"] in theirs:
        low, high = one.get("change") or (None, None)
        yield replace(
            first, metric=f"change of {first.metric}", value=one["value"] - theirs[one["seed"]],
            low=low, high=high, p=one["p"], baseline=baseline,
        )  # fmt: skip


def without_doubles(rows: Sequence[Row]) -> list[Row]:
    """Each value once, from the first experiment that has it; an interval or p is kept from any.

    Raises:
        ValueError: two experiments give different values of one thing.
    """
    found: dict[tuple[str, ...], Row] = {}
    for row in rows:
        old = found.setdefault(row.place, row)
        if old.value is not None and not math.isclose(old.value, row.value or 0, abs_tol=5e-3):
            raise ValueError(
                f"{row.place}: {old.value} in {old.experiment}, {row.value} in {row.experiment}"
            )
        if old.low is None and row.low is not None:
            found[row.place] = replace(old, low=row.low, high=row.high)
    return list(found.values())


def refuse_copies(rows: Sequence[Row]) -> None:
    """A control that was never run shows itself by numbers that are all its treatment's.

    Raises:
        ValueError: a system has every score of a context in common with another context.
    """
    scores: dict[tuple[str, ...], dict[str, tuple[float | None, ...]]] = defaultdict(dict)
    for row in rows:
        if row.value is not None:
            place = row.experiment, row.corpus, row.updates, row.system, row.seed, row.context
            scores[place][row.metric] = row.value, row.low, row.high
    for key, values in scores.items():
        own = scores.get((*key[:-1], "true"), {})
        common = values.keys() & own.keys()
        if key[-1] != "true" and common and all(values[m] == own[m] for m in common):
            raise ValueError(f"{', '.join(key)}: every score is that of the true context")


def pooled(rows: Sequence[Row]) -> Iterator[Row]:
    """The mean change over seeds, where there are several."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row.metric.startswith("change of "):
            groups[row.corpus, row.updates, row.system, row.context, row.metric].append(row)
    normal = NormalDist()
    for group in groups.values():
        if len(group) < 2:
            continue
        z = [
            math.copysign(normal.inv_cdf(max(row.p or 0, 1e-300) / 2), row.value or 0)
            for row in group
        ]
        p = 2 * normal.cdf(-abs(sum(z)) / math.sqrt(len(z)))
        value = mean(row.value or 0 for row in group)
        low = high = None
        if all(row.low is not None for row in group):
            half = (
                math.sqrt(sum(((row.high or 0) - (row.low or 0)) ** 2 for row in group))
                / 2
                / len(group)
            )
            low, high = value - half, value + half
        yield replace(group[0], seed="pooled", value=value, low=low, high=high, p=p)


def corrected(rows: Sequence[Row]) -> list[Row]:
    """The rows with Holm's correction over the primary comparisons, seeds pooled."""
    best: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(rows):
        if row.primary and (
            row.seed == "pooled" or (row.corpus, row.updates, row.system) not in best
        ):
            best[row.corpus, row.updates, row.system] = number
    order = sorted(best.values(), key=lambda number: rows[number].p or 0)
    done, least = list(rows), 0.0
    for rank, number in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * (rows[number].p or 0)))
        done[number] = replace(done[number], p_holm=least)
    return done


def table() -> list[Row]:
    """All rows, in the order of the files."""
    rows: list[Row] = []
    for path in sorted(FOLDER.glob("results-*.json")):
        rows += rows_of(json.loads(path.read_text(encoding="utf-8")))
    refuse_copies(rows)
    rows = without_doubles(rows)
    return corrected([*rows, *pooled(rows)])


def read() -> list[Row]:
    """The committed table."""
    numbers = {"value", "low", "high", "p", "p_holm"}
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row.update({k: float(row[k]) if row[k] else None for k in numbers})
    return [Row(**row) for row in rows]


def as_csv(rows: Sequence[Row]) -> str:
    """The text of the file; numbers have five significant digits."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([field.name for field in fields(Row)])
    for row in rows:
        writer.writerow(
            [
                f"{x:.5g}" if isinstance(x, float) else "" if x is None else x
                for x in asdict(row).values()
            ]
        )
    return buffer.getvalue()


def main() -> None:
    """Write or check the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    args = parser.parse_args()
    text = as_csv(table())
    if not args.check:
        TABLE.write_text(text, encoding="utf-8")
    elif TABLE.read_text(encoding="utf-8") != text:
        raise SystemExit(f"results: error: {TABLE} is not up to date; run scripts/results.py")


if __name__ == "__main__":
    main()
