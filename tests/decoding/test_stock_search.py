"""fairseq's own beam search over our models: the adapter, against teacher forcing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from support.fusion_models import EOS, PAD, dictionary, fusion_model, shake
from support.untrained import translate_rows
from torch import Tensor

from gtrans.decoding.document_search import DocumentSearch, SearchOptions, SearchVocabulary
from gtrans.models.gtrans_fusion import SYSTEMS
from gtrans.modules.layout import DocumentLayout

# Three sources, padded on the left as the stock tasks do, and on the right.
LEFT = torch.tensor([[PAD, PAD, 5, 6, 7, EOS], [8, 9, 10, 11, 12, EOS], [PAD, 14, 15, 7, 6, EOS]])
LENGTHS = LEFT.ne(PAD).sum(1)
MODELS: dict[str, dict[str, Any]] = {
    **{system: {"system": system} for system in SYSTEMS},
    "some groups": {"use_groups": "1:2", "keep_encoder_layers": 4},
}


def sample(source: Tensor = LEFT) -> dict[str, Any]:
    return {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}


def generate(
    models: list[Any], source: Tensor = LEFT, **options: Any
) -> list[list[dict[str, Any]]]:
    arguments = {"beam_size": 3, "max_len_b": 7, **options}
    prefix = arguments.pop("prefix_tokens", None)
    generator = SequenceGenerator(models, dictionary(), **arguments)
    found: list[list[dict[str, Any]]] = generator.generate(
        models, sample(source), prefix_tokens=prefix
    )
    return found


@torch.no_grad()
def forced(models: list[Any], source: Tensor, tokens: Tensor) -> Tensor:
    """Log-probabilities of ``tokens`` by teacher forcing, all models' probabilities averaged."""
    decoder_input = torch.cat([torch.tensor([EOS]), tokens[:-1]])[None]
    each = [
        model.get_normalized_probs(model(source, None, decoder_input), log_probs=True).exp()
        for model in models
    ]
    probabilities = torch.stack(each).mean(0)[0]
    return probabilities.gather(1, tokens[:, None]).squeeze(1).log()


@pytest.mark.parametrize("name", MODELS)
def test_every_hypothesis_has_the_scores_of_teacher_forcing(name: str) -> None:
    model = shake(fusion_model(**MODELS[name]))
    hypotheses = generate([model])
    assert [len(found) for found in hypotheses] == [3, 3, 3]
    for number, found in enumerate(hypotheses):
        for hypothesis in found:
            tokens = hypothesis["tokens"]
            expected = forced([model], LEFT[number : number + 1], tokens)
            torch.testing.assert_close(
                hypothesis["positional_scores"], expected, atol=1e-4, rtol=1e-4
            )


def test_a_batch_is_searched_as_its_sources_are() -> None:
    """Sources end at different steps, are dropped, and hypotheses change places."""
    model = shake(fusion_model(decoder_group_size=1))
    together = generate([model], max_len_b=12)
    for number, found in enumerate(together):
        source = LEFT[number : number + 1]
        (alone,) = generate([model], source[source.ne(PAD)][None], max_len_b=12)
        assert [x["tokens"].tolist() for x in found] == [x["tokens"].tolist() for x in alone]
        for one, other in zip(found, alone, strict=True):
            assert float(one["score"]) == pytest.approx(float(other["score"]), abs=1e-4)


