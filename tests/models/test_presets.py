"""Presets of pretrained models have the sizes of what was published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf
from support.untrained import dictionary, pair

from gtrans.cli.shared.fairseq_commands import architectures
from gtrans.environment import import_plugin

FULL = {"doc_mode": "full"}
# GTRANS with XLM-R's 250,002 entries and 95 languages; its paper counts 362 million (table V).
FUSION, LANGUAGES = {"share_all_embeddings": True}, 250_002 + 95


@pytest.mark.parametrize(
    ("name", "options", "entries", "millions"),
    [
        # As many as mbart-large-cc25 has.
        ("gtransformer_mbart_large", FULL, 250_027, 610.85184),
        ("gtrans_fusion_xlmr_base", {**FUSION, "two_feed_forwards": True}, LANGUAGES, 363.0),
        ("gtrans_fusion_xlmr_base", FUSION, LANGUAGES, 334.6),
    ],
)
def test_presets_have_the_published_parameters(
    name: str, options: dict[str, Any], entries: int, millions: float
) -> None:
    import_plugin()

    class Vocabulary(Dictionary):
        def __len__(self) -> int:
            return entries

    cfg = OmegaConf.create({"_name": name, **options})
    with torch.device("meta"):
        model = ARCH_MODEL_REGISTRY[name].build_model(cfg, pair(Vocabulary()))
    count = sum(parameter.numel() for parameter in model.parameters())
    exact = options == FULL
    assert count / 1e6 == pytest.approx(millions, abs=0 if exact else 0.15, rel=0)


# What the task knows of a BERT.
BERT = {"bert_dim": 512, "bert_positions": 32, "bert_norm_eps": 1e-12, "bert_subwords": "bert"}


def test_building_a_model_touches_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of no architecture, also where its options are those of a training."""
    monkeypatch.chdir(tmp_path)
    entries = dictionary(["[de]", "[en]", *"abc"])
    names = architectures()
    assert len(names) > 30
    for name, model in names.items():
        known = model.options.__dataclass_fields__
        bert = {option: value for option, value in BERT.items() if option in known}
        root = OmegaConf.create(
            {
                "model": {"_name": name, **bert},
                "checkpoint": {"save_dir": "run", "restore_file": "checkpoint_last.pt"},
                "common_eval": {"path": None},
            }
        )
        with torch.device("meta"):
            model.build_model(root.model, pair(entries))
    assert list(tmp_path.iterdir()) == []
