"""What `benchmark.py` measures: one seeded text, and the models that read it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.optim.adam import Adam
from fairseq.sequence_generator import SequenceGenerator
from gtrans.data.examples import Frame, Rows
from omegaconf import OmegaConf
from torch import Tensor, nn

from gtrans.data.units import UnitOptions
from gtrans.decoding.document_search import (
    DocumentSearch,
    SearchOptions,
    SearchState,
    SearchVocabulary,
)
from gtrans.models.gtransformer import GTransformer, GTransformerConfig
from gtrans.models.memory_transformer import MemoryTransformer, MemoryTransformerConfig
from gtrans.modules.memory import MemoryFlow

Batch = dict[str, Any]
# A document: its sentences on both sides, ids without marks.
Document = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Size:
    """The sizes that all systems share."""

    layers: int = 6
    dim: int = 256
    heads: int = 8
    ffn: int = 1024
    vocabulary: int = 8000
    global_layers: int = 2


PAPER = Size()
TOY = Size(layers=2, dim=16, heads=2, ffn=32, vocabulary=50, global_layers=1)


def dictionary_of(size: Size) -> Dictionary:
    """A dictionary of ``size.vocabulary`` symbols, marks included."""
    symbols = Dictionary()
    for word in range(size.vocabulary - len(symbols)):
        symbols.add_symbol(f"w{word}")
    return symbols


def documents_of(words: int, count: int, dictionary: Dictionary, seed: int = 1) -> list[Document]:
    """``count`` documents of exactly ``words`` source words in sentences of about 25.

    Sentence lengths follow a gamma distribution of shape 3 between about 3 and 100, as
    those of news and speeches do; a target sentence has the length of its source times
    a factor around 1.
    """
    draw = np.random.default_rng(seed)

    def sentence(length: int) -> Tensor:
        return torch.from_numpy(draw.integers(dictionary.nspecial, len(dictionary), length))

    documents = []
    for _ in range(count):
        drawn = np.clip(draw.gamma(3.0, 1.0, max(round(words / 25), 1)), 0.36, 12.0)
        lengths = (drawn * words / drawn.sum()).astype(int)
        lengths[: words - lengths.sum()] += 1  # what rounding left out
        factors = draw.lognormal(0.0, 0.15, len(lengths))
        documents.append(
            [
                (sentence(length), sentence(max(round(length * factor), 1)))
                for length, factor in zip(lengths, factors, strict=True)
            ]
        )
    return documents


def source_words(documents: list[Document]) -> int:
    """Words on the source side, marks not counted."""
    return sum(len(source) for document in documents for source, _ in document)


def target_words(documents: list[Document]) -> int:
    """Words on the target side, marks not counted."""
    return sum(len(target) for document in documents for _, target in document)


def document_batches(
    documents: list[Document], dictionary: Dictionary, words: int
) -> list[Batch]:
    """Batches of documents ``<s> .. </s> <s> .. </s>`` of ``words`` words, at least one each."""
    frame = Frame(dictionary.bos(), dictionary.eos(), dictionary.pad())
    end = torch.tensor([dictionary.eos()])
    batches: list[Batch] = []
    begin = 0
    while begin < len(documents):
        last, filled = begin + 1, source_words(documents[begin : begin + 1])
        while last < len(documents) and filled < words:
            filled += source_words(documents[last : last + 1])
            last += filled <= words
        sources, inputs, targets = [], [], []
        for document in documents[begin:last]:
            sources.append(frame.source([torch.cat([source, end]) for source, _ in document]))
            given, wanted = frame.target([torch.cat([target, end]) for _, target in document])
            inputs.append(given)
            targets.append(wanted)
        batches.append(_batch(*(_padded(rows, frame.pad) for rows in (sources, inputs, targets))))
        begin = last
    return batches


def _padded(rows: list[Tensor], pad: int) -> Tensor:
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=float(pad))


def _batch(source: Tensor, given: Tensor, target: Tensor) -> Batch:
    return {
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((len(source),), source.size(1)),
            "prev_output_tokens": given,
        },
        "target": target,
        "ntokens": target.numel(),
    }


def sentence_batches(
    documents: list[Document], dictionary: Dictionary, words: int, sample: int | None = None
) -> list[Batch]:
    """The same sentences as stock fairseq batches them: sorted by length, its own frame.

    Args:
        documents: a text; the larger it is, the less padding is in its batches.
        dictionary: of both sides.
        words: words and padding of a batch.
        sample: so many batches, evenly spaced from the shortest sentences to the
            longest (None: all).
    """
    end = torch.tensor([dictionary.eos()])
    pairs = [pair for document in documents for pair in document]
    sides = [[torch.cat([pair[i], end]) for pair in pairs] for i in (0, 1)]
    sizes = [np.array([len(line) for line in side]) for side in sides]
    dataset = LanguagePairDataset(
        sides[0], sizes[0], dictionary, sides[1], sizes[1], dictionary, shuffle=False
    )
    lengths = np.maximum(*sizes) - 1  # words, as in batches of documents
    order = dataset.ordered_indices()
    batches = data_utils.batch_by_size(
        order,
        num_tokens_fn=lambda index: int(lengths[index]),
        num_tokens_vec=lengths[order],
        max_tokens=words,
    )
    if sample is not None and sample < len(batches):
        middles = (np.arange(sample) + 0.5) * len(batches) / sample
        batches = [batches[int(middle)] for middle in middles]
    return [dataset.collater([dataset[index] for index in batch]) for batch in batches]


def gtransformer(size: Size, dictionary: Dictionary, **options: Any) -> GTransformer:
    """Our model; ``options`` are those of :class:`GTransformerConfig`."""
    sides = ("encoder", "decoder")
    settings: dict[str, Any] = {
        "encoder_embed_dim": size.dim,
        **{f"{side}_layers": size.layers for side in sides},
        **{f"{side}_ffn_embed_dim": size.ffn for side in sides},
        **{f"{side}_attention_heads": size.heads for side in sides},
        **{f"{part}_global_layers": size.global_layers for part in (*sides, "cross")},
        "share_all_embeddings": True,
        "dropout": 0.1,
        "attention_dropout": 0.0,
        **options,
    }
    cfg = OmegaConf.structured(GTransformerConfig(**settings))
    return GTransformer.build_model(cfg, _task(dictionary))


def memory_transformer(size: Size, dictionary: Dictionary) -> MemoryTransformer:
    """The Transformer with recurrent memory, of both sides, in the top layers."""
    sides = ("encoder", "decoder")
    settings: dict[str, Any] = {
        "encoder_embed_dim": size.dim,
        **{f"{side}_layers": size.layers for side in sides},
        **{f"{side}_ffn_embed_dim": size.ffn for side in sides},
        **{f"{side}_attention_heads": size.heads for side in sides},
        "share_all_embeddings": True,
    }
    cfg = OmegaConf.structured(MemoryTransformerConfig(**settings))
    return MemoryTransformer.build_model(cfg, _task(dictionary))


def stock_transformer(size: Size, dictionary: Dictionary) -> TransformerModelBase:
    """fairseq's own Transformer of the same sizes."""
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.layers, side.embed_dim = size.layers, size.dim
        side.ffn_embed_dim, side.attention_heads = size.ffn, size.heads
    cfg.decoder.input_dim = cfg.decoder.output_dim = size.dim
    cfg.share_all_embeddings = True
    cfg.share_decoder_input_output_embed = True
    cfg.dropout, cfg.attention_dropout, cfg.activation_dropout = 0.1, 0.0, 0.0
    cfg.max_source_positions = cfg.max_target_positions = 1 << 15
    return TransformerModelBase.build_model(cfg, _task(dictionary))


