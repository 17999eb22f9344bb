"""The models that are measured, and how they are trained and translate here."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from documents import Batch
from fairseq import models, utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.optim.adam import Adam
from fairseq.sequence_generator import SequenceGenerator
from measuring import CPU, Device, Size
from omegaconf import OmegaConf
from torch import Tensor, nn

from gtrans.data.frame import Frame
from gtrans.decoding.document_search import DocumentSearch, SearchVocabulary
from gtrans.decoding.options import SearchOptions

LONGEST = 1 << 15
BEAM = 5
GLOBAL_LAYERS = {f"{part}_global_layers": 2 for part in ("encoder", "decoder", "cross")}
# Options of a G-Transformer without global attention.
GROUP_ONLY = {f"{part}_top_attention": "group" for part in ("encoder", "decoder", "cross")}


def gtransformer(size: Size, dictionary: Dictionary, **options: Any) -> Any:
    """An untrained G-Transformer; 2 global layers in encoder, decoder and cross-attention."""
    torch.manual_seed(1)
    model = models.ARCH_MODEL_NAME_REGISTRY["gtransformer_tiny"]
    cfg = OmegaConf.structured(models.MODEL_DATACLASS_REGISTRY[model])
    shared = {"share_all_embeddings": True, "dropout": 0.1, "attention_dropout": 0.0}
    for key, value in {**size.options(), **shared, **GLOBAL_LAYERS, **options}.items():
        cfg[key] = value
    cfg._name = "gtransformer_tiny"
    return models.build_model(cfg, _task(dictionary))


def stock(size: Size, dictionary: Dictionary) -> nn.Module:
    """fairseq's own Transformer of the same sizes."""
    torch.manual_seed(1)
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.layers, side.embed_dim = size.layers, size.dim
        side.ffn_embed_dim, side.attention_heads = size.ffn, size.heads
    cfg.decoder.input_dim = cfg.decoder.output_dim = size.dim
    cfg.share_all_embeddings = True
    cfg.share_decoder_input_output_embed = True
    cfg.dropout, cfg.attention_dropout, cfg.activation_dropout = 0.1, 0.0, 0.0
    cfg.max_source_positions = cfg.max_target_positions = LONGEST
    model: nn.Module = TransformerModelBase.build_model(cfg, _task(dictionary))
    return model


def _task(dictionary: Dictionary) -> Any:
    return SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)


class Trainer:
    """Steps of training as fairseq makes them: loss, gradients, clipping, Adam."""

    def __init__(
        self,
        model: nn.Module,
        dictionary: Dictionary,
        device: Device = CPU,
        criterion: Any = LabelSmoothedCrossEntropyCriterion,
    ) -> None:
        self.model = device.model(model).train()
        self.device = device
        self.criterion = criterion(SimpleNamespace(target_dictionary=dictionary), False, 0.1)
        # A rate of almost nothing: half precision must survive without loss scaling.
        self.parameters = list(model.parameters())
        self.optimizer = Adam(self.parameters, lr=1e-7, betas=(0.9, 0.98))

    def step(self, batch: Batch) -> None:
        """One update."""
        loss, sample_size, _ = self.criterion(self.model, batch)
        loss.backward()
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad /= sample_size
        utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def steps(self, batches: list[Batch]) -> None:
        """One update on each of ``batches``."""
        for batch in batches:
            self.step(batch)

    def seconds(self, batches: list[Batch]) -> float:
        """Time of one update on each of ``batches``."""
        return self.device.seconds(partial(self.steps, batches))


class Endless:
    """A model that never ends a sentence by itself, so that all systems write equally much."""

    def __init__(self, model: Any, dictionary: Dictionary) -> None:
        self._model = model
        self._eos = dictionary.eos()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def decode_step(self, *arguments: Any, **named: Any) -> Tensor:
        """As the model does, the end symbol made improbable; ``(rows, symbols)``."""
        logits: Tensor = self._model.decode_step(*arguments, **named)
        logits[:, self._eos] = -1e4
        return logits


def marks_of(dictionary: Dictionary) -> tuple[Frame, SearchVocabulary]:
    """The marks around sentences, for batches and for the search."""
    bos, eos, pad = dictionary.bos(), dictionary.eos(), dictionary.pad()
    vocabulary = SearchVocabulary(bos, eos, pad, dictionary.unk(), (bos, pad))
    return Frame(bos, eos, pad), vocabulary


def equally_long(beam: int) -> SearchOptions:
    """Options of a search that makes each sentence as long as its source."""
    return SearchOptions(beam=beam, max_len_a=1, max_len_b=0)


def write_document(model: nn.Module, dictionary: Dictionary, source: Tensor) -> int:
    """Translate ``source (1, length)``; every sentence gets as many words as its source.

    Returns:
        the number of tokens of the translation.
    """
    _, vocabulary = marks_of(dictionary)
    ends = source[0].eq(dictionary.eos()).nonzero().flatten()
    words = ends.diff(prepend=ends.new_tensor([-1])) - 2  # ``<s>`` and ``</s>`` are no words
    search = DocumentSearch(vocabulary, equally_long(BEAM))
    found = search.search([Endless(model, dictionary)], {"src_tokens": source}, [words.tolist()])
    return len(found[0][0].tokens)


def write_sequences(
    model: nn.Module, dictionary: Dictionary, source: Tensor, words: int, beam: int = BEAM
) -> int:
    """Translate ``source (rows, length)`` with fairseq's generator, each into ``words`` words.

    Returns:
        the number of tokens of all translations.
    """
    generator = SequenceGenerator(
        [model], dictionary, beam_size=beam, max_len_a=0, max_len_b=words, min_len=words,
        max_len=LONGEST,
    )  # fmt: skip
    lengths = torch.full((source.size(0),), source.size(1), device=source.device)
    net_input = {"src_tokens": source, "src_lengths": lengths}
    found = generator.generate([model], {"net_input": net_input})
    return sum(len(row[0]["tokens"]) for row in found)
