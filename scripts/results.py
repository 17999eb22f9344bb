"""Write `results/results.csv`, a tidy table of every published score, from the JSON files there.

    python scripts/results.py            write results/results.csv
    python scripts/results.py --check    fail if the file there is not what would be written
    python scripts/results.py --counts   print how many comparisons and intervals there are

A row is one value of one system, or its change from a baseline with the same seed. Only changes
have a p-value. Where a comparison has several seeds, a row "pooled" has the mean change. Seeds
share the test documents, so they are no independent evidence: its p-value comes from the mean of
their signed z-scores, and its interval is as wide as theirs on average. Primary comparisons are
changes of d-BLEU of a system with its own context from the sentence model with as many updates, one
per corpus, number of updates and system; their column `p_holm` is corrected for all of them (Holm).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
    "G-Transformer, gate bias 10, more pairs": "G-Transformer (gate bias 10), more pairs",
    "G-Transformer, gate bias 10": "G-Transformer (gate bias 10)",
    "G-Transformer, gate bias 3": "G-Transformer (gate bias 3)",
    "G-Transformer with memory": "G-Transformer + memory",
    "G-Transformer with fusion": "G-Transformer + fusion",
    "G-Transformer random": "G-Transformer (random start)",
    "G-Transformer": "G-Transformer (paper's start)",
    "gate bias 10": "G-Transformer (gate bias 10)",
    "gate bias 3, copied": "G-Transformer (gate bias 3)",
}
CONTEXTS = {
    ", single sentences": "none",
    ", shuffled context": "shuffled",
    ", twice as long": "chunks of 1,024",
    ", four times as long": "chunks of 2,048",
}
# Metrics that do not depend on the context: written once, with the true one.
OF_THE_MODEL = {
    "validation loss",
    "validation perplexity",
    "parameters in millions",
    "true above shuffled context in nats",
    "use of a shuffled context in nats",
    "context use in nats",
    "log-probability above the baseline in nats",
}
NON_INFERIORITY = "p of non-inferiority (margin 0.2 chrF2)"
PER_SENTENCE = "(nats, mean over sentences)"
MARGIN = "ContraPro margin by context"
METRICS = {
    NON_INFERIORITY: "non-inferiority (margin 0.2 chrF2)",
    "METEOR of 2007": "METEOR (2007)",
    "context use in nats": f"log-probability, true above no context {PER_SENTENCE}",
    "true above shuffled context in nats": f"log-probability, true above shuffled {PER_SENTENCE}",
    "use of a shuffled context in nats": f"log-probability, shuffled above none {PER_SENTENCE}",
    "log-probability above the baseline in nats": f"log-probability above baseline {PER_SENTENCE}",
    f"{MARGIN} at distance 0 in nats": "ContraPro margin, same sentence (nats)",
    f"{MARGIN} at distance 1 in nats": "ContraPro margin, sentence before (nats)",
    f"{MARGIN} at unknown distance in nats": "ContraPro margin, place unknown (nats)",
}
SPEED = "tokens a second in training"  # of a machine that did other work as well
PRIMARY = "change of d-BLEU"
POOLED = "pooled"


@dataclass(frozen=True)
class Row:
    """A line of the table; `low` and `high` bound the 95% interval over documents."""

    experiment: str
    corpus: str
    updates: str
    system: str
    seed: str = ""
    context: str = "true"
    metric: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    baseline: str = ""
    command: str = ""

    @property
    def place(self) -> tuple[str, ...]:
        """The key of the value, without its experiment."""
        return self.corpus, self.updates, self.system, self.seed, self.context, self.metric

    @property
    def primary(self) -> bool:
        """Whether Holm's correction counts the row."""
        return (
            self.metric == PRIMARY
            and self.context == "true"
            and not self.system.startswith("sentence")
            and self.baseline.startswith("sentence, continued")
        )


