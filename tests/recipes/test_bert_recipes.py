"""exp_gtransformer/bert/: the settings of the thesis."""

from __future__ import annotations

import pytest
from support.recipes import EVERYWHERE, PLACE, commands, the_error


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("run-bert", [*PLACE, "--systems", "context,bort"], "must be one of context encoder"),
        ("run-bert", [*PLACE, "--start", "lossless"], "`--start` is for the G-Transformer"),
    ],
)
def test_a_mistake_is_one_line(name, arguments, message, script, tmp_path):
    error = the_error(script(name, *arguments))
    assert error.startswith(f"{name}: error: ") and message in error
    assert not list(tmp_path.iterdir())


def test_bert_context_has_the_settings_of_its_thesis(script):
    systems = "context,encoder,decoder,fused,aware,aware-bert"
    prepare, *rest = commands(script("run-bert", *PLACE, "--systems", systems, "--dry-run"))
    assert "--bpe-merges 30000" in prepare
    assert prepare.endswith(" --bert bert-base-uncased")
    sentence, *others = [command for command in rest if command.startswith("gtrans train ")]
    for command in (sentence, *others):
        for setting in (*EVERYWHERE[1:5], "--adam-eps 1e-8", "--max-tokens 4000 --update-freq 1"):
            assert all(part in command for part in setting.split(" --")), setting
    assert " --unit sentence --bert-integration none " in sentence
    assert " --dropout 0.1 " in sentence
    for command in others:
        assert " --unit window --context-before 1 " in command
        assert " --dropout 0.2 " in command
        assert " --init-from out/sentence/checkpoint_best.pt " in command
    context, encoder, decoder, fused, aware, aware_bert = others
    assert " --arch bert_context_transformer_base " in context
    assert " --lr-scale-pretrained 1 " in context
    assert " --bert-integration encoder " in encoder
    assert " --bert-integration decoder " in decoder
    assert " --combine mean --drop-net 1.0 " in fused
    for command in (aware, aware_bert):
        assert " --arch document_aware_transformer_base " in command
        assert " --lr-scale-pretrained 0 " in command
    assert " --context-input bert " in aware_bert
