"""Name the words of the context that decided words of the reference.

A word's gain is its log-probability given source and context, minus its log-probability given the
source alone (CXMI, Fernandes et al. 2023). For each word that gains at least --threshold, gradients
find candidates in the context. Replacing them by other words shows which one decided: the model no
longer prefers the reference's word. See docs/context-use.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

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
from gtrans.lab.words import SegmentedSentence, words_of_side
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
PRINTED = 20  # words in the printed list
SUSPECTS = 3  # words of the context that are replaced, one after the other
REPLACEMENTS = 5  # words that are tried in the place of one
LEAST_LOSS = 0.05  # smaller losses are noise, in nats
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
    """Print the words that gain most, and write all words."""
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
        split_paths(args.path),
        args.data,
        {"memory_bptt": -1},
        cpu=args.cpu,
        fp16=args.fp16,
    )
    set_chunks(task, args.max_doc_tokens, args.overlap)
    sources = [source for source, _ in documents]
    targets = [target for _, target in documents]
    pipeline = task.pipeline(str(task.cfg.target_lang))
    text = ScoredCorpus(
        CorpusSide(task.source_encoder(), sources),
        CorpusSide(pipeline, targets),
    )
    words = measure_words(models, task, text, args.threshold, args.max_tokens)
    if args.output:
        with atomic_writer(args.output) as file:
            for word in words:
                line = json.dumps(word.entry(), ensure_ascii=False)
                file.write(f"{line}\n")
    summary = _summary(words, args.threshold)
    if args.json:
        print(json_text(with_schema("deciding-words", summary)))
    else:
        print_lines(*_summary_lines(summary), *_decision_lines(words))


# --- words and their deciders ---------------------------------------------------------------------


@dataclass(frozen=True)
class WordChange:
    """A word of the context, numbers from 1, and its replacement.

    ``bound`` limits its influence; None if the model embeds the context apart.
    """

    side: str
    sentence: int
    word: int
    text: str
    bound: float | None
    replaced_by: str

    def __str__(self) -> str:
        """``source 1:3 whistled > nervous``."""
        return f"{self.side} {self.sentence}:{self.word} {self.text} > {self.replaced_by}"


@dataclass(frozen=True)
class Decision:
    """What decided a word of the translation.

    Attributes:
        loss: log-probability that the replacement costs, in nats.
        flips: whether the replacement makes another token the most probable one.
    """

    change: WordChange | None
    loss: float
    flips: bool

    @property
    def strength(self) -> tuple[bool, float]:
        """Sort key: decisions that flip, then larger losses; all below LEAST_LOSS are equal."""
        loss = self.loss if self.loss >= LEAST_LOSS else 0.0
        return self.flips, loss


@dataclass(frozen=True)
class DecidingWord:
    """A word of the reference.

    Attributes:
        document, sentence, word: numbers from 1, each within the one before.
        text: as the user wrote it, or :data:`END`.
        tokens: number of subwords.
        with_context, without_context: log-probability, in nats.
        decision: None below the threshold.
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
        """The gain in log-probability through context, in nats."""
        return self.with_context - self.without_context

    def entry(self) -> dict[str, Any]:
        """Return its JSON object."""
        values = asdict(self)
        decision = values.pop("decision") or {}
        return {
            **values,
            "cxmi": self.cxmi,
            "loss": decision.get("loss"),
            "flips": decision.get("flips"),
            "decided_by": decision.get("change"),
        }


def measure_words(
    models: Sequence[Any], task: Any, text: ScoredCorpus, threshold: float, max_tokens: int
) -> list[DecidingWord]:
    """Return every word of the references, with decisions from ``threshold`` nats on."""
    from gtrans.translating.force_decode import token_scores, token_scores_without_context

    full = token_scores(models, task, text, max_tokens, rivals=True)
    bare = token_scores_without_context(models, task, text, max_tokens, rivals=True)
    words = list(_measured_words(text, full, bare))
    searched: dict[int, SearchedWord] = {}
    for number, word in enumerate(words):
        if word.cxmi >= threshold and word.text != END:
            searched[number] = _searched_word(word, text, full, bare)
    if searched:
        search = _DeciderSearch(models, task, text, max_tokens)
        decisions = search.decisions(list(searched.values()))
        for number, decision in zip(searched, decisions, strict=True):
            words[number] = replace(words[number], decision=decision)
    return words


