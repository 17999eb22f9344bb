"""The contract: what a model offers to task, search, force decoding, criteria and analysis.

A system subclasses :class:`gtrans.models.base.model.Transformer`, which fulfils this contract,
and overrides what differs. Code that uses a model relies on nothing that is not here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from gtrans.errors import GtransError
from gtrans.models.base.presets import DocumentModelConfig, Presets
from gtrans.modules.bert import BertWeights
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.whitening import Whitening

# What a model can read from a BERT (:meth:`DocumentModel.bert_use`).
BERT_FEATURES, BERT_PIECES = "features", "pieces"
# Options of fairseq's commands for decoding that its layers follow, and what they are for.
_OF_STOCK_LAYERS = {
    "retain_dropout": "dropout", "retain_dropout_modules": "dropout",
    "print_alignment": "alignments",
}  # fmt: skip


@runtime_checkable
class DocumentTask(Protocol):
    """A task that gives models windows, streams and BERT's output; fairseq's own tasks do not."""

    def complete_input(self, net_input: Mapping[str, Any]) -> dict[str, Any]:
        """``net_input`` as models take it."""


class SearchState(Protocol):
    """What a decoder remembers between two steps of a search."""

    def reorder(self, rows: Tensor) -> None:
        """Let hypothesis ``i`` continue the old hypothesis ``rows[i]`` of the same document.

        ``rows``: ``(hypotheses,)``.
        """

    def keep(self, documents: Tensor) -> None:
        """Drop all other documents; ``documents (n,)`` are indices."""


class CarriedState(Protocol):
    """What a model carries from one step to the next in the documents of a batch."""

    def following(self, documents: Tensor) -> CarriedState:
        """The state with which the next steps of ``documents (n,)`` begin."""


class SearchableModel(Protocol):
    """The part of the contract that beam search needs."""

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> SearchState:
        """See :meth:`DocumentModel.begin_decoding`."""

    def decode_step(self, tokens: Tensor, opens: Tensor, state: Any) -> Tensor:
        """See :meth:`DocumentModel.decode_step`."""

    def search_scores(self, logits: Tensor) -> Tensor:
        """See :meth:`DocumentModel.search_scores`."""


def reads_plain_documents(options: Mapping[str, Any], unit: str) -> bool:
    """Whether a model with these options reads a document as one text, without sentences.

    Only such a model can decide itself where a document ends.
    """
    by_sentence = str(options.get("positions")) == "sentence"
    return unit == "document" and options.get("doc_mode") == "full" and not by_sentence


class DocumentModel(FairseqEncoderDecoderModel):
    """The contract.

    The task reads the class attributes before it builds a model.

    Attributes:
        options: the class of the model's options.
        presets: its named sizes, each an ``--arch``.
        units: units that the model can read (:data:`gtrans.data.units.UNITS`), the default
            first.
        stream_of: what it reads at once in a stream (:data:`gtrans.modules.STEPS`).
        context_sides: sides on which a window may have its neighbours
            (:data:`gtrans.data.units.CONTEXT_SIDES`), the default first.
        context_size: default number of neighbours before and after the current sentence.
        sentence_marks: architecture to sentence marks, for pretrained models whose marks are
            not ``both``.
    """

    options: ClassVar[type[DocumentModelConfig]]
    presets: ClassVar[Presets]
    units: ClassVar[tuple[str, ...]] = ("document", "sentence")
    stream_of: ClassVar[str] = "sentences"
    context_sides: ClassVar[tuple[str, ...]] = ("source",)
    context_size: ClassVar[tuple[int, int]] = (1, 0)
    sentence_marks: ClassVar[Mapping[str, str]] = {}

    # ---- before the model is built: asked by the task ------------------------------------------

    @classmethod
    def bert_use(cls, cfg: Any) -> str | None:
        """What a model with options ``cfg`` reads from the BERT that a corpus was prepared with.

        Returns:
            :data:`BERT_FEATURES`: with every batch the output of the frozen BERT
            (``context_states (context tokens, width)`` and ``context_lengths (batch,)``);
            :data:`BERT_PIECES`: the source in word pieces, because the encoder is a BERT;
            None: nothing.
        """
        return None

    @classmethod
    def marks_of(cls, cfg: Any, unit: str) -> str:
        """The sentence marks of a new model with options ``cfg`` that reads ``unit``."""
        return cls.sentence_marks.get(str(cfg.get("_name")), "both")

    @classmethod
    def adapt_to_unit(cls, cfg: Any, unit: str) -> None:
        """Change options in ``cfg``, those of a new model, that make no sense for ``unit``."""

    # ---- training and force decoding -----------------------------------------------------------

    @abstractmethod
    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        *,
        source_of_row: Tensor | None = None,
        predict_at: Tensor | None = None,
        states_only: bool = False,
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
            source: the rest of ``net_input``: the ``plan`` of the batch (:attr:`planner`;
                without it the host waits once); in windows ``current (batch,)``, the number of
                the current sentence in its row; in streams of instances ``instances (batch,
                most)``, the sentences of every instance of a row, then zeros; BERT's output for
                the source; the ``memory`` that rows begin with.

        Returns:
            the logits, and a dictionary for fairseq. With ``states_only`` a
            :class:`gtrans.modules.chunked_loss.DecoderStates` instead of the logits.
        """

    @abstractmethod
    def project(self, features: Tensor) -> Tensor:
        """``(groups, tokens, dim)`` decoder states to logits ``(tokens, vocabulary)``."""

    @abstractmethod
    def encode(self, source: Mapping[str, Any]) -> EncoderOutput:
        """Encode the sources of a batch; ``source`` is ``net_input`` without decoder input."""

    @property
    @abstractmethod
    def planner(self) -> Callable[[Mapping[str, Any]], Any]:
        """Makes the plan of a batch, as an object without parameters.

        What it makes of ``net_input`` on the host, moved to the device of the model, can be given
        to :meth:`forward` as ``plan``. Then the host does not wait for the device in a pass.
        """

    @abstractmethod
    def use_backend(self, backend: str) -> None:
        """Compute attention by ``backend`` from now on.

        Args:
            backend: one of :data:`gtrans.modules.group_attention.BACKENDS`.
        """

    # ---- search --------------------------------------------------------------------------------

    def prepare_for_inference_(self, cfg: Any) -> None:
        """As in fairseq.

        Raises:
            GtransError: its search is to do what it does with fairseq's own layers only.
        """
        for name, what in _OF_STOCK_LAYERS.items():
            if getattr(cfg.generation, name, None):
                raise GtransError(
                    f"`--{name.replace('_', '-')}` is not supported: models of gtrans have no "
                    f"{what} in decoding; leave it out."
                )
        super().prepare_for_inference_(cfg)

    @abstractmethod
    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> SearchState:
        """Encode a batch and begin a search with ``beam`` hypotheses for each source.

        Args:
            source: ``net_input`` without the decoder's input; for sources of several sentences
                perhaps with ``prefix (documents, longest)``, decoder input of the translations
                of their first sentences, padded on the right: all hypotheses go on behind it.
            beam: hypotheses of each source.
        """

    @abstractmethod
    def decode_step(self, tokens: Tensor, opens: Tensor, state: Any) -> Tensor:
        """Logits ``(hypotheses, vocabulary)`` after one more token of every hypothesis.

        Args:
            tokens: ``(hypotheses,)`` the newest token.
            opens: ``(hypotheses,)`` whether that token opens a sentence.
            state: as returned by :meth:`begin_decoding`; updated in place.
        """

    def search_scores(self, logits: Tensor) -> Tensor:
        """``(hypotheses, vocabulary)`` log-probabilities that a search adds up, from logits."""
        return torch.log_softmax(logits.float(), -1)

    # ---- documents that are read step by step: by sentences or instances -----------------------

    @property
    def has_memory(self) -> bool:
        """Whether training carries anything from one window of a stream to the next."""
        return False

    def new_memory(self) -> CarriedState:
        """The state with which the first steps of documents begin.

        Raises:
            NotImplementedError: the model carries nothing from step to step.
        """
        raise NotImplementedError(f"{type(self).__name__} carries nothing between sentences")

    def joined_memory(self, memories: Sequence[Any]) -> CarriedState:
        """The state of some documents together, one after the other, from their own states.

        Args:
            memories: of each document what :meth:`new_memory` or
                :meth:`separate_memories` has returned for it.
        """
        raise NotImplementedError(f"{type(self).__name__} carries nothing between instances")

    def separate_memories(self, memory: Any, documents: int) -> Sequence[CarriedState]:
        """Of each of so many documents alone the state with which its next step begins."""
        raise NotImplementedError(f"{type(self).__name__} carries nothing between instances")

    def read(self, net_input: Mapping[str, Any], memory: Any) -> None:
        """Update ``memory`` by reading a batch, without gradient.

        Args:
            net_input: arguments of :meth:`forward`, with the decoder's input.
            memory: the model's own :class:`CarriedState`; updated in place.
        """
        raise NotImplementedError(f"{type(self).__name__} carries nothing between sentences")

    def remember(self, prev_output_tokens: Tensor, memory: Any) -> None:
        """Update ``memory`` with the finished translations of one step of each document.

        Args:
            prev_output_tokens: ``(documents, longest)`` decoder input of the translations.
            memory: the state that :meth:`begin_decoding` got as ``source["memory"]``.
        """
        raise NotImplementedError(f"{type(self).__name__} carries nothing between sentences")

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

    def learned_of_groups(self) -> dict[str, list[float]]:
        """What layer fusion has learned, by what it is; empty without fusion."""
        return {}

    @abstractmethod
    def layouts(
        self, src_tokens: Tensor, prev_output_tokens: Tensor
    ) -> tuple[DocumentLayout, DocumentLayout]:
        """The sentence structure of a batch, on the source and on the target side.

        Args:
            src_tokens: ``(batch, source length)``.
            prev_output_tokens: ``(batch, target length)``.
        """
