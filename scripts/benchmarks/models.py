"""Material of benchmarks: seeded text, its batches, untrained models, updates and searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from fairseq import models, optim
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import OmegaConf
from torch import Tensor, nn

from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy
from gtrans.data.examples import ExampleBuilder
from gtrans.data.frame import Frame
from gtrans.data.units import DocumentUnit, UnitSpan
from gtrans.search.document_search import DocumentSearch, SearchVocabulary
from gtrans.search.generator import make_batches
from gtrans.search.options import SearchOptions

Batch = dict[str, Any]
# A document: its sentences on both sides, each with its ``</s>``.
Document = list[tuple[Tensor, Tensor]]
BEAM = 5
LONGEST = 1 << 15
GLOBAL_LAYERS = {f"{part}_global_layers": 2 for part in ("encoder", "decoder", "cross")}
# Options of a G-Transformer without global attention.
GROUP_ONLY = {f"{part}_top_attention": "group" for part in ("encoder", "decoder", "cross")}


@dataclass(frozen=True)
class Size:
    """Sizes of a model; encoder and decoder are equal."""

    layers: int
    dim: int
    ffn: int
    heads: int
    vocabulary: int

    def __str__(self) -> str:
        return (
            f"{self.layers} + {self.layers} layers of width {self.dim:,} "
            f"({self.heads} heads, feed-forward {self.ffn:,})"
        )


SIZES = {
    "toy": Size(6, 16, 32, 2, 50),  # to try a benchmark
    "narrow": Size(6, 256, 1024, 8, 8000),
    "base": Size(6, 512, 2048, 8, 32_000),  # gtransformer_base
    "web": Size(3, 256, 1024, 4, 8000),
}


# ---- text, batches, models -----------------------------------------------------------------------


class Setup:
    """A dictionary, its seeded text in batches, untrained models and their searches.

    Attributes:
        size: size of the models.
        dictionary: dictionary of both sides with ``size.vocabulary`` entries, special tokens too.
        examples: builds rows of whole documents ``<s> .. </s> <s> .. </s>``.
    """

    def __init__(self, size: Size) -> None:
        self.size = size
        self.dictionary = dictionary = Dictionary()
        for word in range(size.vocabulary - len(dictionary)):
            dictionary.add_symbol(f"w{word}")
        frame = Frame(dictionary.bos(), dictionary.eos(), dictionary.pad())
        self.examples = ExampleBuilder(frame, DocumentUnit(512))

    def documents(self, words: int, count: int) -> list[Document]:
        """``count`` documents of exactly ``words`` source words in sentences of about 25.

        Sentence lengths follow a gamma distribution of shape 3 between about 3 and 100, as
        those of news and speeches do; a target sentence has the length of its source times
        a factor around 1.
        """
        draw = np.random.default_rng(1)

        def sentence(length: int) -> Tensor:
            ids = draw.integers(self.dictionary.nspecial, len(self.dictionary), length)
            return torch.from_numpy(np.append(ids, self.dictionary.eos()))

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

    def sources(self, words: int, count: int) -> list[list[Tensor]]:
        """The source sentences of :meth:`documents`."""
        return [[source for source, _ in document] for document in self.documents(words, count)]

    def document_batches(self, documents: list[Document], words: int) -> list[Batch]:
        """Batches of documents of ``words`` words, at least one each."""
        rows: list[list[Document]] = [[]]
        for document in documents:
            if rows[-1] and source_words([*rows[-1], document]) > words:
                rows.append([])
            rows[-1].append(document)
        return [
            self.examples.collate(
                [
                    self.examples.example(
                        UnitSpan.whole(range(len(pairs))), *zip(*pairs, strict=True)
                    )
                    for pairs in batch
                ]
            )
            for batch in rows
        ]

    def sentence_batches(
        self,
        documents: list[Document],
        words: int,
        sample: int | None = None,
        left_pad: bool = True,
    ) -> list[Batch]:
        """The same sentences as stock fairseq batches them: sorted by length, its own frame.

        Args:
            documents: a text; the larger it is, the less padding is in its batches.
            words: words and padding of a batch.
            sample: number of batches, evenly spaced from the shortest sentences to the longest
                (None: all).
            left_pad: sources are padded on the left, as stock fairseq does.
        """
        sides = list(zip(*(pair for document in documents for pair in document), strict=True))
        sizes = [np.array([len(line) for line in side]) for side in sides]
        dataset = LanguagePairDataset(
            sides[0],
            sizes[0],
            self.dictionary,
            sides[1],
            sizes[1],
            self.dictionary,
            shuffle=False,
            left_pad_source=left_pad,
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

    def words_of(self, batches: list[Batch]) -> int:
        """Target words of batches: neither padding nor special tokens."""
        return sum(int(batch["target"].ge(self.dictionary.nspecial).sum()) for batch in batches)

    def model(self, options: dict[str, Any] | None) -> Any:
        """A G-Transformer with 2 global layers everywhere; None: fairseq's Transformer."""
        torch.manual_seed(1)
        dictionary, size = self.dictionary, self.size
        task: Any = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
        if options is None:
            return _stock(size, task)
        name = "gtransformer_tiny"
        cfg = OmegaConf.structured(
            models.MODEL_DATACLASS_REGISTRY[models.ARCH_MODEL_NAME_REGISTRY[name]]
        )
        cfg.encoder_embed_dim, cfg.share_all_embeddings = size.dim, True
        cfg.dropout, cfg.attention_dropout, cfg._name = 0.1, 0.0, name
        for side in ("encoder", "decoder"):
            cfg[f"{side}_layers"], cfg[f"{side}_ffn_embed_dim"] = size.layers, size.ffn
            cfg[f"{side}_attention_heads"] = size.heads
        return models.build_model(OmegaConf.merge(cfg, GLOBAL_LAYERS, options), task)

    def write_documents(self, model: Any, source: Tensor, words: Any) -> int:
        """Translate ``source (rows, length)``; ``words``: of each sentence of each row.

        Returns:
            the number of tokens of the translations.
        """
        dictionary = self.dictionary
        bos, eos, pad = dictionary.bos(), dictionary.eos(), dictionary.pad()
        vocabulary = SearchVocabulary(bos, eos, pad, dictionary.unk(), (bos, pad))
        search = DocumentSearch(vocabulary, SearchOptions(beam=BEAM, max_len_a=1, max_len_b=0))
        endless: list[Any] = [Endless(model, eos)]
        rows = search.search(endless, {"src_tokens": source}, words)
        return sum(len(row[0].tokens) for row in rows)

    def write_sequences(self, model: Any, source: Tensor, words: int) -> int:
        """Translate ``source`` with fairseq's generator, each row into ``words`` words.

        Returns:
            the number of tokens of all translations.
        """
        generator = SequenceGenerator(
            [model],
            self.dictionary,
            beam_size=BEAM,
            max_len_a=0,
            max_len_b=words,
            min_len=words,
            max_len=LONGEST,
        )
        return generated(generator, [model], source, self.dictionary.pad())

    def by_document(
        self,
        model: Any,
        documents: Sequence[Sequence[Tensor]],
        tokens: int,
        most: int | None = None,
        place: Callable[[Tensor], Tensor] = Tensor.contiguous,
    ) -> int:
        """Translate documents, every sentence into as many words as it has.

        Args:
            model: the model.
            documents: their sentences, each with its ``</s>``.
            tokens, most: largest number of tokens and rows of a batch.
            place: moves a batch to the device of the model.

        Returns:
            the number of tokens of the translations.
        """
        frame, written = self.examples.frame, 0
        sources = [frame.source(document) for document in documents]
        for batch in make_batches([len(source) for source in sources], tokens, most):
            source = place(frame.pad_rows([sources[number] for number in batch]))
            words = [[len(sentence) - 1 for sentence in documents[number]] for number in batch]
            written += self.write_documents(model, source, words)
        return written

    def by_sentence(
        self,
        model: Any,
        documents: Sequence[Sequence[Tensor]],
        tokens: int,
        most: int | None = None,
        place: Callable[[Tensor], Tensor] = Tensor.contiguous,
    ) -> int:
        """As :meth:`by_document` by fairseq's generator, a sentence as long as its batch's."""
        sentences = [sentence for document in documents for sentence in document]
        sources = padded_sentences(sentences, self.dictionary.pad(), tokens, most)
        return sum(self.write_sequences(model, place(rows), rows.size(1) - 1) for rows in sources)


