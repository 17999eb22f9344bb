"""Binarised splits of data folders in units, and replaced contexts."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Optional

import numpy as np
from fairseq.data import ConcatDataset, Dictionary
from torch import Tensor

from gtrans.data.binarised import load_lines
from gtrans.data.context_text import ContextText, DistinctWords
from gtrans.data.document_dataset import DocumentDataset
from gtrans.data.documents import check_sides
from gtrans.data.examples import ExampleBuilder
from gtrans.data.stream import StreamDataset
from gtrans.data.units import ALL_UNITS, Unit, Units, UnitSelection, document_units
from gtrans.errors import GtransError
from gtrans.models.base.model import BERT_SUBWORDS
from gtrans.tasks.data_folders import data_folders, has_side, split_pair, training_words
from gtrans.tasks.options import mix_weights, stream_options
from gtrans.tasks.parts.bert import BertPart
from gtrans.text.moses import LOWER_TOKEN
from gtrans.text.prepared_folder import check_recorded

logger = logging.getLogger(__name__)


def training_files(cfg: Any, bert: Optional[BertPart]) -> list[Path]:
    """Return the files that a task with or without a BERT trains on."""
    source, target = str(cfg.source_lang), str(cfg.target_lang)
    sides = [target]
    if bert is None or bert.use != BERT_SUBWORDS:
        sides.append(source)
    if bert is not None:
        sides.append(f"{source}.bert")
    any_side = "|".join(map(re.escape, sides))
    files: list[Path] = []
    for folder in data_folders(cfg):
        pair = split_pair(folder, cfg.train_subset, source, target)
        split = re.escape(f"{cfg.train_subset}.{pair}")
        # fairseq also reads parts of a split, whose names end with a number.
        names = re.compile(rf"{split}\.({any_side})\d*(\.bin|\.idx|)")
        paths = sorted(Path(folder).iterdir())
        files += [path for path in paths if names.fullmatch(path.name)]
    return files


@dataclass(frozen=True)
class Part:
    """The lines of a split in one folder.

    Attributes:
        name: for messages.
        source, target, bert_subwords: indexed datasets; the last two may be missing.
    """

    name: str
    source: Any
    target: Any | None
    bert_subwords: Any | None
    unit: Unit
    selection: UnitSelection

    @cached_property
    def units(self) -> Units:
        """The units."""
        target = None if self.target is None else self.target.sizes
        return document_units(self.source.sizes, target, self.unit, self.name, self.selection)

    @property
    def sentences(self) -> int:
        """The number of sentences."""
        return int((self.source.sizes > 1).sum())


def mixed(parts: Sequence[Part], weights: Sequence[float], seed: int, epoch: int) -> Units:
    """Return the units of an epoch that reads each folder as often as its weight says.

    A weight of 2.5 reads all units twice and half of them again, drawn anew in every epoch.
    """
    _check_weights(parts, weights)
    lines = sentences = 0
    drawn = []
    weighted = zip(parts, weights, strict=True)
    for number, (part, weight) in enumerate(weighted):
        units = part.units
        generator = np.random.default_rng([seed, epoch, number])
        chosen = _draw(len(units), weight, generator)
        drawn.append(units.take(chosen).shifted(lines, sentences))
        logger.info(f"epoch {epoch}: {len(chosen)} units of {part.name}")
        lines += len(part.source)
        sentences += part.sentences
    return Units.joined(drawn)


def _check_weights(parts: Sequence[Part], weights: Sequence[float]) -> None:
    for part, weight in zip(parts, weights, strict=True):
        if weight * len(part.units) >= 1:
            return
    counts = [str(len(part.units)) for part in parts]
    mix = ":".join(f"{weight:g}" for weight in weights)
    raise GtransError(
        f"`--mix {mix}`: of {' and '.join(counts)} units an epoch would have none; give larger "
        "weights."
    )


def _draw(units: int, weight: float, generator: np.random.Generator) -> Any:
    times = int(weight)
    share = (weight - times) * units
    count = int(share)
    if generator.random() < share % 1:
        count += 1
    repeated = np.tile(np.arange(units), times)
    drawn = generator.permutation(units)[:count]
    return np.concatenate([repeated, np.sort(drawn)])


@dataclass(frozen=True)
class UsedEntries:
    """A dictionary, and how many of its first entries a corpus may use."""

    dictionary: Dictionary
    count: int


@dataclass(frozen=True)
class SplitReader:
    """Reads splits of data folders as the units of a task."""

    cfg: Any
    source: UsedEntries
    target: UsedEntries
    bert: Optional[BertPart]

    def read(
        self, split: str, examples: ExampleBuilder, longest: tuple[int, int], epoch: int
    ) -> DocumentDataset:
        """Return a split in units; training reads all folders, mixed or in turns.

        ``longest``: most tokens of a unit that the model can read, by side.
        """
        training = split == self.cfg.train_subset
        folders = data_folders(self.cfg)
        weights: list[float] = []
        if training:
            weights = self._weights(examples.unit)
            _check_named_once(folders)
        if not weights:
            turn = (epoch - 1) % len(folders) if training else 0
            folders = [folders[turn]]
        parts = [self._read(folder, split, examples.unit, training) for folder in folders]
        if training and examples.unit.trained_in_runs:
            dataset: DocumentDataset = self._streams(parts[0], examples)
        else:
            dataset = self._documents(parts, weights, examples, training)
        dataset.check_lengths(longest, " and ".join(part.name for part in parts))
        return dataset

    def _weights(self, unit: Unit) -> list[float]:
        mix = self.cfg.mix
        if mix is None:
            return []
        weights = mix_weights(self.cfg)
        if unit.trained_in_runs:
            raise GtransError(
                f"`--mix {mix}` is not for the unit {unit.name}, which takes whole documents one "
                "after the other; leave it out, so that folders take turns."
            )
        return weights

    def _streams(self, part: Part, examples: ExampleBuilder) -> StreamDataset:
        options = stream_options(self.cfg)
        return StreamDataset(part.source, part.target, part.units, examples, options=options)

    def _documents(
        self,
        parts: Sequence[Part],
        weights: Sequence[float],
        examples: ExampleBuilder,
        training: bool,
    ) -> DocumentDataset:
        units = parts[0].units
        in_epoch = None
        if weights:
            in_epoch = partial(mixed, parts, weights, int(self.cfg.seed))
            units = in_epoch(1)
        return DocumentDataset(
            _joined([part.source for part in parts]),
            _joined([part.target for part in parts]),
            units,
            examples,
            training,
            _joined([part.bert_subwords for part in parts]),
            in_epoch,
        )

    def _read(self, folder: str, split: str, unit: Unit, training: bool) -> Part:
        cfg = self.cfg
        pair = split_pair(folder, split, cfg.source_lang, cfg.target_lang)
        name = str(Path(folder) / f"{split}.{pair}")
        source, bert_subwords = self._source_lines(f"{name}.{cfg.source_lang}")
        target = None
        if training or has_side(folder, split, pair, cfg.target_lang):
            target = self._lines(f"{name}.{cfg.target_lang}", self.target)
        selection = ALL_UNITS
        if training:
            selection = UnitSelection(cfg.min_doc_tokens, cfg.sample_instances)
        part = Part(name, source, target, bert_subwords, unit, selection)
        logger.info(f"{split} {pair}: {len(part.units)} units, {part.sentences} sentences")
        if selection != ALL_UNITS:
            read = int(np.diff(part.units.lines[:, 3]).sum())
            logger.info(f"{name}: {read} of {part.sentences} sentences are read in training")
        return part

    def _source_lines(self, path: str) -> tuple[Any, Any | None]:
        if self.bert is None:
            return self._lines(path, self.source), None
        of_bert = UsedEntries(self.source.dictionary, len(self.bert.subwords.entries))
        subwords = self._lines(f"{path}.bert", of_bert)
        if self.bert.use == BERT_SUBWORDS:
            return subwords, None
        source = self._lines(path, self.source)
        check_sides(source.sizes == 1, subwords.sizes == 1, f"{path}.bert")
        return source, subwords

    def _lines(self, path: str, entries: UsedEntries) -> Any:
        folder, name = os.path.split(path)
        check_recorded(Path(folder), [f"{name}.bin", f"{name}.idx"], whole=False)
        return load_lines(path, entries.dictionary, entries.count)


def _check_named_once(folders: Sequence[str]) -> None:
    names: dict[Path, str] = {}
    for folder in folders:
        path = Path(folder).resolve()
        if path in names:
            raise GtransError(
                f"{names[path]}:{folder}: this is the same data folder twice; name it once, with "
                "a larger weight if it is mixed (`--mix`)."
            )
        names[path] = folder


def _joined(lines: Sequence[Any]) -> Any:
    if len(lines) == 1 or lines[0] is None:
        return lines[0]
    return ConcatDataset(lines)


@dataclass(frozen=True)
class SourceContexts:
    """Replacements of true contexts, in tokens of the dictionary ``source``."""

    cfg: Any
    source: Dictionary

    def text(self, bert: Optional[BertPart]) -> Optional[ContextText]:
        """Return the replacement that ``--context-kind`` asks for, or None."""
        kind = str(self.cfg.context_kind)
        if kind == "fixed":
            return ContextText(self._fixed())
        if kind != "random":
            return None
        if bert is not None and bert.use == BERT_SUBWORDS:
            words = bert.words
        else:
            words = self._words
        return ContextText(words=words, seed=int(self.cfg.seed))

    def _fixed(self) -> Tensor:
        """``(words + 1,)`` the fixed sentence."""
        text = str(self.cfg.context_sentence)
        for word in text.split():
            if self.source.index(word) == self.source.unk():
                raise GtransError(
                    f"`--context-sentence`: '{word}' is not in the dictionary of the source; give "
                    "tokens as they are in the prepared text, such as 'be@@ fore'."
                )
        ids: Tensor = self.source.encode_line(text, add_if_not_exist=False).long()
        return ids

    @cached_property
    def _words(self) -> DistinctWords:
        source = self.source
        no_text = [*range(source.nspecial), source.index(LOWER_TOKEN)]
        return training_words(self.cfg, source.symbols, source.eos(), no_text)