def _measured_words(text: ScoredCorpus, full: Scores, bare: Scores) -> Iterator[DecidingWord]:
    for document, sentences in enumerate(words_of_side(text.target)):
        for sentence, words in enumerate(sentences):
            with_context = full[document][sentence][:, 0]
            without_context = bare[document][sentence][:, 0]
            last = len(with_context) - 1
            texts = [*words.texts, END]
            places = [*words.subwords, range(last, last + 1)]
            for number, (word, place) in enumerate(zip(texts, places, strict=True)):
                yield DecidingWord(
                    document=document + 1,
                    sentence=sentence + 1,
                    word=number + 1,
                    text=word,
                    tokens=len(place),
                    with_context=float(with_context[place.start : place.stop].sum()),
                    without_context=float(without_context[place.start : place.stop].sum()),
                )


@dataclass(frozen=True)
class SearchedWord:
    """A word of the translation whose decision is searched, numbers from 0.

    Attributes:
        decisive: the token of the sentence that gained most.
        rival: id of the most probable other token there without context.
        value: log-probability with context.
        is_best: whether its decisive token is the most probable one.
    """

    document: int
    sentence: int
    subwords: range
    decisive: int
    rival: int
    value: float
    is_best: bool


def _searched_word(
    word: DecidingWord, text: ScoredCorpus, full: Scores, bare: Scores
) -> SearchedWord:
    document = word.document - 1
    sentence = word.sentence - 1
    words = words_of_side(text.target)[document][sentence]
    subwords = words.subwords[word.word - 1]
    with_context = full[document][sentence]
    without_context = bare[document][sentence]
    gained = with_context[:, 0] - without_context[:, 0]
    decisive = max(subwords, key=lambda subword: float(gained[subword]))
    own, best, _ = with_context[decisive].tolist()
    return SearchedWord(
        document=document,
        sentence=sentence,
        subwords=subwords,
        decisive=decisive,
        rival=int(without_context[decisive, 2]),
        value=word.with_context,
        is_best=own >= best,
    )


class _ScoredPlace(NamedTuple):
    scored_span: ScoredSpan
    row: ScoredRow
    span: UnitSpan

    def row_sentences(self, side: str) -> list[int]:
        sentences = self.span.source if side == "source" else self.span.target
        return [sentence + self.scored_span.begin for sentence in sentences]


class _Trial(NamedTuple):
    """A change in the context of the searched word ``number``."""

    number: int
    change: WordChange


class _ChangedText(NamedTuple):
    source: list[str]
    target: list[str]
    plain: list[str]  # the source without segmentation


class _WordPlace(NamedTuple):
    """A word of the corpus, numbers from 0."""

    side: str
    sentence: int
    word: int


class _ContextWord(NamedTuple):
    place: _WordPlace
    text: str
    bound: float | None


_Bounds = dict[_WordPlace, float]
"""Bounds on the influence of words."""


