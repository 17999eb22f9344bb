"""What a task does for models that read BERT's word pieces.

A model class says by ``reads_bert(cfg)`` what it needs:

* ``features``: with every batch the output of the frozen BERT on each row's context and
  sentence. The task owns that BERT, and keeps what it has computed on disk.
* ``pieces``: the source in word pieces instead of the corpus's own tokens, because the
  model's encoder is a BERT itself.
"""

import atexit
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from omegaconf import open_dict
from torch import Tensor

from gtrans.data.document_dataset import Units
from gtrans.data.feature_cache import FeatureCache
from gtrans.data.rows import ContextText, PieceRows
from gtrans.errors import GtransError
from gtrans.modules.bert import PAD, BertWeights, FrozenBert
from gtrans.optim.two_rate_adam import mark_pretrained
from gtrans.tasks._options import data_folders
from gtrans.text.prepared_folder import load_pipeline
from gtrans.text.word_piece_stream import recorded_pieces

logger = logging.getLogger(__name__)

FEATURES, PIECES = "features", "pieces"
_CACHE_FOLDER = "bert-features"
# Training windows whose features are measured before the first update, and how many at once.
_MEASURED, _MEASURED_AT_ONCE = 2048, 256
# An interruption costs no more of BERT's work than that.
_FLUSH_SECONDS = 60


def bert_use(model: Any, cfg: Any) -> str | None:
    """What a model of class ``model`` with options ``cfg`` needs of a BERT: see the module."""
    asked = getattr(model, "reads_bert", None)
    use: str | None = asked(cfg) if asked else None
    return use


class BertInput:
    """The BERT that a data folder was prepared with, as a task uses it.

    Attributes:
        use: ``features`` or ``pieces``.
        pieces: its tokenizer.
    """

    def __init__(self, use: str, data: str, cfg: Any) -> None:
        """``cfg``: options of the task.

        Raises:
            GtransError: the folder was prepared without BERT, or its BERT is not there.
        """
        self.use = use
        self.data = data
        self.pieces = recorded_pieces(data)
        self._cfg = cfg
        self._flushed = time.monotonic()

    @cached_property
    def frozen(self) -> FrozenBert:
        """The BERT whose output is read."""
        return FrozenBert(self.pieces)

    @cached_property
    def _cache(self) -> FeatureCache:
        folder = Path(self._cfg.bert_cache or Path(self.data) / _CACHE_FOLDER)
        limit = int(self._cfg.bert_cache_gb * 2**30)
        cache = FeatureCache(folder, self.frozen.fingerprint, limit)
        atexit.register(cache.flush)
        return cache

    @property
    def traits(self) -> dict[str, Any]:
        """What a checkpoint says of the BERT it was trained with."""
        if self.use == FEATURES:
            return {"bert_dim": self.frozen.dim, "bert_fingerprint": self.frozen.fingerprint}
        return {
            "bert_pieces": self.pieces.fingerprint,
            "bert_positions": self.pieces.longest,
            "bert_norm_eps": self.pieces.norm_eps,
        }

    def check(self, cfg: Any) -> None:
        """Raises GtransError when the checkpoint with model options ``cfg`` had another BERT."""
        for name, here in self.traits.items():
            trained = cfg.get(name)
            if trained is not None and trained != here:
                which = (
                    f"of width {trained}, that of '{self.data}' ({self.pieces.name}) has {here}"
                    if name == "bert_dim"
                    else f"that is not the one of '{self.data}' ({self.pieces.name})"
                )
                raise self._another(which)

    @staticmethod
    def _another(which: str) -> GtransError:
        return GtransError(
            f"the checkpoint was trained with a BERT {which}; give the folder it was trained with."
        )

    # ----------------------------------------------------------------- pieces

    def become_source(self, dictionary: Dictionary) -> None:
        """Turn ``dictionary`` into that of the word pieces, in place."""
        symbols = self.pieces.symbols
        dictionary.symbols[:] = symbols
        dictionary.count[:] = [1] * len(symbols)
        dictionary.indices.clear()
        dictionary.indices.update({symbol: number for number, symbol in enumerate(symbols)})

    def encode(self, sentence: str) -> str:
        """Word pieces of a plain sentence, between spaces."""
        (ids,) = self.pieces.encode([sentence])
        return " ".join(self.pieces.symbols[number] for number in ids[:-1].tolist())

    # --------------------------------------------------------------- features

    @cached_property
    def rows(self) -> PieceRows:
        """How rows ``[CLS] context [SEP] sentence [SEP]`` are made."""
        pieces, cfg = self.pieces, self._cfg
        context = None
        if cfg.context_kind in ("fixed", "random"):
            fixed = torch.empty(0, dtype=torch.long)
            if cfg.context_kind == "fixed":
                pipeline = load_pipeline(self.data, str(cfg.source_lang))
                (fixed,) = pieces.encode([pipeline.decode(str(cfg.context_sentence))])
            words = pieces.first_word, len(pieces.symbols)
            context = ContextText(words, fixed, int(cfg.seed))
        return PieceRows(pieces.longest, context)

    def report_cut(self, sizes: Any, units: Units, name: str) -> None:
        """Say how many windows lose part of their context; ``sizes (lines,)`` of the stream."""
        before = np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64) - 1)])
        length = before[units.lines[:, 1]] - before[units.lines[:, 0]] + 3
        cut = int((length > self.pieces.longest).sum())
        if cut:
            logger.info(
                "%s: %d of %d windows have more than the %d word pieces that BERT reads at once; "
                "they lose the oldest part of their context",
                name, cut, len(units), self.pieces.longest,
            )  # fmt: skip

    def with_features(self, net_input: Mapping[str, Any]) -> dict[str, Any]:
        """``net_input`` with ``context_states`` and ``context_lengths`` instead of ``pieces``."""
        found = dict(net_input)
        padded: Tensor = found.pop("pieces")
        device = padded.device
        rows = [row[row.ne(PAD)] for row in padded.cpu()]
        cache = self._cache
        keys = [cache.key(row) for row in rows]
        features = cache.get(keys)
        missing = {keys[n]: rows[n] for n, known in enumerate(features) if known is None}
        if missing:
            computed = dict(
                zip(missing, self.frozen(list(missing.values()), device), strict=True)
            )
            for key, states in computed.items():
                cache.put(key, states)
            features = [
                computed[key] if known is None else known
                for key, known in zip(keys, features, strict=True)
            ]
            if time.monotonic() - self._flushed > _FLUSH_SECONDS:
                self.flush()
        states = torch.cat([one for one in features if one is not None])
        lengths = torch.tensor([len(row) for row in rows])
        found["context_states"] = states.to(device).float()
        found["context_lengths"] = lengths.to(device)
        return found

    def meet(self, model: Any, dataset: Any) -> None:
        """Before an epoch: let a new ``model`` measure features, check one that has.

        Args:
            model: one that reads features.
            dataset: what it is trained on. Every process of a run looks at the same units.

        Raises:
            GtransError: the parameters are those of a model that has read another BERT.
        """
        whitening = model.whitening
        if whitening.measured_on is None:
            features = self._features_of(dataset, whitening.mean.device)
            whitening.measure(features, self.frozen.fingerprint)
        elif whitening.measured_on != self.frozen.fingerprint:
            raise self._another(f"that is not the one of '{self.data}' ({self.pieces.name})")

    def _features_of(self, dataset: Any, device: torch.device) -> Iterator[Tensor]:
        chosen = np.unique(np.linspace(0, len(dataset) - 1, _MEASURED).astype(np.int64))
        logger.info("measuring BERT's output on %d units of the training set", len(chosen))
        for begin in range(0, len(chosen), _MEASURED_AT_ONCE):
            units = chosen[begin : begin + _MEASURED_AT_ONCE].tolist()
            batch = dataset.collater([dataset[unit] for unit in units])
            pieces = batch["net_input"]["pieces"].to(device)
            yield self.with_features({"pieces": pieces})["context_states"]

    def flush(self) -> None:
        """Write computed features to disk."""
        if self.use == FEATURES:
            self._cache.flush()
            self._flushed = time.monotonic()


