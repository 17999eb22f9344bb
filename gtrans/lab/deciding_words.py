"""Name the words of the context that decided words of the reference.

Every word of the reference has a gain: its log-probability given source and context, minus that
given the source alone (CXMI of a word, Fernandes et al. 2023). For the words that gain at least
--threshold, the words of the context that decided them are named: gradients suspect them, and they
are replaced by other words of the text to see whether the model still prefers the reference's word.
See docs/evaluation.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gtrans.cli.shared.model_options import (
    add_instances,
    add_model_files,
    add_scoring,
    check_instances,
    check_scoring,
)
from gtrans.errors import GtransError
from gtrans.identity.files import atomic_writer, check_output
from gtrans.libraries import ENGINE
from gtrans.messages import json_text, print_lines
from gtrans.text.reader import read_parallel

if TYPE_CHECKING:
    from torch import Tensor

    from gtrans.decoding.force_decode import Text
    from gtrans.lab.deciders import Asked, Decision

EXAMPLE = (
    "gtrans deciding-words --path checkpoints/checkpoint_best.pt --data data-bin "
    "--src corpus/test.en --ref corpus/test.de --output words.jsonl"
)
NEEDS = ENGINE
END = "</s>"
SHOWN = 20  # words in the printed list

Entry = dict[str, Any]


@dataclass(frozen=True)
class Word:
    """A word of the reference.

    Attributes:
        document, sentence, word: numbers from 1, each within the one before.
        text: as the user wrote it; :data:`END` for the end mark of the sentence.
        tokens: how many pieces it has.
        with_context, without_context: its log-probability, in nats.
    """

    document: int
    sentence: int
    word: int
    text: str
    tokens: int
    with_context: float
    without_context: float

    @property
    def cxmi(self) -> float:
        """The gain in log-probability through context."""
        return self.with_context - self.without_context


@dataclass(frozen=True)
class Gain:
    """A word of the reference.

    Attributes:
        word: its scores.
        decision: what decided it; None if it gains less than the threshold.
    """

    word: Word
    decision: Decision | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans deciding-words``."""
    files = parser.add_argument_group("files")
    add_model_files(files)
    files.add_argument(
        "--src",
        required=True,
        metavar="FILE",
        help="source: one sentence per line, an empty line between documents",
    )
    files.add_argument("--ref", required=True, metavar="FILE", help="reference, in the same lines")
    files.add_argument(
        "--output",
        metavar="FILE",
        help="write one line per word: JSON if FILE ends in .jsonl, otherwise values separated by "
        "tabs",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.3,
        metavar="NATS",
        help="least gain of a word whose context is looked at; inf: look at none "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--suspects",
        type=int,
        default=3,
        metavar="N",
        help="most words of the context that are replaced, one after the other, until the model "
        "prefers another word; more find more and take longer (default: %(default)s)",
    )
    parser.add_argument(
        "--context",
        type=int,
        metavar="N",
        help="give each sentence only the N sentences before it as context (default: all that "
        "the model's unit contains)",
    )
    add_scoring(parser)
    add_instances(parser.add_argument_group("instances"), "as in training")


def run(args: argparse.Namespace) -> None:
    """Print the words that gain most, and write all words.

    Raises:
        GtransError: a file, a checkpoint or the data folder is missing or damaged, they do
            not fit each other, or an option has an impossible value.
    """
    check_scoring(args)
    check_instances(args)
    for flag in ("context", "suspects"):
        if getattr(args, flag) is not None and getattr(args, flag) < 1:
            raise GtransError(f"`--{flag}` must be at least 1, but is {getattr(args, flag)}.")
    if math.isnan(args.threshold):
        raise GtransError("`--threshold` must be a number of nats or inf, but is nan.")
    if args.output:
        check_output("--output", args.output, [args.src, args.ref, *args.path.split(":")])
    documents = read_parallel(args.src, args.ref)

    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.decoding.force_decode import Side, Text, alone, token_scores
    from gtrans.decoding.loading import load_models, set_instances
    from gtrans.decoding.options import split_paths
    from gtrans.text.prepared_folder import load_pipeline

    # Gradients of a memory reach back to the beginning of the document.
    models, task = load_models(
        split_paths(args.path), args.data, {"memory_bptt": -1}, cpu=args.cpu, fp16=args.fp16
    )
    set_instances(task, args.max_doc_tokens, args.overlap)
    source = Side(task.source_encoder(), [source for source, _ in documents])
    pipeline = load_pipeline(task.data_folder, task.cfg.target_lang)
    text = Text(source, Side(pipeline, [target for _, target in documents]), args.context)
    scores = token_scores(models, task, text, args.max_tokens, rivals=True)
    bare = alone(models, task, text, args.max_tokens, rivals=True)
    found = gains(
        models, task, text, (scores, bare), args.threshold, args.max_tokens, args.suspects
    )
    if args.output:
        _write(args.output, _entries(found, text))
    if args.json:
        print(json_text(_in_short(found, args.threshold)))
    else:
        print_lines(*_lines(found, text, args.threshold))


