"""Validation by translations (``--eval-bleu``), scored as by ``gtrans score``."""

from __future__ import annotations

import json
import logging
import os
import time
from argparse import Namespace
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.logging import metrics

from gtrans.data.examples import Example
from gtrans.errors import GtransError
from gtrans.evaluation.characters import is_written_without_spaces
from gtrans.evaluation.metrics import Corpus, Options, measure
from gtrans.languages import WITHOUT_SPACES, language_code
from gtrans.search.options import DecodingOptions, SearchOptions
from gtrans.tasks.parts import Batch, TaskPart
from gtrans.text.prepared_folder import plain_text
from gtrans.text.reader import read_documents
from gtrans.translating.output import best_of
from gtrans.translating.translator import EncodedSentence, Translator

logger = logging.getLogger(__name__)

SCORES = ("s_bleu", "d_bleu", "chrf")
_FLAG = "--eval-bleu-args"
_MAX_TOKENS = "max_tokens"  # the flag of `gtrans translate` besides those of the search


def how_to_translate(arguments: str) -> DecodingOptions:
    """Return the options in ``--eval-bleu-args``; raise GtransError for others."""
    given = {}
    try:
        for name, value in json.loads(arguments).items():
            given[name.replace("-", "_")] = value
    except (ValueError, AttributeError):
        raise GtransError(
            f"`{_FLAG}` must be JSON such as '{{\"beam\": 1}}', but is {arguments}."
        ) from None
    names = []
    for option in fields(SearchOptions):
        if option.metadata["help"] and option.name != "free":
            names.append(option.name)
    names.append(_MAX_TOKENS)
    for name in given:
        if name not in names:
            raise GtransError(f"`{_FLAG}`: there is no '{name}', only {', '.join(names)}.")
    options = DecodingOptions(paths=())
    try:
        most = int(given.pop(_MAX_TOKENS, options.max_tokens))
        search = SearchOptions.from_flags(Namespace(**given))
        return replace(options, search=search, max_tokens=most)
    except (ValueError, TypeError) as error:
        raise GtransError(f"`{_FLAG}` {arguments}: {error}") from None


def _reference(cfg: Any, split: str) -> Path | None:
    """Return the plain reference of a validation set that is translated."""
    subsets = str(cfg.valid_subset).split(",")
    if cfg.eval_bleu_reference:
        subsets = subsets[:1]
    if split not in subsets:
        return None
    if cfg.eval_bleu_reference:
        return Path(str(cfg.eval_bleu_reference))
    folder = str(cfg.data).split(os.pathsep)[0]
    path = Path(folder) / plain_text(split, str(cfg.target_lang))
    if not path.is_file():
        raise GtransError(
            f"{path}: '{folder}' has no plain text of '{split}'; give it with "
            "`--eval-bleu-reference FILE`, or type the `gtrans prepare` of the folder again."
        )
    return path


class _ValidationSet(NamedTuple):
    """``references``: of the documents that are translated."""

    dataset: Any
    references: list[list[str]]