def test_search_without_increments_finds_the_same() -> None:
    """The oracle: no state is kept, every step decodes the whole prefix anew."""

    class Forgetful(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.encoder, self.model = model.encoder, model
            self.decoder = torch.nn.Module()
            self.decoder.forward = model.decoder.forward  # type: ignore[method-assign]

        def get_normalized_probs(self, *arguments: Any, **options: Any) -> Any:
            return self.model.get_normalized_probs(*arguments, **options)

        def max_decoder_positions(self) -> int:
            return 100

    model = shake(fusion_model())
    kept, forgot = generate([model]), generate([Forgetful(model)])
    for one, other in zip(kept, forgot, strict=True):
        assert [x["tokens"].tolist() for x in one] == [x["tokens"].tolist() for x in other]
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(
                a["positional_scores"], b["positional_scores"], atol=1e-4, rtol=1e-4
            )


def test_document_search_finds_the_same() -> None:
    """Our own search, in the frame of the stock tasks, on the same model."""
    model = shake(fusion_model())
    vocabulary = SearchVocabulary(EOS, EOS, PAD, 3, (0, PAD))
    search = DocumentSearch(vocabulary, SearchOptions(beam=3, max_len_a=0, max_len_b=7))
    ours = translate_rows(search, [model], LEFT)
    generator = SequenceGenerator(
        [model], dictionary(), beam_size=3, max_len_b=7, tokens_to_suppress=("<s>",)
    )
    for one, other in zip(ours, generator.generate([model], sample()), strict=True):
        assert one[0].tokens == other[0]["tokens"].tolist()
        assert one[0].score == pytest.approx(float(other[0]["score"]), abs=1e-4)


def test_ensembles_average_probabilities() -> None:
    models = [shake(fusion_model(seed=1)), fusion_model(seed=2, system="dlcl")]
    for number, found in enumerate(generate(models)):
        tokens = found[0]["tokens"]
        expected = forced(models, LEFT[number : number + 1], tokens)
        torch.testing.assert_close(found[0]["positional_scores"], expected, atol=1e-4, rtol=1e-4)


def test_a_forced_prefix_is_obeyed() -> None:
    """How the multilingual task begins a translation with the symbol of its language."""
    prefix = torch.tensor([[9, 10], [11, 9], [9, 9]])
    model = shake(fusion_model())
    for number, found in enumerate(generate([model], prefix_tokens=prefix)):
        for hypothesis in found:
            assert hypothesis["tokens"][:2].equal(prefix[number])
            expected = forced([model], LEFT[number : number + 1], hypothesis["tokens"])
            torch.testing.assert_close(
                hypothesis["positional_scores"], expected, atol=1e-4, rtol=1e-4
            )


@torch.no_grad()
def test_the_first_call_may_hold_several_tokens() -> None:
    model = shake(fusion_model())
    encoded = model.encoder(LEFT)
    prefix = torch.tensor([[EOS, 5, 6], [EOS, 7, 8], [EOS, 9, 9]])
    whole = model.decoder(prefix, encoded)[0].log_softmax(-1)
    step = model.decoder(prefix, encoded, incremental_state={})[0].log_softmax(-1)
    torch.testing.assert_close(step[:, 0], whole[:, -1], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_any_order_of_sources_can_be_decoded() -> None:
    """Not only ``beam`` copies of each in a row: a search of another kind may mix them."""
    model = shake(fusion_model())
    order = torch.tensor([2, 0, 2, 1])
    encoded = model.encoder.reorder_encoder_out(model.encoder(LEFT), order)
    tokens = torch.tensor([[EOS], [EOS], [EOS], [EOS]])
    memory: dict[str, Any] = {}
    first = model.decoder(tokens, encoded, incremental_state=memory)[0]
    torch.testing.assert_close(first[0], first[2])
    back = torch.tensor([3, 1, 0])
    model.decoder.reorder_incremental_state_scripting(memory, back)
    encoded = model.encoder.reorder_encoder_out(encoded, back)
    prefix = torch.tensor([[EOS, 5], [EOS, 6], [EOS, 7]])
    step = model.decoder(prefix, encoded, incremental_state=memory)[0].log_softmax(-1)
    whole = model(LEFT[order[back]], None, prefix)[0].log_softmax(-1)
    torch.testing.assert_close(step[:, 0], whole[:, -1], atol=1e-5, rtol=1e-5)


def test_rows_of_a_layout() -> None:
    """Two documents, ``a </s> b </s>`` and ``c </s>``; the second one twice, then the first."""
    tokens = torch.tensor([[5, EOS, 6, EOS], [PAD, PAD, 7, EOS]])
    layout = DocumentLayout.of_source(tokens, PAD, EOS)
    chosen, index = layout.rows(torch.tensor([1, 1, 0]))
    assert chosen.documents.lengths.tolist() == [2, 2, 4]
    assert chosen.sentence_counts.tolist() == [1, 1, 2]
    assert layout.pack(tokens)[index].tolist() == [7, EOS, 7, EOS, 5, EOS, 6, EOS]
