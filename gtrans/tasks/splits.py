"""Binarised splits of a data folder."""

import logging
import os
import re
from pathlib import Path
from typing import Any, Optional

import numpy as np
from fairseq.data import Dictionary

from gtrans.data.binarised import load_lines
from gtrans.data.document_dataset import DocumentDataset
from gtrans.data.document_units import Units, check_sides, document_units
from gtrans.data.examples import ExampleBuilder
from gtrans.data.selection import WHOLE
from gtrans.data.stream import StreamDataset
from gtrans.data.units import Unit
from gtrans.errors import GtransError
from gtrans.models.base.contract import BERT_PIECES
from gtrans.tasks.options import data_folders, stream_options
from gtrans.tasks.parts.bert import BertPart
from gtrans.tasks.run_options import selection_of
from gtrans.tasks.split_files import has_side, split_pair
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
    sides = [target, source if bert is None or bert.use != BERT_PIECES else f"{source}.bert"]
    if bert is not None and bert.use != BERT_PIECES:
        sides.append(f"{source}.bert")
    found: list[Path] = []
    for folder in data_folders(cfg):
        pair = split_pair(folder, cfg.train_subset, source, target)
        # fairseq also reads parts of a split, whose names end with a number.
        names = re.compile(
            rf"{re.escape(cfg.train_subset)}\.{re.escape(pair)}\."
            rf"({'|'.join(map(re.escape, sides))})\d*(\.bin|\.idx|)"
        )
        found += sorted(path for path in Path(folder).iterdir() if names.fullmatch(path.name))
    return found


class SplitReader:
    """Reads splits of a data folder as the units of a task."""

    def __init__(
        self,
        cfg: Any,
        dictionaries: tuple[Dictionary, Dictionary],
        words: tuple[int, int],
        bert: Optional[BertPart],
        combine: bool,
    ) -> None:
        """Read for a task.

        Args:
            cfg: options of the task.
            dictionaries: of source and target.
            words: how many symbols of each the corpus may have.
            bert: the part of the task that reads a BERT, or None.
            combine: join the numbered parts of a split, as fairseq does.
        """
        self._cfg = cfg
        self._source, self._target = zip(dictionaries, words, strict=True)
        self._bert = bert
        self._combine = combine

    def read(
        self,
        folder: str,
        split: str,
        examples: ExampleBuilder,
        training: bool,
        longest: tuple[int, int],
    ) -> DocumentDataset:
        """A split in units.

        Args:
            folder: the data folder.
            split: name of the split.
            examples: how units become rows.
            training: it is the training set.
            longest: most tokens of a unit that the model can read, on both sides.

        Raises:
            GtransError: missing files, sides that do not match, units that are too long, or
                sentence marks in the text.
        """
        source_lang, target_lang = self._cfg.source_lang, self._cfg.target_lang
        pair = split_pair(folder, split, source_lang, target_lang)
        name = str(Path(folder) / f"{split}.{pair}")
        source, word_pieces = self._read_source(f"{name}.{source_lang}")
        target = None
        if training or has_side(folder, split, pair, target_lang):
            target = self._lines(f"{name}.{target_lang}", self._target)
        target_sizes = None if target is None else target.sizes
        selection = selection_of(self._cfg) if training else WHOLE
        units = document_units(source.sizes, target_sizes, examples.unit, name, selection)
        if self._bert is not None and word_pieces is not None:
            check_sides(source.sizes == 1, word_pieces.sizes == 1, f"{name}.{source_lang}.bert")
            self._bert.report_cut(word_pieces.sizes, units, name)
        sentences = int((source.sizes > 1).sum())
        logger.info("%s %s: %d units, %d sentences", split, pair, len(units), sentences)
        if selection != WHOLE:
            written = int((units.current.end - units.current.begin).sum())
            logger.info("%s: %d of %d sentences are read in training", name, written, sentences)
        if training and examples.unit.trained_in_runs:
            options = stream_options(self._cfg)
            return StreamDataset(source, target, units, examples, options=options)
        redraw = training and bool(self._cfg.context_redraw)
        if redraw and examples.unit.neighbours != "random":
            raise GtransError(
                "`--context-redraw` needs `--context-kind random`, but the context is "
                f"{examples.unit.neighbours}."
            )
        recut = None
        if training and self._cfg.recut:
            self._check_recut(examples.unit)
            sizes, seed = (source.sizes, target_sizes), int(self._cfg.seed)

            def recut(epoch: int) -> Units:
                draw = np.random.default_rng([seed, epoch])
                return document_units(*sizes, examples.unit, name, selection, draw)

        dataset = DocumentDataset(
            source, target, units, examples, training, word_pieces, redraw, recut
        )
        dataset.check_lengths(longest, name)
        return dataset

    def _check_recut(self, unit: Unit) -> None:
        """Raises GtransError for units or a sample that cannot be cut anew."""
        if unit.name != "document":
            raise GtransError(
                f"`--recut` is for the unit document, but this is the unit {unit.name}; leave it "
                "out."
            )
        if self._cfg.sample_instances:
            raise GtransError(
                "`--recut` makes other instances in every epoch, so `--sample-instances` cannot "
                "choose among them; give `--sample-documents`."
            )

    def _read_source(self, path: str) -> tuple[Any, Any | None]:
        """The source lines, and their word pieces if the model reads both."""
        if self._bert is None:
            return self._lines(path, self._source), None
        pieces = self._source[0], len(self._bert.pieces.symbols)
        word_pieces = self._lines(f"{path}.bert", pieces)
        if self._bert.use == BERT_PIECES:
            return word_pieces, None
        return self._lines(path, self._source), word_pieces

    def _lines(self, path: str, symbols: tuple[Dictionary, int]) -> Any:
        folder, name = os.path.split(path)
        check_recorded(Path(folder), [f"{name}.bin", f"{name}.idx"], whole=False)
        return load_lines(path, *symbols, self._cfg.dataset_impl, self._combine)
