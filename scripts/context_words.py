"""Measure on the embedded corpus whether `gtrans cxmi --tokens` names the words that decide.

The cue of a contrastive item is known: the words of the context in which it differs from its twin.
A decision is the first word in which the right and the wrong last sentence differ, if the model
prefers the right one and the word gains --threshold by its context, so that the command looks at
it. Printed are, by phenomenon:

- recall: decisions of which a cue word is named; precision: named words that are cue words;
- falls: decisions that fall when the named words are replaced by the command, or by the twin's;
- others: replacements of any other word of the context (by the word of the text most like it) that
  make a decision fall;
- cost: CPU seconds of the command's work with --tokens by those without it.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtrans.cli.cxmi import SUSPECTS
from gtrans.decoding.context_use import Side, Text, alone, token_scores
from gtrans.decoding.loading import load_models
from gtrans.identity.files import atomic_writer
from gtrans.lab.analysis.deciders import Change, ContextWord, Deciders, Decision, Suspect, Try
from gtrans.lab.analysis.word_gains import ask
from gtrans.lab.substitutes import Substitutes
from gtrans.text.prepared_folder import load_pipeline
from gtrans.text.words import words_of

PHENOMENA = ("pronoun", "ellipsis", "formality", "lexical")
OTHERS = 4  # other words that are replaced in an item
MAX_TOKENS = 2000


@dataclass
class Counts:
    """What was counted of a phenomenon."""

    items: int = 0
    right: int = 0
    decisions: int = 0
    named: int = 0
    named_cues: int = 0
    found: int = 0
    falls: int = 0
    falls_by_twin: int = 0
    others: int = 0
    others_fall: int = 0

    def shares(self) -> dict[str, float]:
        """The bars, each between 0 and 1."""
        return {
            "recall": self.found / max(self.decisions, 1),
            "precision": self.named_cues / max(self.named, 1),
            "falls": self.falls / max(self.decisions, 1),
            "falls_by_twin": self.falls_by_twin / max(self.decisions, 1),
            "others_fall": self.others_fall / max(self.others, 1),
        }


@dataclass
class Items:
    """Contrastive items, each with its twin, and the words in which their contexts differ."""

    items: list[tuple[dict[str, Any], dict[str, Any]]]
    text: Text
    cues: list[dict[ContextWord, str]] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path, data: Path, number: int) -> Items:
        """``number`` pairs of twins of every phenomenon."""
        items = []
        for phenomenon in PHENOMENA:
            path = folder / f"{phenomenon}.jsonl"
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            pairs = list(zip(lines[::2], lines[1::2], strict=True))
            for pair in random.Random(1).sample(pairs, min(number, len(pairs))):
                items += [pair, pair[::-1]]
        source, target = (
            Side(load_pipeline(data, lang), [item[side] for item, _ in items])
            for lang, side in (("en", "source"), ("de", "target"))
        )
        found = cls(items, Text(source, target))
        found.cues = [found._cue(number) for number in range(len(items))]
        return found

    def _cue(self, number: int) -> dict[ContextWord, str]:
        item, twin = self.items[number]
        cue = {}
        for name, side in self.text.sides.items():
            for sentence in range(len(item[name]) - 1):
                other = twin[name][sentence]
                words = side.words[number][sentence].texts
                others = words_of(side.pipeline, other, side.pipeline.encode(other)).texts
                for place, (one, another) in enumerate(zip(words, others, strict=True)):
                    if one != another:
                        cue[ContextWord(name, sentence, place)] = another
        return cue

    def decisive(self, number: int) -> tuple[int, int, int]:
        """The first word in which the right and the wrong last sentence differ."""
        item, twin = self.items[number]
        last = len(item["target"]) - 1
        pipeline = self.text.target.pipeline
        wrong = words_of(pipeline, twin["target"][-1], pipeline.encode(twin["target"][-1])).texts
        words = self.text.target.words[number][last].texts
        pairs = enumerate(zip(words, wrong, strict=True))
        return number, last, next(place for place, (one, other) in pairs if one != other)


def measure(
    path: str, data: Path, corpus: Path, number: int, threshold: float, suspects: int
) -> dict[str, Any]:
    """All counts, by phenomenon, and the CPU seconds."""
    models, task = load_models([path], str(data), {"memory_bptt": -1}, cpu=True)
    items = Items.read(corpus / "contrastive", data, number)
    text = items.text
    _ = text.source.words, text.target.words  # not a part of either cost
    begin = time.process_time()
    found = token_scores(models, task, text, MAX_TOKENS, rivals=True)
    scored = time.process_time()
    bare = alone(models, task, text, MAX_TOKENS, rivals=True)
    both = time.process_time()
    counts = {phenomenon: Counts() for phenomenon in PHENOMENA}
    asked = []
    for n, (item, _) in enumerate(items.items):
        of_phenomenon = counts[item["phenomenon"]]
        of_phenomenon.items += 1
        one = ask(text, items.decisive(n), found, bare)
        own, best, _ = found[n][one.sentence][one.decisive].tolist()
        pieces = text.target.words[n][one.sentence].pieces[one.word]
        gained = (found[n][one.sentence] - bare[n][one.sentence])[pieces.start : pieces.stop, 0]
        of_phenomenon.right += own > best
        if own > best and float(gained.sum()) >= threshold:
            of_phenomenon.decisions += 1
            asked.append(one)
    start = time.process_time()
    deciders = Deciders(models, task, text, MAX_TOKENS, suspects)
    decisions = deciders.decisions(asked, found)
    seconds = {
        "with context": scored - begin,
        "without context": both - scored,
        "deciders": time.process_time() - start,
    }
    by_twin = [_by_twin(decision, items.cues[one.document]) for one, decision in
               zip(asked, decisions, strict=True)]  # fmt: skip
    twins = deciders.replaced(
        [Try(one, changes) for one, changes in zip(asked, by_twin, strict=True)]
    )
    others = [(one, change) for one in asked for change in _others(items, one.document, one)]
    outcomes = deciders.replaced([Try(one, (change,)) for one, change in others])
    for one, decision, twin in zip(asked, decisions, twins, strict=True):
        of_phenomenon = counts[items.items[one.document][0]["phenomenon"]]
        in_cue = [change.suspect.word in items.cues[one.document] for change in decision.changes]
        of_phenomenon.named += len(in_cue)
        of_phenomenon.named_cues += sum(in_cue)
        of_phenomenon.found += any(in_cue)
        of_phenomenon.falls += decision.flips
        of_phenomenon.falls_by_twin += twin.flips
    for (one, _), outcome in zip(others, outcomes, strict=True):
        of_phenomenon = counts[items.items[one.document][0]["phenomenon"]]
        of_phenomenon.others += 1
        of_phenomenon.others_fall += outcome.flips
    whole = Counts()
    for of_phenomenon in counts.values():
        for name, value in vars(of_phenomenon).items():
            setattr(whole, name, getattr(whole, name) + value)
    scoring = seconds["with context"] + seconds["without context"]
    return {
        **{name: {**vars(one), **one.shares()} for name, one in {**counts, "all": whole}.items()},
        "cpu_seconds": seconds,
        "cost": 1 + seconds["deciders"] / scoring,
    }


def _by_twin(decision: Decision, cue: dict[ContextWord, str]) -> tuple[Change, ...]:
    """The named words with the twin's words in their place, where it has others."""
    return tuple(
        Change(change.suspect, cue[change.suspect.word])
        for change in decision.changes
        if change.suspect.word in cue
    )


