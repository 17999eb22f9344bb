"""Measure how well `gtrans score --resegment` finds the sentences of translations.

    python scripts/reliability/resegmenting.py [--data FOLDER] [--systems LABEL REF HYP [HYP ..]]

Translations whose sentences are known are joined to one line for each document and split again:
another translator's version of the same source, and the reference with noise (a share of the words,
but no sentence's last one, is dropped, replaced or moved by one word), for five shares. With
`--systems`, also the outputs of systems, which have the same lines as their reference.

- boundaries: the share of boundaries between sentences of a document that are found exactly.
- s-BLEU: the difference from the score of the aligned sentences.
- omitted, added: F1 where 5% of the sentences are taken away, and as many sentences of other
  documents put in. An addition counts as found if half of its characters are.
- order: whether the systems of one reference have the same order by s-BLEU.
- seconds: CPU time for 10,000 sentences, reading and scoring not included.

`--write` puts the table into docs/resegmenting.md.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtrans.data.documents import iterate_raw_lines
from gtrans.evaluation.metrics import Options
from gtrans.evaluation.resegment import Resegmenter, Split
from gtrans.evaluation.scores import Corpus, measure
from gtrans.identity.files import atomic_writer

REPO = Path(__file__).resolve().parents[2]
PAGE = REPO / "docs" / "resegmenting.md"
DATA = Path(os.environ.get("GTRANS_DATA") or REPO.parent / "shared" / "data")
PLANTED = 0.05
NOISE = (0.1, 0.2, 0.3, 0.4, 0.5)
HEAD = (
    *("translations", "number", "sentences", "boundaries", "s-BLEU", "largest change"),
    *("omitted F1", "added F1", "same order", "s / 10,000"),
)

Pair = tuple[str, str]  # a sentence of the reference, and its translation
Documents = list[list[Pair]]

TRANSLATORS = [
    ("German, news 2021: translator C for A", "newstest/newstest2021.ref{}.de.gz", "A", "C"),
    ("German, general 2022: translator B for A", "newstest/generaltest2022.ref{}.de.gz", "A", "B"),
    ("German, news 2019: NTREX for WMT's", "{}.de.gz", "newstest/newstest2019",
     "ntrex-newstest2019/test.en-de"),
]  # fmt: skip
NOISY = [
    ("German, news 2019", "newstest/newstest2019.de.gz"),
    ("Russian, news 2019", "ntrex-newstest2019/test.en-ru.ru.gz"),
    ("Chinese, news 2019", "ntrex-newstest2019/test.en-zh.zh.gz"),
    ("German, subtitles, one document", "opensubtitles-doclevel/test.de.gz"),
]


@dataclass
class System:
    """A translation whose sentences are known, and the group of those with one reference."""

    group: str
    documents: Documents


@dataclass
class Result:
    """What was measured on one translation; shares and F1 in percent."""

    sentences: int
    boundaries: float
    before: float
    after: float
    omitted: float
    added: float
    seconds: float


def read(reference: Path, translation: Path) -> Documents:
    """Documents of both files, which have the same lines."""
    documents: Documents = [[]]
    for pair in zip(iterate_raw_lines(reference), iterate_raw_lines(translation), strict=True):
        if pair[0]:
            documents[-1].append(pair)
        elif documents[-1]:
            documents.append([])
    return [document for document in documents if document]


def has_spaces(documents: Documents) -> bool:
    """Whether the language puts spaces between words."""
    text = "".join(sentence for document in documents for _, sentence in document)
    return len(re.findall("[\u3040-\u9fff]", text)) < 0.2 * len(text)


def noisy(documents: Documents, share: float, rng: random.Random) -> Documents:
    """The references with a share of their words changed."""
    space = " " if has_spaces(documents) else ""
    words = [
        word
        for document in documents
        for reference, _ in document
        for word in (reference.split() if space else reference)
    ]

    def changed(reference: str) -> str:
        kept: list[str] = []
        *inside, last = reference.split() if space else list(reference)
        for word in inside:
            fate = 3 * rng.random() / share
            if fate < 1:
                continue
            place = len(kept) - 1 if fate < 2 and kept else len(kept)
            kept.insert(place, rng.choice(words) if 2 <= fate < 3 else word)
        return space.join([*kept, last]).strip()

    return [[(one, changed(one)) for one, _ in document] for document in documents]


def systems(args: argparse.Namespace) -> Iterator[System]:
    """All translations to measure."""
    for label, pattern, *names in TRANSLATORS:
        reference, other = (args.data / pattern.format(name) for name in names)
        yield System(label, read(reference, other))
    for label, name in NOISY:
        reference = args.data / name
        for share in NOISE:
            documents = noisy(read(reference, reference), share, random.Random(1))
            yield System(f"{label}: {NOISE[0]:.0%} to {NOISE[-1]:.0%} noise", documents)
    for label, reference, *outputs in args.systems:
        for output in outputs:
            yield System(label, read(Path(reference), Path(output)))


def characters(sentences: Sequence[str]) -> list[int]:
    """Characters up to the end of each sentence, spaces not counted."""
    ends = [0]
    for sentence in sentences:
        ends.append(ends[-1] + len("".join(sentence.split())))
    return ends


def f1(right: int, found: int, wanted: int) -> float:
    """F1 of what was found, in percent."""
    return 200 * right / max(1, found + wanted)


def plant(documents: Documents, rng: random.Random) -> list[list[tuple[str | None, str | None]]]:
    """The documents, with some sentences missing on either side."""
    pool = [sentence for document in documents for _, sentence in document if len(sentence) > 3]
    planted = []
    for document in documents:
        rows: list[tuple[str | None, str | None]] = []
        for reference, sentence in document:
            rows.append((reference, None if rng.random() < PLANTED else sentence))
            if rng.random() < PLANTED:
                rows.append((None, rng.choice(pool)))
        planted.append(rows)
    return planted


def coverage(documents: Documents, resegmenter: Resegmenter) -> tuple[float, float]:
    """F1 of planted omissions and additions."""
    space = " " if has_spaces(documents) else ""
    omissions, additions = [0, 0, 0], [0, 0, 0]
    for number, rows in enumerate(plant(documents, random.Random(5))):
        lines = [sentence for _, sentence in rows if sentence]
        split = resegmenter.split(number, [space.join(lines)])
        gone = {k for k, (_, s) in enumerate(row for row in rows if row[0]) if not s}
        omissions[0] += len(gone & set(split.omitted))
        omissions[1] += len(split.omitted)
        omissions[2] += len(gone)
        ends = characters([sentence or "" for _, sentence in rows])
        true = [set(range(ends[k], ends[k + 1])) for k, (ref, _) in enumerate(rows) if ref is None]
        found = list(_stretches(split, "".join("".join(lines).split())))
        everything = set().union(*found), set().union(*true)
        additions[0] += sum(2 * len(one & everything[0]) >= len(one) for one in true)
        wrong = sum(2 * len(one & everything[1]) < len(one) for one in found)
        additions[1] += wrong + sum(2 * len(one & everything[0]) >= len(one) for one in true)
        additions[2] += len(true)
    return f1(*omissions), f1(*additions)


def _stretches(split: Split, text: str) -> Iterator[set[int]]:
    """The characters of every addition."""
    start = 0
    for one in split.added:
        stretch = "".join(one.text.split())
        start = text.index(stretch, start)
        yield set(range(start, start + len(stretch)))


def measured(system: System) -> Result:
    """Split the joined documents of a translation, score, plant omissions and additions."""
    documents = system.documents
    references = [[reference for reference, _ in document] for document in documents]
    aligned = [[sentence for _, sentence in document] for document in documents]
    space = " " if has_spaces(documents) else ""
    resegmenter = Resegmenter([references])
    begin = time.process_time()
    found = [
        resegmenter.split(number, [space.join(filter(None, sentences))]).sentences
        for number, sentences in enumerate(aligned)
    ]
    seconds = time.process_time() - begin
    right = total = 0
    for one, other in zip(aligned, found, strict=True):
        places = list(zip(characters(one)[1:-1], characters(other)[1:-1], strict=True))
        right += sum(a == b for a, b in places)
        total += len(places)
    corpus = Corpus(references, [[range(len(document))] for document in references])
    options = Options(target_lang="" if space else "zh")
    bleu = measure(corpus, {"aligned": aligned, "found": found}, ["s_bleu"], options)["s_bleu"]
    before, after = bleu.score("aligned"), bleu.score("found")
    count = sum(map(len, documents))
    omitted, added = coverage(documents, resegmenter)
    return Result(
        count, 100 * right / max(1, total), before, after, omitted, added, 10_000 * seconds / count
    )


def row(label: str, results: Sequence[Result]) -> str:
    """A row of the table: the translations of one reference."""

    def span(values: Sequence[float], digits: int = 0, unit: str = "%") -> str:
        low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
        return (low if low == high else f"{low} to {high}") + unit

    order = sorted(results, key=lambda one: one.before)
    same = "yes" if order == sorted(results, key=lambda one: one.after) else "no"
    cells = (
        label,
        str(len(results)),
        f"{results[0].sentences:,}",
        span([one.boundaries for one in results], 1),
        span([one.before for one in results], 1, ""),
        f"{max((one.after - one.before for one in results), key=abs):+.2f}",
        span([one.omitted for one in results]),
        span([one.added for one in results]),
        same if len(results) > 1 else "",
        span([one.seconds for one in results], 0, ""),
    )
    return f"| {' | '.join(cells)} |"


def table(found: Iterable[System]) -> str:
    """The table as markdown."""
    groups: dict[str, list[Result]] = {}
    for system in found:
        result = measured(system)
        print(system.group, result, file=sys.stderr, flush=True)
        groups.setdefault(system.group, []).append(result)
    lines = [f"| {' | '.join(HEAD)} |", "| --- |" + " ---: |" * (len(HEAD) - 1)]
    return "\n".join([*lines, *(row(label, results) for label, results in groups.items())]) + "\n"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=DATA, metavar="DIR",
        help="folder of the real corpora (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--systems", nargs="+", action="append", default=[], metavar="FILE",
        help="LABEL REF HYP [HYP ..]: outputs of systems with the lines of their reference",
    )  # fmt: skip
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.name}")
    args = parser.parse_args()
    text = table(systems(args))
    print(text)
    if args.write:
        page = PAGE.read_text("utf-8")
        marked = r"(<!-- table: .*? -->\n).*?(<!-- end of table -->)"
        page = re.sub(marked, lambda found: f"{found[1]}\n{text}\n{found[2]}", page, flags=re.S)
        with atomic_writer(PAGE) as file:
            file.write(page)


if __name__ == "__main__":
    main()
