"""Name the words of the context that decided words of the reference.

Every word of the reference has a gain: its log-probability given source and context, minus that
given the source alone (CXMI of a word, Fernandes et al. 2023). For the words that gain at least
--threshold, the words of the context that decided them are named: gradients suspect them, and they
are replaced by other words of the text to see whether the model still prefers the reference's word.
See docs/context-use.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from gtrans.cli.shared.model_options import (
    add_instances,
    add_model_files,
    add_scoring,
    check_instances,
    check_scoring,
)
from gtrans.errors import GtransError
from gtrans.files import atomic_writer, check_output
from gtrans.lab.words import words_of_side
from gtrans.libraries import ENGINE
from gtrans.messages import json_text, print_lines
from gtrans.text.reader import read_parallel

if TYPE_CHECKING:
    from torch import Tensor

    from gtrans.data.units import UnitSpan
    from gtrans.decoding.force_decode import Reading, Row, Side, Text

EXAMPLE = (
    "gtrans deciding-words --path checkpoints/checkpoint_best.pt --data data-bin "
    "--src corpus/test.en --ref corpus/test.de --output words.jsonl"
)
NEEDS = ENGINE
END = "</s>"
SHOWN = 20  # words in the printed list
SUSPECTS = 3  # words of the context that are replaced, one after the other
REPLACEMENTS = 5  # words that are tried in the place of one
TOGETHER = 3  # most words that are replaced together
ALIKE = 0.5  # words with this share of the highest bound may say the same as the first one
SLIGHT = 0.05  # smaller losses say nothing, in nats
SIDES = ("source", "target")

Scores = Sequence[Sequence["Tensor"]]
"""``(tokens, 3)`` by document and sentence: log-probabilities of a token and its rival, its id."""
_Try = tuple[int, tuple["Change", ...]]  # the number of a word that is asked for, and changes


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
    add_instances(parser.add_argument_group("chunks"), "the checkpoint's")


def run(args: argparse.Namespace) -> None:
    """Print the words that gain most, and write all words.

    Raises:
        GtransError: a file, a checkpoint or the data folder is missing or damaged, they do
            not fit each other, or an option has an impossible value.
    """
    check_scoring(args)
    check_instances(args)
    if math.isnan(args.threshold):
        raise GtransError("`--threshold` must be a number of nats or inf, but is nan.")
    if args.output:
        check_output("--output", args.output, [args.src, args.ref, *args.path.split(":")])
    documents = read_parallel(args.src, args.ref)

    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.decoding.force_decode import Side, Text
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
    text = Text(source, Side(pipeline, [target for _, target in documents]))
    words = gains(models, task, text, args.threshold, args.max_tokens)
    if args.output:
        with atomic_writer(args.output) as file:
            file.writelines(json.dumps(it.entry(), ensure_ascii=False) + "\n" for it in words)
    if args.json:
        print(json_text(_in_short(words, args.threshold)))
    else:
        print_lines(*_lines(words, args.threshold))


# --- words and what decided them ------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A word of the context, and what is put in its place.

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
    """What decided a word of the translation.

    Attributes:
        changes: the words of the context with their replacements; empty if there is no context
            that could be replaced.
        loss: log-probability that the word loses if they are replaced, in nats.
        flips: whether the decision falls: the word's token was the most probable one at the
            decisive place, and is no longer.
    """

    changes: tuple[Change, ...]
    loss: float
    flips: bool

    @property
    def strength(self) -> tuple[bool, int, float]:
        """Decisions that fall are stronger, then those by fewer words, then larger losses.

        Among slight losses the gradient knows better: the first one is tried first.
        """
        return self.flips, -len(self.changes), self.loss if self.loss >= SLIGHT else 0.0


@dataclass(frozen=True)
class Word:
    """A word of the reference.

    Attributes:
        document, sentence, word: numbers from 1, each within the one before.
        text: as the user wrote it; :data:`END` for the end mark of the sentence.
        tokens: how many pieces it has.
        with_context, without_context: its log-probability, in nats.
        decision: what decided it; None if it gains less than the threshold.
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
        """Its values for a file; those of a word that was not looked at are None."""
        values = asdict(self)
        of = values.pop("decision") or {"loss": None, "flips": None, "changes": None}
        decided = {"loss": of["loss"], "flips": of["flips"], "decided_by": of["changes"]}
        return {**values, "cxmi": self.cxmi, **decided}


