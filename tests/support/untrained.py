"""Tasks and tiny untrained models, made in memory from lists of words."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf
from torch import Tensor, nn

from gtrans.data.examples import ExampleBuilder
from gtrans.data.frame import Frame
from gtrans.data.units import DocumentUnit
from gtrans.models.base.model import DocumentModel
from gtrans.models.gtrans_fusion import GtransFusion
from gtrans.models.gtransformer import GTransformer
from gtrans.models.memory_transformer import MemoryTransformer
from gtrans.search.document_search import DocumentHypothesis, DocumentSearch
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig

Model = TypeVar("Model", bound=DocumentModel)

WORDS = ("a", "b", "c", "d", "e")
SIDES = ("encoder", "decoder")


def dictionary(words: Sequence[str] | int = 20) -> Dictionary:
    """Of these words, or of so many."""
    entries = Dictionary()
    for word in [f"w{number}" for number in range(words)] if isinstance(words, int) else words:
        entries.add_symbol(word)
    return entries


def pair(source: Dictionary, target: Dictionary | None = None) -> Any:
    """As much of a task as a model is built for; the target's dictionary may be the source's."""
    return SimpleNamespace(source_dictionary=source, target_dictionary=target or source)


def task_for(
    unit: str,
    special_tokens: str = "both",
    words: tuple[Sequence[str], Sequence[str]] = (WORDS, WORDS),
) -> DocumentTranslationTask:
    cfg = OmegaConf.structured(DocumentTranslationConfig)
    cfg.unit, cfg.sentence_marks = unit, special_tokens
    return DocumentTranslationTask(cfg, *map(dictionary, words))


def sizes(layers: int = 2, dim: int = 16, ffn: int = 16, heads: int = 2) -> dict[str, int]:
    """The options of a model with as much of all on both sides."""
    given = {"layers": layers, "ffn_embed_dim": ffn, "attention_heads": heads}
    both = {f"{side}_{part}": number for side in SIDES for part, number in given.items()}
    return {"encoder_embed_dim": dim, **both}


def untrained(
    task: Any, seed: int = 1, system: type[Model] = GTransformer, /, **options: Any
) -> Model:
    """A new model for a task or a :func:`pair`; as large as :func:`sizes` unless told otherwise."""
    torch.manual_seed(seed)
    given: dict[str, Any] = sizes()
    if issubclass(system, GTransformer):
        given.update({f"{side}_global_layers": 1 for side in (*SIDES, "cross")})
    return system.build_model(OmegaConf.structured(system.options(**{**given, **options})), task)


def g_transformer(system: type[Model] = GTransformer, **options: Any) -> Model:
    """One of 3 + 3 layers, two of each with global attention, for 20 entries."""
    tops = {f"{side}_global_layers": 2 for side in (*SIDES, "cross")}
    given = {**sizes(3, ffn=32), **tops, **options}
    return untrained(pair(dictionary(16)), 1, system, **given).eval()


def memory_transformer(**options: Any) -> MemoryTransformer:
    """One for 64 entries, in training mode."""
    return untrained(pair(dictionary(60)), 0, MemoryTransformer, **{**sizes(ffn=32), **options})


def fusion_model(seed: int = 1, **options: Any) -> GtransFusion:
    """One of 5 + 5 layers for 24 entries."""
    given = {**sizes(5, ffn=32), **options}
    return untrained(pair(dictionary()), seed, GtransFusion, **given).eval()


@torch.no_grad()
def shake(model: nn.Module) -> nn.Module:
    """Move all scalars and norms off their initial values, which hide mistakes."""
    torch.manual_seed(7)
    for parameter in model.parameters():
        if parameter.dim() == 1 or parameter.size(0) == parameter.size(1) == 6:
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model


def translate_rows(
    search: DocumentSearch, models: Sequence[DocumentModel], src_tokens: Tensor
) -> list[list[DocumentHypothesis]]:
    """Translate all sentences of ``src_tokens (documents, length)``; ``<s>`` is 0."""
    entries = search.vocabulary
    frame = Frame(0, entries.eos, entries.pad, "end" if entries.opening else "both")
    source = {"src_tokens": src_tokens}
    sentences = ExampleBuilder(frame, DocumentUnit()).sources_to_translate(source)
    words = [[sentence.numel() - 1 for sentence in row] for row in sentences]
    return search.search(models, source, words)
