"""The Transformer that every system is built on; it fulfils the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import Tensor

from gtrans.data.vocabulary import Vocabulary
from gtrans.errors import GtransError
from gtrans.model_identity import ModelIdentity
from gtrans.models.base.contract import DocumentModel, DocumentTask
from gtrans.models.base.decoder import Decoder
from gtrans.models.base.encoder import AttentionKinds, Encoder, StackDesign
from gtrans.models.base.options import check_stack, layer_spec
from gtrans.models.base.parts.fusion import check_fusion, decoder_groups, group_fusion, used_groups
from gtrans.models.base.planning import PLANNED, BatchPlan, BatchPlanner, planned
from gtrans.models.base.presets import resolve_sizes
from gtrans.modules.attention import MultiheadAttention
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.decode_state import DecodeState
from gtrans.modules.embedding import word_table
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.memory import MemorySpec
from gtrans.modules.memory_plan import MemoryFlow
from gtrans.modules.residual import LayerSpec
from gtrans.modules.transformer import TransformerLayer

Model = TypeVar("Model", bound="Transformer")


class Transformer(DocumentModel):
    """An encoder and a decoder, from options to beam search.

    The base attends over its whole unit. A system describes its stacks in
    :meth:`attention_kinds`, :meth:`layer_spec` and :meth:`design`, switches on parts in
    :meth:`add_parts`, and replaces :meth:`encode`, ``encoder_type`` or ``decoder_type`` where
    it reads or writes differently.

    Attributes:
        memory_spec: settings of its memories
            (:func:`gtrans.models.base.parts.memory.add_memories`); None: no layer has one.
    """

    encoder: Encoder
    decoder: Decoder
    encoder_type: ClassVar[type[Encoder]] = Encoder
    decoder_type: ClassVar[type[Decoder]] = Decoder
    units: ClassVar[tuple[str, ...]] = ("document", "sentence", "window")
    context_sides: ClassVar[tuple[str, ...]] = ("source", "both")

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__(encoder, decoder)
        self.memory_spec: MemorySpec | None = None

    # ---- building ------------------------------------------------------------------------------

    @classmethod
    def build_model(cls: type[Model], cfg: Any, task: Any) -> Model:
        """Build from options; sizes that are None come from the preset ``cfg._name``.

        Raises:
            GtransError: options that contradict each other, or a task of fairseq's own that does
                not give the model what it reads.
        """
        _refuse_averages(cfg)
        options = resolve_sizes(cfg, cls.options, cls.presets)
        if isinstance(task, FairseqTask) and not isinstance(task, DocumentTask):
            cls._refuse_stock_task(options)
            _check_stock_vocabulary(task)
        cls.check(options, task)
        return cls.build_from_options(options, task)

    @classmethod
    def _refuse_stock_task(cls, cfg: Any) -> None:
        """Raises GtransError unless fairseq's own tasks give the model all that it reads.

        They read sentences, and their search calls the encoder with nothing but tokens.
        """
        beyond = cls.units[0] in ("window", "stream")
        if beyond or cls.bert_use(cfg) is not None:
            raise GtransError(
                f"`--arch {cfg._name}` reads more than fairseq's own tasks give it; choose `--task "
                "document_translation`."
            )

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
        return str(cfg.positions) == "sentence"

    @classmethod
    def ends_with_norm(cls, cfg: Any, side: str) -> bool:
        """Whether a pre-norm stack ends with a LayerNorm."""
        return side == "encoder" or not cfg.no_decoder_final_norm

    @classmethod
    def groups(cls, cfg: Any) -> int:
        """The number of groups of decoder layers that predict words; 1: the decoder is plain."""
        return decoder_groups(cfg)

    @classmethod
    def design(cls, cfg: Any, side: str) -> StackDesign:
        """How the stack of one side (``encoder`` or ``decoder``) is built."""
        kinds = cls.attention_kinds(cfg)
        is_decoder = side == "decoder"
        return StackDesign(
            spec=cls.layer_spec(cfg, side),
            self_kinds=kinds.decoder if is_decoder else kinds.encoder,
            cross_kinds=kinds.cross if is_decoder else (),
            fusion=lambda spec: group_fusion(cfg, side, spec.pre_norm),
            by_sentence=cls.positions_restart(cfg),
            has_groups="combined" in (*kinds.encoder, *kinds.decoder, *kinds.cross),
            final_norm=cls.ends_with_norm(cfg, side),
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
            GtransError: the parameters have other names or shapes.
        """
        try:
            return super().load_state_dict(state_dict, strict, model_cfg, args)
        except RuntimeError as error:
            # The first line of torch's message names the class, each of the others a parameter.
            problems = [line.strip().rstrip(".") for line in str(error).splitlines()[1:]]
            raise GtransError(
                "the checkpoint does not fit the model that is made with the options and "
                f"dictionaries here ({problems[0]}); give the --task and the data folder it was "
                "trained with."
            ) from error

    def add_parts(self, cfg: Any) -> None:
        """Switch on the parts of :mod:`gtrans.models.base.parts` that the options name."""

    def use_backend(self, backend: str) -> None:
        """See :meth:`gtrans.models.base.contract.DocumentModel.use_backend`."""
        for module in self.modules():
            if isinstance(module, MultiheadAttention):
                module.backend = backend

    # ---- training ------------------------------------------------------------------------------

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
        plan: BatchPlan | None = None,
        **source: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """See :meth:`gtrans.models.base.contract.DocumentModel.forward`.

        ``memory`` is the :class:`~gtrans.modules.memory_plan.MemoryFlow` with which the rows begin
        (None: all rows begin a document); it receives the memory with which they end. ``plan``
        is what :attr:`planner` makes of the batch (None: it is made now).
        """
        flow = self._flow(memory)
        if plan is None:
            read = {"src_tokens": src_tokens, "prev_output_tokens": prev_output_tokens, **source}
            plan = self.plan({**read, "source_of_row": source_of_row})
        if self.memory_spec is not None and flow is not None and torch.is_grad_enabled():
            for _ in range(self.memory_spec.passes - 1):
                self._read(src_tokens, prev_output_tokens, flow, plan)
        encoded = self.encode(
            {"src_tokens": src_tokens, **source, "memory": flow, "plan": plan.source}
        )
        if source_of_row is not None:
            encoded = encoded.reordered(source_of_row)
            encoded = encoded if self.shares_prefixes else encoded.copied()
        output: tuple[Any, dict[str, Any]] = self.decoder(
            prev_output_tokens,
            encoded,
            predict_at=predict_at,
            states_only=states_only,
            memory=flow,
            plan=plan.target,
        )
        if flow is not None:
            flow.earlier.clear()
        return output

    def project(self, features: Tensor) -> Tensor:
        """See :meth:`gtrans.models.base.decoder.Decoder.logits`."""
        return self.decoder.logits(features)

    @property
    def shares_prefixes(self) -> bool:
        """Whether translations of one source may share the states of a common prefix.

        They may not if each of them writes its own memory.
        """
        return not self.has_memory

    def encode(self, source: Mapping[str, Any]) -> EncoderOutput:
        """See the contract; the base treats all sentences of a window alike."""
        encoded: EncoderOutput = self.encoder(
            source["src_tokens"], memory=source.get("memory"), plan=source.get("plan")
        )
        return encoded

    @property
    def planner(self) -> BatchPlanner:
        """See :meth:`gtrans.models.base.contract.DocumentModel.planner`."""
        return BatchPlanner(self.encoder.planner, self.decoder.planner)

    def plan(self, net_input: Mapping[str, Any]) -> BatchPlan:
        """The plan of a batch that is on the device of the model; the host waits once."""
        read = {name: net_input[name] for name in PLANNED if net_input.get(name) is not None}
        return planned(self.planner, net_input["src_tokens"].device, read)

    # ---- search --------------------------------------------------------------------------------

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> DecodeState:
        """See :meth:`gtrans.models.base.contract.DocumentModel.begin_decoding`.

        With memories every source is one step, which begins with ``source["memory"]``.
        """
        flow = self._flow(source.get("memory"))
        encoded = self.encode({**source, "memory": flow})
        if flow is not None:
            if self.stream_of == "sentences" and encoded.layout.most_sentences > 1:
                raise ValueError("a memory is decoded sentence by sentence, see StreamSearch")
            flow.encoded = encoded
        state: DecodeState = self.decoder.begin(encoded, beam, flow)
        if "prefix" in source:
            self.decoder.read_prefix(source["prefix"], encoded, state, flow)
        return state

    def decode_step(self, tokens: Tensor, opens: Tensor, state: Any) -> Tensor:
        """See :meth:`gtrans.models.base.decoder.Decoder.step`."""
        return self.decoder.step(tokens, opens, state)

    def search_scores(self, logits: Tensor) -> Tensor:
        """See :meth:`gtrans.models.base.decoder.Decoder.search_scores`."""
        return self.decoder.search_scores(logits)

    # ---- memory --------------------------------------------------------------------------------

    @property
    def has_memory(self) -> bool:
        """Whether any layer has a memory."""
        return self.memory_spec is not None

    def _flow(self, memory: MemoryFlow | None) -> MemoryFlow | None:
        """The memory with which a pass begins; None in models without memories."""
        if not self.has_memory:
            return None
        return MemoryFlow() if memory is None else memory

    def new_memory(self) -> Any:
        """The memory before the first step of a document."""
        return MemoryFlow()

    def joined_memory(self, memories: Sequence[Any]) -> Any:
        """See :meth:`gtrans.models.base.contract.DocumentModel.joined_memory`."""
        return MemoryFlow.joined(memories)

    def separate_memories(self, memory: Any, documents: int) -> list[Any]:
        """See :meth:`gtrans.models.base.contract.DocumentModel.separate_memories`."""
        return list(memory.by_document(documents))

    @torch.no_grad()
    def read(self, net_input: Mapping[str, Any], memory: Any) -> None:
        """See :meth:`gtrans.models.base.contract.DocumentModel.read`."""
        read = net_input["src_tokens"], net_input["prev_output_tokens"]
        self._read(*read, memory, self.plan(net_input))

    @torch.no_grad()
    def remember(self, prev_output_tokens: Tensor, memory: Any) -> None:
        """See :meth:`gtrans.models.base.contract.DocumentModel.remember`."""
        if not self.has_memory:
            return
        if memory.encoded is None:
            raise ValueError("nothing has been encoded with this memory")
        self._read_target(prev_output_tokens, memory.encoded, memory)

    def _read(
        self,
        src_tokens: Tensor,
        prev_output_tokens: Tensor,
        flow: MemoryFlow,
        plan: BatchPlan,
    ) -> None:
        encoded: EncoderOutput = self.encoder(src_tokens, memory=flow, plan=plan.source)
        self._read_target(prev_output_tokens, encoded, flow, plan.target)

    def _read_target(
        self,
        prev_output_tokens: Tensor,
        encoded: EncoderOutput,
        flow: MemoryFlow,
        plan: AttentionPlans | None = None,
    ) -> None:
        if any(layer.memory is not None for layer in self.decoder.layers):
            self.decoder.states(prev_output_tokens, encoded, flow, plan=plan)

    # ---- analysis ------------------------------------------------------------------------------

    def learned_of_groups(self) -> dict[str, list[float]]:
        """Gates of the encoder's groups and the decoder's layers; its groups' weights psi."""
        gates = {"encoder gates": self.encoder.fusion, "decoder gates": self.decoder.fusion}
        found = {name: fusion.gates() for name, fusion in gates.items()}
        if self.decoder.probabilities is not None:
            found["decoder weights"] = self.decoder.log_weights().exp()
        return {name: values.tolist() for name, values in found.items() if values is not None}

    def layouts(
        self, src_tokens: Tensor, prev_output_tokens: Tensor
    ) -> tuple[DocumentLayout, DocumentLayout]:
        """See :meth:`gtrans.models.base.contract.DocumentModel.layouts`."""
        return self.encoder.layout(src_tokens), self.decoder.layout(prev_output_tokens)


