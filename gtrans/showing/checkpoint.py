"""What a checkpoint is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from gtrans.checkpoints.averaging import AVERAGE_OF
from gtrans.checkpoints.identity import ModelIdentity
from gtrans.checkpoints.reading import check_values, options_of, read_checkpoint
from gtrans.decoding.loading import check_described, import_plugin
from gtrans.files import digest
from gtrans.models.base.checkpoint_fit import check_fit
from gtrans.showing.facts import Facts
from gtrans.text.prepared_folder import Preparation
from gtrans.training.made_from import recorded

# Of the groups of options, what a reader wants to know of a training.
_SETTINGS = (
    ("criterion", ("_name", "label_smoothing")),
    ("optimizer", ("_name", "adam_betas", "weight_decay")),
    ("lr_scheduler", ("_name", "warmup_updates")),
    ("optimization", ("lr", "update_freq", "clip_norm", "max_update")),
    ("dataset", ("max_tokens", "batch_size")),
    ("distributed_training", ("distributed_world_size",)),
    ("common", ("seed", "fp16", "bf16", "amp")),
)


def of_checkpoint(path: Path, shown: str | None = None) -> Facts:
    """What a checkpoint is.

    Args:
        path: the file.
        shown: how it is called in messages (default: its path).

    Raises:
        GtransError: it is unreadable, its identity is damaged, or its options do not describe
            its parameters.
    """
    state = read_checkpoint(path, in_memory=False)
    check_values(state["model"], path)
    import_plugin()
    check_described(state, path)
    check_fit(state, path)
    found = Facts(shown or str(path), "checkpoint")
    model, task = options_of(state, "model"), options_of(state, "task")
    identity = ModelIdentity.of_checkpoint(state, path)
    found.facts = {
        "architecture": model.get("arch") or model.get("_name"),
        "parameters": _parameters(state["model"]),
        **of_identity(identity, task),
        "average of": ", ".join(state.get(AVERAGE_OF, [])) or None,
        "training": _training(state),
        "made from": _made_from(state, path),
        "sha256": digest(path),
    }
    if identity is None:
        found.note_unknown()
    return found


def of_identity(identity: ModelIdentity | None, task: Mapping[str, Any]) -> dict[str, Any]:
    """What a model was made for; ``task``: the options of its task."""
    if identity is None:
        pair = [task.get("source_lang"), task.get("target_lang")]
        return {"languages": "-".join(map(str, pair)) if all(pair) else None, "identity": None}
    joint = identity.source == identity.target
    sizes = [len(identity.source.symbols), len(identity.target.symbols)]
    unit = {name.replace("_", " "): value for name, value in identity.unit.items() if value}
    return {
        "languages": "-".join(identity.languages),
        "symbols": sizes[0] if joint else sizes,
        "identity of the dictionaries": identity.dictionaries,
        "preparation": of_preparation(identity.preparation),
        "unit": unit.pop("unit", None),
        "options of units": unit,
        "written by": f"gtrans {identity.version}",
        "identity": identity.digest,
    }


def of_preparation(preparation: Preparation | None) -> dict[str, Any] | None:
    """How text becomes tokens; None if ``gtrans prepare`` did not do it."""
    if preparation is None:
        return None
    state = preparation.state
    if state.get("pieces"):
        segmented: dict[str, Any] = {"subwords": state["pieces"]}
    else:
        steps = [name for name, done in state["steps"].items() if done]
        asked = ("symbols", "merges")  # the first, if the size of the vocabulary was given
        name = next(name for name in asked if state["bpe"].get(name))
        segmented = {"steps": [*steps, "BPE"], f"BPE {name}": state["bpe"][name]}
    bert = state.get("bert")
    return {
        **segmented,
        **({"word pieces of": bert["name"]} if bert else {}),
        "identity": preparation.digest,
    }


def _training(state: Mapping[str, Any]) -> dict[str, Any]:
    history = state.get("optimizer_history") or [{}]
    extra = state.get("extra_state") or {}
    position = extra.get("train_iterator") or {}
    settings = {
        (group if name == "_name" else name).replace("_", " "): value
        for group, names in _SETTINGS
        for name in names
        if (value := options_of(state, group).get(name)) not in (None, "", False)
    }
    return {
        "updates": history[-1].get("num_updates"),
        "epoch": position.get("epoch"),
        "loss of validation": extra.get("val_loss"),
        "best of the run": extra.get("best"),
        **settings,
    }


def _made_from(state: Mapping[str, Any], path: Path) -> dict[str, Any] | None:
    """The training data and the start of the run."""
    run = recorded(state, path)
    task = options_of(state, "task")
    if run is None:
        return None
    starts = run.get("start") or {}
    return {
        "training data": task.get("data"),
        "identity of the training data": run.get("data"),
        **{flag: f"{start['path']} ({start['digest']})" for flag, start in starts.items()},
    }


def _parameters(tensors: Mapping[str, Any]) -> int:
    """Number of parameters; shared tensors count once."""
    different = {x.data_ptr(): x.numel() for x in tensors.values() if isinstance(x, Tensor)}
    return sum(different.values())
