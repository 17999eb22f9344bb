"""G-Transformer that also attends to the source sentences before its instance.

A document that is longer than ``--max-doc-tokens`` is cut into instances. What is read of the
``--instance-context`` source sentences before an instance:

* the words, embedded and read by a trained encoder, or their text, read by a frozen BERT, by the
  context attention of :mod:`gtrans.models.bert_context_transformer`: in every layer, beside (or
  behind) group, global or combined attention. All words of an instance see the whole context.
* with ``--han-context`` the encoder's last states of these sentences, which it reads as an
  instance of their own, by the hierarchical attention of :mod:`gtrans.models.han_transformer` on
  the encoder's last states of the instance: words of each sentence first, then sentences.

========================  =======================================================================
the instance              as in :mod:`gtrans.models.gtransformer`
Eq 3.4-3.10 (Guo)         :mod:`gtrans.modules.context_attention`, in every layer
§2.1-2.2 (Miculicich)     :mod:`gtrans.modules.hierarchical_attention`, with ``--han-context``
the sentences before      :class:`gtrans.models.bert_context_transformer.ContextPlanner`
========================  =======================================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gtrans.data.unit_options import option, refuse_given
from gtrans.errors import GtransError
from gtrans.models.base.decoder import Decoder
from gtrans.models.base.encoder import Encoder
from gtrans.models.base.options import sizes
from gtrans.models.base.planning import BatchPlanner
from gtrans.models.base.presets import register_system
from gtrans.models.bert_context_transformer import (
    BERT,
    WORDS,
    BertContextConfig,
    BertContextTransformer,
    ContextPlan,
    ContextPlanner,
    neighbours_of,
)
from gtrans.models.gtransformer import GTransformer, GTransformerConfig
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.hierarchical_attention import HierarchicalAttention, SentencesBefore
from gtrans.modules.layout import taken


@dataclass
class GTransformerContextConfig(BertContextConfig, GTransformerConfig):
    """Options of :class:`GTransformerContext`."""

    han_context: bool = option(
        False,
        "read the sentences before by HAN's attention to words and then to sentences, on the "
        "encoder's last states, and not by context attention in the layers",
    )


PRESETS = {
    "gtransformer_context": {**sizes(6, 512, 2048, 8), **WORDS},
    "gtransformer_context_tiny": {**sizes(6, 256, 1024, 4), **WORDS},
    "gtransformer_context_base": {**sizes(6, 512, 2048, 8), **WORDS},
    "gtransformer_bert_context_base": {**sizes(6, 512, 2048, 8), **BERT},
}


# Options of context attention that hierarchical attention does not have.
_CONTEXT_ATTENTION = ("bert_integration", "combine", "context_place", "drop_net")


@dataclass
class HanContextPlan(ContextPlan):
    """The plan of instances and of the sentences before them.

    Attributes:
        before: which sentences of the contexts are before which instances.
    """

    before: SentencesBefore


class HanContextPlanner(ContextPlanner):
    """Plans instances whose context is read sentence by sentence."""

    def __call__(self, source: Mapping[str, Any]) -> HanContextPlan:
        """See the base class."""
        plan = super().__call__(source)
        assert plan.neighbours is not None and plan.layers is not None
        layout, needs = plan.layers.source, self.sentences.needs
        # A row without context has `</s>` in its place.
        counts = layout.sentence_counts * plan.neighbours[:, 0].ge(0)
        last = layout.sentence_counts.cumsum(0) - 1
        before = []
        for distance in range(1, int(counts.max()) + 1):
            rows = counts.ge(distance).nonzero().squeeze(1)
            sentences = layout.sentences.chosen(last[rows] - distance + 1)
            before.append((rows, sentences))
        asking = plan.sentences.source.documents
        known = SentencesBefore(asking, before, layout.tokens, needs.shapes, needs.backend)
        return HanContextPlan(**vars(plan), before=known)


@register_system("gtransformer_context", GTransformerContextConfig, PRESETS)
class GTransformerContext(BertContextTransformer, GTransformer):
    """G-Transformer with context attention: it also reads the sentences before its instance."""

    units = ("document", "sentence")
    context_sides = ("source",)
    instance_context = 3

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__(encoder, decoder)
        self.han: HierarchicalAttention | None = None

    @classmethod
    def bert_use(cls, cfg: Any) -> str | None:
        """The output of the frozen BERT for the context, if there is one."""
        return super().bert_use(cfg) if _has_context(cfg) else None

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raises GtransError for options that contradict each other."""
        super().check(cfg, task)
        if cfg.han_context and cfg.context_input == "bert":
            raise GtransError(
                "`--han-context` reads the encoder's own states, and no BERT; give --context-input "
                "words with `--context-layers 1`, or leave it out."
            )
        if cfg.han_context:
            why = "is for context attention in the layers; leave out `--han-context`"
            refuse_given(cfg, cls.options, _CONTEXT_ATTENTION, why)

    def add_parts(self, cfg: Any) -> None:
        """Add attention to the context, unless nothing comes before what is read."""
        if not _has_context(cfg):
            return
        if not cfg.han_context:
            super().add_parts(cfg)
            return
        self.reads_instances, self.context_input = True, "words"
        self.han = HierarchicalAttention(self.layer_spec(cfg, "encoder"), cfg.context_gate_bias)

    @property
    def planner(self) -> BatchPlanner:
        """Makes the plans of instances and of their contexts."""
        planner = super().planner
        if self.han is None:
            return planner
        sentences, eos = self.encoder.planner, self.encoder.dictionary.eos()
        source = HanContextPlanner(sentences, "words", sentences.needs, eos, instances=True)
        return BatchPlanner(source, planner.target)

    def encode(self, source: Mapping[str, Any]) -> EncoderOutput:
        """See the base class; arguments as there."""
        if self.han is None:
            return super().encode(source)
        tokens, dictionary = source["src_tokens"], self.encoder.dictionary
        plan: HanContextPlan = source.get("plan") or self.plan(source).source
        assert plan.neighbours is not None
        words = neighbours_of(tokens, plan.neighbours, dictionary.pad(), dictionary.eos())
        keys = self.encoder(words, plan=plan.layers).states
        if plan.current is not None:
            tokens = taken(tokens, plan.current, dictionary.pad())
        encoded: EncoderOutput = self.encoder(tokens, plan=plan.sentences)
        return replace(encoded, states=self.han(encoded.states, keys, plan.before))

    def new_parameters(self) -> set[str]:
        """Names of new parameters: hierarchical attention, and those of the base class."""
        han = {name for name, _ in self.named_parameters() if name.startswith("han.")}
        return super().new_parameters() | han


def _has_context(cfg: Any) -> bool:
    """Whether an instance may have sentences before it that are read."""
    return bool(cfg.unit == "document" and cfg.instance_context)
