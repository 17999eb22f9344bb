"""Binarised splits of a data folder, and what contexts are replaced by."""

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
from gtrans.data.context_text import ContextText, Words
from gtrans.data.document_dataset import DocumentDataset
from gtrans.data.documents import check_sides
from gtrans.data.examples import ExampleBuilder
from gtrans.data.stream import StreamDataset
from gtrans.data.units import WHOLE, Selection, Unit, Units, document_units
from gtrans.errors import GtransError
from gtrans.models.base.model import BERT_SUBWORDS
from gtrans.tasks.data_folders import data_folders, has_side, split_pair, training_words
from gtrans.tasks.options import mix_weights, stream_options
from gtrans.tasks.parts.bert import BertPart
from gtrans.text.moses import LOWER_TOKEN
from gtrans.text.prepared_folder import check_recorded

logger = logging.getLogger(__name__)


def training_files(cfg: Any, bert: Optional[BertPart]) -> list[Path]:
    """The files that a task reads in training, folder by folder.

    Args:
        cfg: options of the task.
        bert: the part of the task that reads a BERT, or None.

    Raises:
        GtransError: there is no such split.
    """
    source, target = str(cfg.source_lang), str(cfg.target_lang)
    sides = [target, source if bert is None or bert.use != BERT_SUBWORDS else f"{source}.bert"]
    if bert is not None and bert.use != BERT_SUBWORDS:
        sides.append(f"{source}.bert")
    files: list[Path] = []
    for folder in data_folders(cfg):
        pair = split_pair(folder, cfg.train_subset, source, target)
        # fairseq also reads parts of a split, whose names end with a number.
        names = re.compile(
            rf"{re.escape(cfg.train_subset)}\.{re.escape(pair)}\."
            rf"({'|'.join(map(re.escape, sides))})\d*(\.bin|\.idx|)"
        )
        files += sorted(path for path in Path(folder).iterdir() if names.fullmatch(path.name))
    return files


@dataclass(frozen=True)
class Part:
    """The lines of a split in one folder.

    Attributes:
        name: of it in messages.
        source, target, bert_subwords: indexed datasets of its lines; the last two may be missing.
        unit: how documents are cut.
        selection: which of them are read.
    """

    name: str
    source: Any
    target: Any | None
    bert_subwords: Any | None
    unit: Unit
    selection: Selection

    @cached_property
    def units(self) -> Units:
        """Its units."""
        target = None if self.target is None else self.target.sizes
        return document_units(self.source.sizes, target, self.unit, self.name, self.selection)

    @property
    def sentences(self) -> int:
        """How many it has."""
        return int((self.source.sizes > 1).sum())


def mixed(parts: Sequence[Part], weights: Sequence[float], seed: int, epoch: int) -> Units:
    """The units of an epoch that reads each part so often as its weight says.

    A weight of 2.5 reads all units twice and half of them once more, drawn anew in every epoch.
    Where this is no whole number of units, one more is drawn so often that the weight is right over
    many epochs. The draw depends on the seed, the epoch and the place of the part alone.

    Args:
        parts: of the training set; the units are in the lines of all of them behind each other.
        weights: of each part.
        seed: of the run.
        epoch: the number of the epoch.

    Raises:
        GtransError: there can be epochs without any unit.
    """
    lines = sentences = 0
    drawn = []
    for number, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        draw = np.random.default_rng([seed, epoch, number])
        units = part.units
        times = int(weight)
        share = (weight - times) * len(units)
        count = int(share) + int(draw.random() < share % 1)
        some = draw.permutation(len(units))[:count]
        chosen = np.concatenate([np.tile(np.arange(len(units)), times), np.sort(some)])
        drawn.append(units.take(chosen).shifted(lines, sentences))
        logger.info("epoch %d: %d units of %s", epoch, len(chosen), part.name)
        lines, sentences = lines + len(part.source), sentences + part.sentences
    if not any(int(w * len(part.units)) for part, w in zip(parts, weights, strict=True)):
        there_are = " and ".join(str(len(part.units)) for part in parts)
        raise GtransError(
            f"`--mix {':'.join(f'{weight:g}' for weight in weights)}`: of {there_are} units an "
            "epoch would have none; give larger weights."
        )
    return Units.joined(drawn)


