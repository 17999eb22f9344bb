"""Name the words of the context that decided words of the reference.

Every word of the reference has a gain: its log-probability given source and context, minus that
given the source alone (CXMI of a word, Fernandes et al. 2023). For each word that gains at least
--threshold, the word of the context that decided it is named: gradients find candidates, which are
replaced by other words to see whether the model still prefers the reference's word.
See docs/context-use.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from gtrans.cli.shared.options import (
    add_chunks,
    add_model_files,
    add_scoring,
    check_chunks,
    check_scoring,
)
from gtrans.environment import ENGINE
from gtrans.errors import GtransError
from gtrans.files import atomic_writer, check_output
from gtrans.lab.words import words_of_side
from gtrans.messages import json_text, print_lines, with_schema
from gtrans.text.reader import read_parallel

if TYPE_CHECKING:
    from torch import Tensor

    from gtrans.data.units import UnitSpan
    from gtrans.translating.force_decode import CorpusSide, ScoredCorpus, ScoredRow, ScoredSpan

EXAMPLE = (
    "gtrans deciding-words --path checkpoints/checkpoint_best.pt --data data-bin "
    "--src corpus/test.en --ref corpus/test.de --output words.jsonl"
)
NEEDS = ENGINE
END = "</s>"
SHOWN = 20  # words in the printed list
SUSPECTS = 3  # words of the context that are replaced, one after the other
REPLACEMENTS = 5  # words that are tried in the place of one
SLIGHT = 0.05  # smaller losses say nothing, in nats
SIDES = ("source", "target")

Scores = Sequence[Sequence["Tensor"]]
"""``(tokens, 3)`` by document and sentence: log-probabilities of a token and its rival, its id."""


# --- the command ----------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans deciding-words``."""
    files = parser.add_argument_group("files")
    add_model_files(files)
    add = files.add_argument
    add(
        "--src",
        required=True,
        metavar="FILE",
        help="source: one sentence per line, an empty line between documents",
    )
    add("--ref", required=True, metavar="FILE", help="reference, in the same lines")
    add(
        "--output",
        metavar="FILE",
        help="write a line of JSON per word",
    )
    add = parser.add_argument
    add(
        "--threshold",
        type=float,
        default=0.3,
        metavar="NATS",
        help="least gain of a word whose context is searched; inf: search none "
        "(default: %(default)s)",
    )
    add_scoring(parser)
    add_chunks(parser.add_argument_group("chunks"), "the checkpoint's")


def run(args: argparse.Namespace) -> None:
    """Print the words that gain most, and write all words.

    Raises:
        GtransError: a file, a checkpoint or the data folder is missing or damaged, they do
            not fit each other, or an option has an impossible value.
    """
    check_scoring(args)
    check_chunks(args)
    if math.isnan(args.threshold):
        raise GtransError("`--threshold` must be a number of nats or inf, but is nan.")
    if args.output:
        check_output("--output", args.output, [args.src, args.ref, *args.path.split(":")])
    documents = read_parallel(args.src, args.ref)

    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.search.options import split_paths
    from gtrans.translating.force_decode import CorpusSide, ScoredCorpus
    from gtrans.translating.loading import load_models, set_chunks

    # Gradients of a memory reach back to the beginning of the document.
    models, task = load_models(
        split_paths(args.path), args.data, {"memory_bptt": -1}, cpu=args.cpu, fp16=args.fp16
    )
    set_chunks(task, args.max_doc_tokens, args.overlap)
    source = CorpusSide(task.source_encoder(), [source for source, _ in documents])
    pipeline = task.pipeline(str(task.cfg.target_lang))
    text = ScoredCorpus(source, CorpusSide(pipeline, [target for _, target in documents]))
    words = gains(models, task, text, args.threshold, args.max_tokens)
    if args.output:
        with atomic_writer(args.output) as file:
            file.writelines(json.dumps(word.entry(), ensure_ascii=False) + "\n" for word in words)
    if args.json:
        print(json_text(with_schema("deciding-words", _in_short(words, args.threshold))))
    else:
        print_lines(*_lines(words, args.threshold))


# --- words and their deciders ---------------------------------------------------------------------