def gains(
    models: Sequence[Any], task: Any, text: Text, threshold: float, max_tokens: int
) -> list[Word]:
    """Every word of the references, and what decided those that gain.

    Args:
        models: one model, or an ensemble.
        task: their task.
        text: what they read.
        threshold: least gain of a word whose context is looked at, in nats.
        max_tokens: largest batch in tokens.
    """
    from gtrans.decoding.force_decode import alone, token_scores

    found = token_scores(models, task, text, max_tokens, rivals=True)
    bare = alone(models, task, text, max_tokens, rivals=True)
    words = list(_words(text, found, bare))
    asked = {
        number: _asked(word, text, found, bare)
        for number, word in enumerate(words)
        if word.cxmi >= threshold and word.text != END
    }
    if asked:
        deciders = _Deciders(models, task, text, max_tokens)
        decided = deciders.decisions(list(asked.values()))
        for number, decision in zip(asked, decided, strict=True):
            words[number] = replace(words[number], decision=decision)
    return words


def _words(text: Text, found: Scores, bare: Scores) -> Iterator[Word]:
    """The words of all sentences with their end marks, from scores with and without context."""
    for document, of_document in enumerate(words_of_side(text.target)):
        for sentence, words in enumerate(of_document):
            scores = [it[document][sentence][:, 0] for it in (found, bare)]
            last = len(scores[0]) - 1
            texts, places = [*words.texts, END], [*words.pieces, range(last, last + 1)]
            for number, (written, at) in enumerate(zip(texts, places, strict=True), start=1):
                given, alone = (float(it[at.start : at.stop].sum()) for it in scores)
                yield Word(document + 1, sentence + 1, number, written, len(at), given, alone)


@dataclass(frozen=True)
class Asked:
    """A word of the translation whose deciders are wanted.

    Attributes:
        document, sentence: numbers from 0.
        pieces: of the word in its sentence.
        decisive: number of the token of the sentence that gained most.
        rival: id of the token that is most probable there without context, besides its own.
        value: its log-probability with its context.
        is_best: whether its token is the most probable one at the decisive place.
    """

    document: int
    sentence: int
    pieces: range
    decisive: int
    rival: int
    value: float
    is_best: bool


def _asked(word: Word, text: Text, found: Scores, bare: Scores) -> Asked:
    """The question what decided a word."""
    document, sentence = word.document - 1, word.sentence - 1
    pieces = words_of_side(text.target)[document][sentence].pieces[word.word - 1]
    scores, without = found[document][sentence], bare[document][sentence]
    gained = scores[:, 0] - without[:, 0]
    decisive = max(pieces, key=lambda piece: float(gained[piece]))
    own, best, _ = scores[decisive].tolist()
    rival = int(without[decisive, 2])
    return Asked(document, sentence, pieces, decisive, rival, word.with_context, own >= best)


