"""Flat-Transformer: one encoder for context and sentence; its top layers see the sentence only.

Ma, Zhang and Zhou, "A Simple and Effective Unified Encoder for Document-Level Machine
Translation", ACL 2020.

=======  ==============================================================================
Eq 2     ``[E(c); E(x)]``: a window of :mod:`gtrans.data.units`, embedded as words
Eq 3     ``[S(c); S(x)]``: ``embed_segments``, row 0 for the context, row 1 for the sentence
Eq 4     bottom blocks over context and sentence: ``encoder.layers[:bottom_layers]``
Eq 5     ``h1[s:t]``, for top blocks and decoder: ``kept`` of :class:`FlatPlanner`
§3.2     sizes, one sentence before and one after: ``PRESETS``, ``inputs``
=======  ==============================================================================

Left open by the paper: segment embeddings begin as large as words (``--segment-size``), as in BERT,
and positions count through the window.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models.base.bert_encoder import BertEncoder, BertSourceConfig, BertSourceTransformer
from gtrans.models.base.encoder import Encoder, EncoderOutput, StackDesign
from gtrans.models.base.model import DocumentModel, InputSpec
from gtrans.models.base.options import UnitTransformerConfig
from gtrans.models.base.planning import (
    Planner,
    chosen_index,
    self_plans,
    tokens_at,
)
from gtrans.models.base.presets import register_system, sizes
from gtrans.modules.bert import CLS, SEP
from gtrans.modules.group_attention import DocumentLayout, Plan
from gtrans.modules.layer_fusion import TokenSelection
from gtrans.modules.transformer import LayerInputs
from gtrans.option_types import option


@dataclass
class FlatTransformerConfig(UnitTransformerConfig):
    """Options of :class:`FlatTransformer`."""

    flat_bottom_layers: int = option(
        1, "bottom encoder layers that see context and sentence; the others see the sentence only"
    )
    no_segment_embedding: bool = option(
        False, "no embedding that distinguishes context and sentence (table 3, 'w/o Segment')"
    )
    segment_size: float = option(
        1.0,
        "size with which the segment embeddings begin, as a share of that of a word (BERT's are as "
        "large as words; not used with a BERT, which brings its own)",
        least=0,
    )


PRESETS = {
    "flat_transformer": sizes(6, 512, 1024, 4),
    "flat_transformer_tiny": sizes(6, 256, 1024, 4),
    "flat_transformer_base": sizes(6, 512, 1024, 4),
}


@dataclass(frozen=True, kw_only=True)
class FlatPlanner(Planner):
    """Plans windows, or sentences if a batch has no ``current_sentence``.

    Attributes:
        longest: most tokens of a row for a BERT; None: the encoder is no BERT.
    """

    longest: int | None = None

    def source(self, net_input: Mapping[str, Any]) -> Plan:
        """Return the encoder's part of a plan.

        Windows add their layout ``window``, their attention plans ``in_window``, ``is_current
        (window tokens,)`` 1 on the current sentence, ``kept (sentence tokens,)`` its places, and
        for a BERT ``shortened``, the tokens to read (:func:`bert_windows`).
        """
        if "current_sentence" not in net_input:
            return super().source(net_input)
        tokens, current = net_input["src_tokens"], net_input["current_sentence"]
        plan = Plan()
        if self.longest is not None:
            special_tokens = CLS, self.pad, SEP
            index, current = bert_windows(tokens, current, self.longest, special_tokens)
            tokens = tokens_at(tokens, index, self.pad)
            plan["shortened"] = index
        window = self.source_layout(tokens)
        is_current = window.sentence.eq(current[window.row])
        current_rows = window.row[is_current]
        lengths = torch.bincount(current_rows, minlength=window.shape[0])
        plan |= self.source_rows(DocumentLayout.of_rows(lengths))
        plan["window"] = window
        plan["in_window"] = self_plans(window, self.attention["encoder"], self.shapes)
        plan["is_current"] = is_current.long()
        plan["kept"] = is_current.nonzero().squeeze(1)
        return plan


class FlatTransformerEncoder(Encoder):
    """The unified encoder: ``bottom_layers`` read the whole window."""

    def __init__(
        self, cfg: Any, dictionary: Dictionary, embed_tokens: nn.Embedding, design: StackDesign
    ) -> None:
        super().__init__(cfg, dictionary, embed_tokens, design)
        self.bottom_layers = int(cfg.flat_bottom_layers)
        self.embed_segments: Optional[nn.Embedding] = None
        # A unit without context has nothing to distinguish.
        self.has_segments = cfg.unit != "sentence" and not cfg.no_segment_embedding
        if self.has_segments:
            dim = embed_tokens.embedding_dim
            self.embed_segments = nn.Embedding(2, dim)
            # Words have this size after they are scaled.
            std = float(cfg.segment_size) * self.embed.scale * dim**-0.5
            nn.init.normal_(self.embed_segments.weight, std=std)

    def read(self, src_tokens: Tensor, current: Tensor, plan: Plan | None = None) -> EncoderOutput:
        """Encode windows; the output has the tokens of current sentences.

        Args:
            src_tokens: ``(batch, length)`` windows, padded on either side.
            current: ``(batch,)`` number of the current sentence.
            plan: None: it is made now.
        """
        if plan is None:
            plan = self.planner.on_device({"src_tokens": src_tokens, "current_sentence": current})
        if "shortened" in plan:
            src_tokens = tokens_at(src_tokens, plan["shortened"], self.frame.pad)
        window = plan["window"]
        segments = None
        if self.has_segments and self.embed_segments is not None:
            segments = self.embed_segments(plan["is_current"])
        order = None
        if self.embed.by_sentence:
            order = self.embed.order(window.sentence, window.most_sentences, window.in_several)
        of_windows = LayerInputs(plan["in_window"], {}, order)
        of_sentences = LayerInputs(plan["encoder"], {})
        layers = []
        for number, layer in enumerate(self.layers):
            inputs = of_windows if number < self.bottom_layers else of_sentences
            layers.append(partial(layer, inputs=inputs))
        embedded = self.embedded(src_tokens, window, segments)
        selection = TokenSelection(self.bottom_layers, plan["kept"])
        fused, _ = self.run(embedded, layers, selection=selection)
        return EncoderOutput(fused[0], plan["source"], order=None, layers=[])


@register_system("flat_transformer", FlatTransformerConfig, PRESETS)
class FlatTransformer(DocumentModel):
    """Flat-Transformer: one encoder, whose top sees the sentence without its context."""

    encoder: FlatTransformerEncoder
    encoder_type = FlatTransformerEncoder
    planner_type = FlatPlanner
    inputs = InputSpec(units=("window", "sentence"), context_sides=("source",), context_size=(1, 1))

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raise GtransError for too many bottom layers."""
        super().check(cfg, task)
        if not 0 <= cfg.flat_bottom_layers <= cfg.encoder_layers:
            raise GtransError(
                f"`--flat-bottom-layers` must be between 0 and the {cfg.encoder_layers} encoder "
                f"layers, but is {cfg.flat_bottom_layers}."
            )

    def encode(self, source: Mapping[str, Any]) -> EncoderOutput:
        """Encode windows, or sentences without ``current_sentence``."""
        if "current_sentence" not in source:
            return super().encode(source)
        return self.encoder.read(
            source["src_tokens"], source["current_sentence"], plan=source.get("plan")
        )