def _task(dictionary: Dictionary) -> Any:
    return SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)


@dataclass(frozen=True)
class Device:
    """Where and in which precision to measure."""

    name: str
    dtype: torch.dtype

    @property
    def label(self) -> str:
        """For tables."""
        precision = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
        where = "CPU, 1 thread" if self.name == "cpu" else "CUDA"
        return f"{where}, {precision[self.dtype]}"

    def seconds(self) -> float:
        """CPU time of this process, or on CUDA the clock when all kernels are done."""
        if self.name == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    def place(self, batch: Batch) -> Batch:
        """The batch on this device."""
        return batch if self.name == "cpu" else utils.move_to_cuda(batch)

    def model(self, model: nn.Module) -> nn.Module:
        """The model on this device, in this precision."""
        return model.to(self.name, self.dtype)


CPU = Device("cpu", torch.float32)


def devices() -> Iterator[Device]:
    """fp32 on the CPU and, where there is one, fp16 and bf16 on CUDA."""
    yield CPU
    if torch.cuda.is_available():
        yield Device("cuda", torch.float16)
        yield Device("cuda", torch.bfloat16)


class Trainer:
    """Steps of training as fairseq makes them: loss, gradients, clipping, Adam."""

    def __init__(self, model: nn.Module, dictionary: Dictionary, device: Device = CPU) -> None:
        self.model = device.model(model).train()
        self.device = device
        self.criterion = LabelSmoothedCrossEntropyCriterion(
            SimpleNamespace(target_dictionary=dictionary), False, 0.1
        )
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

    def seconds(self, batches: list[Batch]) -> float:
        """Time of one update on each of ``batches``."""
        begin = self.device.seconds()
        for batch in batches:
            self.step(batch)
        return self.device.seconds() - begin