class SentenceTransformer(Transformer):
    """A :class:`Transformer` whose layers see one sentence at a time, whatever the unit.

    What it knows of other sentences comes from the parts that a system adds.
    """

    @classmethod
    def attention_kinds(cls, cfg: Any) -> AttentionKinds:
        """Attention stays within sentences."""
        return AttentionKinds.all("group", cfg)

    @classmethod
    def positions_restart(cls, cfg: Any) -> bool:
        """Positions count within sentences."""
        return True


def _refuse_averages(cfg: Any) -> None:
    """Raises GtransError if fairseq is to keep an average that no command reads."""
    root: Any = cfg._get_parent() if isinstance(cfg, DictConfig) else None
    if root is not None and (root.get("ema") or {}).get("store_ema"):
        raise GtransError(
            "`--store-ema` keeps an average that no command reads; leave it out and average the "
            "checkpoints (`gtrans average`)."
        )


def _check_stock_vocabulary(task: Any) -> None:
    """Raises GtransError if a checkpoint, whose state fairseq's task has, has other symbols."""
    recorded = ModelIdentity.of_state(task.state_dict(), "the checkpoint")
    if recorded is None:
        return
    for side in ("source", "target"):
        dictionary, old = getattr(task, f"{side}_dictionary"), getattr(recorded, side)
        here = Vocabulary.of(dictionary, len(dictionary))
        if here.symbols != old.symbols:
            if recorded.unit:
                raise GtransError(
                    "the checkpoint was trained with `--task document_translation`; give that task."
                )
            # fairseq numbers the symbols of languages in the order of the option.
            order = ", and `--langs` in its order" if getattr(task, "langs", None) else ""
            raise GtransError(
                f"the checkpoint was not made with these data, it has another {side} vocabulary "
                f"({old.difference(here)}); give the folder it was trained with{order}."
            )