class _Deciders:
    """Finds the words that decided others."""

    def __init__(self, models: Sequence[Any], task: Any, text: Text, max_tokens: int) -> None:
        from gtrans.decoding.force_decode import Rows

        self._models, self._task, self._text = models, task, text
        self._max_tokens = max_tokens
        self._rows = Rows(task, not text.cuts_units)
        self._substitutes = {side: Substitutes(text.sides[side]) for side in SIDES}
        # The row in which each sentence of each document is scored.
        self._placed: dict[tuple[int, int], tuple[Reading, Row, UnitSpan]] = {}
        for reading in text.readings:
            first = reading.first - reading.begin
            of = self._rows.rows_of(*text.encoded(reading), first, text.plain(reading))
            for row, span, _ in of:
                for sentence in span.current:
                    self._placed[reading.document, sentence + reading.begin] = reading, row, span

    def decisions(self, asked: Sequence[Asked]) -> list[Decision]:
        """What decided each word: words of its context are replaced until its decision falls.

        First the suspect with the highest bound; with it others of the translation that may say
        the same, such as two mentions; then other suspects and other replacements of each; at last
        those with the largest losses together.
        """
        suspects = [self._suspects(one) for one in asked]
        tried: list[list[Decision]] = [[] for _ in asked]

        def attempt(tries: Iterable[_Try]) -> None:
            left = [(n, one) for n, one in tries if one and not any(d.flips for d in tried[n])]
            for n, decision in zip([n for n, _ in left], self._tried(asked, left), strict=True):
                tried[n].append(decision)

        def single(first: int, last: int | None, number: int) -> Iterator[_Try]:
            for n, of_word in enumerate(suspects):
                for by in of_word[first:last]:
                    yield n, tuple(by[number : number + 1])

        attempt(single(0, 1, 0))
        attempt((n, _alike(of_word)) for n, of_word in enumerate(suspects))
        for number in range(1, REPLACEMENTS + 1):
            attempt([*single(0, 1, number), *single(1, None, number - 1)])
        attempt((n, one) for n, of_word in enumerate(tried) for one in _joined(of_word))
        none = Decision((), 0.0, False)
        return [max(of, key=lambda it: it.strength, default=none) for of in tried]

    def _tried(self, asked: Sequence[Asked], tries: Sequence[_Try]) -> list[Decision]:
        """What becomes of each word when the model reads its document with other words."""
        from gtrans.decoding.force_decode import score_tokens

        documents, plain, first = [], [], []
        for n, changes in tries:
            reading, _, _ = self._placed[asked[n].document, asked[n].sentence]
            encoded = dict(zip(SIDES, map(list, self._text.encoded(reading)), strict=True))
            texts = list(self._text.plain(reading))
            lines: defaultdict[tuple[str, int], dict[int, str]] = defaultdict(dict)
            for change in changes:
                lines[change.side, change.sentence - 1][change.word - 1] = change.replaced_by
            for (side, sentence), others in lines.items():
                of_side = self._text.sides[side]
                changed = words_of_side(of_side)[asked[n].document][sentence].with_other(others)
                encoded[side][sentence - reading.begin] = of_side.pipeline.encode(changed)
                if side == "source":
                    texts[sentence - reading.begin] = changed
            documents.append((encoded["source"], encoded["target"]))
            plain.append(texts)
            first.append(asked[n].sentence - reading.begin)
        scored = score_tokens(
            self._models, self._task, documents, first=first, plain=plain,
            whole=not self._text.cuts_units, max_tokens=self._max_tokens, rivals=True,
            rows=self._rows,
        )  # fmt: skip
        found = []
        for (n, changes), (scores, *_) in zip(tries, scored, strict=True):
            one = asked[n]
            own, best, _ = scores[one.decisive].tolist()
            value = float(scores[one.pieces.start : one.pieces.stop, 0].sum())
            found.append(Decision(changes, one.value - value, one.is_best and best > own))
        return found

    def _suspects(self, one: Asked) -> list[list[Change]]:
        """The words of its context with the highest bounds, each with its replacements.

        If the model does not embed them together with the sentence, all words of its context.
        """
        reading, _, span = self._placed[one.document, one.sentence]
        found = []
        bounds = self._bounds(one)
        for side, sentences in zip(SIDES, (span.source, span.target), strict=True):
            for number in (sentence + reading.begin for sentence in sentences):
                words = words_of_side(self._text.sides[side])[one.document][number]
                if number == one.sentence or (number > one.sentence and side == "target"):
                    continue
                for word, text in enumerate(words.texts):
                    bound = bounds.get((side, number, word)) if bounds else None
                    found.append((side, number, word, text, bound))
        found.sort(key=lambda it: -(it[-1] or 0.0))
        suspects: list[list[Change]] = []
        for side, number, word, text, bound in found:
            by = self._substitutes[side].of(text, self._rival(one) if side == "target" else "")
            if by and (bounds is None or len(suspects) < SUSPECTS):
                place = side, number + 1, word + 1, text, bound
                suspects.append([Change(*place, it) for it in by])
        return suspects

    def _rival(self, one: Asked) -> str:
        """The first pieces of the word that the model would say without context."""
        symbols = self._text.target.encoded[one.document][one.sentence].split()
        rival = self._task.target_dictionary[one.rival]
        return " ".join([*symbols[one.pieces.start : one.decisive], rival])

    def _bounds(self, one: Asked) -> dict[tuple[str, int, int], float] | None:
        """How much each word of the row can have to do with the choice of a word.

        ``|g| |e - m|``: g is the gradient of the difference of the log-probabilities of the word
        and its rival at the embedded word e, m the mean of all embedded words; by side, sentence
        and word. None: the model does not embed context and sentence together.
        """
        import torch

        from gtrans.lab.gradients import embedded_words

        reading, row, span = self._placed[one.document, one.sentence]
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
            if [list(map(len, of)) for of in leaves] != [[it.tokens] for it in layouts]:
                return None
            real = target.ne(examples.frame.pad)
            sentences = layouts[1].choose(layouts[1].sentence, real)
            at = sentences.eq(one.sentence - reading.begin - span.target.start).nonzero()[:, 0]
            words = at[one.pieces.start : one.pieces.stop]
            scores, own = scores[real], target[real]
            value = scores[words, own[words]].sum() - scores[at[one.decisive], one.rival]
            states = [of[0] for of in leaves]
            gradients = torch.autograd.grad(value, states)
            marks = torch.tensor(examples.frame.symbols, device=device)
            for n, side in enumerate(SIDES):
                is_word = ~torch.isin(layouts[n].pack(tokens[n]), marks)
                state, gradient = states[n][is_word].detach(), gradients[n][is_word]
                state = state - state.mean(0)
                done = 0
                for number in (it + reading.begin for it in (span.source, span.target)[n]):
                    of = words_of_side(self._text.sides[side])[one.document][number]
                    for word, pieces in enumerate(of.pieces):
                        begin, end = done + pieces.start, done + pieces.stop
                        norm = gradient[begin:end].sum(0).norm() * state[begin:end].mean(0).norm()
                        bounds[side, number, word] += float(norm)
                    done += len(self._text.sides[side].encoded[one.document][number].split())
        return bounds


