"""HAN: its equations, its windows, and its search sentence after sentence."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch
from support.contract import Case, batch_of, build, searched_and_read
from support.learning import LearningWorld
from support.tiny_models import StockCommands
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models.han_transformer import current_tokens
from gtrans.modules.group_attention import DocumentLayout
from gtrans.modules.hierarchical_attention import HierarchicalAttention, sentences_before
from gtrans.modules.transformer import LayerSpec, PackedContext

WINDOWS = Case("han_transformer_tiny", "window", "history")
DIM = 8


def attention(module: nn.Module, query: Tensor, keys: Tensor) -> Tensor:
    """One query ``(dim,)`` and keys ``(n, dim)`` by torch's own attention."""
    heads = module.heads
    q, k, v = (
        projection(x).view(-1, heads, DIM // heads).transpose(0, 1)
        for projection, x in (
            (module.q_proj, query[None]), (module.k_proj, keys), (module.v_proj, keys)
        )
    )  # fmt: skip
    attended = (q @ k.transpose(1, 2) / (DIM // heads) ** 0.5).softmax(-1) @ v
    return module.out_proj(attended.transpose(0, 1).reshape(1, DIM))[0]


def expected(han: HierarchicalAttention, h: Tensor, before: list[Tensor]) -> Tensor:
    """The equations for one word ``(dim,)``; ``before``: ``(words, dim)`` each, nearest first."""
    s = torch.stack([attention(han.word_attn, han.word_query(h), words) for words in before])
    d = attention(han.sentence_attn, han.sentence_query(h), s)
    d = han.final_layer_norm(d + han.fc2(torch.relu(han.fc1(d))))
    gate = torch.sigmoid(han.gate.proj(torch.cat([h, d])))
    return gate * h + (1 - gate) * d


def test_the_equations_word_by_word():
    torch.manual_seed(1)
    han = HierarchicalAttention(LayerSpec(DIM, 16, 2)).eval()
    # two sentences before the last one, one of which one word is left out, and none
    rows = [[0, 4, 4, 4, 2, 0, 4, 2, 0, 2], [0, 4, 2, 0, 4, 2], [2]]
    tokens = torch.tensor([row + [1] * (10 - len(row)) for row in rows])
    layout = DocumentLayout.of_source(tokens, 1, 2)
    words = torch.tensor([5, 3, 2, 2, 3, 1])
    keys = torch.randn(layout.tokens, DIM)
    h = keys[current_tokens(layout)]
    found = han(h, keys, sentences_before(layout, words, "exact"))
    wanted = [expected(han, word, [keys[5:8], keys[:5]]) for word in h[:2]]
    wanted += [expected(han, word, [keys[10:12]]) for word in h[2:5]]
    torch.testing.assert_close(found[:5], torch.stack(wanted))
    assert torch.equal(found[5], h[5])


def test_a_step_is_the_same():
    torch.manual_seed(2)
    han = HierarchicalAttention(LayerSpec(DIM, 16, 2)).eval()
    near, far = torch.randn(7, DIM), torch.randn(6, DIM)
    # two documents with two hypotheses each
    sides = [
        han.sources(PackedContext(near, torch.tensor([3, 4]))),
        han.sources(PackedContext(far, torch.tensor([4, 2]))),
    ]
    h = torch.randn(4, DIM)
    found = han.step(h, sides)
    wanted = [expected(han, word, [near[:3], far[:4]]) for word in h[:2]]
    wanted += [expected(han, word, [near[3:], far[4:]]) for word in h[2:]]
    torch.testing.assert_close(found, torch.stack(wanted))


@pytest.mark.parametrize("side", ["both", "encoder", "decoder"])
@pytest.mark.parametrize("before", [1, 3])
def test_windows_in_one_pass_are_documents_sentence_after_sentence(
    side, before, prepared_with_bert
):
    built = build(WINDOWS, prepared_with_bert, han_side=side, context_before=before)
    for written, read in searched_and_read(built):
        assert written == pytest.approx(read, abs=1e-4)


def test_windows_without_their_context_are_sentences(prepared_with_bert: Path):
    built = build(WINDOWS, prepared_with_bert, context_kind="none")
    assert not built.task.examples.unit.sentence_by_sentence
    for written, read in searched_and_read(built):
        assert written == pytest.approx(read, abs=1e-4)


def test_a_closed_gate_is_the_sentence_transformer(prepared_with_bert: Path):
    built = build(WINDOWS, prepared_with_bert)
    for stack in (built.model.encoder, built.model.decoder):
        nn.init.zeros_(stack.han.gate.proj.weight)
        nn.init.constant_(stack.han.gate.proj.bias, 40.0)
    plain = build(Case("han_transformer_tiny", "sentence"), prepared_with_bert)
    missing = built.model.load_state_dict(plain.model.state_dict(), strict=False)
    assert set(missing.missing_keys) == {
        name for name, _ in built.model.named_parameters() if ".han." in name
    }
    built.model.eval()
    plain.model.eval()
    batch, sentences = batch_of(built), batch_of(plain)
    logits = built.model(**batch["net_input"])[0][batch["target"].ne(1)]
    own = plain.model(**sentences["net_input"])[0][sentences["target"].ne(1)]
    torch.testing.assert_close(logits, own)


def test_generate_has_no_document_in_order(prepared_with_bert):
    built = build(WINDOWS, prepared_with_bert)
    generator = built.task.build_generator([built.model], Namespace(beam=1))
    with pytest.raises(GtransError, match="use `gtrans translate`"):
        generator.batch({"id": torch.tensor([0]), **batch_of(built)})


@pytest.mark.long
def test_learns_what_the_sentence_before_decides(stock: StockCommands, tmp_path, capsys):
    """90% on pronouns and ellipsis at distance 1; chance with the context of another item."""
    world = LearningWorld(tmp_path, stock)
    checkpoint = world.from_sentence_model(
        "han", "--arch", "han_transformer_tiny", "--lr", "0.003", "--warmup-updates", "200",
        "--max-update", "400", "--lr-scale-pretrained", "1",
    )  # fmt: skip
    report = world.contrast(checkpoint, capsys, "--shuffled-context")
    for phenomenon, cells in report["contrastive"].items():
        assert cells["1"] >= 0.9, (phenomenon, cells)
        control = report["shuffled_context"]["contrastive"][phenomenon]
        assert 0.4 <= control["1"] <= 0.6, (phenomenon, control)
