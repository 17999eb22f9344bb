"""The description of a checkpoint that ``gtrans show`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gtrans.checkpoints.fingerprint import PUBLISHED, ModelFingerprint, published
from gtrans.conversion.checkpoint import AVERAGE_OF, Checkpoint
from gtrans.environment import import_plugin
from gtrans.errors import GtransError
from gtrans.modules.file_values import check_values
from gtrans.text.prepared_folder import CODES_FILE, Preparation
from gtrans.train.run_settings import recorded_provenance
from gtrans.translating.loading import check_described

Facts = dict[str, Any]
"""Text, numbers, lists or further facts, by short names; None: not known."""

_CHECKPOINTS = "checkpoint*.pt"
# By group, the options of a training that are shown.
_SETTINGS = {
    "criterion": "_name label_smoothing",
    "optimizer": "_name adam_betas weight_decay",
    "lr_scheduler": "_name warmup_updates",
    "optimization": "lr update_freq clip_norm max_update",
    "dataset": "max_tokens batch_size",
    "distributed_training": "distributed_world_size",
    "common": "seed fp16 bf16 amp",
}


def facts_of(path: Path) -> Facts:
    """Describe a checkpoint, or the last checkpoint of a run folder.

    Raises:
        GtransError: there is no checkpoint, or it is damaged.
    """
    if not path.is_dir():
        return checkpoint_facts(path)
    checkpoints = sorted(path.glob(_CHECKPOINTS), key=lambda file: file.stat().st_mtime_ns)
    if not checkpoints:
        raise GtransError(f"{path}: it holds no checkpoints ({_CHECKPOINTS}); name a checkpoint.")
    last = path / "checkpoint_last.pt"
    return checkpoint_facts(last if last in checkpoints else checkpoints[-1])


def lines_of(facts: Facts) -> list[str]:
    """The facts as YAML."""
    text: str = yaml.safe_dump(facts, sort_keys=False, allow_unicode=True)
    return text.splitlines()


def _known(facts: Facts) -> Facts:
    """Leave out everything that is unknown or empty."""
    known: Facts = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            value = _known(dict(value))
        if value not in (None, "", [], {}):
            known[name] = value
    return known


def checkpoint_facts(path: Path) -> Facts:
    """Describe a checkpoint.

    Raises:
        GtransError: it is unreadable, its fingerprint is damaged, or its options do not describe
            its parameters.
    """
    checkpoint = Checkpoint.read(path, in_memory=False)
    state = checkpoint.state
    check_values(checkpoint.tensors, path)
    import_plugin()
    check_described(state, path)
    checkpoint.check_fit()
    model, fingerprint = checkpoint.options("model"), checkpoint.fingerprint
    facts: Facts = {
        "path": str(path),
        "architecture": model.get("arch") or model.get("_name"),
        PUBLISHED: published(state),
        "parameters": checkpoint.parameters,
        **_fingerprint_facts(fingerprint, checkpoint.options("task")),
        "average of": state.get(AVERAGE_OF),
        "training": _training(checkpoint),
        "provenance": _provenance(checkpoint),
        "sha256": checkpoint.sha256,
        "note": "it does not say which data it comes from" if fingerprint is None else None,
    }
    return _known(facts)


def _fingerprint_facts(fingerprint: ModelFingerprint | None, task: Mapping[str, Any]) -> Facts:
    """Languages, vocabulary, preparation and unit; ``task``: the options of its task."""
    if fingerprint is None:
        pair = [task.get("source_lang"), task.get("target_lang")]
        return {"languages": "-".join(map(str, pair)) if all(pair) else None}
    sizes = [len(fingerprint.source.entries), len(fingerprint.target.entries)]
    options = {}
    for name, value in fingerprint.unit.items():
        if value and name != "unit":
            options[name.replace("_", " ")] = value
    return {
        "languages": "-".join(fingerprint.languages),
        "vocabulary": sizes[0] if fingerprint.source == fingerprint.target else sizes,
        "preparation": _preparation_facts(fingerprint.preparation),
        "unit": fingerprint.unit.get("unit"),
        "unit options": options,
        "written by": f"gtrans {fingerprint.version}",
        "fingerprint": fingerprint.digest,
    }


def _preparation_facts(preparation: Preparation | None) -> Facts | None:
    """The steps that make tokens of text; None if ``gtrans prepare`` did not make them."""
    if preparation is None:
        return None
    state = preparation.state
    return {
        "steps": [name for name, done in state["steps"].items() if done],
        "subwords": state.get("subwords") or "BPE",
        "BPE": _bpe_facts(preparation),
        "BERT": (state.get("bert") or {}).get("name"),
        "digest": preparation.digest,
    }


def _bpe_facts(preparation: Preparation) -> Facts:
    """The record of BPE, with the number of merges that were learned."""
    facts: Facts = dict(preparation.state["bpe"])
    if CODES_FILE in preparation.files:
        lines = preparation.files[CODES_FILE].decode().splitlines()
        facts["merges"] = sum(not line.startswith("#version:") for line in lines)
    return facts


def _training(checkpoint: Checkpoint) -> Facts:
    """How the model was trained; a converted one has options, but nobody trained with them."""
    if not checkpoint.updates:
        return {"updates": 0 if checkpoint.state.get("optimizer_history") else None}
    extra = checkpoint.state.get("extra_state") or {}
    settings: Facts = {}
    for group, names in _SETTINGS.items():
        for name in names.split():
            value = checkpoint.options(group).get(name)
            if value is not False:
                settings[(group if name == "_name" else name).replace("_", " ")] = value
    return {
        "updates": checkpoint.updates,
        "epoch": (extra.get("train_iterator") or {}).get("epoch"),
        "validation loss": extra.get("val_loss"),
        "best of the run": extra.get("best"),
        **settings,
    }


def _provenance(checkpoint: Checkpoint) -> Facts | None:
    """The training data and the start of the run."""
    run = recorded_provenance(checkpoint.state, checkpoint.path)
    if run is None:
        return None
    starts = run.get("start") or {}
    return {
        "training data": checkpoint.options("task").get("data"),
        "digest of the data": run.get("data"),
        **{flag: f"{start['path']} ({start['digest']})" for flag, start in starts.items()},
    }
