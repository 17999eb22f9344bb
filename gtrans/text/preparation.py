"""From documents in plain text to a binarised corpus, in steps that can be resumed.

Each step writes these files to the data folder:

==================  =====================================================
``tokenise train``  ``text/train.tok.LANG``: normalised, tokenised, escaped; only to learn from
``models``          ``truecase.LANG`` and ``codes.bpe`` (joint), or the files of
                    ``--sentencepiece``
``encode SPLIT``    ``text/SPLIT.bpe.LANG``: truecased, in subwords; ``text/SPLIT.plain.TGT``
                    of the other splits than ``train``, for validation by translations
``bert SPLIT``      ``SPLIT.SRC-TGT.SRC.bert.{bin,idx}``, with ``--bert``: BERT's subwords of the
                    plain source, line by line
``binarise``        ``SPLIT.SRC-TGT.LANG.{bin,idx}``, ``dict.LANG.txt``, as ``fairseq-preprocess``
                    writes them
==================  =====================================================

``prepare.json`` records finished steps with a digest of everything that they depend on. A step is
skipped if its files and this digest are unchanged. Document boundaries are empty lines, binarised a
single ``</s>``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from gtrans.data.documents import check_sides, resolve
from gtrans.errors import GtransError
from gtrans.files import atomic_writer, copy_file, digest, digest_of_values, locked, replacing
from gtrans.messages import print_message
from gtrans.text.moses import MosesPipeline, MosesSteps, load_best_case, train_best_case
from gtrans.text.pipeline import input_warnings
from gtrans.text.plausibility import Overlaps, PairSampler, implausible
from gtrans.text.preparation_options import (
    DEFAULT_MERGES,
    PreparationOptions,
    check_options,
)
from gtrans.text.prepared_folder import (
    CODES_FILE,
    LAST_STEP,
    STATE_FILE,
    STATE_FORMAT,
    TRUECASE_FILE,
    Preparation,
    load_pipeline,
    pipeline_files,
    plain_text,
    read_state,
    recorded_bert_subwords,
)
from gtrans.text.reader import Sides, open_text
from gtrans.text.subwords import (
    SUBWORD_MODELS,
    SentencePiecePipeline,
    count_merges,
    learn_codes,
)
from gtrans.text.workers import all_cores, map_chunks

if TYPE_CHECKING:
    from fairseq.data import Dictionary
    from torch import Tensor

    from gtrans.modules.bert import BertSubwords


# ---- the record of finished steps ----------------------------------------------------------------


class StepRecord:
    """The finished steps in the ``prepare.json`` of a data folder.

    Args:
        header: the other entries.
        finished: the digest ``depends_on`` of each step; ``outputs`` (bytes) and ``digests`` of its
            files, by name.
    """

    def __init__(self, folder: Path, header: dict[str, Any], finished: dict[str, Any]) -> None:
        self._folder = folder
        self.header = header
        self._finished = finished
        self._used = {LAST_STEP}

    def save(self) -> None:
        """Write ``prepare.json``."""
        state = {**self.header, "finished": self._finished}
        with atomic_writer(self._folder / STATE_FILE) as file:
            json.dump(state, file, indent=2)
            file.write("\n")

    def forget(self, *names: str) -> None:
        """Take steps out of the record, and delete their files."""
        outputs: list[str] = []
        for name in names:
            step = self._finished.pop(name, None)
            if step is not None:
                outputs += step["outputs"]
        self.save()
        for output in outputs:
            (self._folder / output).unlink(missing_ok=True)

    def forget_others(self) -> None:
        """Forget steps that this run did not need."""
        unused = self._finished.keys() - self._used
        self.forget(*unused)

    def step(
        self, name: str, depends_on: Any, outputs: Sequence[str], work: Callable[[Any], None]
    ) -> str:
        """Run a step unless it is finished; return the digest of ``depends_on``.

        ``outputs``: the files that ``work`` writes.
        """
        self._used.add(name)
        current = digest_of_values(depends_on)
        entry = self._finished.get(name)
        reason = "started"
        if entry is not None and entry.get("depends_on") != current:
            reason = "input or option changed, repeated"
        elif entry is not None and self._is_unchanged(entry):
            print_message(f"{name}: finished earlier, skipped")
            return current
        elif entry is not None:
            reason = "its files are missing or changed, repeated"
        print_message(f"{name}: {reason}")
        self.forget(LAST_STEP, name)
        work(outputs)
        digests = {output: digest(self._folder / output) for output in outputs}
        self._finished[name] = {
            "depends_on": current,
            "outputs": self._sizes(outputs),
            "digests": digests,
        }
        self.save()
        return current

    def _is_unchanged(self, entry: dict[str, Any]) -> bool:
        if entry["outputs"] != self._sizes(entry["outputs"]):
            return False
        for name, recorded in entry.get("digests", {}).items():
            if digest(self._folder / name) != recorded:
                return False
        return True

    def _sizes(self, names: Iterable[str]) -> dict[str, int]:
        sizes = {}
        for name in names:
            path = self._folder / name
            if path.is_file():
                sizes[name] = path.stat().st_size
        return sizes


# ---- the steps -----------------------------------------------------------------------------------


def prepare(options: PreparationOptions) -> list[SideCounts]:
    """Prepare a corpus in ``options.out``; return the counts of each split and language.

    Nothing is written if an option or an input file is wrong.
    """
    check_options(options)
    print_message("reading and checking all input files")
    overlaps = Overlaps()
    inputs: dict[str, list[Sides]] = {}
    for split, prefixes in options.splits.items():
        inputs[split] = []
        for prefix in prefixes:
            inputs[split].append(_checked_sides(options, split, prefix, overlaps))
    for warning in overlaps.warnings():
        print_message(f"warning: {warning}")
    preparation = _PreparationRun(options, inputs)
    out = options.out.resolve()
    for path in (*preparation.texts, options.dictionary, options.bpe_codes):
        if path is not None and out in path.resolve().parents:
            raise GtransError(f"`--out` '{options.out}' holds the input '{path}'; name another")
    options.out.mkdir(parents=True, exist_ok=True)
    with locked(options.out):
        return preparation.run()


def _checked_sides(
    options: PreparationOptions, split: str, prefix: str, overlaps: Overlaps
) -> Sides:
    file = Path(prefix)
    if file.is_file() and open_text(file).has_ids:
        source = target = file
    else:
        source = resolve(prefix, options.source_lang)
        target = resolve(prefix, options.target_lang)
    sides = Sides(source, target, options.selection)
    sampler = PairSampler()
    for pair in sides.read():
        sampler.add(pair)
        overlaps.add(split, pair)
    overlaps.add(split, None)
    names = [str(source), str(target)]
    if source == target:
        names = [f"{source} ({lang})" for lang in options.languages]
    is_plain = options.steps.tokenise or options.sentencepiece is not None
    left, right = sampler.samples(names, options.languages)
    for warning in implausible(left, right, plain=is_plain):
        print_message(f"warning: {warning}")
    return sides


class _PreparationRun:
    def __init__(self, options: PreparationOptions, inputs: dict[str, list[Sides]]) -> None:
        self.options = options
        self.inputs = inputs
        self.out = options.out
        self.texts: list[Path] = []
        for sides in chain.from_iterable(inputs.values()):
            self.texts += [sides.source, sides.target]
        self.workers = options.workers or all_cores()
        self.model = SentencePiecePipeline if options.sentencepiece is not None else None
        self.steps = options.steps
        # The number of merges, or the size of the vocabulary.
        self.bpe: dict[str, Any] = {"merges": options.bpe_merges or DEFAULT_MERGES}
        if options.bpe_codes is not None:
            self.bpe = {"merges": count_merges(options.bpe_codes)}
        elif options.bpe_symbols is not None:
            self.bpe = {"merges": None, "symbols": options.bpe_symbols}
        self.bert_subwords: BertSubwords | None = None
        if options.bert is not None:
            from gtrans.modules.bert import BertSubwords

            self.bert_subwords = BertSubwords(options.bert)
        if options.reuse is not None:
            self._reuse(options.reuse)
        has_models = self.model is not None or options.reuse is not None
        needs_training = options.bpe_codes is None or self.steps.truecase
        self.learns = needs_training and not has_models

    def _reuse(self, reuse: Path) -> None:
        from gtrans.data.binarised import load_dictionary

        state = read_state(reuse)
        Preparation.read(reuse)  # rejects an unfinished preparation
        for lang in self.options.languages:
            load_pipeline(reuse, lang)  # rejects other languages and incomplete folders
            load_dictionary(reuse / f"dict.{lang}.txt")
        self.steps = MosesSteps(**state["steps"])
        self.bpe = state["bpe"]
        self.model = None
        if state.get("subwords"):
            self.model = SUBWORD_MODELS[state["subwords"]]
        if self.options.bert is None and state.get("bert") is not None:
            self.bert_subwords = recorded_bert_subwords(reuse)

    def run(self) -> list[SideCounts]:
        record = self._open()
        languages = self.options.languages
        digests = {split: _digests(texts) for split, texts in self.inputs.items()}
        tokenised = None
        if self.learns:
            tokenised = self._tokenise_step(record, digests["train"])
        models = self._models_step(record, tokenised)
        encoded = []
        for split in self.inputs:
            encoded.append(self._encode_step(record, split, digests[split], models))
            if self.bert_subwords is not None:
                self._bert_step(record, split, digests[split], self.bert_subwords)
        record.forget_others()
        dictionaries = [digest(path) for path in self._dictionaries()]
        outputs = self.options.files(self.inputs)
        record.step(LAST_STEP, (encoded, dictionaries), outputs, self._binarise)
        use = ""
        if self.inputs.keys() >= {"train", "valid"}:
            use = f": gtrans train '{self.out}' --config NAME --save-dir DIR"
        print_message(f"'{self.out}' is ready{use}")
        counts: list[SideCounts] = []
        for split in self.inputs:
            counts += count_split(self.out, split, languages)
        return counts

    def _tokenise_step(self, record: StepRecord, text: Any) -> str:
        languages = self.options.languages
        outputs = [f"text/train.tok.{lang}" for lang in languages]
        depends_on = languages, self.steps.record(), text
        return record.step("tokenise train", depends_on, outputs, self._tokenise)

    def _encode_step(self, record: StepRecord, split: str, text: Any, models: str) -> str:
        languages = self.options.languages
        outputs = [f"text/{split}.bpe.{lang}" for lang in languages]
        if split != "train":
            outputs.append(plain_text(split, self.options.target_lang))
        depends_on = languages, self.steps.record(), text, models
        return record.step(f"encode {split}", depends_on, outputs, partial(self._encode, split))

    def _bert_step(
        self, record: StepRecord, split: str, text: Any, bert_subwords: BertSubwords
    ) -> None:
        name = f"{split}.{self.options.pair}.{self.options.source_lang}.bert"
        outputs = [f"{name}.bin", f"{name}.idx"]
        depends_on = text, bert_subwords.fingerprint
        work = partial(self._write_bert_subwords, bert_subwords, split)
        record.step(f"bert {split}", depends_on, outputs, work)

    def _open(self) -> StepRecord:
        state = self._earlier()
        header: dict[str, Any] = {
            "format": STATE_FORMAT,
            "source_lang": self.options.source_lang,
            "target_lang": self.options.target_lang,
            "steps": self.steps.record(),
            "bpe": self.bpe,
            "subwords": None if self.model is None else self.model.name,
            "bert": None,
            "texts": [str(path.resolve()) for path in self.texts],
        }
        if self.bert_subwords is not None:
            name = self.bert_subwords.name
            if os.path.isdir(name):
                name = os.path.abspath(name)
            header["bert"] = {"name": name, "tokenizer": self.bert_subwords.fingerprint}
        finished = dict(state.get("finished", {}))
        record = StepRecord(self.out, header, finished)
        if self.options.force:
            record.forget(*finished)
        elif any(state.get(name) != value for name, value in header.items()):
            # Until the last step, the folder does not count as made with these options.
            record.forget(LAST_STEP)
        else:
            record.save()
        (self.out / "text").mkdir(exist_ok=True)
        return record

    def _earlier(self) -> dict[str, Any]:
        """Return the state of the folder, if this run may continue there."""
        folder = f"`--out` '{self.out}'"
        # A run that was killed at its beginning leaves only hidden files.
        if all(path.name.startswith(".") for path in self.out.iterdir()):
            return {}
        if not (self.out / STATE_FILE).exists():
            raise GtransError(
                f"{folder} is not empty and holds no preparation; give an empty or a new folder"
            )
        state = read_state(self.out)
        pair = f"{state['source_lang']}-{state['target_lang']}"
        if pair != self.options.pair:
            raise GtransError(
                f"{folder} holds a preparation for {pair}, not for {self.options.pair}; give "
                "another folder"
            )
        missing = set()
        for step in state.get("finished", {}):
            kind, _, split = step.partition(" ")
            if kind == "encode" and split not in self.inputs:
                missing.add(split)
        if missing and not self.options.force:
            raise GtransError(
                f"{folder} also holds the split '{min(missing)}', which this command does not "
                "make; give another folder, or repeat all steps with `gtrans prepare --force`"
            )
        return state

    def _models_step(self, record: StepRecord, tokenised: str | None) -> str:
        options = self.options
        names = pipeline_files(record.header)
        files = [options.bpe_codes]
        work: Callable[[Sequence[str]], None] = self._learn
        if options.reuse is not None:
            files = [options.reuse / name for name in names]
            work = self._copy_models
        elif options.sentencepiece is not None:
            files = [options.sentencepiece, options.dictionary]
            work = self._copy_sentencepiece
        digests = [digest(path) for path in files if path is not None]
        name = "BPE" if self.model is None else self.model.name
        depends_on = name, self.steps.truecase, self.bpe, tokenised, digests
        return record.step("models", depends_on, names, work)

    def _copy_models(self, names: Sequence[str]) -> None:
        assert self.options.reuse is not None
        for name in names:
            copy_file(self.options.reuse / name, self.out / name)

    def _copy_sentencepiece(self, _: Sequence[str]) -> None:
        assert self.options.sentencepiece is not None
        SentencePiecePipeline.copy(self.options.sentencepiece, self.options.dictionary, self.out)

    def _tokenise(self, outputs: Sequence[str]) -> None:
        pipelines = [MosesPipeline(lang, self.steps) for lang in self.options.languages]
        tokenise = [pipeline.tokenise for pipeline in pipelines]
        self._write(outputs, tokenise, self._pairs("train"))

    def _learn(self, _: Sequence[str]) -> None:
        given_codes = self.options.bpe_codes
        codes = self.out / CODES_FILE
        counts = Counter[str]()
        if self.learns:
            for lang in self.options.languages:
                best_case = None
                if self.steps.truecase:
                    best_case = self._learn_best_case(lang)
                if given_codes is None:
                    counts += self._count_words(MosesPipeline(lang, self.steps, best_case))
        if given_codes is None:
            counts.pop("", None)  # from the empty lines
            learn_codes(counts, self.bpe["merges"], self.bpe.get("symbols"), codes)
        else:
            copy_file(given_codes, codes)

    def _learn_best_case(self, lang: str) -> dict[str, str]:
        model = self.out / TRUECASE_FILE.format(lang)
        train_best_case(self._read(f"train.tok.{lang}"), model, self.workers)
        return load_best_case(model)

    def _count_words(self, pipeline: MosesPipeline) -> Counter[str]:
        counts = Counter[str]()
        lines = self._read(f"train.tok.{pipeline.lang}")
        for chunk in map_chunks(pipeline.count_words, lines, self.workers):
            counts.update(chunk)
        return counts

    def _encode(self, split: str, outputs: Sequence[str]) -> None:
        options = self.options
        source = load_pipeline(self.out, options.source_lang)
        target = load_pipeline(self.out, options.target_lang)
        if split == "train" and self.learns:
            source_lines = self._read(f"train.tok.{options.source_lang}")
            target_lines = self._read(f"train.tok.{options.target_lang}")
            pairs = zip(source_lines, target_lines, strict=True)
            self._write(outputs, [source.segment, target.segment], pairs)
        elif split == "train":
            self._write(outputs, [source.encode, target.encode], self._pairs(split))
        else:
            rows = ((left, right, right) for left, right in self._pairs(split))
            self._write(outputs, [source.encode, target.encode, str], rows)

    def _pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Yield sentence pairs, and two empty strings at each boundary."""
        for position, sides in enumerate(self.inputs[split]):
            if position:
                yield "", ""
            for pair in sides.read(quiet=True):
                yield pair or ("", "")

    def _read(self, name: str) -> Iterator[str]:
        with open(self.out / "text" / name, encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.removesuffix("\n")

    def _write(
        self,
        names: Sequence[str],
        functions: Sequence[Callable[[str], str]],
        rows: Iterable[tuple[str, ...]],
    ) -> None:
        """Write all files or none; each function makes a file of its column."""
        chunks = map_chunks(partial(_apply, functions), rows, self.workers)
        targets = [self.out / name for name in names]
        with ExitStack() as stack:
            files = []
            for path in stack.enter_context(replacing(*targets)):
                file = stack.enter_context(open(path, "w", encoding="utf-8", newline="\n"))
                files.append(file)
            written = chain.from_iterable(chunks)
            for row in tqdm(written, names[0], unit=" lines", disable=None):
                for file, line in zip(files, row, strict=True):
                    file.write(f"{line}\n")

    def _write_bert_subwords(
        self, subwords: BertSubwords, split: str, outputs: Sequence[str]
    ) -> None:
        sources = (source for source, _ in self._pairs(split))
        lines = tqdm(sources, f"{split}.bert", disable=None)
        chunks = map_chunks(partial(_bert_subwords, subwords), lines, workers=1)
        ids = chain.from_iterable(chunks)
        _write_ids(self.out / outputs[0], len(subwords.entries), ids)

    def _dictionaries(self) -> list[Path]:
        """Return the given dictionaries: one, or one for each language."""
        if self.options.reuse is not None:
            return [self.options.reuse / f"dict.{lang}.txt" for lang in self.options.languages]
        if self.model is not None:
            return [self.out / self.model.files[-1]]
        if self.options.dictionary is not None:
            return [self.options.dictionary]
        return []

    def _binarise(self, _: Sequence[str]) -> None:
        import torch

        from gtrans.data.binarised import load_dictionary, write_dictionary

        dictionaries = [load_dictionary(path) for path in self._dictionaries()]
        if not dictionaries:
            dictionaries = [self._joint_dictionary()]
        both = dictionaries[0], dictionaries[-1]
        for lang, dictionary in zip(self.options.languages, both, strict=True):
            write_dictionary(dictionary, self.out / f"dict.{lang}.txt")
            ids_of = partial(_ids, dictionary.indices, dictionary.unk(), dictionary.eos())
            for split in self.inputs:
                lines = self._read(f"{split}.bpe.{lang}")
                chunks = map_chunks(ids_of, lines, self.workers)
                ids = map(torch.from_numpy, chain.from_iterable(chunks))
                data = self.out / f"{split}.{self.options.pair}.{lang}.bin"
                _write_ids(data, len(dictionary), ids)

    def _joint_dictionary(self) -> Dictionary:
        from fairseq.data import Dictionary

        counts = Counter[str]()
        for lang in self.options.languages:
            for line in self._read(f"train.bpe.{lang}"):
                counts.update(line.split())
        joint = Dictionary()
        for subword, count in counts.items():
            joint.add_symbol(subword, count)
        joint.finalize()
        return joint


def _digests(texts: Iterable[Sides]) -> list[Any]:
    digests = []
    for sides in texts:
        # The direction is already known by the languages.
        selection = asdict(replace(sides.selection, direction=""))
        digests.append([digest(sides.source), digest(sides.target), selection])
    return digests


def _apply(functions: Sequence[Callable[[str], str]], rows: list[Sequence[str]]) -> list[list[str]]:
    results = []
    for row in rows:
        result = []
        for function, line in zip(functions, row, strict=True):
            result.append(function(line) if line else "")
        results.append(result)
    return results


def _ids(indices: dict[str, int], unknown: int, end: int, lines: list[str]) -> list[Any]:
    arrays = []
    for line in lines:
        ids = [indices.get(subword, unknown) for subword in line.split()]
        arrays.append(np.array([*ids, end], np.int64))
    return arrays


def _bert_subwords(subwords: BertSubwords, lines: list[str]) -> list[Tensor]:
    import torch

    from gtrans.modules.bert import SEP

    sentences = [line for line in lines if line]
    encoded = iter(subwords.encode(sentences))
    return [next(encoded) if line else torch.tensor([SEP]) for line in lines]


def _write_ids(data: Path, entries: int, lines: Iterable[Tensor]) -> None:
    from fairseq.data import indexed_dataset

    with replacing(data, data.with_suffix(".idx")) as (temporary, index):
        builder: Any = indexed_dataset.make_builder(str(temporary), "mmap", entries)
        for ids in lines:
            builder.add_item(ids)
        builder.finalize(str(index))


# ---- what a folder holds -------------------------------------------------------------------------

COLUMNS = (
    "longest: subwords of the longest sentence; types: different subwords; unknown: those that are "
    "not in the dictionary"
)


@dataclass(frozen=True)
class SideCounts:
    """Counts of one language of a split; :data:`COLUMNS` explains them."""

    split: str
    lang: str
    documents: int
    sentences: int
    longest: int
    types: int
    subwords: int
    unknown: int


def count_split(folder: Path, split: str, languages: tuple[str, str]) -> list[SideCounts]:
    """Count both languages of a split of a prepared folder."""
    from gtrans.data.binarised import count_entries, load_dictionary, load_lines

    name = f"{split}.{'-'.join(languages)}"
    sides = []
    boundaries = []
    for lang in languages:
        dictionary = load_dictionary(folder / f"dict.{lang}.txt")
        path = str(folder / f"{name}.{lang}")
        lines = load_lines(path, dictionary, len(dictionary))
        is_sentence = lines.sizes > 1
        begins_document = is_sentence & np.append(True, ~is_sentence[:-1])
        counts = count_entries(lines, len(dictionary))
        counts[dictionary.eos()] = 0
        unknown = int(counts[dictionary.unk()])
        side = SideCounts(
            split,
            lang,
            documents=int(begins_document.sum()),
            sentences=int(is_sentence.sum()),
            longest=int(lines.sizes.max()) - 1,
            types=int(np.count_nonzero(counts)) - bool(unknown),
            subwords=int(counts.sum()),
            unknown=unknown,
        )
        sides.append(side)
        boundaries.append(~is_sentence)
    check_sides(boundaries[0], boundaries[1], str(folder / name))
    return sides


def table(counts: Iterable[SideCounts]) -> list[tuple[str, ...]]:
    """Return the rows of a table, header first."""
    names = ("split", "language", "documents", "sentences", "longest", "types", "unknown")
    rows: list[tuple[str, ...]] = [names]
    for side in counts:
        unknown = 100 * side.unknown / max(side.subwords, 1)
        row = (
            side.split,
            side.lang,
            f"{side.documents:,}",
            f"{side.sentences:,}",
            f"{side.longest:,}",
            f"{side.types:,}",
            f"{unknown:.2f}%",
        )
        rows.append(row)
    return rows


def warnings(counts: Iterable[SideCounts]) -> list[str]:
    """Return warnings about splits of unknown words, or of one document."""
    messages: list[str] = []
    for side in counts:
        name = f"{side.split}.{side.lang}"
        messages += input_warnings(name, (), side.unknown, side.subwords)
        if side.documents == 1 and side.sentences > 1:
            messages.append(
                f"{side.split} is one document of {side.sentences:,} sentences; if there are "
                "several, put an empty line between them on both sides"
            )
    return list(dict.fromkeys(messages))
