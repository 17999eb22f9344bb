"""Under fairseq's own translation task a model is refused, or its search is its forward pass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import OmegaConf
from support.contract import classes, sizes_of

from gtrans.errors import GtransError

# Classes whose default unit is rows of tokens and nothing else.
WORK = {"gtransformer_tiny", "gtrans_fusion_tiny"}


def config_of(arch: str) -> Any:
    model = classes()[arch]
    cfg = OmegaConf.structured(model.options)
    cfg._name = arch
    for name, value in sizes_of(model).items():
        setattr(cfg, name, value)
    return cfg


@pytest.mark.parametrize("arch", classes())
def test_refused_or_right(arch: str) -> None:
    model_type = classes()[arch]
    entries = Dictionary()
    for number in range(20):
        entries.add_symbol(f"w{number}")
    cfg = config_of(arch)
    task = TranslationTask(TranslationConfig(), entries, entries)
    torch.manual_seed(1)
    if arch not in WORK:
        with pytest.raises(GtransError, match=rf"^`--arch {arch}` needs more .*--task document_"):
            model_type.build_model(cfg, task)
        return
    model = model_type.build_model(cfg, task).eval()
    source = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 11, 2, 1]])
    lengths = torch.tensor([5, 4])
    options = {"beam_size": 2, "max_len_b": 5, "normalize_scores": False}
    generator = SequenceGenerator([model], entries, **options)
    net_input = {"src_tokens": source, "src_lengths": lengths}
    found = generator.generate([model], {"net_input": net_input})
    for row, (tokens, length) in enumerate(zip(source, lengths, strict=True)):
        best = found[row][0]
        read = torch.cat([torch.tensor([2]), best["tokens"][:-1]])[None]
        with torch.no_grad():
            logits = model(tokens[None, :length], length[None], read)[0][0]
        scores = logits.log_softmax(-1).gather(1, best["tokens"][:, None])
        assert float(scores.sum()) == pytest.approx(float(best["score"]), abs=1e-4)


@pytest.mark.parametrize("option", ["retain_dropout", "print_alignment"])
@pytest.mark.parametrize("arch", sorted(WORK))
def test_what_only_fairseqs_layers_follow_is_refused(arch: str, option: str) -> None:
    """fairseq's commands ask every model for it, and take silence for consent."""
    task = TranslationTask(TranslationConfig(), *[Dictionary()] * 2)
    model = classes()[arch].build_model(config_of(arch), task)
    generation = GenerationConfig()
    setattr(generation, option, "hard" if option == "print_alignment" else True)
    with pytest.raises(GtransError, match=rf"^`--{option.replace('_', '-')}` is not supported"):
        model.prepare_for_inference_(SimpleNamespace(generation=generation))
    model.prepare_for_inference_(SimpleNamespace(generation=GenerationConfig()))
