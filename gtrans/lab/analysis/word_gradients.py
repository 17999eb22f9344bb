"""Gradients of the log-probabilities of chosen words with respect to the words that a row reads.

The gradient is taken at the word embedding, before its scale, its position and a LayerNorm are
applied. Words that a model does not embed itself, such as those that only a frozen BERT reads, have
none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gtrans.decoding.force_decode import Row, Rows, sentences_of
from gtrans.modules.embedding import Embedder
from gtrans.modules.layout import DocumentLayout

SIDES = ("source", "target")


@dataclass(frozen=True)
class Question:
    """A word of a row whose gradient is wanted.

    Attributes:
        sentence: number of its sentence among those that the row writes.
        tokens: numbers of its tokens in that sentence.
        decisive: number of the token in that sentence at which ``rival`` is another choice.
        rival: id of the other token; None: the gradient is that of the word's log-probability,
            otherwise of its difference to that of the rival.
    """

    sentence: int
    tokens: range
    decisive: int
    rival: int | None


@dataclass(frozen=True)
class Gradient:
    """The gradient of one word.

    Attributes:
        value: what was differentiated, in nats.
        vectors: for each model and side the gradient ``(row length, dim)`` at the word
            embeddings of the row; NaN at marks, and where the model embeds no word.
    """

    value: float
    vectors: tuple[Mapping[str, Tensor], ...]


def word_gradients(
    models: Sequence[Any], rows: Rows, batch: Sequence[Row], questions: Sequence[Sequence[Question]]
) -> Iterator[tuple[int, int, Gradient]]:
    """Differentiate the words that are asked for, one of every row at a time.

    Args:
        models: one model, or an ensemble, whose probabilities are averaged.
        rows: those that ``batch`` is from.
        batch: rows that are read together.
        questions: the words of each row.

    Yields:
        number of the row, number of its word, its gradient.
    """
    frame = rows.examples.frame
    device = next(models[0].parameters()).device
    marks = torch.tensor(frame.symbols, device=device)
    sample = rows.examples.collate([row.example for row in batch])
    target = sample["target"]
    sentence = sentences_of(target, frame.eos)
    net_input = rows.complete_input(
        {name: tensor.to(device) for name, tensor in sample["net_input"].items()}
    )
    predict_at = torch.zeros_like(target, dtype=torch.bool)
    places = []
    for number, of_row in enumerate(questions):
        for question in of_row:
            at = (target[number].ne(frame.pad) & sentence[number].eq(question.sentence)).nonzero()
            at = at.squeeze(1)
            places.append((number, at[question.tokens.start : question.tokens.stop], at))
            predict_at[number, places[-1][1]] = True
    index = torch.full_like(target, -1)
    index[predict_at] = torch.arange(int(predict_at.sum()))
    with torch.enable_grad(), ExitStack() as stack:
        embedded: list[dict[str, _Calls]] = []
        by_model = []
        for model in models:
            calls = stack.enter_context(_embedded(model))
            logits = model(**net_input, predict_at=predict_at.to(device))[0].float()
            by_model.append(logits.log_softmax(1))
            embedded.append(
                {side: _Calls.of(model, net_input, side, calls[side], marks) for side in SIDES}
            )
        log_probs = torch.stack(by_model).logsumexp(0) - torch.tensor(float(len(models))).log()
        values: list[list[Tensor]] = []
        flat = iter(places)
        for number, of_row in enumerate(questions):
            values.append([])
            for question in of_row:
                _, tokens, at = next(flat)
                words = target[number, tokens].to(device)
                value = log_probs[index[number, tokens].to(device), words].sum()
                if question.rival is not None:
                    place = index[number, at[question.decisive]]
                    value = value - log_probs[place, question.rival]
                values[-1].append(value)
        every = [leaf for sides in embedded for calls in sides.values() for leaf in calls.leaves]
        most = max(map(len, values))
        for number in range(most):
            asked = [of_words[number] for of_words in values if len(of_words) > number]
            gradients = iter(
                torch.autograd.grad(
                    torch.stack(asked).sum(), every, retain_graph=number < most - 1,
                    allow_unused=True,
                )
            )  # fmt: skip
            vectors = [
                {
                    side: calls.in_rows([next(gradients) for _ in calls.leaves])
                    for side, calls in sides.items()
                }
                for sides in embedded
            ]
            for row, of_words in enumerate(values):
                if len(of_words) > number:
                    of_word = tuple({side: grid[row] for side, grid in v.items()} for v in vectors)
                    yield row, number, Gradient(float(of_words[number].detach()), of_word)


@contextmanager
def _embedded(model: Any) -> Iterator[dict[str, list[tuple[Tensor, Tensor]]]]:
    """Collect ids and word embeddings of every call, the latter as leaves of autograd."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = {side: [] for side in SIDES}

    def hook(side: str) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
        def with_leaf(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            tokens, positions, table, *rest = given
            leaf = table(tokens).detach().requires_grad_()
            found[side].append((tokens, leaf))
            return (tokens, positions, lambda _: leaf, *rest)

        return with_leaf

    handles = []
    for side, part in zip(SIDES, (model.encoder, model.decoder), strict=True):
        assert isinstance(part.embed, Embedder)
        handles.append(part.embed.register_forward_pre_hook(hook(side)))
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in wanted:
        parameter.requires_grad_(False)
    try:
        yield found
    finally:
        for parameter in wanted:
            parameter.requires_grad_(True)
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class _Calls:
    """The embedded words of a side of a batch.

    Attributes:
        shape: ``(rows, length)`` of the side.
        leaves: for each call of the embedder its word embeddings ``(tokens, dim)``.
        words: for each call which of its tokens are words of the rows, ``(tokens,)``.
        places: for each call the places of these words in the flattened rows.
    """

    shape: tuple[int, int]
    leaves: list[Tensor]
    words: list[Tensor]
    places: list[Tensor]

    @classmethod
    def of(
        cls,
        model: Any,
        net_input: Mapping[str, Tensor],
        side: str,
        calls: list[tuple[Tensor, Tensor]],
        marks: Tensor,
    ) -> _Calls:
        """Find the places of what was embedded.

        A call embeds the words of all sentences of the rows, or of the current ones, or of the
        others, and perhaps other ``marks`` than the rows have. Of other calls no place is known.
        """
        tokens = net_input["src_tokens" if side == "source" else "prev_output_tokens"]
        layouts = model.layouts(net_input["src_tokens"], net_input["prev_output_tokens"])
        layout: DocumentLayout = layouts[SIDES.index(side)]
        ids = layout.pack(tokens)
        parts = [~torch.isin(ids, marks)]
        if "current" in net_input and side == "source":
            current = layout.sentence.eq(net_input["current"][layout.row])
            parts += [parts[0] & current, parts[0] & ~current]
        found = cls((tokens.size(0), tokens.size(1)), [leaf for _, leaf in calls], [], [])
        for embedded, _ in calls:
            words = ~torch.isin(embedded, marks)
            part = next((part for part in parts if torch.equal(ids[part], embedded[words])), None)
            found.words.append(words if part is not None else torch.zeros_like(words))
            found.places.append(layout.index[part] if part is not None else layout.index[:0])
        return found

    def in_rows(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """``(rows, length, dim)`` from the gradients of the leaves, NaN at other places."""
        dim = self.leaves[0].size(1) if self.leaves else 1
        grid = torch.full((self.shape[0] * self.shape[1], dim), torch.nan)
        for gradient, words, places in zip(gradients, self.words, self.places, strict=True):
            if gradient is not None:
                grid[places.cpu()] = gradient[words].float().cpu()
        return grid.view(*self.shape, dim)
