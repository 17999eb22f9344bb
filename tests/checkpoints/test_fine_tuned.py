"""BART after fine-tuning, which cuts its mask off, and mBART-50 where mBART is expected."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from support.pretrained_models import LANGS, fairseq_model, frame_of, write_dictionaries

from gtrans.cli import main
from gtrans.data.frame import pretrained_marks
from gtrans.decoding.loading import load_models
from gtrans.errors import GtransError
from gtrans.models.gtransformer import GTransformerConfig
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig

WORDS = [[5, 9, 4, 7], [6, 8, 10]]


def test_a_fine_tuned_bart_without_mask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_dictionaries(tmp_path / "data")
    theirs, path = fairseq_model("bart", tmp_path / "bart", data)
    state = torch.load(path, weights_only=False)
    for name, tensor in state["model"].items():
        if name.endswith(("embed_tokens.weight", "output_projection.weight")):
            state["model"][name] = tensor[:-1].clone()
    source, target = tmp_path / "tuned.pt", tmp_path / "ours.pt"
    command = ["convert", "--from", "fairseq", "--data", str(data), "--source-lang", "en",
               "--target-lang", "de", str(source), str(target)]  # fmt: skip
    torch.save(state, source)
    # Pretraining has a mask: then a missing row means another dictionary.
    assert main(command) == 1 and "dictionaries that the model was trained with" in (
        capsys.readouterr().err
    )
    state["args"].task = "translation"
    torch.save(state, source)
    assert main(command) == 0
    assert "it has no <mask>; its new row" in capsys.readouterr().err
    models, _ = load_models([str(target)], data=str(data))
    src, previous = (torch.tensor([row]) for row in frame_of("bart", data, WORDS))
    with torch.no_grad():
        expected = theirs(src, torch.tensor([src.size(1)]), previous)[0]
        ours = models[0](src, None, previous)[0]
    torch.testing.assert_close(ours[..., :-1], expected[..., :-1], atol=1e-4, rtol=1e-4)
    words = ours[..., :-1].log_softmax(-1) - ours.log_softmax(-1)[..., :-1]
    assert 0 < float(words.max()) <= torch.tensor(1 + 1 / (ours.size(-1) - 1)).log() + 1e-5


@pytest.mark.parametrize(
    ("options", "marks"),
    [
        ({}, "bart"),
        ({"langs": "en_XX,de_DE"}, "mbart"),
        ({"langs": "en_XX,de_DE", "decoder_langtok": True}, "mbart50"),
        ({"langs": ",".join(LANGS["mbart50"])}, "mbart50"),
        # the languages of fairseq's multilingual task in a file
        ({"langs": None, "lang_dict": "langs.txt", "decoder_langtok": True}, "mbart50"),
        ({"langs": None, "lang_dict": "langs.txt", "decoder_langtok": False}, "mbart50"),
    ],
)
def test_which_model_a_checkpoint_of_fairseq_is(options: dict[str, object], marks: str) -> None:
    assert pretrained_marks(options) == marks


@pytest.mark.parametrize(("marks", "theirs"), [("mbart", "mbart50"), ("mbart50", "mbart")])
def test_the_frame_of_the_other_mbart_is_refused(marks: str, theirs: str, tmp_path: Path) -> None:
    """Both have the symbols of languages; nothing else would tell that the frame is wrong."""
    data = write_dictionaries(tmp_path / "data")
    _, path = fairseq_model("mbart", tmp_path / "m", data)
    state = torch.load(path, weights_only=False)
    state["args"].langs = ",".join(LANGS[theirs])
    torch.save(state, path)
    cfg = OmegaConf.structured(DocumentTranslationConfig)
    cfg.seed, cfg.data, cfg.source_lang, cfg.target_lang = 1, str(data), "en", "de"
    cfg.sentence_marks, cfg.langs, cfg.init_from = marks, ",".join(LANGS[theirs]), str(path)
    task = DocumentTranslationTask.setup_task(cfg)
    model = OmegaConf.structured(GTransformerConfig(encoder_layers=2, decoder_layers=2))
    model._name = "gtransformer_mbart_large"
    for name in ("embed_dim", "ffn_embed_dim"):
        model[f"encoder_{name}"] = 24
    model.decoder_ffn_embed_dim = 24
    model.encoder_attention_heads = model.decoder_attention_heads = 4
    with pytest.raises(GtransError) as error:
        task.build_model(model)
    assert f"was trained with `--sentence-marks {theirs}`, not {marks}; give" in str(error.value)