def _alike(suspects: Sequence[Sequence[Change]]) -> tuple[Change, ...]:
    """The first suspect together with those of the translation that may say the same."""
    first = suspects[0][0] if suspects else None
    if first is None or first.bound is None or first.side != "target":
        return ()
    least = ALIKE * first.bound
    alike = [of[0] for of in suspects if of[0].side == "target" and (of[0].bound or 0) >= least]
    return tuple(alike) if len(alike) > 1 else ()


def _joined(tried: Sequence[Decision]) -> list[tuple[Change, ...]]:
    """The strongest changes of two words together, of three, ..., up to :data:`TOGETHER`."""
    best: dict[tuple[str, int, int], Decision] = {}
    for one in sorted((it for it in tried if len(it.changes) == 1), key=lambda it: it.strength):
        change = one.changes[0]
        best[change.side, change.sentence, change.word] = one
    order = sorted(best.values(), key=lambda it: it.strength, reverse=True)[:TOGETHER]
    changes = [one.changes[0] for one in order]
    return [tuple(changes[:count]) for count in range(2, len(changes) + 1)]


class Substitutes:
    """The words of a text by the words next to them.

    Two words are alike if they have the same words before and after them: the measure is the
    cosine of their vectors, which have the logarithm of a neighbour's count, weighted by how rare
    it is to have that neighbour.

    Args:
        side: of the text.
    """

    def __init__(self, side: Side) -> None:
        counts: defaultdict[str, Counter[tuple[bool, str]]] = defaultdict(Counter)
        self._beginning: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for document, encoded in zip(words_of_side(side), side.encoded, strict=True):
            for words, line in zip(document, encoded, strict=True):
                symbols, texts = line.split(), words.texts
                framed = ["", *texts, ""]
                for number, (word, pieces) in enumerate(zip(texts, words.pieces, strict=True)):
                    if not _is_word(word):
                        continue
                    counts[word].update([(False, framed[number]), (True, framed[number + 2])])
                    for end in range(pieces.start, pieces.stop):
                        self._beginning[" ".join(symbols[pieces.start : end + 1])][word] += 1
        having = Counter(neighbour for of_word in counts.values() for neighbour in of_word)
        self._vectors: dict[str, dict[tuple[bool, str], float]] = {}
        self._with: defaultdict[tuple[bool, str], list[tuple[str, float]]] = defaultdict(list)
        for word, of_word in counts.items():
            vector = {
                neighbour: (1 + math.log(count)) * math.log(1 + len(counts) / having[neighbour])
                for neighbour, count in of_word.items()
            }
            length = math.hypot(*vector.values())
            self._vectors[word] = {one: value / length for one, value in vector.items()}
            for neighbour, value in self._vectors[word].items():
                self._with[neighbour].append((word, value))

    def of(self, word: str, rival: str = "") -> list[str]:
        """Words to put in the place of one, at most :data:`REPLACEMENTS`, the best first.

        Those that are most like it, but first the word of the text that begins with the pieces
        ``rival``. Other forms of case of the word itself are left out; a punctuation mark has none.
        """
        if not _is_word(word):
            return []
        same, upper = word.lower(), word[0].isupper()
        rivals = {it: n for it, n in self._beginning[rival].items() if it.lower() != same}
        first = sorted(rivals, key=lambda it: (it[0].isupper() == upper, rivals[it]))[-1:]
        alike: defaultdict[str, float] = defaultdict(float)
        for neighbour, value in self._vectors.get(word, {}).items():
            for other, weight in self._with[neighbour]:
                alike[other] += value * weight
        others = [other for other in alike if other.lower() != same]
        others.sort(key=lambda other: (-alike[other], other))
        return list(dict.fromkeys([*first, *others]))[:REPLACEMENTS]