@dataclass(frozen=True)
class WordChange:
    """A word of the context, and its replacement.

    Attributes:
        side, sentence, word: its place, numbers from 1.
        text: the word.
        bound: on its first-order effect; None if the model does not embed it with the sentence.
        replaced_by: another word of the text.
    """

    side: str
    sentence: int
    word: int
    text: str
    bound: float | None
    replaced_by: str

    def __str__(self) -> str:
        """As it is printed: ``source 1:3 whistled > nervous``."""
        return f"{self.side} {self.sentence}:{self.word} {self.text} > {self.replaced_by}"


@dataclass(frozen=True)
class Decision:
    """The word of the context that decided a word of the translation.

    Attributes:
        change: this word with its replacement; None if no context could be replaced.
        loss: log-probability that the word loses if it is replaced, in nats.
        flips: whether the decision falls: the word's token was the most probable one at the
            decisive place, and is no longer.
    """

    change: WordChange | None
    loss: float
    flips: bool

    @property
    def strength(self) -> tuple[bool, float]:
        """Sort key: decisions that fall are stronger, then larger losses.

        Slight losses count as equal, so that the first one wins, which has the largest gradient.
        """
        return self.flips, self.loss if self.loss >= SLIGHT else 0.0


@dataclass(frozen=True)
class DecidingWord:
    """A word of the reference.

    Attributes:
        document, sentence, word: numbers from 1, each within the one before.
        text: as the user wrote it; :data:`END` for the end token of the sentence.
        tokens: its number of subwords.
        with_context, without_context: its log-probability, in nats.
        decision: the word that decided it; None if it gains less than the threshold.
    """

    document: int
    sentence: int
    word: int
    text: str
    tokens: int
    with_context: float
    without_context: float
    decision: Decision | None = None

    @property
    def cxmi(self) -> float:
        """The gain in log-probability through context."""
        return self.with_context - self.without_context

    def entry(self) -> dict[str, Any]:
        """Its values for a file; None stands for a missing decision."""
        values = asdict(self)
        decision = values.pop("decision") or dict.fromkeys(("loss", "flips", "change"))
        decision["decided_by"] = decision.pop("change")
        return {**values, "cxmi": self.cxmi, **decision}


def gains(
    models: Sequence[Any], task: Any, text: ScoredCorpus, threshold: float, max_tokens: int
) -> list[DecidingWord]:
    """Every word of the references; those that gain have their deciding words.

    Args:
        models: one model, or an ensemble.
        task: their task.
        text: source and references.
        threshold: least gain of a word whose deciders are sought, in nats.
        max_tokens: largest batch in tokens.
    """
    from gtrans.translating.force_decode import alone, token_scores

    full = token_scores(models, task, text, max_tokens, rivals=True)
    bare = alone(models, task, text, max_tokens, rivals=True)
    words = list(_words(text, full, bare))
    asked = {
        number: _asked(word, text, full, bare)
        for number, word in enumerate(words)
        if word.cxmi >= threshold and word.text != END
    }
    if asked:
        deciders = _Deciders(models, task, text, max_tokens)
        decided = deciders.decisions(list(asked.values()))
        for number, decision in zip(asked, decided, strict=True):
            words[number] = replace(words[number], decision=decision)
    return words


def _words(text: ScoredCorpus, full: Scores, bare: Scores) -> Iterator[DecidingWord]:
    """The words of all sentences with their end tokens, from scores with and without context."""
    for document, sentences in enumerate(words_of_side(text.target)):
        for sentence, words in enumerate(sentences):
            values = [scores[document][sentence][:, 0] for scores in (full, bare)]
            last = len(values[0]) - 1
            texts, places = [*words.texts, END], [*words.subwords, range(last, last + 1)]
            for number, (written, at) in enumerate(zip(texts, places, strict=True), start=1):
                whole, alone = (float(value[at.start : at.stop].sum()) for value in values)
                yield DecidingWord(
                    document + 1, sentence + 1, number, written, len(at), whole, alone
                )


@dataclass(frozen=True)
class Asked:
    """A word of the translation whose deciders are sought.

    Attributes:
        document, sentence: numbers from 0.
        subwords: numbers of its subwords in the sentence.
        decisive: number of the token of the sentence that gained most.
        rival: id of the token that is most probable there without context, besides its own.
        value: its log-probability with its context.
        is_best: whether its token is the most probable one at the decisive place.
    """

    document: int
    sentence: int
    subwords: range
    decisive: int
    rival: int
    value: float
    is_best: bool


