"""What a model of this project is asked for, and by whom.

A system subclasses :class:`gtrans.models.base.model.Transformer`, which keeps this contract,
and states where it differs. Nobody who uses a model asks it for anything that is not here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from gtrans.models.base.presets import DocumentModelConfig, Presets
from gtrans.modules.bert import BertWeights
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.whitening import Whitening

# What a model can read of a BERT, see :meth:`DocumentModel.bert_use`.
BERT_FEATURES, BERT_PIECES = "features", "pieces"


class SearchState(Protocol):
    """What a decoder remembers between two steps of a search; rows are hypotheses."""

    def reorder(self, rows: Tensor, common: int) -> None:
        """Continue row ``i`` from old row ``rows[i]``; the first ``common`` tokens agree."""

    def keep(self, documents: Tensor) -> None:
        """Go on with these documents only."""


class CarriedState(Protocol):
    """What a model carries from sentence to sentence of the documents of a batch."""

    def following(self, documents: Tensor) -> CarriedState:
        """What enters the next sentences of these documents."""


class SearchableModel(Protocol):
    """The part of the contract that beam search needs."""

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> SearchState:
        """See :meth:`DocumentModel.begin_decoding`."""

    def decode_step(self, tokens: Tensor, opens: Tensor, state: Any) -> Tensor:
        """See :meth:`DocumentModel.decode_step`."""


class DocumentModel(FairseqEncoderDecoderModel):
    """The contract.

    Class attributes are read by the task before a model is built:

    Attributes:
        options: the class of the model's options.
        presets: its named sizes, each an ``--arch``.
        units: what the task may cut for this model (:data:`gtrans.data.units.UNITS`), the
            default first.
        context_sides: where a window may have its neighbours
            (:data:`gtrans.data.units.CONTEXT_SIDES`), the default first.
        context_size: neighbours before and after the current sentence by default.
        sentence_marks: sentence marks by architecture, where an architecture is a pretrained
            model that has seen others than ``both``.
        has_group_outputs: whether ``forward`` takes ``groups_only``.
    """

    options: ClassVar[type[DocumentModelConfig]]
    presets: ClassVar[Presets]
    units: ClassVar[tuple[str, ...]] = ("document", "sentence")
    context_sides: ClassVar[tuple[str, ...]] = ("source",)
    context_size: ClassVar[tuple[int, int]] = (1, 0)
    sentence_marks: ClassVar[Mapping[str, str]] = {}
    has_group_outputs: ClassVar[bool] = False

    # ---- before the model is built: asked by the task ------------------------------------------

    @classmethod
    def bert_use(cls, cfg: Any) -> str | None:
        """What a model with options ``cfg`` reads of the BERT that a corpus was prepared with.

        :data:`BERT_FEATURES`: with every batch, the output of the frozen BERT
        (``context_states (context tokens, width)`` and ``context_lengths (batch,)``);
        :data:`BERT_PIECES`: the source in word pieces, because the encoder is a BERT; None:
        nothing.
        """
        return None

    @classmethod
    def adapt_to_unit(cls, cfg: Any, unit: str) -> None:
        """Change, in the options ``cfg`` of a new model, what makes no sense for ``unit``."""

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
        **source: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Logits ``(batch, target length, vocabulary)`` of every next token.

        Args:
            src_tokens: ``(batch, source length)`` rows as
                :class:`gtrans.data.examples.ExampleBuilder` makes them, padded on either side.
            src_lengths: unused; the padding tells the lengths.
            prev_output_tokens: ``(rows, target length)`` decoder input, padded on the right.
            source_of_row: ``(rows,)`` the row of ``src_tokens`` that each row of the target
                translates; rows of one source stand next to each other. None: one target for
                every source.
            predict_at: ``(rows, target length)`` True on the tokens whose logits are wanted:
                they are ``(True entries, vocabulary)`` then, row by row.
            source: the rest of a batch's ``net_input``: ``current (batch,)`` in windows, the
                number, in its row, of the sentence that the row is there for; what a BERT says
                of the source; the ``memory`` that rows begin with. Models with
                ``has_group_outputs`` also take ``groups_only``.

        Returns:
            the logits, and a dictionary for fairseq. With ``groups_only=True`` a
            :class:`gtrans.modules.multi_level.GroupOutputs` stands in the place of the logits.
        """

    @abstractmethod
    def encode(self, source: Mapping[str, Any]) -> EncoderOutput:
        """The encoded rows; ``source`` is ``net_input`` without the decoder's input."""

    @abstractmethod
    def new_parameters(self) -> set[str]:
        """Names of the parameters that a sentence Transformer lacks: they learn at ``--lr``."""

    @abstractmethod
    def use_backend(self, backend: str) -> None:
        """How attention is computed from now on, one of the ``BACKENDS`` of group attention."""

    # ---- search --------------------------------------------------------------------------------

    @abstractmethod
    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> SearchState:
        """Encode a batch of rows for ``beam`` hypotheses each.

        ``source`` is ``net_input`` without the decoder's input.
        """

    @abstractmethod
    def decode_step(self, tokens: Tensor, opens: Tensor, state: Any) -> Tensor:
        """Logits ``(hypotheses, vocabulary)`` after one more token of every hypothesis.

        Args:
            tokens: ``(hypotheses,)`` the newest token.
            opens: ``(hypotheses,)`` whether that token opens a sentence.
            state: what :meth:`begin_decoding` gave; updated in place.
        """

    # ---- documents that are read sentence by sentence ------------------------------------------

    @property
    def has_memory(self) -> bool:
        """Whether training carries anything from one window of a stream to the next."""
        return False

    def new_memory(self) -> CarriedState:
        """What enters the first sentences of documents, in search sentence by sentence.

        Raises:
            NotImplementedError: this model translates documents, or rows, at once.
        """
        raise NotImplementedError(f"{type(self).__name__} carries nothing between sentences")

    def read(self, src_tokens: Tensor, prev_output_tokens: Tensor, memory: Any) -> None:
        """Let ``memory`` take what is left of these rows, without gradient."""
        raise NotImplementedError(f"{type(self).__name__} carries nothing between sentences")

    def remember(self, prev_output_tokens: Tensor, memory: Any) -> None:
        """Let ``memory``, with which decoding began, take what its finished sentences leave.

        Args:
            prev_output_tokens: ``(documents, longest)`` decoder input of the translations.
            memory: what :meth:`begin_decoding` got as ``source["memory"]``.
        """
        raise NotImplementedError(f"{type(self).__name__} carries nothing between sentences")

    # ---- BERT ----------------------------------------------------------------------------------

    @property
    def bert_whitening(self) -> Whitening | None:
        """What measures a BERT's output before the first update; None where none is read."""
        return None

    def start_from_bert(self, bert: BertWeights) -> set[str]:
        """Make the encoder that BERT; returns the names of the parameters that it has.

        Raises:
            GtransError: the BERT has other sizes.
            NotImplementedError: the encoder is none.
        """
        raise NotImplementedError(f"the encoder of {type(self).__name__} is no BERT")

    # ---- analysis ------------------------------------------------------------------------------

    @abstractmethod
    def layouts(
        self, src_tokens: Tensor, prev_output_tokens: Tensor
    ) -> tuple[DocumentLayout, DocumentLayout]:
        """Where the sentences of a batch stand, on the source and on the target side."""
