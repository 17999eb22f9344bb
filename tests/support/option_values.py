"""Values of the options of a class, and choices of them in which every pair or triple occurs."""

from __future__ import annotations

import dataclasses
import random
from enum import Enum
from itertools import combinations, product
from typing import Any, get_args

from gtrans.models.base.model import DocumentModel

# Values of options that are neither switches nor choices, by the end of their names.
VALUES: dict[str, tuple[Any, ...]] = {
    "encoder_global_layers": (0, 1, 2),
    "cross_global_layers": (0, 2),
    "gate_bias": (None, 2.0),
    "memory_layers": ("top", "all", "0"),
    "memory_bptt": (1, 2, -1),
    "context_layers": (0, 1),
    "flat_bottom_layers": (0, 1, 2),
    "encoder_group_size": (0, 1, 2),
    "decoder_group_size": (0, 1, 2),
    "use_groups": (None, "1:1"),
    "keep_encoder_layers": (None, 1),
    "context_before": (0, 1, 2),
}
# Pretrained models' files are tests of their own.
LEFT_OUT = {"unit", "context_sides", "attention_backend", "context_kind", "init_xlmr"}
SPECIAL_TOKENS = ("both", "end", "bart")


def dimensions(model: type[DocumentModel]) -> dict[str, tuple[Any, ...]]:
    """The options of a class, each with values to try."""
    found: dict[str, tuple[Any, ...]] = {"sentence_marks": SPECIAL_TOKENS}
    for field in dataclasses.fields(model.options):
        if field.name == "stream_of":
            # A model takes streams of one kind, and whatever else is no stream.
            if model.inputs.units[0] == "stream":
                found[field.name] = (model.inputs.stream_of,)
            continue
        if field.name in LEFT_OUT or field.name in found or field.name.startswith("bert_dim"):
            continue
        kinds = [kind for kind in get_args(field.type) or (field.type,) if kind is not type(None)]
        listed = [values for ending, values in VALUES.items() if field.name.endswith(ending)]
        if listed:
            found[field.name] = listed[0]
        elif bool in kinds:
            found[field.name] = (False, True)
        elif isinstance(kinds[0], type) and issubclass(kinds[0], Enum):
            found[field.name] = tuple(str(choice.value) for choice in kinds[0])
    return found


def covering(
    dims: dict[str, tuple[Any, ...]], strength: int, seed: int = 1
) -> list[dict[str, Any]]:
    """Choices of values in which all values of any ``strength`` options occur together."""
    draw = random.Random(seed)
    strength = min(strength, len(dims))
    missing = {
        tuple(zip(names, values, strict=True))
        for names in combinations(dims, strength)
        for values in product(*(dims[name] for name in names))
    }
    rows = []
    # In an order that does not depend on the hashes of a process.
    for wanted in sorted(missing, key=repr):
        if wanted not in missing:
            continue
        tries = []
        for _ in range(20):
            row = {name: draw.choice(values) for name, values in dims.items()} | dict(wanted)
            new = missing.intersection(combinations(row.items(), strength))
            tries.append((len(new), len(tries), row, new))
        _, _, row, new = max(tries, key=lambda one: one[:2])
        rows.append(row)
        missing -= new
    return rows
