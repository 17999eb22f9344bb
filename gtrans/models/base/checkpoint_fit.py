"""Whether the options of a checkpoint describe the model whose parameters are in it.

This is asked before the model is built, because options of any size cost nothing to write.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gtrans.checkpoints.reading import check_shapes, options_of
from gtrans.models.base.model import DocumentModel
from gtrans.models.base.presets import resolve_sizes
from gtrans.modules.file_values import reading


def check_fit(state: Mapping[str, Any], path: str | Path) -> None:
    """Compare the options of the model in a checkpoint with its parameters.

    The model is built on torch's device ``meta``, where tensors have shapes and no values.
    Checkpoints of fairseq's own models are left to fairseq.

    Args:
        state: a checkpoint that :func:`gtrans.checkpoints.reading.read_checkpoint` has let through.
        path: the file, for messages.

    Raises:
        GtransError: an option is of a wrong type or size, or parameters are missing, unknown or
            of other shapes.
    """
    tensors, described = state["model"], described_model(options_of(state, "model"), path)
    if described is None:
        return
    model, cfg = described
    described_by = reading(path, "the model that its options describe")
    with described_by, torch.device("meta"), _Unfilled():
        without_values = model.build_model(cfg, _task_of(tensors))
    check_shapes(tensors, without_values.state_dict(), path)


def described_model(
    options: Mapping[str, Any], path: str | Path
) -> tuple[type[DocumentModel], Any] | None:
    """The class and all options of the model of a checkpoint; None: it is none of this project's.

    Raises:
        GtransError: an option is of a wrong type.
    """
    model = ARCH_MODEL_REGISTRY.get(str(options.get("_name")))
    if not isinstance(model, type) or not issubclass(model, DocumentModel):
        return None
    # The parameters are those of the checkpoint, whatever the training began with.
    known = {"_name", *model.options.__dataclass_fields__} - {"init_xlmr"}
    with reading(path, "the model that its options describe"):
        named = Namespace(**{name: value for name, value in options.items() if name in known})
        return model, resolve_sizes(named, model.options, model.presets)


class _Unfilled(TorchFunctionMode):
    """Leaves new parameters unfilled: on ``meta`` that would load torch's compiler for seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """``func``, unless it fills a tensor at random."""
        named = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def _task_of(tensors: Mapping[str, Tensor]) -> Any:
    """A task with dictionaries as large as the embeddings; both are one if they are equal."""
    tables = [tensors.get(f"{side}.embed_tokens.weight") for side in ("encoder", "decoder")]
    sizes = [0 if table is None else table.size(0) for table in tables]
    source, target = (_dictionary_of(size) for size in sizes)
    joint = None not in tables and sizes[0] == sizes[1]
    return Namespace(source_dictionary=source, target_dictionary=source if joint else target)


def _dictionary_of(count: int) -> Dictionary:
    dictionary = Dictionary()
    dictionary.symbols += [""] * (count - len(dictionary))
    return dictionary
