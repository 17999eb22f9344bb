"""The model that every system is built on: all that task, search and criterions use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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

# Results of DocumentModel.bert_use.
BERT_FEATURES, BERT_SUBWORDS = "features", "subwords"
# Decoding options that only fairseq's own layers follow, and what they ask for.
_OF_STOCK_LAYERS = {
    "retain_dropout": "dropout",
    "retain_dropout_modules": "dropout",
    "print_alignment": "alignments",
}


def reads_plain_documents(options: Mapping[str, Any], unit: str) -> bool:
    """Return whether a model reads a document as one text, without sentences."""
    by_sentence = str(options.get("positions")) == "sentence"
    return unit == "document" and options.get("doc_mode") == "full" and not by_sentence


@dataclass(frozen=True)
class InputSpec:
    """The rows that a system can read.

    Attributes:
        units: of :data:`gtrans.data.units.UNITS`, the default first.
        context_sides: of :data:`gtrans.data.units.CONTEXT_SIDES`, the default first.
        context_size: default neighbours before and after the current sentence.
        stream_of: the steps of a stream (:data:`gtrans.modules.STEPS`).
        special_tokens: by architecture; others have ``both``.
    """

    units: tuple[str, ...] = ("document", "sentence", "window")
    context_sides: tuple[str, ...] = ("source", "both")
    context_size: tuple[int, int] = (1, 0)
    stream_of: str = "sentences"
    special_tokens: Mapping[str, str] = field(default_factory=dict)


class DocumentModel(FairseqEncoderDecoderModel):
    """The base of all systems: encoder and decoder attend to the whole unit.

    docs/adding-a-system.md says what a system replaces.
    """

    encoder: Encoder
    decoder: Decoder
    options: ClassVar[type[DocumentModelConfig]]
    presets: ClassVar[Presets]
    encoder_type: ClassVar[type[Encoder]] = Encoder
    decoder_type: ClassVar[type[Decoder]] = Decoder
    planner_type: ClassVar[type[Planner]] = Planner
    inputs: ClassVar[InputSpec] = InputSpec()

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__(encoder, decoder)
        # None: no layer has a memory.
        self.memory_spec: MemorySpec | None = None

    # ---- before the model is built: asked by the task ------------------------------------------

    @classmethod
    def bert_use(cls, cfg: Any) -> str | None:
        """Return how a model with options ``cfg`` uses the BERT of a prepared corpus, or None.

        :data:`BERT_FEATURES`: batches have the output of the frozen BERT, ``context_states (context
        tokens, width)`` and ``context_lengths (batch,)``. :data:`BERT_SUBWORDS`: the encoder is a
        BERT.
        """
        return None

    @classmethod
    def default_special_tokens(cls, cfg: Any, unit: str) -> str:
        """Return the default of ``--sentence-marks`` for a new model."""
        return cls.inputs.special_tokens.get(str(cfg.get("_name")), "both")

    @classmethod
    def adapt_to_unit(cls, cfg: Any, unit: str) -> None:
        """Change options of a new model to suit ``unit``."""

    # ---- building ------------------------------------------------------------------------------

    @classmethod
    def build_model(cls: type[Model], cfg: Any, task: Any) -> Model:
        """Build a model from options; sizes that are None come from the preset ``cfg._name``.

        Raises:
            GtransError: options contradict each other, or the task lacks an input of the model.
        """
        check_environment()
        options = resolve_sizes(cfg, cls.options, cls.presets)
        if isinstance(task, FairseqTask) and not hasattr(task, "complete_input"):
            # fairseq's own tasks read sentences, and their search gives the encoder only tokens.
            needs_context = cls.inputs.units[0] in ("window", "stream")
            if needs_context or cls.bert_use(options) is not None:
                raise GtransError(
                    f"`--arch {options._name}` needs more than fairseq's own tasks give it; choose "
                    "`--task document_translation`."
                )
            _check_stock_vocabulary(task)
        cls.check(options, task)
        return cls.build_from_options(options, task)

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raise GtransError for options that contradict each other."""
        check_stack(cfg, cls.options, task)
        check_fusion(cfg)
        used_groups(cfg, cls.layer_groups(cfg))

    @classmethod
    def build_from_options(cls: type[Model], cfg: Any, task: Any) -> Model:
        """Build a model from options with all sizes."""
        source, target = task.source_dictionary, task.target_dictionary
        dim = int(cfg.encoder_embed_dim or 0)
        source_embeddings = word_table(len(source), dim, source.pad())
        target_embeddings = source_embeddings
        if not cfg.share_all_embeddings:
            target_embeddings = word_table(len(target), dim, target.pad())
        encoder_design = cls.design(cfg, "encoder")
        encoder = cls.encoder_type(cfg, source, source_embeddings, encoder_design)
        decoder_design = cls.design(cfg, "decoder")
        decoder = cls.decoder_type(cfg, target, target_embeddings, decoder_design)
        model = cls(encoder, decoder)
        model.add_parts(cfg)
        planner = model.new_planner()
        encoder.planner = planner
        decoder.planner = planner
        model.use_backend(str(cfg.attention_backend))
        for module in model.modules():
            if isinstance(module, TransformerLayer):
                module.checkpoints = bool(cfg.checkpoint_activations)
        return model

    @classmethod
    def attention_kinds(cls, cfg: Any) -> AttentionKinds:
        """Return the kind of attention of every layer."""
        return AttentionKinds.all("global", cfg)

    @classmethod
    def layer_spec(cls, cfg: Any, side: str) -> LayerSpec:
        """Return sizes and switches of one side's layers."""
        return layer_spec(cfg, side, bool(getattr(cfg, f"{side}_normalize_before")))

    @classmethod
    def positions_restart(cls, cfg: Any) -> bool:
        """Return whether positions restart in every sentence."""
        return str(getattr(cfg, "positions", "document")) == "sentence"

    @classmethod
    def layer_groups(cls, cfg: Any) -> int:
        """Return the number of groups of decoder layers that predict words."""
        return decoder_groups(cfg)

    @classmethod
    def design(cls, cfg: Any, side: str) -> StackDesign:
        """Return the design of one side (``encoder`` or ``decoder``)."""
        kinds = cls.attention_kinds(cfg)
        spec = cls.layer_spec(cfg, side)
        design = StackDesign(
            spec=spec,
            self_kinds=kinds.encoder,
            fusion=partial(group_fusion, cfg, side, spec.pre_norm),
            by_sentence=cls.positions_restart(cfg),
            has_combined_attention="combined" in (*kinds.encoder, *kinds.decoder, *kinds.cross),
            used_layers=cfg.keep_encoder_layers,
        )
        if side == "encoder":
            return design
        return replace(
            design,
            self_kinds=kinds.decoder,
            cross_kinds=kinds.cross,
            final_norm=not getattr(cfg, "no_decoder_final_norm", False),
            used_layers=None,
            layer_groups=used_groups(cfg, cls.layer_groups(cfg)),
            probability_fusion=str(cfg.probability_fusion),
        )

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,
        model_cfg: Any = None,
        args: Any = None,
    ) -> Any:
        """Load parameters; raise GtransError if they do not fit or are not finite."""
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
        """Add the modules that options ask for."""

    def use_backend(self, backend: str) -> None:
        """Choose one of :data:`gtrans.modules.group_attention.BACKENDS`."""
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
        """Return logits ``(targets, target length, vocabulary)`` and a dictionary for fairseq.

        Args:
            src_tokens: ``(batch, source length)`` rows of
                :class:`gtrans.data.examples.ExampleBuilder`, padded on either side.
            src_lengths: unused.
            prev_output_tokens: ``(targets, target length)``, padded on the right.
            source_of_row: ``(targets,)`` the source of each target; targets of one source stand
                next to each other. None: every source has one target.
            predict_at: ``(targets, target length)`` True on the tokens to predict, with logits
                ``(True entries, vocabulary)``.
            states_only: return :class:`gtrans.modules.chunked_loss.DecoderStates` for logits.
            memory: the memory before the rows, updated in place; None: all begin a document.
            plan: from :attr:`planner`; None: it is made now, and the host waits once.
            source: in windows ``current_sentence (batch,)``, its number in the row; in streams of
                chunks ``chunks (batch, most)``, the sentences of every chunk, then zeros; BERT's
                output.
        """
        flow = self._flow(memory)
        source = {"src_tokens": src_tokens, **source}
        net_input = {
            **source,
            "prev_output_tokens": prev_output_tokens,
            "source_of_row": source_of_row,
        }
        if plan is None or source_of_row is not None:
            planned = self.planner.on_device(net_input)
        else:
            # fairseq has moved the tensors of net_input, but leaves objects where they are.
            planned = to_device(plan, src_tokens.device)
        if self.memory_spec is not None and flow is not None and torch.is_grad_enabled():
            # The gradient of a memory ends some steps back (MemorySpec.passes).
            for _ in range(self.memory_spec.passes - 1):
                self._read(net_input, flow, planned)
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
        """Map decoder states ``(layer groups, tokens, dim)`` to logits ``(tokens, vocabulary)``."""
        return self.decoder.logits(features)

    @property
    def reuses_prefix_states(self) -> bool:
        """Whether translations of a source share the states of a common prefix."""
        return not self.has_memory

    def encode(self, source: Mapping[str, Any]) -> EncoderOutput:
        """Encode the sources of a batch."""
        encoded: EncoderOutput = self.encoder(
            source["src_tokens"], memory=source.get("memory"), plan=source.get("plan")
        )
        return encoded

    @property
    def planner(self) -> Planner:
        """Plans batches for the device of the model."""
        return self.encoder.planner.for_device(self.encoder.embed_tokens.weight.device)

    def new_planner(self, **further: Any) -> Planner:
        """Return a planner for the CPU; ``further``: attributes that a system adds."""
        attention = {
            "encoder": _plans_of(self.encoder.self_kinds),
            "decoder": _plans_of(self.decoder.self_kinds),
            "cross": _plans_of(self.decoder.cross_kinds),
        }
        memory_sizes = {}
        for side, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            if any(layer.context_attn is not None for layer in stack.layers):
                attention[side].add("context")
            if any(layer.memory is not None for layer in stack.layers):
                assert self.memory_spec is not None
                memory_sizes[side] = self.memory_spec.size
        return self.planner_type(
            pad=self.encoder.frame.pad,
            opening=self.decoder.opening,
            eos=self.decoder.frame.eos,
            closing=self.encoder.frame.closing,
            attention=attention,
            memory_sizes=memory_sizes,
            memory_step=self.inputs.stream_of,
            reuses_prefix_states=self.reuses_prefix_states,
            **further,
        )

    # ---- search --------------------------------------------------------------------------------

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Prepare for decoding; reject options of fairseq's own layers."""
        for name, what in _OF_STOCK_LAYERS.items():
            if getattr(cfg.generation, name, None):
                raise GtransError(
                    f"`--{name.replace('_', '-')}` is not supported: models of gtrans have no "
                    f"{what} in decoding; leave it out."
                )
        super().prepare_for_inference_(cfg)

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> DecodeState:
        """Encode a batch and begin a search with ``beam`` hypotheses for each source.

        ``source``: ``net_input`` without the decoder's input. With ``prefix (documents, longest)``,
        decoder input of whole sentences, padded on the right, hypotheses go on behind it. In models
        with memories every source is one step and begins with ``memory``.
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
        """Return logits ``(hypotheses, vocabulary)`` after one more token.

        Args:
            tokens: ``(hypotheses,)`` the newest tokens.
            opens: ``(hypotheses,)`` True where the token opens a sentence.
            state: updated in place.
        """
        return self.decoder.step(tokens, opens, state)

    def search_scores(self, logits: Tensor) -> Tensor:
        """Return the log-probabilities that a search adds up."""
        return self.decoder.search_scores(logits)

    # ---- documents that are read step by step: by sentences or chunks -----------------------

    @property
    def has_memory(self) -> bool:
        """Whether a stream carries a memory from step to step."""
        return self.memory_spec is not None

    def _flow(self, memory: MemoryFlow | None) -> MemoryFlow | None:
        if not self.has_memory:
            return None
        return MemoryFlow() if memory is None else memory

    def new_memory(self) -> Any:
        """Return the memory before the first step of a document.

        Its ``following(documents)`` is the memory before the next steps of ``documents (n,)``; its
        class has ``joined(memories)``.
        """
        return MemoryFlow()

    @torch.no_grad()
    def read(self, net_input: Mapping[str, Any], memory: Any) -> None:
        """Update ``memory`` in place by reading a batch without gradient."""
        self._read(net_input, memory, self.planner.on_device(net_input))

    @torch.no_grad()
    def remember(self, prev_output_tokens: Tensor, memory: Any) -> None:
        """Update ``memory`` in place with finished translations of one step.

        ``prev_output_tokens (documents, longest)``: their decoder input.
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
        """The map to fit to BERT's output before the first update."""
        return None

    def start_from_bert(self, bert: BertWeights) -> set[str]:
        """Initialise the encoder with a BERT, and return the loaded parameters' names.

        Raises:
            GtransError: the BERT has other sizes.
        """
        raise NotImplementedError(f"the encoder of {type(self).__name__} is no BERT")

    # ---- analysis ------------------------------------------------------------------------------

    def layouts(
        self, src_tokens: Tensor, prev_output_tokens: Tensor
    ) -> tuple[DocumentLayout, DocumentLayout]:
        """Return the layouts of ``(batch, length)`` source and decoder input."""
        source = self.planner.source_layout(src_tokens.cpu())
        target = self.planner.target_layout(prev_output_tokens.cpu())
        return to_device(source, src_tokens.device), to_device(target, src_tokens.device)


class SentenceTransformer(DocumentModel):
    """A model whose layers see one sentence; a system adds parts that see others."""

    @classmethod
    def attention_kinds(cls, cfg: Any) -> AttentionKinds:
        """Return group attention for all layers."""
        return AttentionKinds.all("group", cfg)

    @classmethod
    def positions_restart(cls, cfg: Any) -> bool:
        """Return True."""
        return True


def _plans_of(kinds: Sequence[str]) -> set[str]:
    if "combined" in kinds:
        return {"group", "global"}
    return set(kinds)


def _check_stock_vocabulary(task: Any) -> None:
    recorded = ModelFingerprint.of_state(task.state_dict(), "the checkpoint")
    if recorded is None:
        return
    for side in ("source", "target"):
        dictionary = getattr(task, f"{side}_dictionary")
        here = Vocabulary.of(dictionary, len(dictionary))
        old = getattr(recorded, side)
        if here.entries == old.entries:
            continue
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