def _asked(word: DecidingWord, text: ScoredCorpus, full: Scores, bare: Scores) -> Asked:
    """The data for the search for the deciders of a word."""
    document, sentence = word.document - 1, word.sentence - 1
    subwords = words_of_side(text.target)[document][sentence].subwords[word.word - 1]
    scores, without = full[document][sentence], bare[document][sentence]
    gained = scores[:, 0] - without[:, 0]
    decisive = max(subwords, key=lambda subword: float(gained[subword]))
    own, best, _ = scores[decisive].tolist()
    rival = int(without[decisive, 2])
    return Asked(document, sentence, subwords, decisive, rival, word.with_context, own >= best)


class _Deciders:
    """Finds the words that decided others."""

    def __init__(
        self, models: Sequence[Any], task: Any, text: ScoredCorpus, max_tokens: int
    ) -> None:
        from gtrans.translating.force_decode import RowPool

        self._models, self._task, self._text = models, task, text
        self._max_tokens = max_tokens
        self._rows = RowPool(task, not text.cuts_units)
        self._substitutes = {side: Substitutes(text.sides[side]) for side in SIDES}
        # The row in which each sentence of each document is scored.
        self._placed: dict[tuple[int, int], tuple[ScoredSpan, ScoredRow, UnitSpan]] = {}
        for reading in text.readings:
            first = reading.first - reading.begin
            rows = self._rows.rows_of(*text.encoded(reading), first, text.plain(reading))
            for row, span, _ in rows:
                for sentence in span.kept:
                    self._placed[reading.document, sentence + reading.begin] = reading, row, span

    def decisions(self, asked: Sequence[Asked]) -> list[Decision]:
        """The decider of each word: words of its context are replaced until its decision falls.

        First the suspect with the highest bound, then other suspects and other replacements.
        """
        suspects = [self._suspects(word) for word in asked]
        tried: list[list[Decision]] = [[] for _ in asked]
        for number in range(REPLACEMENTS + 1):
            tries = []
            for n, words in enumerate(suspects):
                if any(decision.flips for decision in tried[n]):
                    continue
                for rank, changes in enumerate(words):
                    place = number - 1 if rank > 0 else number
                    if 0 <= place < len(changes):
                        tries.append((n, changes[place]))
            for (n, _), decision in zip(tries, self._tried(asked, tries), strict=True):
                tried[n].append(decision)
        none = Decision(None, 0.0, False)
        return [max(decisions, key=attrgetter("strength"), default=none) for decisions in tried]

    def _tried(
        self, asked: Sequence[Asked], tries: Sequence[tuple[int, WordChange]]
    ) -> list[Decision]:
        """The loss of each word when the model reads its document with another word."""
        from gtrans.translating.force_decode import score_tokens

        documents, plain, first = [], [], []
        for n, change in tries:
            reading, _, _ = self._placed[asked[n].document, asked[n].sentence]
            encoded = dict(zip(SIDES, map(list, self._text.encoded(reading)), strict=True))
            texts = list(self._text.plain(reading))
            side, sentence = self._text.sides[change.side], change.sentence - 1
            words = words_of_side(side)[asked[n].document][sentence]
            changed = words.with_other(change.word - 1, change.replaced_by)
            encoded[change.side][sentence - reading.begin] = side.pipeline.encode(changed)
            if change.side == "source":
                texts[sentence - reading.begin] = changed
            documents.append((encoded["source"], encoded["target"]))
            plain.append(texts)
            first.append(asked[n].sentence - reading.begin)
        scored = score_tokens(
            self._models,
            self._task,
            documents,
            first=first,
            plain=plain,
            whole=not self._text.cuts_units,
            max_tokens=self._max_tokens,
            rivals=True,
            rows=self._rows,
        )
        decisions = []
        for (n, change), (scores, *_) in zip(tries, scored, strict=True):
            word = asked[n]
            own, best, _ = scores[word.decisive].tolist()
            value = float(scores[word.subwords.start : word.subwords.stop, 0].sum())
            decisions.append(Decision(change, word.value - value, word.is_best and best > own))
        return decisions

    def _suspects(self, asked: Asked) -> list[list[WordChange]]:
        """The context words with the highest bounds, each with its replacements.

        All words of the context if the model does not embed them together with the sentence.
        """
        reading, _, span = self._placed[asked.document, asked.sentence]
        candidates = []
        bounds = self._bounds(asked)
        for side, sentences in zip(SIDES, (span.source, span.target), strict=True):
            for number in (sentence + reading.begin for sentence in sentences):
                words = words_of_side(self._text.sides[side])[asked.document][number]
                if number == asked.sentence or (number > asked.sentence and side == "target"):
                    continue
                for word, text in enumerate(words.texts):
                    bound = bounds.get((side, number, word)) if bounds else None
                    candidates.append((side, number, word, text, bound))
        candidates.sort(key=lambda candidate: -(candidate[-1] or 0.0))
        suspects: list[list[WordChange]] = []
        rivals = {"source": "", "target": self._rival(asked)}
        for side, number, word, text, bound in candidates:
            others = self._substitutes[side].of(text, rivals[side])
            if others and (bounds is None or len(suspects) < SUSPECTS):
                fields = side, number + 1, word + 1, text, bound
                suspects.append([WordChange(*fields, other) for other in others])
        return suspects

    def _rival(self, asked: Asked) -> str:
        """The first subwords of the word that the model would write without context."""
        subwords = self._text.target.encoded[asked.document][asked.sentence].split()
        rival = self._task.target_dictionary[asked.rival]
        return " ".join([*subwords[asked.subwords.start : asked.decisive], rival])

    def _bounds(self, asked: Asked) -> dict[tuple[str, int, int], float] | None:
        """Bounds on the influence of each word of the row, by side, sentence and word.

        ``|g| |e - m|``: g is the gradient of the difference of the log-probabilities of the word
        and its rival at the embedded word e, m the mean of all embedded words. None: the model does
        not embed context and sentence together.
        """
        import torch

        from gtrans.lab.gradients import embedded_words

        reading, row, span = self._placed[asked.document, asked.sentence]
        examples = self._rows.examples
        sample = examples.collate([row.example])
        device = next(self._models[0].parameters()).device
        net_input = self._rows.complete_input(
            {name: tensor.to(device) for name, tensor in sample["net_input"].items()}
        )
        tokens = net_input["src_tokens"], net_input["prev_output_tokens"]
        target = sample["target"].to(device)
        bounds: defaultdict[tuple[str, int, int], float] = defaultdict(float)
        for model in self._models:
            layouts = model.layouts(*tokens)
            with torch.enable_grad(), embedded_words(model) as embedded:
                scores = model(**net_input)[0].float().log_softmax(-1)
            leaves = [embedded[side] for side in SIDES]
            if [list(map(len, part)) for part in leaves] != [[layout.tokens] for layout in layouts]:
                return None
            real = target.ne(examples.frame.pad)
            sentences = layouts[1].choose(layouts[1].sentence, real)
            at = sentences.eq(asked.sentence - reading.begin - span.target.start).nonzero()[:, 0]
            inside = at[asked.subwords.start : asked.subwords.stop]
            scores, own = scores[real], target[real]
            value = scores[inside, own[inside]].sum() - scores[at[asked.decisive], asked.rival]
            states = [part[0] for part in leaves]
            gradients = torch.autograd.grad(value, states)
            special_tokens = torch.tensor(examples.frame.special_ids, device=device)
            for n, side in enumerate(SIDES):
                is_word = ~torch.isin(layouts[n].pack(tokens[n]), special_tokens)
                state, gradient = states[n][is_word].detach(), gradients[n][is_word]
                state = state - state.mean(0)
                offset = 0
                for sentence in (span.source, span.target)[n]:
                    number = sentence + reading.begin
                    words = words_of_side(self._text.sides[side])[asked.document][number]
                    for word, places in enumerate(words.subwords):
                        begin, end = offset + places.start, offset + places.stop
                        norm = gradient[begin:end].sum(0).norm() * state[begin:end].mean(0).norm()
                        bounds[side, number, word] += float(norm)
                    offset += len(self._text.sides[side].encoded[asked.document][number].split())
        return bounds


