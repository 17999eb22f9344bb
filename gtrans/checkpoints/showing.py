"""What a checkpoint, a prepared folder, a run folder or a translation is: ``gtrans show``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gtrans.checkpoints.checkpoint import AVERAGE_OF, Checkpoint
from gtrans.checkpoints.identity import PUBLISHED, ModelIdentity, published
from gtrans.checkpoints.reading import check_values
from gtrans.data.vocabulary import Vocabulary
from gtrans.decoding.loading import check_described, import_plugin
from gtrans.decoding.translation import read_record
from gtrans.errors import GtransError
from gtrans.files import fingerprint, is_checkpoint
from gtrans.tasks.options import read_dictionary
from gtrans.text.preparation import count_split
from gtrans.text.prepared_folder import (
    LAST_STEP,
    STATE_FILE,
    Preparation,
    check_recorded,
    read_state,
)
from gtrans.train.compare import recorded_in

Facts = dict[str, Any]
"""By short names: text, numbers, lists, or such by names; None: it is not known."""

_CHECKPOINTS = "checkpoint*.pt"
# By group, the options of a training that a reader wants to know.
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
    """What a file or a folder is: ``path``, ``kind``, and facts of that kind.

    Raises:
        GtransError: there is none, it is nothing of this project, or it is damaged.
    """
    if not path.exists():
        raise GtransError(f"{path}: there is no such file or folder.")
    if (path / STATE_FILE).is_file():
        facts = _prepared_facts(path)
    elif path.is_dir() and any(path.glob(_CHECKPOINTS)):
        facts = _run_facts(path)
    elif path.is_dir():
        raise GtransError(
            f"{path}: it holds neither a preparation ({STATE_FILE}) nor checkpoints "
            f"({_CHECKPOINTS}); name a folder of `gtrans prepare` or of a training."
        )
    elif read_record(path) is not None:
        facts = _translation_facts(path)
    elif is_checkpoint(path):
        facts = checkpoint_facts(path)
    else:
        raise GtransError(
            f"{path}: neither a checkpoint nor a translation with its record "
            f"({path.name}.made.json), so nothing is known of it."
        )
    known: Facts = _known({"path": str(path), "kind": facts.pop("kind"), **facts})
    return known


def lines_of(facts: Facts) -> list[str]:
    """The facts as YAML, under what was shown."""
    known = {name: value for name, value in facts.items() if name not in ("path", "kind")}
    text: str = yaml.safe_dump(known, sort_keys=False, allow_unicode=True)
    return [f"{facts['path']}: {facts['kind']}", *(f"  {line}" for line in text.splitlines())]


def _known(facts: Any) -> Any:
    """Without what is unknown or empty, such as a list of no notes."""
    if not isinstance(facts, Mapping):
        return facts
    known = {name: _known(value) for name, value in facts.items()}
    return {name: value for name, value in known.items() if value not in (None, "", [], {})}


def checkpoint_facts(path: Path) -> Facts:
    """What a checkpoint is.

    Raises:
        GtransError: it is unreadable, its identity is damaged, or its options do not describe
            its parameters.
    """
    checkpoint = Checkpoint.read(path, in_memory=False)
    state = checkpoint.state
    check_values(checkpoint.tensors, path)
    import_plugin()
    check_described(state, path)
    checkpoint.check_fit()
    model, identity = checkpoint.options("model"), checkpoint.identity
    return {
        "kind": "checkpoint",
        "architecture": model.get("arch") or model.get("_name"),
        PUBLISHED: published(state),
        "parameters": checkpoint.parameters,
        **_identity_facts(identity, checkpoint.options("task")),
        "average of": state.get(AVERAGE_OF),
        "training": _training(checkpoint),
        "provenance": _provenance(checkpoint),
        "sha256": checkpoint.fingerprint,
        "note": "it does not say which data it comes from" if identity is None else None,
    }


def _identity_facts(identity: ModelIdentity | None, task: Mapping[str, Any]) -> Facts:
    """What a model was made for; ``task``: the options of its task."""
    if identity is None:
        pair = [task.get("source_lang"), task.get("target_lang")]
        return {"languages": "-".join(map(str, pair)) if all(pair) else None}
    return {
        "languages": "-".join(identity.languages),
        **_data_facts(identity),
        "unit": identity.unit.get("unit"),
        "unit options": {
            name.replace("_", " "): value
            for name, value in identity.unit.items()
            if value and name != "unit"
        },
        "written by": f"gtrans {identity.version}",
        "fingerprint": identity.digest,
    }


def _data_facts(identity: ModelIdentity) -> Facts:
    """What a data folder and its models have in common."""
    sizes = [len(identity.source.symbols), len(identity.target.symbols)]
    return {
        "vocabulary": sizes[0] if identity.source == identity.target else sizes,
        "fingerprint of the vocabulary": identity.dictionaries,
        "preparation": _preparation_facts(identity.preparation),
    }


def _preparation_facts(preparation: Preparation | None) -> Facts | None:
    """How text becomes tokens; None if ``gtrans prepare`` did not do it."""
    if preparation is None:
        return None
    state = preparation.state
    return {
        "steps": [name for name, done in state["steps"].items() if done],
        "subwords": state.get("pieces") or "BPE",
        "BPE": state["bpe"],
        "BERT": (state.get("bert") or {}).get("name"),
        "fingerprint": preparation.digest,
    }


def _training(checkpoint: Checkpoint) -> Facts:
    history = checkpoint.state.get("optimizer_history") or [{}]
    extra = checkpoint.state.get("extra_state") or {}
    settings = {
        (group if name == "_name" else name).replace("_", " "): value
        for group, names in _SETTINGS.items()
        for name in names.split()
        if (value := checkpoint.options(group).get(name)) is not False
    }
    return {
        "updates": history[-1].get("num_updates"),
        "epoch": (extra.get("train_iterator") or {}).get("epoch"),
        "validation loss": extra.get("val_loss"),
        "best of the run": extra.get("best"),
        **settings,
    }


def _provenance(checkpoint: Checkpoint) -> Facts | None:
    """The training data and the start of the run."""
    run = recorded_in(checkpoint.state, checkpoint.path)
    if run is None:
        return None
    starts = run.get("start") or {}
    return {
        "training data": checkpoint.options("task").get("data"),
        "fingerprint of the data": run.get("data"),
        **{flag: f"{start['path']} ({start['digest']})" for flag, start in starts.items()},
    }


def _prepared_facts(path: Path) -> Facts:
    state = read_state(path)
    finished = state.get("finished") or {}
    languages = str(state["source_lang"]), str(state["target_lang"])
    facts: Facts = {"kind": "prepared folder", "languages": "-".join(languages)}
    if LAST_STEP not in finished:
        return {**facts, "note": "not finished: run its `gtrans prepare` again"}
    check_recorded(
        path, (name for step in finished.values() for name in step["outputs"]), whole=True
    )
    splits: dict[str, str] = {}
    for name in sorted({step.split()[1] for step in finished if step.startswith("encode ")}):
        side = count_split(path, name, languages)[0]
        splits[name] = f"{side.sentences:,} sentences in {side.documents:,} documents"
    dictionaries = [read_dictionary(str(path), lang) for lang in languages]
    source, target = (Vocabulary.of(dictionary, len(dictionary)) for dictionary in dictionaries)
    identity = ModelIdentity(languages, source, target, Preparation.read(path), {})
    return {**facts, "splits": splits, **_data_facts(identity)}


def _run_facts(path: Path) -> Facts:
    checkpoints = sorted(path.glob(_CHECKPOINTS))
    newest = path / "checkpoint_last.pt"
    if not newest.is_file():
        newest = max(checkpoints, key=lambda file: file.stat().st_mtime_ns)
    shown = {"checkpoints": [file.name for file in checkpoints], "shown": newest.name}
    return {**shown, **checkpoint_facts(newest), "kind": "run folder"}


def _translation_facts(path: Path) -> Facts:
    """What a translation is, by the record beside it.

    Raises:
        GtransError: the record is damaged, or of another text.
    """
    record = read_record(path)
    assert record is not None
    if not record.describes(path) or fingerprint(record.made_from) != record.run:
        raise GtransError(
            f"{path}: it or its record was changed after `gtrans translate` wrote it, so nobody "
            "knows what it is; translate again."
        )
    return {
        "kind": "translation",
        "sentences": record.sentences,
        "files": record.names,
        "provenance": record.made_from,
        "fingerprint": record.run,
        "sha256": record.output,
    }
