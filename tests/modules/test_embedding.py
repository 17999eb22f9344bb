"""Learned positions, LayerNorm on embeddings, segments: numbers by hand and fairseq's own model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from support.untrained import dictionary, pair, sizes, untrained
from torch import nn

from gtrans.checkpoints.sources import RENAMES, rename_parameters
from gtrans.errors import GtransError
from gtrans.modules.embedding import SinusoidalPositions


def test_a_table_that_has_grown_is_not_sent_to_other_processes() -> None:
    """Tables grow differently in each process; they move and change precision with the model."""
    model = nn.Sequential(SinusoidalPositions(4, 8))
    before = model(torch.tensor([5]))
    model(torch.tensor([100]))
    assert torch.equal(model(torch.tensor([5])), before)
    # What --broadcast-buffers sends, and what checkpoints hold.
    assert list(model.buffers()) == [] and model.state_dict() == {}
    assert model.bfloat16()(torch.tensor([200])).dtype == torch.bfloat16
    assert model.to("meta")[0].table.is_meta


@pytest.mark.parametrize("dim", [32, 33])
def test_positions_of_marian(dim: int) -> None:
    from transformers.models.marian import modeling_marian

    expected = modeling_marian.MarianSinusoidalPositionalEmbedding(20, dim).create_weight()
    torch.testing.assert_close(SinusoidalPositions(dim, 20, "marian").table, expected)


# As mBART, as BART, and what only an option turns on.
KINDS = {
    "mbart": {"normalize_before": True},
    "bart": {"normalize_before": False, "no_scale_embedding": True},
    "no final norm": {"normalize_before": True, "no_decoder_final_norm": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_fairseqs_model_has_the_same_tensors_and_logits(kind: str) -> None:
    task = pair(dictionary(30))
    options: dict[str, Any] = dict(KINDS[kind])
    before = options.pop("normalize_before")
    shared = {
        **sizes(3, 32, 48, 4), **options, "dropout": 0.0, "activation_fn": "gelu",
        "layernorm_embedding": True,
        "share_all_embeddings": True, "encoder_normalize_before": before,
        "decoder_normalize_before": before,
    }  # fmt: skip
    args = SimpleNamespace(**shared, encoder_learned_pos=True, decoder_learned_pos=True,
                           max_source_positions=12, max_target_positions=12)  # fmt: skip
    base_architecture(args)
    torch.manual_seed(1)
    theirs = TransformerModel.build_model(args, task).eval()
    for parameter in theirs.parameters():  # LayerNorms that do something
        if parameter.dim() == 1:
            nn.init.normal_(parameter, 1.0, 0.5)
    ours = untrained(task, **shared, doc_mode="full", learned_positions=True, max_positions=12)
    ours.load_state_dict(
        rename_parameters(theirs.state_dict(), RENAMES["g-transformer"])[0], strict=True
    )
    ours.eval()
    assert ours.max_positions() == (12, 12)

    source = torch.tensor([[5, 9, 33, 4, 7, 2], [8, 6, 2, 1, 1, 1]])
    previous = torch.tensor([[2, 10, 11, 12], [2, 13, 1, 1]])
    with torch.no_grad():
        expected, _ = theirs(source, torch.tensor([6, 3]), previous)
        found, _ = ours(source, None, previous)
    real = previous.ne(1)
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)


def test_positions_of_sentences_have_no_longest_document() -> None:
    options: dict[str, Any] = {"learned_positions": True, "max_positions": 6}
    task = pair(dictionary(30))
    model = untrained(task, **options, positions="sentence")
    document = torch.tensor([[0, 5, 9, 33, 4, 2] * 3])
    logits, _ = model(document, None, document)
    assert logits.shape[:2] == (1, 18)
    by_document = untrained(task, **options)
    with pytest.raises(GtransError, match="18 tokens, but the model has learned only 6"):
        by_document(document, None, document)