class Substitutes:
    """The words of a text by the words next to them.

    Two words are alike if they have the same words before and after them: the measure is the
    cosine of their vectors, which have the logarithm of each neighbour's count, weighted by the
    rarity of the neighbour.

    Args:
        side: the side of the text.
    """

    def __init__(self, side: CorpusSide) -> None:
        counts: defaultdict[str, Counter[tuple[bool, str]]] = defaultdict(Counter)
        self._beginning: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for document, encoded in zip(words_of_side(side), side.encoded, strict=True):
            for words, line in zip(document, encoded, strict=True):
                subwords, texts = line.split(), words.texts
                framed = ["", *texts, ""]
                for number, (word, span) in enumerate(zip(texts, words.subwords, strict=True)):
                    if not _is_word(word):
                        continue
                    counts[word].update([(False, framed[number]), (True, framed[number + 2])])
                    for end in range(span.start, span.stop):
                        self._beginning[" ".join(subwords[span.start : end + 1])][word] += 1
        totals = Counter[tuple[bool, str]]()
        for neighbours in counts.values():
            totals.update(neighbours.keys())
        self._vectors: dict[str, dict[tuple[bool, str], float]] = {}
        self._with: defaultdict[tuple[bool, str], list[tuple[str, float]]] = defaultdict(list)
        for word, neighbours in counts.items():
            vector = {
                neighbour: (1 + math.log(count)) * math.log(1 + len(counts) / totals[neighbour])
                for neighbour, count in neighbours.items()
            }
            length = math.hypot(*vector.values())
            self._vectors[word] = {key: value / length for key, value in vector.items()}
            for neighbour, value in self._vectors[word].items():
                self._with[neighbour].append((word, value))

    def of(self, word: str, rival: str = "") -> list[str]:
        """Replacements of a word, at most :data:`REPLACEMENTS`, the best first.

        First the word of the text that begins with the subwords ``rival``, then the most similar
        ones. Case variants of the word itself are left out; a punctuation mark has no replacement.
        """
        if not _is_word(word):
            return []
        same, upper = word.lower(), word[0].isupper()
        rivals = {other: n for other, n in self._beginning[rival].items() if other.lower() != same}
        first = sorted(rivals, key=lambda other: (other[0].isupper() == upper, rivals[other]))[-1:]
        scores: defaultdict[str, float] = defaultdict(float)
        for neighbour, value in self._vectors.get(word, {}).items():
            for other, weight in self._with[neighbour]:
                scores[other] += value * weight
        others = [other for other in scores if other.lower() != same]
        others.sort(key=lambda other: (-scores[other], other))
        return list(dict.fromkeys([*first, *others]))[:REPLACEMENTS]


