"""Tasks and tiny untrained models, made in memory from lists of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf
from torch import Tensor

from gtrans.data.examples import ExampleBuilder
from gtrans.data.frame import Frame
from gtrans.data.units import DocumentUnit
from gtrans.decoding.document_search import DocumentHypothesis, DocumentSearch
from gtrans.models.base.model import DocumentModel, SearchableModel
from gtrans.models.gtransformer import GTransformer
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig

Model = TypeVar("Model", bound=DocumentModel)

WORDS = ("a", "b", "c", "d", "e")


def dictionary(words: Sequence[str]) -> Dictionary:
    symbols = Dictionary()
    for word in words:
        symbols.add_symbol(word)
    return symbols


def task_for(
    unit: str, marks: str = "both", words: tuple[Sequence[str], Sequence[str]] = (WORDS, WORDS)
) -> DocumentTranslationTask:
    cfg = OmegaConf.structured(DocumentTranslationConfig)
    cfg.unit, cfg.sentence_marks = unit, marks
    return DocumentTranslationTask(cfg, *map(dictionary, words))


def untrained(
    task: DocumentTranslationTask,
    seed: int = 1,
    system: type[Model] = GTransformer,
    /,
    **options: Any,
) -> Model:
    torch.manual_seed(seed)
    sides = ("encoder", "decoder")
    sizes = {
        "encoder_embed_dim": 16,
        **{f"{side}_ffn_embed_dim": 16 for side in sides},
        **{f"{side}_{part}": 2 for side in sides for part in ("layers", "attention_heads")},
    }
    if issubclass(system, GTransformer):
        sizes.update({f"{side}_global_layers": 1 for side in (*sides, "cross")})
    cfg = OmegaConf.structured(system.options(**{**sizes, **options}))
    return system.build_model(cfg, task)


def translate_rows(
    search: DocumentSearch, models: Sequence[SearchableModel], src_tokens: Tensor
) -> list[list[DocumentHypothesis]]:
    """Translate all sentences of ``src_tokens (documents, length)``; ``<s>`` is 0."""
    symbols = search.vocabulary
    frame = Frame(0, symbols.eos, symbols.pad, "end" if symbols.opening else "both")
    source = {"src_tokens": src_tokens}
    sentences = ExampleBuilder(frame, DocumentUnit()).sources_to_translate(source)
    words = [[sentence.numel() - 1 for sentence in row] for row in sentences]
    return search.search(models, source, words)