class Endless:
    """A model that never ends a sentence by itself, so that all systems write equally much."""

    def __init__(self, model: GTransformer, dictionary: Dictionary) -> None:
        self.model = model
        self.eos = dictionary.eos()

    def begin_decoding(self, source: Mapping[str, Tensor], beam: int) -> SearchState:
        """As the model does."""
        return self.model.begin_decoding(source, beam)

    def remember(self, prev_output_tokens: Tensor, memory: MemoryFlow) -> None:
        """As the model does, where it does."""
        assert isinstance(self.model, MemoryTransformer)
        self.model.remember(prev_output_tokens, memory)

    def decode_step(self, tokens: Tensor, opens: Tensor, state: Any) -> Tensor:
        """As the model does, the end symbol made improbable."""
        logits = self.model.decode_step(tokens, opens, state)
        logits[:, self.eos] = -1e4
        return logits


BEAM = 5


def decode_ours(model: GTransformer, dictionary: Dictionary, source: Tensor) -> int:
    """Translate ``source (1, length)``; every sentence gets as many words as its source.

    Returns:
        the number of tokens of the translation.
    """
    marks = (dictionary.bos(), dictionary.pad())
    vocabulary = SearchVocabulary(
        dictionary.bos(), dictionary.eos(), dictionary.pad(), dictionary.unk(), marks
    )
    search = DocumentSearch(vocabulary, SearchOptions(beam=BEAM, max_len_a=1, max_len_b=0))
    frame = Frame(dictionary.bos(), dictionary.eos(), dictionary.pad())
    document = {"src_tokens": source}
    sentences = Rows(frame, UnitOptions("document")).written(document)
    words = [[sentence.numel() - 1 for sentence in row] for row in sentences]
    found = search.search([Endless(model, dictionary)], document, words)
    return len(found[0][0].tokens)


def decode_stock(model: nn.Module, dictionary: Dictionary, source: Tensor) -> int:
    """Translate ``source (1, length)`` as one sequence with fairseq's generator.

    It is made as long as the translations of :func:`decode_ours`, marks included.
    """
    words = source.size(1) - 1  # the end of the sequence comes on top
    generator = SequenceGenerator(
        [model], dictionary, beam_size=BEAM, max_len_a=0, max_len_b=words, min_len=words,
        max_len=1 << 15,
    )  # fmt: skip
    lengths = torch.full((1,), source.size(1), device=source.device)
    net_input = {"src_tokens": source, "src_lengths": lengths}
    found = generator.generate([model], {"net_input": net_input})
    return len(found[0][0]["tokens"])
