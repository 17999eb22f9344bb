"""G-Transformer with attention to the sentences before its instance."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.gtransformer_models import model_of
from support.toy_documents import accuracy_after_training, source_cue

from gtrans.errors import GtransError
from gtrans.models.gtransformer_context import GTransformerContext


def context_model(**options: Any) -> Any:
    given = {"unit": "document", "instance_context": 2, "encoder_global_layers": 2, **options}
    torch.manual_seed(1)
    return model_of(GTransformerContext, **given)


@pytest.mark.parametrize(
    ("options", "updates", "least", "most"),
    [
        pytest.param({}, 150, 0.95, 1.0, marks=pytest.mark.long),
        ({"bert_integration": "none"}, 60, 0.4, 0.6),
        pytest.param({"han_context": True}, 400, 0.95, 1.0, marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_an_instance_learns_what_stands_before_it(
    options: dict[str, Any], updates: int, least: float, most: float
) -> None:
    """The cue stands one to three sentences before the instance, which is one sentence."""
    model = context_model(**options)
    assert least <= accuracy_after_training(model, "source", updates, 5e-3, first=3) <= most


@pytest.mark.parametrize("han", [False, True])
@torch.no_grad()
def test_with_closed_gates_it_is_a_g_transformer_on_the_instance(han: bool) -> None:
    model = context_model(context_gate_bias=1e4, han_context=han)
    plain = model_of(encoder_global_layers=2)
    state = model.state_dict()
    plain.load_state_dict({name: state[name] for name in plain.state_dict()})
    source, target = source_cue(5, 1)
    read = target[:, 3:-1]
    current = torch.ones(5, dtype=torch.long)
    found = model(source, None, read, current=current)[0]
    torch.testing.assert_close(found, plain(source[:, 3:], None, read)[0], atol=1e-6, rtol=1e-5)
    farther = source.clone()
    farther[:, 1] = 12
    assert model(farther, None, read, current=current)[0].equal(found)
    opened = context_model(han_context=han)
    before = opened(source, None, read, current=current)[0]
    assert not opened(farther, None, read, current=current)[0].allclose(before, atol=1e-4)


def test_hierarchical_attention_is_new_and_reads_no_bert() -> None:
    model = context_model(han_context=True)
    plain = set(model_of(encoder_global_layers=2).state_dict())
    new = {name for name, _ in model.named_parameters()} - plain
    assert new == {name for name in model.new_parameters() if name.startswith("han.")} and new
    with pytest.raises(GtransError, match="`--han-context` reads the encoder's own states"):
        context_model(han_context=True, context_input="bert", bert_dim=8)
    for given in ({"combine": "mean"}, {"context_place": "behind"}, {"drop_net": 0.5}):
        (name,) = given
        flag = f"--{name.replace('_', '-')}"
        with pytest.raises(GtransError, match=f"`{flag} .*leave out `--han-context`, or leave"):
            context_model(han_context=True, **given)


def test_without_context_it_has_no_more_parameters() -> None:
    plain = set(model_of(encoder_global_layers=2).state_dict())
    for options in ({"instance_context": None}, {"unit": "sentence"}):
        assert set(context_model(**options).state_dict()) == plain