def source_words(documents: Sequence[Document]) -> int:
    """Words on the source side, without special tokens."""
    return sum(len(source) - 1 for document in documents for source, _ in document)


def padded_sentences(
    sentences: Sequence[Tensor], pad: int, tokens: int, most: int | None = None
) -> list[Tensor]:
    """Batches of sentences as fairseq pads them, ``(rows, longest)``."""
    return [
        data_utils.collate_tokens([sentences[number] for number in batch], pad, left_pad=True)
        for batch in make_batches([len(sentence) for sentence in sentences], tokens, most)
    ]


def generated(generator: Any, ensemble: Sequence[Any], source: Tensor, pad: int) -> int:
    """The number of tokens that fairseq's generator writes for ``source (rows, length)``."""
    net_input = {"src_tokens": source, "src_lengths": source.ne(pad).sum(1)}
    rows = generator.generate(ensemble, {"net_input": net_input})
    return sum(len(row[0]["tokens"]) for row in rows)


class Endless:
    """A model that never ends a sentence by itself, so that all systems write equally much."""

    def __init__(self, model: Any, eos: int) -> None:
        self._model = model
        self._eos = eos

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def decode_step(self, *arguments: Any, **named: Any) -> Tensor:
        """The model's logits with an improbable ``</s>``, ``(rows, entries)``."""
        logits: Tensor = self._model.decode_step(*arguments, **named)
        logits[:, self._eos].fill_(-1e4)
        return logits