def words_with_scores(
    text: Text, found: Sequence[Sequence[Tensor]], bare: Sequence[Sequence[Tensor]]
) -> list[list[list[Word]]]:
    """The words of every sentence of every document, with the end mark.

    Args:
        text: what was read.
        found, bare: scores of the tokens with and without context, by document and sentence.
    """
    return [
        [
            [
                Word(
                    document, sentence, word, written, len(pieces),
                    *(_total(scores, pieces) for scores in of_sentence),
                )
                for word, (written, pieces) in enumerate(
                    zip([*words.texts, END], [*words.pieces, range(last, last + 1)], strict=True),
                    start=1,
                )
            ]
            for sentence, (words, of_sentence) in enumerate(
                zip(of_document, zip(*scores, strict=True), strict=True), start=1
            )
            for last in [len(of_sentence[0]) - 1]
        ]
        for document, (of_document, scores) in enumerate(
            zip(text.target.words, zip(found, bare, strict=True), strict=True), start=1
        )
    ]  # fmt: skip


def _total(scores: Tensor, pieces: range) -> float:
    return float(scores[pieces.start : pieces.stop, 0].sum())


def gains(
    models: Sequence[Any],
    task: Any,
    text: Text,
    scores: tuple[Sequence[Sequence[Tensor]], Sequence[Sequence[Tensor]]],
    threshold: float,
    max_tokens: int,
    suspects: int,
) -> list[Gain]:
    """Every word of the references with its gain, and what decided those that gain.

    Args:
        models: one model, or an ensemble.
        task: their task.
        text: what they read.
        scores: those of the tokens with and without context, with rivals
            (:func:`gtrans.decoding.force_decode.token_scores`).
        threshold: least gain of a word whose context is looked at, in nats.
        max_tokens: largest batch in tokens.
        suspects: most words of the context that are replaced for a word.
    """
    found, bare = scores
    words = [
        word
        for document in words_with_scores(text, found, bare)
        for sentence in document
        for word in sentence
    ]
    asked = {}
    for number, word in enumerate(words):
        if word.cxmi >= threshold and word.text != END:
            place = word.document - 1, word.sentence - 1, word.word - 1
            asked[number] = _ask(text, place, found, bare)
    decisions: list[Decision] = []
    if asked:
        from gtrans.lab.deciders import Deciders

        deciders = Deciders(models, task, text, max_tokens, suspects)
        decisions = deciders.decisions(list(asked.values()), found)
    of_word = dict(zip(asked, decisions, strict=True))
    return [Gain(word, of_word.get(number)) for number, word in enumerate(words)]


def _ask(
    text: Text, place: tuple[int, int, int], found: Sequence[Sequence[Tensor]],
    bare: Sequence[Sequence[Tensor]],
) -> Asked:  # fmt: skip
    """The question what decided a word; ``place``: document, sentence and word, from 0."""
    document, sentence, word = place
    pieces = text.target.words[document][sentence].pieces[word]
    gained = found[document][sentence][:, 0] - bare[document][sentence][:, 0]
    decisive = max(pieces, key=lambda piece: float(gained[piece]))
    from gtrans.lab.deciders import Asked

    return Asked(*place, decisive, int(bare[document][sentence][decisive, 2]))


def _entries(gains: Iterable[Gain], text: Text) -> Iterator[Entry]:
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


def _write(path: str, entries: Iterable[Entry]) -> None:
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


def _in_short(gains: Sequence[Gain], threshold: float) -> dict[str, Any]:
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


def _lines(gains: Sequence[Gain], text: Text, threshold: float) -> list[str]:
    """The words that gain most, with what decided them."""
    short = _in_short(gains, threshold)
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
