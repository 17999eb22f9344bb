"""What ``gtrans cxmi`` writes and prints."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gtrans.evaluation.cxmi import Cxmi, Sentence
from gtrans.identity.files import atomic_writer

if TYPE_CHECKING:
    from gtrans.decoding.context_use import Text
    from gtrans.lab.analysis.word_gains import Gain

SHOWN = 20  # words in the printed list

Entry = dict[str, Any]


def sentence_entries(
    sentences: Sequence[Sentence], in_random: Sequence[Sentence] = ()
) -> Iterator[Entry]:
    """The values of every sentence by the name of their column.

    ``in_random``: the same sentences in a random context.
    """
    columns = ("document", "sentence", "tokens", "with_context", "without_context", "cxmi")
    for number, sentence in enumerate(sentences):
        entry: Entry = {column: getattr(sentence, column) for column in columns}
        if in_random:
            entry["random_context"] = in_random[number].with_context
        yield entry


def word_entries(gains: Iterable[Gain], text: Text) -> Iterator[Entry]:
    """The values of every word, and what decided it.

    ``loss``, ``flips`` and ``decided_by`` are None for a word whose context was not looked at.
    """
    columns = ("document", "sentence", "word", "text", "tokens", "with_context")
    for gain in gains:
        entry: Entry = {
            column: getattr(gain.word, column) for column in (*columns, "without_context", "cxmi")
        }
        decision = gain.decision
        entry |= {"loss": None, "flips": None, "decided_by": None}
        if decision is not None:
            entry |= {"loss": decision.loss, "flips": decision.flips}
            entry["decided_by"] = list(_deciders(gain, text))
        yield entry


def _deciders(gain: Gain, text: Text) -> Iterator[Entry]:
    """The words of the context that were replaced, with numbers from 1."""
    assert gain.decision is not None
    for change in gain.decision.changes:
        place = change.suspect.word
        words = text.sides[place.side].words[gain.word.document - 1][place.sentence]
        yield {
            "side": place.side,
            "sentence": place.sentence + 1,
            "word": place.word + 1,
            "text": words.texts[place.word],
            "bound": change.suspect.bound,
            "replaced_by": change.by,
        }


def write(path: str, entries: Iterable[Entry]) -> None:
    """A line per entry: JSON objects where ``path`` ends in .jsonl, otherwise cells and a head."""
    with atomic_writer(path) as file:
        for number, entry in enumerate(entries):
            if path.endswith(".jsonl"):
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            else:
                if not number:
                    file.write("\t".join(entry) + "\n")
                file.write("\t".join(map(_cell, entry.values())) + "\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "; ".join(map(_decider, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def _decider(entry: Entry) -> str:
    place = f"{entry['side']} {entry['sentence']}:{entry['word']}"
    return f"{place} {entry['text']} > {entry['replaced_by']}"


def words_in_short(gains: Sequence[Gain], threshold: float) -> dict[str, Any]:
    """How many words gain, how many decisions fall without what decided them, the best forms."""
    looked_at = [gain.decision for gain in gains if gain.decision is not None]
    return {
        "words": len(gains),
        "threshold": threshold,
        "gain": len(looked_at),
        "flip": sum(decision.flips for decision in looked_at),
        "forms": _forms(gains),
    }


def _forms(gains: Sequence[Gain]) -> list[Entry]:
    """The words that gain most in all, as they are written: how often they stand there, nats."""
    values: dict[str, list[float]] = {}
    for gain in gains:
        values.setdefault(gain.word.text, []).append(gain.word.cxmi)
    found: list[Entry] = [
        {"text": text, "count": len(each), "cxmi": math.fsum(each)} for text, each in values.items()
    ]
    return sorted(found, key=lambda form: -form["cxmi"])[:SHOWN]


def line(result: Cxmi) -> str:
    """The result as text."""
    ends = _interval(result)
    interval = f" (95% interval {ends}, {result.resampled} resampled)" if ends else ""
    return (
        f"CXMI {result.value:.4f} nats per sentence{interval}, {result.per_token:.5f} per token; "
        f"{result.sentences} sentences, {result.documents} documents"
    )


def _interval(result: Cxmi) -> str:
    if result.interval is None:
        return ""
    low, high = result.interval
    return f"{low:.4f} to {high:.4f}"


def random_line(random: Cxmi, true: Cxmi) -> str:
    """What a context that is not the sentence's own brings, and the true one more than it."""
    ends = [f" ({_interval(it)})" if it.interval else "" for it in (random, true)]
    return (
        f"in a random context {random.value:.4f} nats per sentence{ends[0]}; the true one has "
        f"{true.value:.4f} more{ends[1]}"
    )


def word_lines(gains: Sequence[Gain], text: Text, threshold: float) -> list[str]:
    """The words that gain most, with what decided them."""
    short = words_in_short(gains, threshold)
    forms = [f"{it['text']} {it['cxmi']:+.1f} ({it['count']} times)" for it in short["forms"]]
    lines = [
        f"{short['gain']} of {short['words']} words gain {threshold:g} nats or more; "
        f"{short['flip']} of these decisions fall when the words named are replaced",
        f"in all, most is gained by {', '.join(forms)}",
    ]
    most = sorted(
        (gain for gain in gains if gain.decision is not None), key=lambda gain: -gain.word.cxmi
    )
    for gain in most[:SHOWN]:
        assert gain.decision is not None
        word = gain.word
        deciders = "; ".join(map(_decider, _deciders(gain, text))) or "nothing found"
        result = "falls" if gain.decision.flips else "stands"
        lines.append(
            f"{word.document}:{word.sentence}:{word.word} {word.text} {word.cxmi:+.2f}: {deciders} "
            f"({-gain.decision.loss:+.2f}, {result})"
        )
    return lines
