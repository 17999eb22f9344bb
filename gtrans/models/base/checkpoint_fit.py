"""Check that the options of a checkpoint describe its parameters.

A forged checkpoint may ask for a model of any size, so this comes before the model is built.
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

_DESCRIBED = "the model that its options describe"


def check_fit(state: Mapping[str, Any], path: str | Path) -> None:
    """Build a checkpoint's model on torch's device ``meta``, and compare the shapes of parameters.

    Checkpoints of fairseq's own models are left to fairseq.

    Raises:
        GtransError: an option has a wrong type or size, or parameters do not fit.
    """
    tensors = state["model"]
    described = described_model(options_of(state, "model"), path)
    if described is None:
        return
    model, cfg = described
    with reading(path, _DESCRIBED), torch.device("meta"), _Unfilled():
        without_values = model.build_model(cfg, _task_of(tensors))
    check_shapes(tensors, without_values.state_dict(), path)


def described_model(
    options: Mapping[str, Any], path: str | Path
) -> tuple[type[DocumentModel], Any] | None:
    """Return class and options of a checkpoint's model; None for fairseq's own models.

    Raises:
        GtransError: an option has a wrong type.
    """
    model = ARCH_MODEL_REGISTRY.get(str(options.get("_name")))
    if not isinstance(model, type) or not issubclass(model, DocumentModel):
        return None
    # The checkpoint has the parameters, so training's start is not needed.
    known = {"_name", *model.options.__dataclass_fields__} - {"init_xlmr"}
    named = {name: value for name, value in options.items() if name in known}
    with reading(path, _DESCRIBED):
        resolved = resolve_sizes(Namespace(**named), model.options, model.presets)
    return model, resolved


class _Unfilled(TorchFunctionMode):
    """Leaves new parameters unfilled: filling on ``meta`` loads torch's compiler for seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call ``func`` unless it fills."""
        named = kwargs or {}
        fills = getattr(func, "__name__", "") in ("normal_", "uniform_")
        if not fills:
            return func(*args, **named)
        return named["tensor"] if "tensor" in named else args[0]


def _task_of(tensors: Mapping[str, Tensor]) -> Any:
    """Return a task with dictionaries as large as the embeddings."""
    source = _dictionary_for(tensors.get("encoder.embed_tokens.weight"))
    target = _dictionary_for(tensors.get("decoder.embed_tokens.weight"))
    if len(source) == len(target):
        target = source
    return Namespace(source_dictionary=source, target_dictionary=target)


def _dictionary_for(embeddings: Tensor | None) -> Dictionary:
    dictionary = Dictionary()
    if embeddings is not None:
        missing = embeddings.size(0) - len(dictionary)
        dictionary.symbols += [""] * missing
    return dictionary