@dataclass
class FlatBertConfig(FlatTransformerConfig, BertSourceConfig):
    """Options of :class:`FlatBert`."""


BERT_PRESETS = {
    "flat_transformer_bert": sizes(12, 768, 3072, 12, decoder_layers=6),
    "flat_transformer_bert_base": sizes(12, 768, 3072, 12, decoder_layers=6),
}


class FlatBertEncoder(BertEncoder, FlatTransformerEncoder):
    """The unified encoder as a BERT: ``[CLS] context [SEP] sentence [SEP]``."""


def bert_windows(
    tokens: Tensor, current: Tensor, longest: int, special_tokens: tuple[int, int, int]
) -> tuple[Tensor, Tensor]:
    """Choose the tokens of windows that BERT reads.

    Only the first sentence keeps its ``[CLS]``. A window that is too long loses the beginning of
    its context, but nothing of its current sentence.

    Args:
        tokens: ``(batch, length)`` padded on the right.
        current: ``(batch,)`` number of the current sentence.
        longest: most tokens of a row.
        special_tokens: ids of ``[CLS]``, ``[PAD]`` and ``[SEP]``.

    Returns:
        the tokens (:func:`gtrans.models.base.planning.chosen_index`), and the new ``current``.
    """
    cls, pad, sep = special_tokens
    layout = DocumentLayout.of_source(tokens, pad, sep)
    # (batch, length); -1 on padding
    sentence = layout.pad(layout.sentence.float() + 1).long() - 1
    is_current = sentence.eq(current[:, None])
    is_token = sentence.ge(0)
    is_cls = tokens.eq(cls)
    is_later_cls = is_cls.clone()
    is_later_cls[:, 0] = False
    kept = is_token & ~is_later_cls
    excess = (kept.sum(1) - longest).clamp(min=0)
    in_context = kept & ~is_current & ~is_cls
    is_early = in_context.cumsum(1).le(excess[:, None])
    dropped = in_context & is_early
    kept &= ~dropped
    ends_before = kept & tokens.eq(sep) & sentence.lt(current[:, None])
    return chosen_index(kept), ends_before.sum(1)


@register_system("flat_transformer_bert", FlatBertConfig, BERT_PRESETS)
class FlatBert(BertSourceTransformer, FlatTransformer):
    """Flat-Transformer + BERT: the encoder is initialised with a BERT and fine-tuned."""

    encoder: FlatBertEncoder
    encoder_type = FlatBertEncoder

    def new_planner(self, **further: Any) -> Planner:
        """Add the most tokens that the BERT can read."""
        learned: Any = self.encoder.embed_positions
        return super().new_planner(longest=learned.size, **further)
