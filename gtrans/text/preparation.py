"""From plain-text documents to a binarised corpus, in steps that can be resumed.

The steps, in order, and the files that each writes to the data folder:

==================  =====================================================
``plain SPLIT``     ``text/SPLIT.plain.TGT``: the target as it is, which validation by
                    translations scores with; not of the training text
``tokenise SPLIT``  ``text/SPLIT.tok.LANG``: normalised, tokenised, escaped
``truecase``        ``truecase.LANG``: Moses truecaser models
``bpe``             ``codes.bpe`` (joint), ``bpe-vocabulary.LANG``
``sentencepiece``   ``sentencepiece.model``, ``sentencepiece.dict.txt``; with
                    ``--sentencepiece``, replaces ``truecase`` and ``bpe``
``byte-bpe``        ``byte-bpe.merges``, ``byte-bpe.json``, ``byte-bpe.dict.txt``; the same
                    with ``--byte-bpe``
``encode SPLIT``    ``text/SPLIT.bpe.LANG``: truecased, in BPE pieces
``bert SPLIT``      ``SPLIT.SRC-TGT.SRC.bert.{bin,idx}``, with ``--bert``: word
                    pieces of the plain source
``binarise``        ``SPLIT.SRC-TGT.LANG.{bin,idx}``, ``dict.LANG.txt``; with
                    ``--binarised``, they are copied, and there is no step for text
==================  =====================================================

A finished step is recorded in ``prepare.json`` with a fingerprint of everything that it depends
on: the contents of the input files, the options, the fingerprints of earlier steps. A step is
skipped if its fingerprint is the same and its files exist. Every file is written under a temporary
name and renamed when complete, so an interrupted run leaves no half-written file.

Document boundaries are empty lines in all files. ``fairseq-preprocess`` turns each into a single
end-of-sentence symbol, which marks the documents when the corpus is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from gtrans.errors import GtransError
from gtrans.identity.digests import digest, fingerprint
from gtrans.identity.files import atomic_writer, copy_file, locked
from gtrans.identity.step_record import StepRecord
from gtrans.messages import say
from gtrans.text import word_piece_files
from gtrans.text.binarised_folder import file_names, files_of, take
from gtrans.text.binarising import binarise
from gtrans.text.bpe import count_merges, learn_codes, load_bpe, write_vocabulary
from gtrans.text.moses_pipeline import NO_STEPS, MosesPipeline, Steps
from gtrans.text.plain_text import input_warnings
from gtrans.text.preparation_options import (
    PreparationOptions,
    check_options,
    check_out,
    check_split,
    is_unused,
)
from gtrans.text.prepared_counts import SideCounts, count_splits
from gtrans.text.prepared_folder import (
    LAST_STEP,
    STATE_FILE,
    STATE_FORMAT,
    SUBWORD_MODELS,
    load_pipeline,
    plain_text,
    read_state,
    splits_of,
    use_of,
)
from gtrans.text.reader import ANY, Sides
from gtrans.text.subword_model import SubwordModel
from gtrans.text.truecase import load_best_case, train_best_case
from gtrans.text.workers import map_chunks, map_lines, useful_workers

if TYPE_CHECKING:
    from gtrans.modules.bert import WordPieces

CODES_FILE = "codes.bpe"


def prepare(options: PreparationOptions) -> list[SideCounts]:
    """Prepare a corpus in ``options.out``, skipping the steps that are finished.

    Returns:
        what the folder holds now, by split and language.

    Raises:
        GtransError: an option or an input file is wrong, or another process prepares in the same
            folder; nothing has then been written.
    """
    check_options(options)
    say("reading and checking all input files")
    splits = options.splits
    inputs = {name: check_split(options, prefixes) for name, prefixes in splits.items()}
    check_out(options, inputs)
    try:
        preparation = _Preparation(options, inputs)
        options.out.mkdir(parents=True, exist_ok=True)
        with locked(options.out):
            return preparation.run()
    except OSError as error:
        place = "" if error.filename is None else f" ({error.filename})"
        reason = error.strerror or error
        raise GtransError(f"cannot prepare '{options.out}': {reason}{place}") from None


class _Preparation:
    """One run of all steps."""

    def __init__(self, options: PreparationOptions, inputs: dict[str, list[Sides]]) -> None:
        self.options = options
        self.inputs = inputs
        self.out = options.out
        self.threshold = options.bpe_vocabulary_threshold
        # How many merges, or how large the vocabulary is to become.
        self.bpe: dict[str, Any] = {"merges": options.bpe_merges}
        if options.bpe_symbols is not None:
            self.bpe = {"merges": None, "symbols": options.bpe_symbols}
        self.model: SubwordModel | None = None
        if options.subword_model is not None:
            self.model = SUBWORD_MODELS[options.subword_model[0]]
        plain = self.model is not None or options.binarised is not None
        self.steps = NO_STEPS if plain else options.steps
        if options.bpe_codes is not None:
            self.bpe = {"merges": count_merges(options.bpe_codes)}
        self.word_pieces: WordPieces | None = None
        if options.bert is not None:
            from gtrans.modules.bert import WordPieces

            self.word_pieces = WordPieces(options.bert)
        if options.reuse is not None:
            self._reuse(options.reuse)
        self.truecase = {lang: f"truecase.{lang}" for lang in options.languages}
        self.vocabulary = {lang: f"bpe-vocabulary.{lang}" for lang in options.languages}

    def run(self) -> list[SideCounts]:
        record = self._open()
        options = self.options
        tokenised: dict[str, str] = {}
        texts = {
            split: [_made_from(sides) for sides in several]
            for split, several in self.inputs.items()
        }
        for split in [split for split in texts if split != "train"]:
            name = plain_text(split, options.target_lang)
            lines = self._lines(split, 1)
            made_from = fingerprint([of for _, *target in texts[split] for of in target])
            work = partial(self._write, Path(name).name, str, lines)
            record.step(f"plain {split}", made_from, [name], work)
        for split, text in texts.items():
            steps = [self.steps.normalise, self.steps.tokenise]
            segmenter = [] if self.steps.segmenter is None else [self.steps.segmenter]
            tokenised[split] = fingerprint(options.languages, [*steps, *segmenter], text)
            outputs = [f"text/{split}.tok.{lang}" for lang in options.languages]
            work = partial(self._tokenise, split)
            record.step(f"tokenise {split}", tokenised[split], outputs, work)

        learnt = self._models(record, tokenised)
        encoded = {}
        for split in self.inputs:
            encoded[split] = fingerprint(tokenised[split], learnt)
            outputs = [f"text/{split}.bpe.{lang}" for lang in options.languages]
            record.step(f"encode {split}", encoded[split], outputs, partial(self._encode, split))

        pair = "-".join(options.languages)
        for split, text in texts.items():
            if self.word_pieces is None:
                break
            outputs = word_piece_files.file_names(split, pair, options.source_lang)
            source_mark = fingerprint(
                [of for source, _, *choice in text for of in (source, *choice)],
                self.word_pieces.fingerprint,
            )
            work = partial(self._write_word_pieces, split, [self.out / name for name in outputs])
            record.step(f"bert {split}", source_mark, outputs, work)
        make: Callable[[], None] = self._binarise
        if (source := options.binarised) is not None:
            outputs = files_of(source, *options.languages)
            made_from = fingerprint(learnt, [digest(source / name) for name in outputs])
            make = partial(take, source, self.out, options.languages)
        else:
            outputs = file_names(self.inputs, options.languages)
            given = [digest(path) for path in self._dictionaries()]
            made_from = fingerprint(encoded, given if given[1:] else given[0] if given else None)
        record.step(LAST_STEP, made_from, outputs, make)
        say(f"'{self.out}' is ready: {use_of(self.out, outputs)}")
        return count_splits(self.out, splits_of(outputs), options.languages)

    def _models(self, record: StepRecord, tokenised: dict[str, str]) -> str:
        """Learn or copy the models that segment the text; returns their fingerprint."""
        options = self.options
        truecase = list(self.truecase.values()) if self.steps.truecase else []
        own = [CODES_FILE, *(self.vocabulary.values() if self.threshold else ())]
        bpe = own if self.model is None else list(self.model.files)
        if options.reuse is not None:
            source, names = options.reuse, [*truecase, *bpe]
            learnt = fingerprint([digest(source / name) for name in names])
            record.step("reuse", learnt, names, partial(self._copy, source, names))
        elif self.model is not None and options.subword_model is not None:
            path, dictionary = options.subword_model[1], options.dictionary
            sources = [digest(source) for source in self.model.model_files(path)]
            learnt = fingerprint(sources, dictionary and digest(dictionary))
            work = partial(self.model.copy, path, dictionary, self.out)
            record.step(self.model.name, learnt, bpe, work)
        else:
            cased = fingerprint(tokenised.get("train"), self.steps.truecase)
            if truecase:
                record.step("truecase", cased, truecase, self._train_truecase)
            codes = [digest(options.bpe_codes)] if options.bpe_codes else self.bpe.values()
            learnt = fingerprint(cased, *codes, self.threshold)
            record.step("bpe", learnt, bpe, self._learn_bpe)
        return learnt

    def _open(self) -> StepRecord:
        """Create the data folder, or continue the preparation in it."""
        state: dict[str, Any] = {}
        finished: dict[str, dict[str, Any]] = {}
        if not is_unused(self.out):
            if not (self.out / STATE_FILE).exists():
                raise GtransError(
                    f"`--out` '{self.out}' is not empty and holds no preparation; "
                    "give an empty or a new folder"
                )
            state = read_state(self.out)
            finished = self._earlier(state)
        header = {
            "format": STATE_FORMAT,
            "source_lang": self.options.source_lang,
            "target_lang": self.options.target_lang,
            "steps": self.steps.record(),
            "bpe": {**self.bpe, "vocabulary_threshold": self.threshold},
            "files": {
                "codes": CODES_FILE,
                "truecase": self.truecase,
                "vocabulary": self.vocabulary,
            },
            "pieces": self.model and self.model.name,
            "bert": word_piece_files.record(self.word_pieces) if self.word_pieces else None,
            "texts": [
                str(path.resolve())
                for pairs in self.inputs.values()
                for pair in pairs
                for path in pair[:2]
            ],
        }
        suspended = state.get("suspended")
        if not isinstance(suspended, dict):
            suspended = {}
        record = StepRecord(self.out, STATE_FILE, header, LAST_STEP, finished, suspended)
        if any(state.get(name) != value for name, value in header.items()):
            record.suspend()
        # Learnt and copied models have the same file names, so steps of the other kind go.
        sources = {"bpe": ["truecase", "bpe"]}
        sources.update({name: [name] for name in ("reuse", *SUBWORD_MODELS)})
        chosen = "bpe" if self.model is None else self.model.name
        sources.pop("reuse" if self.options.reuse else chosen)
        record.forget([step for steps in sources.values() for step in steps])
        if self.word_pieces is None:
            record.forget([step for step in finished if step.startswith("bert ")])
        if self.options.force:
            record.forget(list(finished))
        record.save()
        (self.out / "text").mkdir(exist_ok=True)
        return record

    def _earlier(self, state: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The finished steps of an earlier run, if this run may continue it."""
        finished = state.get("finished")
        if not isinstance(finished, dict):
            raise GtransError(f"'{self.out / STATE_FILE}' is damaged; give a new folder")
        languages = (state.get("source_lang"), state.get("target_lang"))
        if languages != self.options.languages:
            raise GtransError(
                f"`--out` '{self.out}' holds a preparation for {languages[0]}-{languages[1]}, "
                f"not for {'-'.join(self.options.languages)}; give another folder"
            )
        splits = {step.split()[1] for step in finished if step.startswith("tokenise ")}
        missing = sorted(splits - set(self.inputs))
        if missing and not self.options.force:
            raise GtransError(
                f"`--out` '{self.out}' also holds the split '{missing[0]}', which this command "
                "does not make; give another folder, or `--force` to repeat all steps"
            )
        return finished

    def _reuse(self, reuse: Path) -> None:
        """Take the options of an earlier preparation, which must be finished."""
        from gtrans.data.binarised import load_dictionary

        state = read_state(reuse)
        for lang in self.options.languages:
            load_pipeline(reuse, lang)  # refuses other languages and incomplete folders
        if LAST_STEP not in state.get("finished", ()):
            raise GtransError(
                f"`--reuse` '{reuse}' is not finished; run its 'gtrans prepare' again"
            )
        for lang in self.options.languages:
            load_dictionary(reuse / f"dict.{lang}.txt")
        self.steps = Steps(**state["steps"])
        self.model = SUBWORD_MODELS[state["pieces"]] if state.get("pieces") else None
        self.bpe = dict(state["bpe"])
        self.threshold = self.bpe.pop("vocabulary_threshold")
        if self.options.bert is None and state.get("bert") is not None:
            self.word_pieces = word_piece_files.recorded_word_pieces(reuse)

    def _copy(self, source: Path, names: Sequence[str]) -> None:
        for name in names:
            copy_file(source / name, self.out / name)

    def _dictionaries(self) -> list[Path]:
        """The joint dictionary, or those of both languages; none if made from the training text."""
        if self.options.reuse is not None:
            both = [self.options.reuse / f"dict.{lang}.txt" for lang in self.options.languages]
            return both if digest(both[0]) != digest(both[1]) else both[:1]
        if self.model is not None:
            return [self.out / self.model.dictionary]
        return [self.options.dictionary] if self.options.dictionary is not None else []

    def _tokenise(self, split: str) -> None:
        for side, lang in enumerate(self.options.languages):
            lines = self._lines(split, side)
            if self.model is not None or self.steps.tokenise:
                for warning in input_warnings(f"{split}.{lang}", filter(None, lines), 0, 0):
                    say(f"warning: {warning}")
            lines = self._lines(split, side)
            first_step = self.model or MosesPipeline(lang, self.steps)
            self._write(f"{split}.tok.{lang}", first_step.tokenise, lines)

    def _lines(self, split: str, side: int) -> Iterator[str]:
        """Sentences of a side of a split, an empty string at each document boundary."""
        for position, sides in enumerate(self.inputs[split]):
            if position:
                yield ""
            for pair in sides.read(quiet=True):
                yield pair[side] if pair else ""

    def _train_truecase(self) -> None:
        for lang, name in self.truecase.items():
            train_best_case(self._read(f"train.tok.{lang}"), self.out / name, self.options.workers)

    def _learn_bpe(self) -> None:
        given, languages = self.options.bpe_codes, self.options.languages
        needed = given is None or self.threshold
        counts = {lang: self._count_words(lang) for lang in languages if needed}
        if given is not None:
            copy_file(given, self.out / CODES_FILE)
        else:
            joint = sum(counts.values(), Counter[str]())
            symbols = self.bpe.get("symbols", 0)
            learn_codes(joint, self.bpe["merges"], symbols, self.out / CODES_FILE)
        if self.threshold:
            bpe = load_bpe(self.out / CODES_FILE)
            for lang, name in self.vocabulary.items():
                write_vocabulary(counts[lang], bpe, self.out / name)

    def _count_words(self, lang: str) -> Counter[str]:
        """How often each truecased word occurs in the training text."""
        best_case = load_best_case(self.out / self.truecase[lang]) if self.steps.truecase else None
        pipeline = MosesPipeline(lang, self.steps, best_case)
        counts = Counter[str]()
        lines = self._read(f"train.tok.{lang}")
        for of_chunk in map_chunks(pipeline.count_words, lines, self.options.workers):
            counts.update(of_chunk)
        counts.pop("", None)  # from the empty lines
        return counts

    def _encode(self, split: str) -> None:
        for lang in self.options.languages:
            pipeline = load_pipeline(self.out, lang)
            self._write(f"{split}.bpe.{lang}", pipeline.segment, self._read(f"{split}.tok.{lang}"))

    def _write_word_pieces(self, split: str, files: list[Path]) -> None:
        assert self.word_pieces is not None
        lines = self._lines(split, 0)
        named = tqdm(lines, f"{split}.bert", unit=" lines", disable=None)
        word_piece_files.write_word_pieces(named, files, self.word_pieces)

    def _write(self, name: str, function: Callable[[str], str], lines: Iterator[str]) -> None:
        """Write ``function`` of each line to a file in ``text/``."""
        mapped = map_lines(function, lines, self.options.workers)
        with atomic_writer(self.out / "text" / name) as file:
            for line in tqdm(mapped, name, unit=" lines", disable=None):
                file.write(f"{line}\n")

    def _binarise(self) -> None:
        texts = (self.out / "text").glob("*.bpe.*")
        longest = max(texts, key=lambda path: path.stat().st_size)
        workers = useful_workers(self._read(longest.name), self.options.workers)
        binarise(self.out, list(self.inputs), self.options.languages, self._dictionaries(), workers)

    def _read(self, name: str) -> Iterator[str]:
        """The lines of a file in ``text/``, without their line ends."""
        with open(self.out / "text" / name, encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.removesuffix("\n")


def _made_from(sides: Sides) -> list[str]:
    """What the text of two files depends on."""
    found = [digest(path) for path in sides[:2]]
    chosen = replace(sides.choice, direction="")  # that of the languages
    return found if chosen == ANY else [*found, fingerprint(asdict(chosen))]
