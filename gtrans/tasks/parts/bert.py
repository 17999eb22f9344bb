"""BERT in a task: its output, cached on disk, or its subwords as the source."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from gtrans.data.context_text import ContextText, DistinctWords
from gtrans.data.examples import BertExamples
from gtrans.data.feature_cache import FeatureCache
from gtrans.errors import GtransError
from gtrans.models.base.model import BERT_FEATURES, BERT_SUBWORDS, DocumentModel
from gtrans.modules.bert import PAD, SEP, BertWeights, FrozenBert
from gtrans.optim.two_rate_adam import mark_pretrained
from gtrans.tasks.data_folders import training_words
from gtrans.tasks.parts import Batch, TaskPart
from gtrans.text.prepared_folder import load_pipeline, recorded_bert_subwords

logger = logging.getLogger(__name__)

_CACHE_FOLDER = "bert-features"
# Training windows whose features whitening is measured on, and how many of them in a batch.
_MEASURED, _MEASURED_AT_ONCE = 2048, 256


class BertPart(TaskPart):
    """The BERT that a data folder was prepared with.

    Attributes:
        use: :data:`~gtrans.models.base.model.BERT_FEATURES` or ``BERT_SUBWORDS``.
        subwords: the BERT's tokenizer.
    """

    def __init__(self, use: str, data: str, cfg: Any) -> None:
        self.use = use
        self.data = data
        self.subwords = recorded_bert_subwords(data)
        self._cfg = cfg

    @cached_property
    def frozen(self) -> FrozenBert:
        """The BERT whose output is read."""
        return FrozenBert(self.subwords)

    @cached_property
    def _cache(self) -> FeatureCache:
        folder = Path(self._cfg.bert_cache or Path(self.data) / _CACHE_FOLDER)
        cache = FeatureCache(folder, self.frozen.fingerprint)
        atexit.register(cache.flush)
        return cache

    @property
    def traits(self) -> dict[str, Any]:
        """Model options that record the BERT in a checkpoint."""
        if self.use == BERT_FEATURES:
            return {"bert_dim": self.frozen.dim, "bert_fingerprint": self.frozen.fingerprint}
        return {
            "bert_subwords": self.subwords.fingerprint,
            "bert_positions": self.subwords.longest,
            "bert_norm_eps": self.subwords.norm_eps,
        }

    def check(self, cfg: Any) -> None:
        """Raise GtransError for a model of another BERT."""
        for name, here in self.traits.items():
            trained = cfg.get(name)
            if trained not in (None, here):
                raise self._another(f": {name.removeprefix('bert_')} {trained}, not {here}")

    def _another(self, difference: str = "") -> GtransError:
        return GtransError(
            f"the checkpoint was trained with a BERT that is not the one of '{self.data}' "
            f"({self.subwords.name}){difference}; give the folder it was trained with."
        )

    # ----------------------------------------------------------------- subwords

    def become_source(self, dictionary: Dictionary) -> None:
        """Replace the entries of ``dictionary`` by BERT's subwords, in place."""
        entries = self.subwords.entries
        dictionary.symbols[:] = entries
        dictionary.count[:] = [1] * len(entries)
        dictionary.indices.clear()
        for number, entry in enumerate(entries):
            dictionary.indices[entry] = number

    def start(self, model: DocumentModel) -> None:
        """Initialise an encoder that is the BERT."""
        if self.use != BERT_SUBWORDS:
            return
        weights = BertWeights(self.subwords)
        loaded = model.start_from_bert(weights)
        # For the optimizer two_rate_adam.
        mark_pretrained(model, dict.fromkeys(loaded))
        logger.info("the encoder is initialised with the BERT %s", weights.name)

    def encode(self, sentence: str) -> str:
        """Return the subwords of a plain sentence, separated by spaces."""
        (ids,) = self.subwords.encode([sentence])
        entries = self.subwords.entries
        return " ".join(entries[number] for number in ids[:-1].tolist())

    def unsegment(self, subwords: str) -> str:
        """Return the text of subwords."""
        return subwords.replace(" ##", "").removeprefix("##")

    # --------------------------------------------------------------- features

    @cached_property
    def examples(self) -> BertExamples:
        """Builder of rows ``[CLS] context [SEP] sentence [SEP]``."""
        subwords = self.subwords
        cfg = self._cfg
        context = None
        if cfg.context_kind == "fixed":
            pipeline = load_pipeline(self.data, str(cfg.source_lang))
            sentence = pipeline.decode(str(cfg.context_sentence))
            (fixed,) = subwords.encode([sentence])
            context = ContextText(fixed)
        elif cfg.context_kind == "random":
            context = ContextText(words=self.words, seed=int(cfg.seed))
        return BertExamples(subwords.longest, context)

    @cached_property
    def words(self) -> DistinctWords:
        """The words of the training text, in subwords."""
        no_text = range(self.subwords.first_word)
        return training_words(self._cfg, self.subwords.entries, SEP, no_text, ".bert")

    def complete(self, net_input: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``net_input`` with BERT's output in place of ``bert_subwords (batch, subwords)``:

        ``context_states (context tokens, width)`` and ``context_lengths (batch,)``.
        """
        completed = dict(net_input)
        if "bert_subwords" not in completed:
            return completed
        padded: Tensor = completed.pop("bert_subwords")
        device = padded.device
        rows = [row[row.ne(PAD)] for row in padded.cpu()]
        features = self._features(rows, device)
        states = torch.cat(features)
        lengths = torch.tensor([len(row) for row in rows])
        completed["context_states"] = states.to(device).float()
        completed["context_lengths"] = lengths.to(device)
        return completed

    def _features(self, rows: list[Tensor], device: torch.device) -> list[Tensor]:
        """Return ``(subwords, width)`` for each row, cached or computed."""
        cache = self._cache
        keys = [cache.key(row) for row in rows]
        cached = cache.get(keys)
        missing = {}
        for key, row, features in zip(keys, rows, cached, strict=True):
            if features is None:
                missing[key] = row
        computed: dict[Any, Tensor] = {}
        if missing:
            outputs = self.frozen(list(missing.values()), device)
            computed = dict(zip(missing, outputs, strict=True))
            cache.put(computed)
        complete = []
        for key, features in zip(keys, cached, strict=True):
            if features is None:
                features = computed[key]
            complete.append(features)
        return complete

    def begin_epoch(self, epoch: int, model: Any, dataset: Any) -> None:
        """Measure the whitening of a new model, or check a resumed one's."""
        self.flush()
        whitening = model.bert_whitening
        if whitening is None:
            return
        if whitening.measured_on is None:
            self._measure(whitening, dataset)
        elif whitening.measured_on != self.frozen.fingerprint:
            raise self._another()

    def _measure(self, whitening: Any, dataset: Any) -> None:
        several = torch.distributed.is_available() and torch.distributed.is_initialized()
        if not several or torch.distributed.get_rank() == 0:
            features = self._features_of(dataset, whitening.mean.device)
            whitening.measure(features, self.frozen.fingerprint)
            self.flush()
        if several:
            for measured in whitening.buffers():
                torch.distributed.broadcast(measured, 0)

    def _features_of(self, dataset: Any, device: torch.device) -> Iterator[Tensor]:
        spread = np.linspace(0, len(dataset) - 1, _MEASURED)
        chosen = np.unique(spread.astype(np.int64))
        logger.info("measuring BERT's output on %d units of the training set", len(chosen))
        for begin in range(0, len(chosen), _MEASURED_AT_ONCE):
            units = chosen[begin : begin + _MEASURED_AT_ONCE].tolist()
            examples = [dataset[unit] for unit in units]
            # The data set's own batches have plans, too.
            batch = dataset.examples.collate(examples)
            subwords = batch["net_input"]["bert_subwords"].to(device)
            yield self.complete({"bert_subwords": subwords})["context_states"]

    def begin_validation(self) -> None:
        """Write the cache."""
        self.flush()

    def before_checkpoint(self) -> dict[Any, Any]:
        """Write the cache for a resumed run."""
        self.flush()
        return {}

    def before_batch(self, batch: Batch) -> Batch:
        """Return the batch with BERT's output."""
        completed = self.complete(batch.sample["net_input"])
        return replace(batch, sample={**batch.sample, "net_input": completed})

    def flush(self) -> None:
        """Write computed output to disk."""
        if self.use == BERT_FEATURES:
            self._cache.flush()
