"""The model that every system is built on: what task, search and criteria use, and its defaults.

A system subclasses :class:`DocumentModel` and overrides what differs. Code that uses a model relies
on nothing that is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

import torch
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import FairseqTask
from torch import Tensor

from gtrans.checkpoints.fingerprint import ModelFingerprint
from gtrans.checkpoints.reading import check_shapes
from gtrans.data.vocabulary import Vocabulary
from gtrans.environment import check_environment
from gtrans.errors import GtransError
from gtrans.models.base.decoder import Decoder
from gtrans.models.base.encoder import AttentionKinds, Encoder, EncoderOutput, StackDesign
from gtrans.models.base.options import (
    DocumentModelConfig,
    check_fusion,
    check_stack,
    decoder_groups,
    group_fusion,
    layer_spec,
    used_groups,
)
from gtrans.models.base.planning import Planner
from gtrans.models.base.presets import Presets, resolve_sizes
from gtrans.modules.bert import BertWeights, Whitening
from gtrans.modules.decode_state import DecodeState
from gtrans.modules.embedding import word_table
from gtrans.modules.file_values import check_values
from gtrans.modules.group_attention import DocumentLayout, Plan, to_device
from gtrans.modules.memory import MemoryFlow, MemorySpec
from gtrans.modules.transformer import LayerSpec, MultiheadAttention, TransformerLayer

Model = TypeVar("Model", bound="DocumentModel")

# What a model can read from a BERT (:meth:`DocumentModel.bert_use`).
BERT_FEATURES, BERT_SUBWORDS = "features", "subwords"
# Options of fairseq's commands for decoding that its layers follow, and their purpose.
_OF_STOCK_LAYERS = {
    "retain_dropout": "dropout",
    "retain_dropout_modules": "dropout",
    "print_alignment": "alignments",
}


def reads_plain_documents(options: Mapping[str, Any], unit: str) -> bool:
    """Whether a model with these options reads a document as one text, without sentences.

    Only such a model can decide itself where a document ends.
    """
    by_sentence = str(options.get("positions")) == "sentence"
    return unit == "document" and options.get("doc_mode") == "full" and not by_sentence


class DocumentModel(FairseqEncoderDecoderModel):
    """An encoder and a decoder, from options to beam search.

    The base attends over its whole unit. A system describes its stacks in
    :meth:`attention_kinds`, :meth:`layer_spec` and :meth:`design`, switches on parts in
    :meth:`add_parts`, and replaces :meth:`encode`, ``encoder_type`` or ``decoder_type`` where
    it reads or writes differently. The task reads the class attributes before it builds a model.

    Attributes:
        options: the class of the model's options.
        presets: its named sizes, each an ``--arch``.
        units: units that the model can read (:data:`gtrans.data.units.UNITS`), the default
            first.
        stream_of: its step in a stream (:data:`gtrans.modules.STEPS`).
        context_sides: sides on which a window may have its neighbours
            (:data:`gtrans.data.units.CONTEXT_SIDES`), the default first.
        context_size: default number of neighbours before and after the current sentence.
        special_tokens_by_arch: architecture to special tokens, for pretrained models whose are
            not ``both``.
        encoder_type, decoder_type: classes of its two stacks.
        planner_type: class that plans its batches (:mod:`gtrans.models.base.planning`).
        memory_spec: settings of its memories
            (:class:`gtrans.models.memory_transformer.RecurrentMemories`); None: no layer has one.
    """

    encoder: Encoder
    decoder: Decoder
    options: ClassVar[type[DocumentModelConfig]]
    presets: ClassVar[Presets]
    encoder_type: ClassVar[type[Encoder]] = Encoder
    decoder_type: ClassVar[type[Decoder]] = Decoder
    planner_type: ClassVar[type[Planner]] = Planner
    units: ClassVar[tuple[str, ...]] = ("document", "sentence", "window")
    stream_of: ClassVar[str] = "sentences"
    context_sides: ClassVar[tuple[str, ...]] = ("source", "both")
    context_size: ClassVar[tuple[int, int]] = (1, 0)
    special_tokens_by_arch: ClassVar[Mapping[str, str]] = {}

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__(encoder, decoder)
        self.memory_spec: MemorySpec | None = None

    # ---- before the model is built: asked by the task ------------------------------------------

    @classmethod
    def bert_use(cls, cfg: Any) -> str | None:
        """What a model with options ``cfg`` reads from the BERT that a corpus was prepared with.

        Returns:
            :data:`BERT_FEATURES`: with every batch the output of the frozen BERT
            (``context_states (context tokens, width)`` and ``context_lengths (batch,)``);
            :data:`BERT_SUBWORDS`: the source in BERT's subwords, because the encoder is a BERT;
            None: nothing.
        """
        return None

    @classmethod
    def default_special_tokens(cls, cfg: Any, unit: str) -> str:
        """The special tokens of a new model with options ``cfg`` that reads ``unit``."""
        return cls.special_tokens_by_arch.get(str(cfg.get("_name")), "both")

    @classmethod
    def adapt_to_unit(cls, cfg: Any, unit: str) -> None:
        """Change options of a new model in ``cfg`` that make no sense for ``unit``."""

    # ---- building ------------------------------------------------------------------------------

    @classmethod
    def build_model(cls: type[Model], cfg: Any, task: Any) -> Model:
        """Build from options; sizes that are None come from the preset ``cfg._name``.

        Raises:
            GtransError: options that contradict each other, or a task of fairseq's own that does
                not give the model its input.
        """
        check_environment()
        options = resolve_sizes(cfg, cls.options, cls.presets)
        if isinstance(task, FairseqTask) and not hasattr(task, "complete_input"):
            # fairseq's read sentences, and their search calls the encoder with nothing but tokens.
            if cls.units[0] in ("window", "stream") or cls.bert_use(options) is not None:
                raise GtransError(
                    f"`--arch {options._name}` needs more than fairseq's own tasks give it; choose "
                    "`--task document_translation`."
                )
            _check_stock_vocabulary(task)
        cls.check(options, task)
        return cls.build_from_options(options, task)

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raises GtransError for options that contradict each other; ``cfg`` has all sizes."""
        check_stack(cfg, cls.options, task)
        check_fusion(cfg)
        used_groups(cfg, cls.groups(cfg))

    @classmethod
    def build_from_options(cls: type[Model], cfg: Any, task: Any) -> Model:
        """Build from options with all sizes."""
        source, target = task.source_dictionary, task.target_dictionary
        dim = int(cfg.encoder_embed_dim or 0)
        encoder_table = decoder_table = word_table(len(source), dim, source.pad())
        if not cfg.share_all_embeddings:
            decoder_table = word_table(len(target), dim, target.pad())
        model = cls(
            cls.encoder_type(cfg, source, encoder_table, cls.design(cfg, "encoder")),
            cls.decoder_type(cfg, target, decoder_table, cls.design(cfg, "decoder")),
        )
        model.add_parts(cfg)
        model.encoder.planner = model.decoder.planner = model.new_planner()
        model.use_backend(str(cfg.attention_backend))
        for module in model.modules():
            if isinstance(module, TransformerLayer):
                module.checkpoints = bool(cfg.checkpoint_activations)
        return model

    @classmethod
    def attention_kinds(cls, cfg: Any) -> AttentionKinds:
        """The kind of attention of every layer; in the base all see the whole unit."""
        return AttentionKinds.all("global", cfg)

    @classmethod
    def layer_spec(cls, cfg: Any, side: str) -> LayerSpec:
        """Sizes and switches of the layers of one side."""
        return layer_spec(cfg, side, bool(getattr(cfg, f"{side}_normalize_before")))

    @classmethod
    def positions_restart(cls, cfg: Any) -> bool:
        """Whether positions restart in every sentence."""
        return str(getattr(cfg, "positions", "document")) == "sentence"

    @classmethod
    def groups(cls, cfg: Any) -> int:
        """The number of groups of decoder layers that predict words; 1: the decoder is plain."""
        return decoder_groups(cfg)

    @classmethod
    def design(cls, cfg: Any, side: str) -> StackDesign:
        """How the stack of one side (``encoder`` or ``decoder``) is built."""
        kinds = cls.attention_kinds(cfg)
        is_decoder, spec = side == "decoder", cls.layer_spec(cfg, side)
        return StackDesign(
            spec=spec,
            self_kinds=kinds.decoder if is_decoder else kinds.encoder,
            cross_kinds=kinds.cross if is_decoder else (),
            fusion=partial(group_fusion, cfg, side, spec.pre_norm),
            by_sentence=cls.positions_restart(cfg),
            has_groups="combined" in (*kinds.encoder, *kinds.decoder, *kinds.cross),
            final_norm=not (is_decoder and getattr(cfg, "no_decoder_final_norm", False)),
            used_layers=None if is_decoder else cfg.keep_encoder_layers,
            groups=used_groups(cfg, cls.groups(cfg)) if is_decoder else None,
            probability_fusion=str(cfg.probability_fusion),
        )

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,
        model_cfg: Any = None,
        args: Any = None,
    ) -> Any:
        """As in fairseq.

        Raises:
            GtransError: the parameters have other names or shapes, or are no numbers.
        """
        check_values(state_dict, "the checkpoint")
        if strict:
            try:
                check_shapes(state_dict, self.state_dict())
            except GtransError as error:
                raise GtransError(
                    "the checkpoint does not fit the model that is made with the options and "
                    f"dictionaries here ({error}); give the --task and the data folder it was "
                    "trained with, or another checkpoint."
                ) from None
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    def add_parts(self, cfg: Any) -> None:
        """switch on the parts that the options name."""

    def use_backend(self, backend: str) -> None:
        """Compute attention by ``backend`` from now on.

        Args:
            backend: one of :data:`gtrans.modules.group_attention.BACKENDS`.
        """
        for module in self.modules():
            if isinstance(module, MultiheadAttention):
                module.backend = backend

    # ---- training and force decoding -----------------------------------------------------------

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        *,
        source_of_row: Tensor | None = None,
        predict_at: Tensor | None = None,
        states_only: bool = False,
        memory: Any = None,
        plan: Mapping[str, Any] | None = None,
        **source: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Logits ``(batch, target length, vocabulary)`` of every next token.

        Args:
            src_tokens: ``(batch, source length)`` rows as
                :class:`gtrans.data.examples.ExampleBuilder` makes them, padded on either side.
            src_lengths: unused; lengths are known from the padding.
            prev_output_tokens: ``(targets, target length)`` decoder input, padded on the right.
            source_of_row: ``(targets,)`` the row of ``src_tokens`` that each target translates;
                targets of one source stand next to each other. None: one target for every
                source, in the same order.
            predict_at: ``(targets, target length)`` True on the tokens whose logits are wanted.
                The logits are then ``(True entries, vocabulary)``, target by target.
            states_only: return the states that :meth:`project` makes logits of, so that the
                caller need not hold the logits of all tokens.
            memory: the memory with which the rows begin (None: all rows begin a document); it
                receives the memory with which they end.
            plan: what :attr:`planner` makes of the batch; None: it is made now, for which
                the host waits once.
            source: the rest of ``net_input``: in windows ``current_sentence (batch,)``, its number
                in the row; in streams of chunks ``chunks (batch,
                most)``, the sentences of every chunk of a row, then zeros; BERT's output for
                the source.

        Returns:
            the logits, and a dictionary for fairseq. With ``states_only`` a
            :class:`gtrans.modules.chunked_loss.DecoderStates` instead of the logits.
        """
        flow = self._flow(memory)
        source = {"src_tokens": src_tokens, **source}
        whole = {**source, "prev_output_tokens": prev_output_tokens, "source_of_row": source_of_row}
        if plan is None or source_of_row is not None:
            planned = self.planner.on_device(whole)
        else:
            # fairseq has moved the tensors of net_input, but leaves objects where they are.
            planned = to_device(plan, src_tokens.device)
        if self.memory_spec is not None and flow is not None and torch.is_grad_enabled():
            for _ in range(self.memory_spec.passes - 1):
                self._read(whole, flow, planned)
        encoded = self.encode({**source, "memory": flow, "plan": planned})
        if source_of_row is not None:
            encoded = encoded.reordered(source_of_row)
        output: tuple[Any, dict[str, Any]] = self.decoder(
            prev_output_tokens,
            encoded,
            predict_at=predict_at,
            states_only=states_only,
            memory=flow,
            plan=planned,
        )
        if flow is not None:
            flow.earlier.clear()
        return output

    def project(self, features: Tensor) -> Tensor:
        """``(groups, tokens, dim)`` decoder states to logits ``(tokens, vocabulary)``."""
        return self.decoder.logits(features)

    @property
    def reuses_prefix_states(self) -> bool:
        """Whether translations of one source share the states of a common prefix.

        They cannot if each of them writes its own memory.
        """
        return not self.has_memory

    def encode(self, source: Mapping[str, Any]) -> EncoderOutput:
        """Encode the sources of a batch; ``source`` is ``net_input`` without decoder input."""
        encoded: EncoderOutput = self.encoder(
            source["src_tokens"], memory=source.get("memory"), plan=source.get("plan")
        )
        return encoded

    @property
    def planner(self) -> Planner:
        """Plans batches for the device of the model."""
        return self.encoder.planner.for_device(self.encoder.embed_tokens.weight.device)

    def new_planner(self, **further: Any) -> Planner:
        """Return the planner of a model on a CPU; ``further``: attributes of its own class."""
        stacks = {"encoder": self.encoder, "decoder": self.decoder}
        kinds = {side: {*stack.self_kinds} for side, stack in stacks.items()}
        kinds["cross"] = {*self.decoder.cross_kinds}
        plans = {
            part: {kind for kind in ("group", "global") if {kind, "combined"} & own}
            for part, own in kinds.items()
        }
        memories = {}
        for side, stack in stacks.items():
            if any(layer.context_attn is not None for layer in stack.layers):
                plans[side].add("context")
            if any(layer.memory is not None for layer in stack.layers):
                assert self.memory_spec is not None
                memories[side] = self.memory_spec.size
        return self.planner_type(
            pad=self.encoder.frame.pad,
            opening=self.decoder.opening,
            eos=self.decoder.frame.eos,
            closing=self.encoder.frame.closing,
            attention=plans,
            memory_sizes=memories,
            memory_step=self.stream_of,
            reuses_prefix_states=self.reuses_prefix_states,
            **further,
        )

    # ---- search --------------------------------------------------------------------------------

    def prepare_for_inference_(self, cfg: Any) -> None:
        """As in fairseq.

        Raises:
            GtransError: the option works with fairseq's own layers only.
        """
        for name, what in _OF_STOCK_LAYERS.items():
            if getattr(cfg.generation, name, None):
                raise GtransError(
                    f"`--{name.replace('_', '-')}` is not supported: models of gtrans have no "
                    f"{what} in decoding; leave it out."
                )
        super().prepare_for_inference_(cfg)

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> DecodeState:
        """Encode a batch and begin a search with ``beam`` hypotheses for each source.

        Args:
            source: ``net_input`` without the decoder's input; for sources of several sentences
                perhaps with ``prefix (documents, longest)``, decoder input of the translations
                of their first sentences, padded on the right: all hypotheses go on behind it.
                With memories every source is one step, which begins with ``memory``.
            beam: hypotheses of each source.
        """
        flow = self._flow(source.get("memory"))
        encoded = self.encode({**source, "memory": flow})
        if flow is not None:
            flow.encoded = encoded
        state: DecodeState = self.decoder.begin(encoded, beam, flow)
        if "prefix" in source:
            self.decoder.read_prefix(source["prefix"], encoded, state, flow)
        return state

    def decode_step(self, tokens: Tensor, opens: Tensor, state: Any) -> Tensor:
        """Logits ``(hypotheses, vocabulary)`` after one more token of every hypothesis.

        Args:
            tokens: ``(hypotheses,)`` the newest token.
            opens: ``(hypotheses,)`` whether that token opens a sentence.
            state: as returned by :meth:`begin_decoding`; updated in place.
        """
        return self.decoder.step(tokens, opens, state)

    def search_scores(self, logits: Tensor) -> Tensor:
        """``(hypotheses, vocabulary)`` log-probabilities that a search adds up, from logits."""
        return self.decoder.search_scores(logits)

    # ---- documents that are read step by step: by sentences or chunks -----------------------

    @property
    def has_memory(self) -> bool:
        """Whether training carries anything from one window of a stream to the next."""
        return self.memory_spec is not None

    def _flow(self, memory: MemoryFlow | None) -> MemoryFlow | None:
        """The memory with which a pass begins; None in models without memories."""
        if not self.has_memory:
            return None
        return MemoryFlow() if memory is None else memory

    def new_memory(self) -> Any:
        """The state with which the first steps of documents begin.

        Its ``following(documents)`` is that with which the next steps of ``documents (n,)`` begin;
        the class method ``joined(states)`` puts the states of some documents together.
        """
        return MemoryFlow()

    @torch.no_grad()
    def read(self, net_input: Mapping[str, Any], memory: Any) -> None:
        """Update ``memory`` by reading a batch, without gradient.

        Args:
            net_input: arguments of :meth:`forward`, with the decoder's input.
            memory: as made by :meth:`new_memory`; updated in place.
        """
        self._read(net_input, memory, self.planner.on_device(net_input))

    @torch.no_grad()
    def remember(self, prev_output_tokens: Tensor, memory: Any) -> None:
        """Update ``memory`` with the finished translations of one step of each document.

        Args:
            prev_output_tokens: ``(documents, longest)`` decoder input of the translations.
            memory: the state that :meth:`begin_decoding` got as ``source["memory"]``.
        """
        if "decoder" in self.decoder.planner.memory_sizes:
            self.decoder.states(prev_output_tokens, memory.encoded, memory)

    def _read(self, net_input: Mapping[str, Any], flow: MemoryFlow, plan: Plan) -> None:
        encoded: EncoderOutput = self.encoder(net_input["src_tokens"], memory=flow, plan=plan)
        if "decoder" in self.decoder.planner.memory_sizes:
            self.decoder.states(net_input["prev_output_tokens"], encoded, flow, plan)

    # ---- BERT ----------------------------------------------------------------------------------

    @property
    def bert_whitening(self) -> Whitening | None:
        """The map that is fitted to BERT's output before the first update; None without a BERT."""
        return None

    def start_from_bert(self, bert: BertWeights) -> set[str]:
        """Initialise the encoder with that BERT; returns the names of the loaded parameters.

        Raises:
            GtransError: the BERT has other sizes than the encoder.
            NotImplementedError: the encoder is not a BERT.
        """
        raise NotImplementedError(f"the encoder of {type(self).__name__} is no BERT")

    # ---- analysis ------------------------------------------------------------------------------

    def layouts(
        self, src_tokens: Tensor, prev_output_tokens: Tensor
    ) -> tuple[DocumentLayout, DocumentLayout]:
        """The sentence structure of a batch, on the source and on the target side.

        Args:
            src_tokens: ``(batch, source length)``.
            prev_output_tokens: ``(batch, target length)``.
        """
        source = self.planner.source_layout(src_tokens.cpu())
        target = self.planner.target_layout(prev_output_tokens.cpu())
        return to_device(source, src_tokens.device), to_device(target, src_tokens.device)