class BertTask:
    """The part of a task that concerns BERT.

    Attributes:
        bert: what the model reads of a BERT; None where it reads none.
    """

    cfg: Any
    source_dictionary: Any
    bert: BertInput | None = None

    def _source_renewed(self) -> None:
        """Called when the source's dictionary has been replaced in place."""
        raise NotImplementedError

    def _use_bert(self, use: str | None, cfg: Any, from_checkpoint: bool) -> None:
        """Get what the model needs of a BERT."""
        if use is None:
            return
        self.bert = BertInput(use, data_folders(self.cfg)[0], self.cfg)
        if from_checkpoint:
            self.bert.check(cfg)
        else:
            with open_dict(cfg):
                cfg.update(self.bert.traits)
        if use == PIECES:
            self.bert.become_source(self.source_dictionary)
            self._source_renewed()

    def source_encoder(self) -> Any:
        """What turns plain text into tokens of the source (its ``encode``)."""
        if self.bert is not None and self.bert.use == PIECES:
            return self.bert
        return load_pipeline(data_folders(self.cfg)[0], str(self.cfg.source_lang))

    def word_pieces(self, sentences: Sequence[str]) -> list[Tensor] | None:
        """Plain sentences in BERT's word pieces, where a model reads them beside the source."""
        if self.bert is None or self.bert.use == PIECES:
            return None
        return self.bert.pieces.encode(sentences)

    def _start_from_bert(self, model: Any) -> None:
        """Make the encoder that BERT; a checkpoint that is resumed replaces it again."""
        if self.bert is not None and self.bert.use == PIECES:
            weights = BertWeights(self.bert.pieces)
            loaded = {f"encoder.{name}" for name in model.encoder.start_from(weights)}
            # For the optimizer two_rate_adam.
            mark_pretrained(model, {name for name, _ in model.named_parameters()} - loaded)
            logger.info("the encoder begins as the BERT %s", weights.name)

    def ready(self, net_input: Mapping[str, Any]) -> dict[str, Any]:
        """``net_input`` as models take it: BERT's output in the place of word pieces."""
        if self.bert is None or "pieces" not in net_input:
            return dict(net_input)
        return self.bert.with_features(net_input)

    def _meet_bert(self, model: Any, dataset: Any) -> None:
        if self.bert is not None and self.bert.use == FEATURES:
            self.bert.meet(model, dataset)

    def begin_valid_epoch(self, epoch: int, model: Any) -> None:
        """Keep what BERT has computed."""
        self._keep_features()

    def _keep_features(self) -> None:
        if self.bert is not None:
            self.bert.flush()

    def valid_step(
        self, sample: dict[str, Any], model: Any, criterion: Any
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """One batch, forward only."""
        ready = {**sample, "net_input": self.ready(sample["net_input"])}
        result: tuple[Tensor, int, dict[str, Any]]
        result = super().valid_step(ready, model, criterion)  # type: ignore[misc]
        return result