def _is_word(word: str) -> bool:
    return any(map(str.isalnum, word))


# --- output ---------------------------------------------------------------------------------------


def _in_short(words: Sequence[DecidingWord], threshold: float) -> dict[str, Any]:
    """The numbers of words that gain and of decisions that fall, and the best forms."""
    decisions = [word.decision for word in words if word.decision is not None]
    cxmi: defaultdict[str, list[float]] = defaultdict(list)
    for word in words:
        cxmi[word.text].append(word.cxmi)
    sums = sorted(((-math.fsum(nats), text) for text, nats in cxmi.items()), key=itemgetter(0))
    forms = [{"text": text, "count": len(cxmi[text]), "cxmi": -nats} for nats, text in sums[:SHOWN]]
    return {
        "words": len(words),
        "threshold": threshold,
        "gain": len(decisions),
        "flip": sum(decision.flips for decision in decisions),
        "forms": forms,
    }


def _lines(words: Sequence[DecidingWord], threshold: float) -> Iterator[str]:
    """The words that gain most, with what decided them."""
    short = _in_short(words, threshold)
    top = [f"{form['text']} {form['cxmi']:+.1f} ({form['count']} times)" for form in short["forms"]]
    yield (
        f"{short['gain']} of {short['words']} words gain {threshold:g} nats or more; "
        f"{short['flip']} of these decisions fall when the word named is replaced"
    )
    yield f"in all, most is gained by {', '.join(top)}"
    decided = sorted((word for word in words if word.decision), key=lambda word: -word.cxmi)
    for word in decided[:SHOWN]:
        assert word.decision is not None
        by = word.decision.change or "nothing found"
        result = "falls" if word.decision.flips else "stands"
        place = f"{word.document}:{word.sentence}:{word.word}"
        yield f"{place} {word.text} {word.cxmi:+.2f}: {by} ({-word.decision.loss:+.2f}, {result})"