class EvalBleu(TaskPart):
    """Logs the scores of validation documents, which all processes translate."""

    def __init__(self, task: Any, model: Any) -> None:
        self._task = task
        self._model = model
        self._pipeline = task.pipeline(str(task.cfg.target_lang))
        self._options = how_to_translate(task.cfg.eval_bleu_args)
        self._translator: Translator | None = None
        self._sets: dict[str, _ValidationSet] = {}
        self._due = ""

    def loaded(self, split: str, dataset: Any) -> None:
        """Read the reference of a validation set."""
        cfg = self._task.cfg
        path = _reference(cfg, split)
        if path is None:
            return
        references = read_documents(path)
        has = [len(document) for document in references]
        wanted = _sizes(dataset)
        if has != wanted:
            raise GtransError(
                f"{path}: it has {sum(has)} sentences in {len(has)} documents, but '{split}' has "
                f"{sum(wanted)} in {len(wanted)}; give the plain text that '{split}' was made from "
                "(`--eval-bleu-reference`)."
            )
        if cfg.eval_bleu_documents:
            references = references[: int(cfg.eval_bleu_documents)]
        self._sets[split] = _ValidationSet(dataset, references)

    def begin_batches(self, dataset: Any, workers: int, epoch: int) -> None:
        """Remember which set is validated next."""
        for name, validation_set in self._sets.items():
            if validation_set.dataset is dataset:
                self._due = name
                return

    def after_batch(self, batch: Batch) -> None:
        """With the first batch of a validation, translate and log scores."""
        if batch.phase != "valid" or not self._due:
            return
        for key, score in self._scores(self._due).items():
            metrics.log_scalar(key, score)
        self._due = ""

    def _scores(self, name: str) -> dict[str, float]:
        begin = time.monotonic()
        dataset, references = self._sets[name]
        documents = self._translate(dataset, len(references))
        lang = language_code(str(self._task.cfg.target_lang)) or ""
        without_spaces = lang in WITHOUT_SPACES or is_written_without_spaces(references)
        options = Options(target_lang=lang, without_spaces=without_spaces)
        chunks = [[range(len(document))] for document in references]
        corpus = Corpus(references, chunks)
        measurements = measure(corpus, {"": documents}, SCORES, options)
        sentences = sum(len(document) for document in references)
        logger.info(
            f"{name}: {len(references)} documents with {sentences} sentences translated and scored "
            f"in {time.monotonic() - begin:.1f} seconds"
        )
        if self._task.cfg.eval_bleu_print_samples:
            translation = " ".join(documents[0])
            reference = " ".join(references[0])
            logger.info(f"translation of the first document of {name}: {translation}")
            logger.info(f"reference of the first document of {name}: {reference}")
        return {key: measurement.score("") for key, measurement in measurements.items()}

    def _translate(self, dataset: Any, count: int) -> list[list[str]]:
        if self._translator is None:  # the model is on its device only now
            options = self._options
            self._translator = Translator(
                [self._model],
                self._task,
                self._pipeline.decode,
                options.search,
                options.max_tokens,
            )
        translator = self._translator
        cut = translator.cut(_documents(dataset))
        documents = [rows for rows in cut if rows]
        del documents[count:]
        texts = self._decode(translator, list(chain.from_iterable(documents)))
        translations: list[list[str]] = []
        end = 0
        for rows in documents:
            begin, end = end, end + len(rows)
            translations.append(list(chain.from_iterable(texts[begin:end])))
        return translations

    def _decode(self, translator: Translator, examples: list[Example]) -> list[list[str]]:
        """Return the translations of each row, from all processes."""
        processes, rank = 1, 0
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            processes = torch.distributed.get_world_size()
            rank = torch.distributed.get_rank()
        batches = translator.batches(examples)
        own: dict[int, list[str]] = {}
        for batch in batches[rank::processes]:
            rows = [examples[index] for index in batch]
            try:
                texts = best_of(translator.decode(rows))
            except torch.cuda.OutOfMemoryError:
                raise GtransError(
                    f"`--eval-bleu`: out of memory on the GPU, with {len(batch)} rows at once; "
                    f"give a smaller beam or max_tokens with `{_FLAG}` (they are "
                    f"{self._options.search.beam} and {self._options.max_tokens})."
                ) from None
            own.update(zip(batch, texts, strict=True))
        states: list[dict[int, list[str]]] = [own]
        if processes > 1:
            states = [{} for _ in range(processes)]
            torch.distributed.all_gather_object(states, own)
        translations = {}
        for state in states:
            translations.update(state)
        return [translations[index] for index in range(len(examples))]


def _sizes(dataset: Any) -> list[int]:
    is_boundary = np.asarray(dataset.source.sizes) == 1
    with_ends = np.concatenate([[True], is_boundary, [True]])
    boundaries = np.flatnonzero(with_ends)
    sizes = np.diff(boundaries) - 1
    return [int(size) for size in sizes if size]


def _documents(dataset: Any) -> list[list[EncodedSentence]]:
    """Return the documents of a dataset, empty ones where two boundaries meet."""
    source, subwords = dataset.source, dataset.bert_subwords
    documents: list[list[EncodedSentence]] = [[]]
    for number in range(len(source)):
        ids = source[number].long()
        if ids.numel() > 1:
            own = None if subwords is None else subwords[number].long()
            documents[-1].append(EncodedSentence(ids, own))
        else:
            documents.append([])
    return documents