class _DeciderSearch:
    def __init__(
        self, models: Sequence[Any], task: Any, text: ScoredCorpus, max_tokens: int
    ) -> None:
        from gtrans.translating.force_decode import RowPool

        self._models = models
        self._task = task
        self._text = text
        self._max_tokens = max_tokens
        self._rows = RowPool(task, not text.cuts_units)
        self._substitutes = {side: Substitutes(text.sides[side]) for side in SIDES}
        # By document and sentence.
        self._places: dict[tuple[int, int], _ScoredPlace] = {}
        for scored_span in text.spans:
            source, target = text.encoded(scored_span)
            first = scored_span.first - scored_span.begin
            rows = self._rows.rows_of(source, target, first, text.plain(scored_span))
            for row, span, _ in rows:
                for sentence in span.kept:
                    key = scored_span.document, sentence + scored_span.begin
                    self._places[key] = _ScoredPlace(scored_span, row, span)

    def decisions(self, searched: Sequence[SearchedWord]) -> list[Decision]:
        """Replace words of the context of each word until its decision flips."""
        suspects = [self._suspects(word) for word in searched]
        tried: list[list[Decision]] = [[] for _ in searched]
        for attempt in range(REPLACEMENTS + 1):
            trials = []
            for number, words in enumerate(suspects):
                if any(decision.flips for decision in tried[number]):
                    continue
                for rank, changes in enumerate(words):
                    place = attempt - 1 if rank > 0 else attempt
                    if 0 <= place < len(changes):
                        trials.append(_Trial(number, changes[place]))
            decisions = self._measure_trials(searched, trials)
            for trial, decision in zip(trials, decisions, strict=True):
                tried[trial.number].append(decision)
        none = Decision(None, 0.0, False)
        return [max(decisions, key=attrgetter("strength"), default=none) for decisions in tried]

    def _measure_trials(
        self, searched: Sequence[SearchedWord], trials: Sequence[_Trial]
    ) -> list[Decision]:
        from gtrans.translating.force_decode import score_tokens

        documents, plain, first = [], [], []
        for trial in trials:
            word = searched[trial.number]
            scored_span = self._places[word.document, word.sentence].scored_span
            changed = self._changed_text(word.document, scored_span, trial.change)
            documents.append((changed.source, changed.target))
            plain.append(changed.plain)
            first.append(word.sentence - scored_span.begin)
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
        for trial, sentences in zip(trials, scored, strict=True):
            word = searched[trial.number]
            scores = sentences[0]
            own, best, _ = scores[word.decisive].tolist()
            value = float(scores[word.subwords.start : word.subwords.stop, 0].sum())
            decision = Decision(
                change=trial.change,
                loss=word.value - value,
                flips=word.is_best and best > own,
            )
            decisions.append(decision)
        return decisions

    def _changed_text(
        self, document: int, scored_span: ScoredSpan, change: WordChange
    ) -> _ChangedText:
        source, target = self._text.encoded(scored_span)
        text = _ChangedText(
            source=list(source),
            target=list(target),
            plain=list(self._text.plain(scored_span)),
        )
        side = self._text.sides[change.side]
        sentence = change.sentence - 1
        words = words_of_side(side)[document][sentence]
        changed = words.with_other(change.word - 1, change.replaced_by)
        line = sentence - scored_span.begin
        if change.side == "source":
            text.source[line] = side.pipeline.encode(changed)
            text.plain[line] = changed
        else:
            text.target[line] = side.pipeline.encode(changed)
        return text

    def _suspects(self, searched: SearchedWord) -> list[list[WordChange]]:
        """Return the context words with the highest bounds, or all, each with replacements."""
        bounds = self._bounds(searched)
        candidates = self._context_words(searched, bounds)
        candidates.sort(key=lambda candidate: -(candidate.bound or 0.0))
        suspects: list[list[WordChange]] = []
        rivals = {"source": "", "target": self._rival(searched)}
        for candidate in candidates:
            if bounds is not None and len(suspects) == SUSPECTS:
                break
            changes = []
            place = candidate.place
            substitutes = self._substitutes[place.side]
            for other in substitutes.replacements(candidate.text, rivals[place.side]):
                change = WordChange(
                    side=place.side,
                    sentence=place.sentence + 1,
                    word=place.word + 1,
                    text=candidate.text,
                    bound=candidate.bound,
                    replaced_by=other,
                )
                changes.append(change)
            if changes:
                suspects.append(changes)
        return suspects

    def _context_words(self, searched: SearchedWord, bounds: _Bounds | None) -> list[_ContextWord]:
        place = self._places[searched.document, searched.sentence]
        context = []
        for side in SIDES:
            sentences = words_of_side(self._text.sides[side])[searched.document]
            for number in place.row_sentences(side):
                is_later = number > searched.sentence and side == "target"
                if number == searched.sentence or is_later:
                    continue
                for word, text in enumerate(sentences[number].texts):
                    word_place = _WordPlace(side, number, word)
                    bound = bounds.get(word_place) if bounds else None
                    context.append(_ContextWord(word_place, text, bound))
        return context

    def _rival(self, searched: SearchedWord) -> str:
        """Return the first subwords of the word with the rival of the decisive one."""
        encoded = self._text.target.encoded[searched.document][searched.sentence]
        subwords = encoded.split()
        before = subwords[searched.subwords.start : searched.decisive]
        rival = self._task.target_dictionary[searched.rival]
        return " ".join([*before, rival])

    def _bounds(self, searched: SearchedWord) -> _Bounds | None:
        """Bound the influence of each word of the row by ``|g| |e - m|``.

        g is the gradient of the log-probability of the word minus its rival's at the embedded
        word e, m the mean of all embedded words. None: the model embeds the context apart.
        """
        import torch

        from gtrans.lab.gradients import embedded_words

        place = self._places[searched.document, searched.sentence]
        examples = self._rows.examples
        sample = examples.collate([place.row.example])
        device = next(self._models[0].parameters()).device
        inputs = {}
        for name, tensor in sample["net_input"].items():
            inputs[name] = tensor.to(device)
        net_input = self._rows.complete_input(inputs)
        tokens = net_input["src_tokens"], net_input["prev_output_tokens"]
        target = sample["target"].to(device)
        real = target.ne(examples.frame.pad)
        special_ids = torch.tensor(examples.frame.special_ids, device=device)
        bounds: defaultdict[_WordPlace, float] = defaultdict(float)
        for model in self._models:
            layouts = model.layouts(*tokens)
            with torch.enable_grad(), embedded_words(model) as embedded:
                logits = model(**net_input)[0].float()
                scores = logits.log_softmax(-1)
            for side, layout in zip(SIDES, layouts, strict=True):
                if [len(states) for states in embedded[side]] != [layout.tokens]:
                    return None
            target_layout = layouts[1]
            sentences = target_layout.choose(target_layout.sentence, real)
            row_sentence = searched.sentence - place.scored_span.begin - place.span.target.start
            positions = sentences.eq(row_sentence).nonzero()[:, 0]
            value = _gain_over_rival(searched, scores[real], target[real], positions)
            states = [embedded[side][0] for side in SIDES]
            gradients = torch.autograd.grad(value, states)
            for n, side in enumerate(SIDES):
                ids = layouts[n].pack(tokens[n])
                is_word = ~torch.isin(ids, special_ids)
                embedded_subwords = states[n][is_word].detach()
                words = self._word_bounds(
                    side,
                    searched.document,
                    place.row_sentences(side),
                    gradients[n][is_word],
                    embedded_subwords - embedded_subwords.mean(0),
                )
                for word_place, bound in words:
                    bounds[word_place] += bound
        return bounds

    def _word_bounds(
        self,
        side: str,
        document: int,
        sentences: Sequence[int],
        gradients: Tensor,
        distances: Tensor,
    ) -> Iterator[tuple[_WordPlace, float]]:
        """Yield the bound of each word; ``gradients`` and ``distances``: ``(subwords, dim)``."""
        corpus_side = self._text.sides[side]
        offset = 0
        for number in sentences:
            words = words_of_side(corpus_side)[document][number]
            for word, subwords in enumerate(words.subwords):
                start = offset + subwords.start
                stop = offset + subwords.stop
                gradient = gradients[start:stop].sum(0).norm()
                distance = distances[start:stop].mean(0).norm()
                yield _WordPlace(side, number, word), float(gradient * distance)
            encoded = corpus_side.encoded[document][number]
            offset += len(encoded.split())