class SentenceTransformer(DocumentModel):
    """A :class:`DocumentModel` whose layers see one sentence at a time, whatever the unit.

    Its knowledge of other sentences comes from the parts that a system adds.
    """

    @classmethod
    def attention_kinds(cls, cfg: Any) -> AttentionKinds:
        """Attention stays within sentences."""
        return AttentionKinds.all("group", cfg)

    @classmethod
    def positions_restart(cls, cfg: Any) -> bool:
        """Positions count within sentences."""
        return True


def _check_stock_vocabulary(task: Any) -> None:
    """Raises GtransError if a checkpoint, whose state fairseq's task has, has other entries."""
    recorded = ModelFingerprint.of_state(task.state_dict(), "the checkpoint")
    if recorded is None:
        return
    for side in ("source", "target"):
        dictionary, old = getattr(task, f"{side}_dictionary"), getattr(recorded, side)
        here = Vocabulary.of(dictionary, len(dictionary))
        if here.entries != old.entries:
            if recorded.unit:
                raise GtransError(
                    "the checkpoint was trained with `--task document_translation`; give that task."
                )
            # fairseq numbers the language tokens in the order of the option.
            order = ", and `--langs` in its order" if getattr(task, "langs", None) else ""
            raise GtransError(
                f"the checkpoint was not made with these data, it has another {side} vocabulary "
                f"({old.difference(here)}); give the folder it was trained with{order}."
            )
