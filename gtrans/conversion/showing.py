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
"""Text, numbers, lists or further facts, by name; None: unknown."""

_CHECKPOINTS = "checkpoint*.pt"
# The options of a training that are shown, by group.
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
    """Describe a checkpoint, or the last checkpoint of a run folder."""
    if not path.is_dir():
        return checkpoint_facts(path)
    checkpoints = sorted(path.glob(_CHECKPOINTS), key=lambda file: file.stat().st_mtime_ns)
    if not checkpoints:
        raise GtransError(f"{path}: it holds no checkpoints ({_CHECKPOINTS}); name a checkpoint.")
    last = path / "checkpoint_last.pt"
    return checkpoint_facts(last if last in checkpoints else checkpoints[-1])


def lines_of(facts: Facts) -> list[str]:
    """Return the facts as YAML."""
    text: str = yaml.safe_dump(facts, sort_keys=False, allow_unicode=True)
    return text.splitlines()


def _known(facts: Facts) -> Facts:
    known: Facts = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            value = _known(dict(value))
        if value not in (None, "", [], {}):
            known[name] = value
    return known


def checkpoint_facts(path: Path) -> Facts:
    """Describe a checkpoint; raise GtransError if it is unreadable or contradicts itself."""
    checkpoint = Checkpoint.read(path, in_memory=False)
    state = checkpoint.state
    check_values(checkpoint.tensors, path)
    import_plugin()
    check_described(state, path)
    checkpoint.check_fit()
    model, task = checkpoint.options("model"), checkpoint.options("task")
    fingerprint = checkpoint.fingerprint
    facts: Facts = {
        "path": str(path),
        "architecture": model.get("arch") or model.get("_name"),
        PUBLISHED: published(state),
        "parameters": checkpoint.parameters,
    }
    if fingerprint is not None:
        facts |= _fingerprint_facts(fingerprint)
    elif task.get("source_lang") and task.get("target_lang"):
        facts["languages"] = f"{task['source_lang']}-{task['target_lang']}"
    facts |= {
        "average of": state.get(AVERAGE_OF),
        "training": _training(checkpoint),
        "provenance": _provenance(checkpoint),
        "sha256": checkpoint.sha256,
    }
    if fingerprint is None:
        facts["note"] = "it does not say which data it comes from"
    return _known(facts)


def _fingerprint_facts(fingerprint: ModelFingerprint) -> Facts:
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
    """Return the record of BPE, with the number of learned merges."""
    facts: Facts = dict(preparation.state["bpe"])
    if CODES_FILE in preparation.files:
        lines = preparation.files[CODES_FILE].decode().splitlines()
        facts["merges"] = sum(not line.startswith("#version:") for line in lines)
    return facts


def _training(checkpoint: Checkpoint) -> Facts:
    """Return settings and progress of the training; a converted model was not trained."""
    if not checkpoint.updates:
        return {"updates": 0 if checkpoint.state.get("optimizer_history") else None}
    extra = checkpoint.state.get("extra_state") or {}
    settings: Facts = {}
    for group, names in _SETTINGS.items():
        for name in names.split():
            value = checkpoint.options(group).get(name)
            label = group if name == "_name" else name
            if value is not False:
                settings[label.replace("_", " ")] = value
    return {
        "updates": checkpoint.updates,
        "epoch": (extra.get("train_iterator") or {}).get("epoch"),
        "validation loss": extra.get("val_loss"),
        "best of the run": extra.get("best"),
        **settings,
    }


def _provenance(checkpoint: Checkpoint) -> Facts | None:
    """Return the training data and the start of the run."""
    run = recorded_provenance(checkpoint.state, checkpoint.path)
    if run is None:
        return None
    facts = {
        "training data": checkpoint.options("task").get("data"),
        "digest of the data": run.get("data"),
    }
    for flag, start in (run.get("start") or {}).items():
        facts[flag] = f"{start['path']} ({start['digest']})"
    return facts