def _gain_over_rival(
    searched: SearchedWord, scores: Tensor, tokens: Tensor, positions: Tensor
) -> Tensor:
    """Return the log-probability of a word minus its rival's.

    ``scores`` is ``(tokens, entries)``; ``positions`` are the tokens of its sentence.
    """
    inside = positions[searched.subwords.start : searched.subwords.stop]
    own = scores[inside, tokens[inside]].sum()
    rival: Tensor = scores[positions[searched.decisive], searched.rival]
    return own - rival


class Neighbour(NamedTuple):
    """The word next to a word."""

    is_behind: bool
    text: str


class Substitutes:
    """Finds words of a text that stand next to the same words.

    Two words are compared by the cosine of their neighbours' log-counts, weighted by rarity.
    """

    def __init__(self, side: CorpusSide) -> None:
        self._neighbours: defaultdict[str, Counter[Neighbour]] = defaultdict(Counter)
        self._by_first_subwords: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for document, encoded in zip(words_of_side(side), side.encoded, strict=True):
            for words, line in zip(document, encoded, strict=True):
                self._count(words, line.split())
        self._vectors: dict[str, dict[Neighbour, float]] = {}
        self._words_next_to: defaultdict[Neighbour, list[tuple[str, float]]] = defaultdict(list)
        self._build_vectors()

    def _count(self, words: SegmentedSentence, subwords: Sequence[str]) -> None:
        texts = words.texts
        framed = ["", *texts, ""]
        for number, (word, span) in enumerate(zip(texts, words.subwords, strict=True)):
            if not _is_word(word):
                continue
            before = Neighbour(is_behind=False, text=framed[number])
            behind = Neighbour(is_behind=True, text=framed[number + 2])
            self._neighbours[word].update([before, behind])
            for end in range(span.start, span.stop):
                first_subwords = " ".join(subwords[span.start : end + 1])
                self._by_first_subwords[first_subwords][word] += 1

    def _build_vectors(self) -> None:
        words = len(self._neighbours)
        words_with = Counter[Neighbour]()
        for counts in self._neighbours.values():
            words_with.update(counts.keys())
        for word, counts in self._neighbours.items():
            vector = {}
            for neighbour, count in counts.items():
                rarity = math.log(1 + words / words_with[neighbour])
                vector[neighbour] = (1 + math.log(count)) * rarity
            length = math.hypot(*vector.values())
            for neighbour, value in vector.items():
                vector[neighbour] = value / length
                self._words_next_to[neighbour].append((word, value / length))
            self._vectors[word] = vector

    def replacements(self, word: str, rival: str = "") -> list[str]:
        """Return at most :data:`REPLACEMENTS` other words, the best first.

        The first begins with the subwords ``rival``, the others are the most similar. Case variants
        are left out; a punctuation mark has no replacement.
        """
        if not _is_word(word):
            return []
        others = dict.fromkeys([*self._best_rival(word, rival), *self._similar(word)])
        return list(others)[:REPLACEMENTS]

    def _best_rival(self, word: str, rival: str) -> list[str]:
        """Return the most frequent word with the first subwords ``rival``; same case first."""
        is_upper = word[0].isupper()
        ranks = {}
        for other, count in self._by_first_subwords[rival].items():
            if other.lower() != word.lower():
                has_same_case = other[0].isupper() == is_upper
                ranks[other] = (has_same_case, count)
        ordered = sorted(ranks, key=lambda other: ranks[other])
        return ordered[-1:]

    def _similar(self, word: str) -> list[str]:
        scores: defaultdict[str, float] = defaultdict(float)
        for neighbour, value in self._vectors.get(word, {}).items():
            for other, weight in self._words_next_to[neighbour]:
                scores[other] += value * weight
        similar = [other for other in scores if other.lower() != word.lower()]
        similar.sort(key=lambda other: (-scores[other], other))
        return similar


