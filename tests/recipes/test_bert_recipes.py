"""exp_gtransformer/bert/: the settings of the thesis."""

from __future__ import annotations

import pytest
import yaml
from support.recipes import EVERYWHERE, PLACE, commands, the_error


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("run-bert", [*PLACE, "--systems", "context,bort"], "must be one of context whitened"),
        ("run-bert", [*PLACE, "--make-bert", "12"], "`--make-bert` must be LAYERSxWIDTH"),
        ("run-bert", [*PLACE, "--make-bert", "2x64", "--bert", "x"], "cannot be combined with"),
        ("run-bert", [*PLACE, "--start", "lossless"], "`--start` is for the G-Transformer"),
    ],
)
def test_a_mistake_is_one_line(name, arguments, message, script, tmp_path):
    error = the_error(script(name, *arguments))
    assert error.startswith(f"{name}: error: ") and message in error
    assert not list(tmp_path.iterdir())


def test_bert_context_has_the_settings_of_its_thesis(script):
    """Guo Zhiyu (2021), §4.2; the same for what it is compared with."""
    systems = "context,whitened,encoder,decoder,fused,fused-scratch,aware,aware-bert"
    prepare, *rest = commands(script("run-bert", *PLACE, "--systems", systems, "--dry-run"))
    assert "--bpe-merges 30000" in prepare
    assert prepare.endswith(" --bert bert-base-uncased")
    sentence, *others = [command for command in rest if command.startswith("fairseq-train ")]
    for command in (sentence, *others):
        for setting in (*EVERYWHERE[1:5], "--adam-eps 1e-8", "--max-tokens 4000 --update-freq 1"):
            assert all(part in command for part in setting.split(" --")), setting
    assert " --unit sentence --bert-integration none " in sentence
    assert " --dropout 0.1 " in sentence
    context, whitened, encoder, decoder, fused, scratch, aware, aware_bert = others
    for command in others:
        assert " --unit window --context-before 1 " in command
        assert " --dropout 0.2 " in command
        starts = " --init-from out/sentence/checkpoint_best.pt " in command
        assert starts == (command is not scratch)
    for command in (context, encoder, decoder, fused, scratch):
        assert " --raw-bert-states " in command, "BERT's output as it is"
    for command in (whitened, aware, aware_bert):
        assert "--raw-bert-states" not in command
    for command in (context, whitened):
        assert " --arch bert_context_transformer_base " in command
        assert " --lr-scale-pretrained 1 " in command
    assert " --bert-integration encoder " in encoder
    assert " --bert-integration decoder " in decoder
    for command in (fused, scratch):
        assert " --combine mean --drop-net 1.0 " in command
    for command in (aware, aware_bert):
        assert " --arch document_aware_transformer_base " in command
        assert " --lr-scale-pretrained 0 " in command
    assert " --context-input bert " in aware_bert


def test_systems_are_compared_with_the_sentence_model_and_with_one_another(script):
    done = script("run-bert", *PLACE, "--systems", "context,whitened", "--dry-run")
    scores = [command for command in commands(done) if command.startswith("gtrans score ")]
    compared = [
        ["sentence", "context"], ["sentence", "whitened"], ["context", "whitened"]
    ]  # fmt: skip
    for command, pair in zip(scores[1:], compared, strict=True):
        assert f" --hyp {' '.join(f'{name}=out/test.{name}.de' for name in pair)} --ref" in command


@pytest.mark.parametrize(
    ("languages", "expected"),
    [(("zh", "en"), "--segmenter jieba --bert bert-base-chinese"),
     (("en", "zh"), "--segmenter jieba --bert bert-base-uncased")],
)  # fmt: skip
def test_chinese_is_prepared_as_in_the_thesis(languages, expected, script):
    source, target = languages
    done = script(
        "run-bert", *PLACE, "--source-lang", source, "--target-lang", target, "--dry-run"
    )
    assert commands(done)[0].endswith(f" {expected}")


def test_a_bert_is_made_where_none_can_be_had(script):
    done = script("run-bert", *PLACE, "--make-bert", "12x768", "--bert-updates", "50", "--dry-run")
    made, prepare, *_ = commands(done)
    assert "scripts/make_bert.py --text texts/europarl7/train.en --out out/bert" in made
    assert " --layers 12 --dim 768 --heads 12 " in made and made.endswith(" --updates 50")
    assert prepare.endswith(" --bert out/bert")


def test_the_configuration_is_that_of_the_thesis(repo):
    path = repo / "configs" / "bert_context_transformer.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert content["model"]["raw_bert_states"] is True
    assert (content["model"]["dropout"], content["dataset"]["max_tokens"]) == (0.2, 4000)
    assert content["task"]["context_before"] == 1 and content["task"]["lr_scale_pretrained"] == 1