def named(label: str) -> tuple[str, str]:
    """The system and the context of a label such as `HAN, shuffled context`."""
    context = "true"
    for ending, name in CONTEXTS.items():
        if label.endswith(ending):
            label, context = label.removesuffix(ending), name
    head, _, last = label.rpartition(", ")
    if last in ("0.2", "0.5", "1"):
        return f"{NAMES.get(head, head)}, multiplier {last}", context
    return NAMES.get(label, label), context


def rows_of(data: dict[str, Any]) -> Iterator[Row]:
    """Yield the lines of one JSON file: every score, and its change from a baseline."""
    settings = data["settings"]
    first_updates = str(settings["first-updates"])
    updates = f"{first_updates}+{settings['further-updates']}"
    rate = ", multiplier 1" if data["experiment"] == "results-chosen-rates" else ""
    finished = {row["label"]: row for row in data["rows"] if row["cells"]}

    def system(label: str) -> str:
        name, _ = named(label)
        return name if label == "sentence" else name + rate

    for label, row in finished.items():
        _, context = named(label)
        first = Row(
            experiment=data["experiment"],
            corpus=CORPORA[row["corpus"]],
            updates=first_updates if label == "sentence" else updates,
            system=system(label),
            context=context,
            command=" ".join(data["command"]),
        )
        baseline_row = finished.get(row["baseline"])
        baseline = "" if baseline_row is None else system(baseline_row["label"])
        for metric, cell in row["cells"].items():
            if metric == SPEED or (metric in OF_THE_MODEL and context != "true"):
                continue
            baseline_values: dict[int, float] = {}
            if baseline_row is not None and metric in baseline_row["cells"]:
                for entry in baseline_row["cells"][metric]["seeds"]:
                    baseline_values[entry["seed"]] = entry["value"]
            for entry in cell["seeds"]:
                yield from rows_of_seed(first, metric, entry, baseline, baseline_values)


def rows_of_seed(
    row: Row,
    metric: str,
    entry: dict[str, Any],
    baseline: str,
    baseline_values: dict[int, float],
) -> Iterator[Row]:
    """Yield a score with one seed, and its change from the baseline's with the same seed."""
    name = METRICS.get(metric, metric)
    score = replace(row, seed=str(entry["seed"]), metric=name)
    if metric == NON_INFERIORITY:
        yield replace(score, p=entry["value"], baseline=baseline)
        return
    low, high = entry.get("interval") or (None, None)
    yield replace(score, value=entry["value"], low=low, high=high)
    if "p" in entry and entry["seed"] in baseline_values:
        low, high = entry.get("change") or (None, None)
        yield replace(
            score,
            metric=f"change of {name}",
            value=entry["value"] - baseline_values[entry["seed"]],
            low=low,
            high=high,
            p=entry["p"],
            baseline=baseline,
        )


def without_doubles(rows: Sequence[Row]) -> list[Row]:
    """Each value once, from the first experiment that has it; an interval is kept from any.

    Raises:
        ValueError: two experiments have different values for the same key.
    """
    unique: dict[tuple[str, ...], Row] = {}
    for row in rows:
        old = unique.setdefault(row.place, row)
        if old.value is not None and not math.isclose(old.value, row.value or 0, abs_tol=5e-3):
            raise ValueError(
                f"{row.place}: {old.value} in {old.experiment}, {row.value} in {row.experiment}"
            )
        if old.low is None and row.low is not None:
            unique[row.place] = replace(old, low=row.low, high=row.high)
    return list(unique.values())


def refuse_copies(rows: Sequence[Row]) -> None:
    """Find controls that were never run: all their numbers are the true context's.

    Raises:
        ValueError: a system has every score of a context in common with another context.
    """
    scores: dict[tuple[str, ...], dict[str, tuple[float | None, ...]]] = defaultdict(dict)
    for row in rows:
        if row.value is not None:
            scores[row.experiment, *row.place[:-1]][row.metric] = row.value, row.low, row.high
    for key, values in scores.items():
        *system, context = key
        if context == "true":
            continue
        own = scores.get((*system, "true"), {})
        common = values.keys() & own.keys()
        if common and all(values[metric] == own[metric] for metric in common):
            raise ValueError(f"{', '.join(key)}: every score is that of the true context")