def _is_word(word: str) -> bool:
    return any(character.isalnum() for character in word)


# --- output ---------------------------------------------------------------------------------------


def _summary(words: Sequence[DecidingWord], threshold: float) -> dict[str, Any]:
    decisions = [word.decision for word in words if word.decision is not None]
    gains: defaultdict[str, list[float]] = defaultdict(list)
    for word in words:
        gains[word.text].append(word.cxmi)
    forms: list[dict[str, Any]] = []
    for text, nats in gains.items():
        form = {"text": text, "count": len(nats), "cxmi": math.fsum(nats)}
        forms.append(form)
    forms.sort(key=lambda form: -form["cxmi"])
    return {
        "words": len(words),
        "threshold": threshold,
        "gain": len(decisions),
        "flip": sum(decision.flips for decision in decisions),
        "forms": forms[:PRINTED],
    }


def _summary_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    threshold = f"{summary['threshold']:g}"
    yield (
        f"{summary['gain']} of {summary['words']} words gain {threshold} nats or more; "
        f"{summary['flip']} of these decisions flip when the named word is replaced"
    )
    forms = []
    for form in summary["forms"]:
        forms.append(f"{form['text']} {form['cxmi']:+.1f} ({form['count']} times)")
    yield f"in all, most is gained by {', '.join(forms)}"


def _decision_lines(words: Sequence[DecidingWord]) -> Iterator[str]:
    decided = [word for word in words if word.decision is not None]
    decided.sort(key=lambda word: -word.cxmi)
    for word in decided[:PRINTED]:
        assert word.decision is not None
        change = word.decision.change or "nothing found"
        result = "falls" if word.decision.flips else "stands"
        place = f"{word.document}:{word.sentence}:{word.word}"
        loss = f"({-word.decision.loss:+.2f}, {result})"
        yield f"{place} {word.text} {word.cxmi:+.2f}: {change} {loss}"
