"""Whether the options of a checkpoint describe the model whose parameters are in it.

This is asked before the model is built, because options of any size cost nothing to write.
"""

from __future__ import annotations

import math
import re
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gtrans.checkpoints.reading import check_shapes, options_of, reading
from gtrans.errors import GtransError
from gtrans.models.base.model import DocumentModel
from gtrans.models.base.presets import resolve_sizes

# Functions that fill a tensor at random; the largest arguments of those that make a filled one.
_RANDOM = {"normal_", "uniform_"}
_SMALL = {"zeros": 2**20, "ones": 2**20, "randn": 2**20, "eye": 2**10}
_TABLE = "{}.embed_tokens.weight"


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
    with reading(path, "the model that its options describe"):
        _check_sizes(cfg, tensors, path)
        with _WithoutValues():
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


class _WithoutValues(TorchFunctionMode):
    """Puts parameters on ``meta`` and does not fill them; small tables are computed as always.

    Operations on ``meta`` would load torch's compiler, which takes seconds.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """``func``, or what takes its place."""
        name, named = getattr(func, "__name__", ""), kwargs or {}
        if name in _RANDOM:
            return named["tensor"] if "tensor" in named else args[0]
        if name == "empty" or _count(args) > _SMALL.get(name, math.inf):
            named = {**named, "device": "meta"}
        return func(*args, **named)


def _count(args: Any) -> int:
    """The product of the sizes of a new tensor, which are given as ``*sizes``."""
    return math.prod(size for size in args if isinstance(size, int))


def _check_sizes(cfg: Any, tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Refuse layers and widths that would take for ever to build, even without values."""
    widest = max((size for tensor in tensors.values() for size in tensor.shape), default=0)
    for name in cfg:
        value, (side, _, kind) = cfg[name], name.rpartition("_")
        if not isinstance(value, int) or kind not in ("layers", "dim"):
            continue
        layer = re.compile(rf"{side}\.layers\.(\d+)\.")
        layers = {match[1] for tensor in tensors if (match := layer.match(tensor))}
        most = widest
        if kind == "layers":
            most = len(layers) if side in ("encoder", "decoder") else len(tensors)
        if value > most:
            raise GtransError(
                f"{path}: its option {name} is {value}, but its parameters have only {most}."
            )


def _task_of(tensors: Mapping[str, Tensor]) -> Any:
    """A task with dictionaries as large as the embeddings; both are one if they are equal."""
    tables = [tensors.get(_TABLE.format(side)) for side in ("encoder", "decoder")]
    sizes = [0 if table is None else table.size(0) for table in tables]
    source = _symbols(sizes[0])
    joint = None not in tables and sizes[0] == sizes[1]
    return Namespace(
        source_dictionary=source, target_dictionary=source if joint else _symbols(sizes[1])
    )


def _symbols(count: int) -> Dictionary:
    dictionary = Dictionary()
    dictionary.symbols += [""] * (count - len(dictionary))
    return dictionary