def pooled(rows: Sequence[Row]) -> Iterator[Row]:
    """The mean change over seeds, where there are several."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row.metric.startswith("change of "):
            groups[replace(row, seed="").place].append(row)
    normal = NormalDist()
    for group in groups.values():
        if len(group) < 2:
            continue
        z_scores = []
        widths = []
        for row in group:
            z = normal.inv_cdf((row.p or 1e-300) / 2)
            z_scores.append(math.copysign(z, row.value or 0))
            if row.high is not None and row.low is not None:
                widths.append(row.high - row.low)
        p = 2 * normal.cdf(-abs(mean(z_scores)))
        value = mean(row.value or 0 for row in group)
        low = high = None
        if len(widths) == len(group):
            half = mean(widths) / 2
            low, high = value - half, value + half
        yield replace(group[0], seed=POOLED, value=value, low=low, high=high, p=p)


def corrected(rows: Sequence[Row]) -> list[Row]:
    """The rows with Holm's correction over the primary comparisons, seeds pooled."""
    best: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(rows):
        if row.primary and (row.seed == POOLED or row.place[:3] not in best):
            best[row.place[:3]] = number
    order = sorted(best.values(), key=lambda number: rows[number].p or 0)
    done = list(rows)
    least = 0.0
    for rank, number in enumerate(order):
        remaining = len(order) - rank
        p = min(1.0, remaining * (rows[number].p or 0))
        least = max(least, p)
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
        for name in numbers:
            row[name] = float(row[name]) if row[name] else None
    return [Row(**row) for row in rows]


def counts(rows: Sequence[Row]) -> dict[str, int]:
    """How many comparisons the table has, and how many of them are sound.

    A sound one compares a system with its sentence model by documents, and stands there once.
    """
    tested = [row for row in rows if row.p is not None]
    of_items = [row for row in tested if "Contra" in row.metric]
    others = [row for row in tested if not row.baseline.startswith(CONTINUED)]
    both = [row for row in tested if row.seed == POOLED]
    left_out = {id(row) for row in [*of_items, *others, *both]}
    sound = []
    for row in tested:
        if id(row) not in left_out and row.metric != METRICS[NON_INFERIORITY]:
            sound.append(row)
    intervals = disagreeing = 0
    for row in tested:
        if row.low is None or row.high is None:
            continue
        intervals += 1
        excludes_0 = not row.low <= 0 <= row.high
        if excludes_0 and (row.p or 0) >= 0.05:
            disagreeing += 1
    return {
        "p-values": len(tested),
        "by item of contrastive sets": len(of_items),
        "with another baseline": len(others),
        "pooled over seeds": len(both),
        "sound": len(sound),
        "sound, below 0.05": sum((row.p or 0) < 0.05 for row in sound),
        "primary": sum(row.p_holm is not None for row in rows),
        "intervals": intervals,
        "intervals that exclude 0 with p of 0.05 or more": disagreeing,
    }


def as_csv(rows: Sequence[Row]) -> str:
    """The text of the file; numbers have five significant digits."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([field.name for field in fields(Row)])
    for row in rows:
        cells = []
        for value in asdict(row).values():
            cells.append(f"{value:.5g}" if isinstance(value, float) else value)
        writer.writerow(cells)
    return buffer.getvalue()


def write(description: str | None, texts: Iterable[tuple[Path, str]]) -> None:
    """Write files, or with ``--check`` on the command line only compare; for several scripts.

    Raises:
        SystemExit: a file is not what would be written.
    """
    name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args().check
    for path, text in texts:
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{name}: error: {path} is not up to date; run scripts/{name}.py")


if __name__ == "__main__":
    if sys.argv[1:] == ["--counts"]:
        for what, number in counts(read()).items():
            print(f"{number:6,}  {what}")
        sys.exit()
    write(__doc__, [(TABLE, as_csv(table()))])