def _is_word(word: str) -> bool:
    return any(map(str.isalnum, word))


# --- what is written ------------------------------------------------------------------------------


def _in_short(words: Sequence[Word], threshold: float) -> dict[str, Any]:
    """How many words gain, how many decisions fall without what decided them, the best forms."""
    decisions = [word.decision for word in words if word.decision is not None]
    values: defaultdict[str, list[float]] = defaultdict(list)
    for word in words:
        values[word.text].append(word.cxmi)
    sums = sorted(((-math.fsum(of), it) for it, of in values.items()), key=lambda pair: pair[0])
    forms = [{"text": it, "count": len(values[it]), "cxmi": -nats} for nats, it in sums[:SHOWN]]
    return {
        "words": len(words),
        "threshold": threshold,
        "gain": len(decisions),
        "flip": sum(decision.flips for decision in decisions),
        "forms": forms,
    }


def _lines(words: Sequence[Word], threshold: float) -> Iterator[str]:
    """The words that gain most, with what decided them."""
    short = _in_short(words, threshold)
    forms = [f"{it['text']} {it['cxmi']:+.1f} ({it['count']} times)" for it in short["forms"]]
    yield (
        f"{short['gain']} of {short['words']} words gain {threshold:g} nats or more; "
        f"{short['flip']} of these decisions fall when the words named are replaced"
    )
    yield f"in all, most is gained by {', '.join(forms)}"
    decided = sorted((it for it in words if it.decision), key=lambda it: -it.cxmi)
    for word in decided[:SHOWN]:
        assert word.decision is not None
        by = "; ".join(map(str, word.decision.changes)) or "nothing found"
        result = "falls" if word.decision.flips else "stands"
        place = f"{word.document}:{word.sentence}:{word.word}"
        yield f"{place} {word.text} {word.cxmi:+.2f}: {by} ({-word.decision.loss:+.2f}, {result})"