def _others(items: Items, number: int, one: Any) -> Sequence[Change]:
    """Words of the context that are no cue, each with the word of the text most like it."""
    changes = []
    for name, side in items.text.sides.items():
        substitutes = _substitutes(name, side)
        for sentence in range(one.sentence):
            for place, text in enumerate(side.words[number][sentence].texts):
                word = ContextWord(name, sentence, place)
                by = substitutes.of(text, 1)
                if by and word not in items.cues[number]:
                    changes.append(Change(Suspect(word, None, tuple(by)), by[0]))
    return random.Random(number).sample(changes, min(OTHERS, len(changes)))


_KNOWN: dict[str, Substitutes] = {}


def _substitutes(name: str, side: Side) -> Substitutes:
    if name not in _KNOWN:
        _KNOWN[name] = Substitutes(words.texts for document in side.words for words in document)
    return _KNOWN[name]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--path", required=True, help="checkpoint of a model that reads documents")
    parser.add_argument("--data", required=True, type=Path, help="its data folder")
    parser.add_argument("--corpus", required=True, type=Path, help="folder of gtrans make-corpus")
    parser.add_argument(
        "--pairs", type=int, default=100, metavar="N",
        help="pairs of twins of every phenomenon (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--threshold", type=float, default=0.3, help="see gtrans cxmi")
    parser.add_argument("--suspects", type=int, default=SUSPECTS, help="see gtrans cxmi")
    parser.add_argument("--out", metavar="FILE", help="also write the counts as JSON")
    args = parser.parse_args()
    found = measure(args.path, args.data, args.corpus, args.pairs, args.threshold, args.suspects)
    if args.out:
        with atomic_writer(args.out) as file:
            file.write(json.dumps(found, indent=2) + "\n")
    head = ("recall", "precision", "falls", "falls_by_twin", "others_fall")
    print(f"{'':10} right  decisions " + " ".join(f"{name:>13}" for name in head))
    for name in (*PHENOMENA, "all"):
        one = found[name]
        shares = " ".join(f"{100 * one[share]:12.1f}%" for share in head)
        print(f"{name:10} {one['right']:5} {one['decisions']:10} {shares}")
    seconds = ", ".join(f"{name} {value:.2f}" for name, value in found["cpu_seconds"].items())
    print(f"CPU seconds: {seconds}; {found['cost']:.2f} times the cost of forced decoding")


if __name__ == "__main__":
    main()
