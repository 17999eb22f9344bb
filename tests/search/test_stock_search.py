"""fairseq's own beam search over our models: the adapter, against teacher forcing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from support.batches import EOS, PAD
from support.untrained import dictionary, fusion_model, shake, translate_rows
from torch import Tensor

from gtrans.models.gtrans_fusion import SYSTEMS
from gtrans.search.document_search import DocumentSearch, SearchVocabulary
from gtrans.search.options import SearchOptions

# Three sources, padded on the left as the stock tasks do, and on the right.
LEFT = torch.tensor([[PAD, PAD, 5, 6, 7, EOS], [8, 9, 10, 11, 12, EOS], [PAD, 14, 15, 7, 6, EOS]])
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


def models_of(name: str) -> list[Any]:
    if name == "an ensemble":
        return [shake(fusion_model(seed=1)), fusion_model(seed=2, system="dlcl")]
    return [shake(fusion_model(**MODELS.get(name, {})))]


@pytest.mark.parametrize("name", [*MODELS, "an ensemble", "a prefix"])
def test_every_hypothesis_has_the_scores_of_teacher_forcing(name: str) -> None:
    """Also behind a prefix, with which the multilingual task begins a translation."""
    models = models_of(name)
    prefix = torch.tensor([[9, 10], [11, 9], [9, 9]]) if name == "a prefix" else None
    hypotheses = generate(models, prefix_tokens=prefix)
    assert [len(found) for found in hypotheses] == [3, 3, 3]
    for number, found in enumerate(hypotheses):
        for hypothesis in found:
            tokens = hypothesis["tokens"]
            assert prefix is None or tokens[:2].equal(prefix[number])
            expected = forced(models, LEFT[number : number + 1], tokens)
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