@dataclass(frozen=True)
class SplitReader:
    """Reads splits of data folders as the units of a task.

    Attributes:
        cfg: options of the task.
        dictionaries: of source and target, each with how many of its entries the corpus may have.
        bert: the part of the task that reads a BERT, or None.
    """

    cfg: Any
    dictionaries: tuple[tuple[Dictionary, int], tuple[Dictionary, int]]
    bert: Optional[BertPart]

    def read(
        self, split: str, examples: ExampleBuilder, longest: tuple[int, int], epoch: int
    ) -> DocumentDataset:
        """A split in units; training reads all folders, mixed or in turns, others the first.

        Args:
            split: name of the split.
            examples: how units become rows.
            longest: most tokens of a unit that the model can read, on both sides.
            epoch: the one that is next.

        Raises:
            GtransError: missing files, sides that do not match, units that are too long,
                special tokens in the text, or weights that do not fit the folders.
        """
        cfg, unit, folders = self.cfg, examples.unit, data_folders(self.cfg)
        training = split == cfg.train_subset
        weights = mix_weights(cfg) if training and cfg.mix is not None else []
        if weights and unit.trained_in_runs:
            raise GtransError(
                f"`--mix {cfg.mix}` is not for the unit {unit.name}, which takes whole documents "
                "one after the other; leave it out, so that folders take turns."
            )
        if training:
            _check_named_once(folders)
        if not weights:
            folders = [folders[(epoch - 1) % len(folders) if training else 0]]
        parts = [self._read(folder, split, unit, training) for folder in folders]
        source = _joined([part.source for part in parts])
        target = _joined([part.target for part in parts])
        bert_subwords = _joined([part.bert_subwords for part in parts])
        dataset: DocumentDataset
        if training and unit.trained_in_runs:
            options = stream_options(cfg)
            dataset = StreamDataset(source, target, parts[0].units, examples, options=options)
        else:
            units, in_epoch = parts[0].units, None
            if weights:
                in_epoch = partial(mixed, parts, weights, int(cfg.seed))
                units = in_epoch(1)
            dataset = DocumentDataset(
                source, target, units, examples, training, bert_subwords, in_epoch
            )
        dataset.check_lengths(longest, " and ".join(part.name for part in parts))
        return dataset

    def _read(self, folder: str, split: str, unit: Unit, training: bool) -> Part:
        """The lines of a split, cut into units."""
        cfg, bert = self.cfg, self.bert
        pair = split_pair(folder, split, cfg.source_lang, cfg.target_lang)
        name = str(Path(folder) / f"{split}.{pair}")
        source_dictionary, target_dictionary = self.dictionaries
        source: Any = None
        target = bert_subwords = None
        if bert is not None:
            entries = source_dictionary[0], len(bert.subwords.entries)
            bert_subwords = self._lines(f"{name}.{cfg.source_lang}.bert", entries)
        if bert is not None and bert.use == BERT_SUBWORDS:
            source, bert_subwords = bert_subwords, None
        else:
            source = self._lines(f"{name}.{cfg.source_lang}", source_dictionary)
        if training or has_side(folder, split, pair, cfg.target_lang):
            target = self._lines(f"{name}.{cfg.target_lang}", target_dictionary)
        selection = WHOLE
        if training:
            selection = Selection(cfg.min_doc_tokens, cfg.sample_instances)
        part = Part(name, source, target, bert_subwords, unit, selection)
        if bert_subwords is not None:
            check_sides(
                source.sizes == 1, bert_subwords.sizes == 1, f"{name}.{cfg.source_lang}.bert"
            )
        logger.info("%s %s: %d units, %d sentences", split, pair, len(part.units), part.sentences)
        if selection != WHOLE:
            read = int(np.diff(part.units.lines[:, 3]).sum())
            logger.info(f"{name}: {read} of {part.sentences} sentences are read in training")
        return part

    def _lines(self, path: str, entries: tuple[Dictionary, int]) -> Any:
        folder, name = os.path.split(path)
        check_recorded(Path(folder), [f"{name}.bin", f"{name}.idx"], whole=False)
        return load_lines(path, *entries)


def _check_named_once(folders: Sequence[str]) -> None:
    """Raises GtransError for a data folder that is named twice."""
    known: dict[Path, str] = {}
    for folder in folders:
        place = Path(folder).resolve()
        if place in known:
            raise GtransError(
                f"{known[place]}:{folder}: this is the same data folder twice; name it once, with "
                "a larger weight if it is mixed (`--mix`)."
            )
        known[place] = folder


def _joined(lines: Sequence[Any]) -> Any:
    """The lines of several parts, one part after the other; None if they have none."""
    return lines[0] if len(lines) == 1 or lines[0] is None else ConcatDataset(lines)


@dataclass(frozen=True)
class SourceContexts:
    """The replacements in tokens of the dictionary ``source``; ``cfg``: options of the task."""

    cfg: Any
    source: Dictionary

    def text(self, bert: Optional[BertPart]) -> Optional[ContextText]:
        """The replacement that the options ask for; None: the true context, or none.

        Args:
            bert: the part of the task that reads a BERT, or None.

        Raises:
            GtransError: random words, but the data folder has no training text; or a fixed
                sentence with a word that is not in the dictionary.
        """
        kind = str(self.cfg.context_kind)
        if kind == "fixed":
            return ContextText(self._fixed())
        if kind != "random":
            return None
        subwords = bert is not None and bert.use == BERT_SUBWORDS
        words = bert.words if bert is not None and subwords else self._words
        return ContextText(words=words, seed=int(self.cfg.seed))

    def _fixed(self) -> Tensor:
        """``(words + 1,)`` the sentence of ``--context-sentence``."""
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
    def _words(self) -> Words:
        no_text = [*range(self.source.nspecial), self.source.index(LOWER_TOKEN)]
        return training_words(self.cfg, self.source.symbols, self.source.eos(), no_text)