def _stock(size: Size, task: Any) -> Any:
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.layers, side.embed_dim = size.layers, size.dim
        side.ffn_embed_dim, side.attention_heads = size.ffn, size.heads
    cfg.decoder.input_dim = cfg.decoder.output_dim = size.dim
    cfg.share_all_embeddings = cfg.share_decoder_input_output_embed = True
    cfg.dropout, cfg.attention_dropout, cfg.activation_dropout = 0.1, 0.0, 0.0
    cfg.max_source_positions = cfg.max_target_positions = LONGEST
    return TransformerModelBase.build_model(cfg, task)


class Trainer:
    """Updates as fairseq makes them: loss, gradients, clipping, Adam.

    Args:
        setup, model: text and model.
        bf16: the model is in bf16, and Adam has copies in fp32, as with ``--bf16``.
        ours: use the loss and the optimizer of this project's configurations.
    """

    def __init__(
        self, setup: Setup, model: nn.Module, bf16: bool = False, ours: bool = False
    ) -> None:
        self.model: Any = model.train()
        task = SimpleNamespace(target_dictionary=setup.dictionary)
        self.criterion: Any = (
            ChunkedCrossEntropy(task, label_smoothing=0.1)
            if ours
            else LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
        )
        # A rate of almost nothing, so that models do not learn this text.
        adam = {
            "_name": "fused_adam" if ours else "adam",
            "adam_betas": "(0.9, 0.98)",
            "lr": [1e-7],
            "tpu": False,
        }
        common = {"bf16": bf16, "tpu": False, "fp16_scale_window": 128}
        cfg = OmegaConf.create({"common": common, "optimizer": adam})
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer: Any = (
            FP16Optimizer.build_optimizer(cfg, parameters)
            if bf16
            else optim.build_optimizer(cfg.optimizer, parameters)
        )

    def step(self, batch: Batch) -> None:
        """One update.

        Raises:
            FloatingPointError: the gradients are not finite; fairseq's trainer checks it, too.
        """
        loss, size, _ = self.criterion(self.model, batch)
        self.optimizer.backward(loss)
        self.optimizer.multiply_grads(1 / int(size))
        if not torch.isfinite(self.optimizer.clip_grad_norm(1.0)):
            raise FloatingPointError("the gradients are not finite")
        self.optimizer.step()
        self.optimizer.zero_grad()

    def steps(self, batches: list[Batch]) -> None:
        """One update on each of ``batches``."""
        for batch in batches:
            self.step(batch)
