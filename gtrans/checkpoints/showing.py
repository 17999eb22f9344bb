"""What a checkpoint, a prepared folder, a run folder or a translation is: ``gtrans show``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtrans.checkpoints.checkpoint import AVERAGE_OF, Checkpoint
from gtrans.checkpoints.identity import PUBLISHED, ModelIdentity, published
from gtrans.checkpoints.reading import check_values
from gtrans.data.vocabulary import Vocabulary
from gtrans.decoding.loading import check_described, import_plugin
from gtrans.decoding.resuming import read_record
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

_CHECKPOINTS = "checkpoint*.pt"
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
_UNKNOWN = "identity unknown: it does not say what it was made from"
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


@dataclass
class Facts:
    """What is known of a file or a folder.

    Attributes:
        path: as the user named it.
        kind: what it is: ``checkpoint``, ``prepared folder``, ``run folder``, ``translation``.
        facts: by short names; values are text, numbers, None (unknown), lists, or such by names.
        notes: warnings.
    """

    path: str
    kind: str
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All of it as an object for JSON."""
        return {"path": self.path, "kind": self.kind, **self.facts, "notes": self.notes}

    def lines(self) -> list[str]:
        """All of it as text; of a digest the first 12 digits (``--json`` has them all)."""
        rows = [(name, _DIGEST.sub(_shortened, value)) for name, value in _rows(self.facts)]
        width = max((len(name) for name, _ in rows), default=0)
        return [
            f"{self.path}: {self.kind}",
            *(f"  {name.ljust(width)}  {value}" for name, value in rows),
            *(f"  note: {note}" for note in self.notes),
        ]


def _shortened(found: re.Match[str]) -> str:
    return found[0][:12]


def _rows(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values; the names of nested values have those before them."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from ((f"{name} {key}", text) for key, text in _rows(value))
        else:
            yield name, _text(value)


def _text(value: Any) -> str:
    """A value as a reader expects it."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value)) or "none"
    return str(value)


def facts_of(path: Path) -> Facts:
    """What a file or a folder is.

    Raises:
        GtransError: there is none, it is nothing of this project, or it is damaged.
    """
    if not path.exists():
        raise GtransError(f"{path}: there is no such file or folder.")
    if path.is_dir():
        if (path / STATE_FILE).is_file():
            return _of_prepared(path)
        if any(path.glob(_CHECKPOINTS)):
            return _of_run(path)
        raise GtransError(
            f"{path}: it holds neither a preparation ({STATE_FILE}) nor checkpoints "
            f"({_CHECKPOINTS}); name a folder of `gtrans prepare` or of a training."
        )
    found = _of_translation(path)
    if found is None and not is_checkpoint(path):
        raise GtransError(
            f"{path}: neither a checkpoint nor a translation with its record "
            f"({path.name}.made.json), so nothing is known of it."
        )
    return found or of_checkpoint(path)


def of_checkpoint(path: Path) -> Facts:
    """What a checkpoint is.

    Raises:
        GtransError: it is unreadable, its identity is damaged, or its options do not describe
            its parameters.
    """
    checkpoint = Checkpoint.read(path, in_memory=False)
    check_values(checkpoint.tensors, path)
    import_plugin()
    check_described(checkpoint.state, path)
    checkpoint.check_fit()
    model, identity = checkpoint.options("model"), checkpoint.identity
    averaged = ", ".join(checkpoint.state.get(AVERAGE_OF, []))
    facts = {
        "architecture": model.get("arch") or model.get("_name"),
        **({PUBLISHED: card} if (card := published(checkpoint.state)) else {}),
        "parameters": checkpoint.parameters,
        **_of_identity(identity, checkpoint.options("task")),
        **({"average of": averaged} if averaged else {}),
        "training": _training(checkpoint),
        "made from": _made_from(checkpoint),
        "sha256": checkpoint.fingerprint,
    }
    return Facts(str(path), "checkpoint", facts, [] if identity is not None else [_UNKNOWN])


def _of_identity(identity: ModelIdentity | None, task: Mapping[str, Any]) -> dict[str, Any]:
    """What a model was made for; ``task``: the options of its task."""
    if identity is None:
        pair = [task.get("source_lang"), task.get("target_lang")]
        return {"languages": "-".join(map(str, pair)) if all(pair) else None, "identity": None}
    kind = identity.unit.get("unit")
    unit = {
        name.replace("_", " "): value
        for name, value in identity.unit.items()
        if value and _matters(name, value, kind)
    }
    return {
        "languages": "-".join(identity.languages),
        **_of_data(identity),
        "unit": unit.pop("unit", None),
        "unit options": unit,
        "written by": f"gtrans {identity.version}",
        "identity": identity.digest,
    }


def _matters(name: str, value: Any, unit: str | None) -> bool:
    """Whether models of a unit depend on an option."""
    if name == "context_kind":
        return str(value) != "true"
    if name.startswith("context_"):
        return unit == "window"
    return name != "max_doc_tokens" or unit in ("document", "stream")


def _of_data(identity: ModelIdentity) -> dict[str, Any]:
    """What a data folder and its models have in common."""
    sizes = [len(identity.source.symbols), len(identity.target.symbols)]
    return {
        "symbols": sizes[0] if identity.source == identity.target else sizes,
        "identity of the dictionaries": identity.dictionaries,
        "preparation": _of_preparation(identity.preparation),
    }


def _of_preparation(preparation: Preparation | None) -> dict[str, Any] | None:
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
        segmented = {"steps": [*steps, "BPE"], f"BPE {name} asked for": state["bpe"][name]}
    bert = state.get("bert")
    return {
        **segmented,
        **({"word pieces of": bert["name"]} if bert else {}),
        "identity": preparation.digest,
    }


def _training(checkpoint: Checkpoint) -> dict[str, Any]:
    history = checkpoint.state.get("optimizer_history") or [{}]
    extra = checkpoint.state.get("extra_state") or {}
    position = extra.get("train_iterator") or {}
    settings = {
        (group if name == "_name" else name).replace("_", " "): value
        for group, names in _SETTINGS
        for name in names
        if (value := checkpoint.options(group).get(name)) not in (None, "", False)
    }
    return {
        "updates": history[-1].get("num_updates"),
        "epoch": position.get("epoch"),
        "validation loss": extra.get("val_loss"),
        "best of the run": extra.get("best"),
        **settings,
    }


def _made_from(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """The training data and the start of the run."""
    run = recorded_in(checkpoint.state, checkpoint.path)
    if run is None:
        return None
    starts = run.get("start") or {}
    return {
        "training data": checkpoint.options("task").get("data"),
        "identity of training data": run.get("data"),
        **{flag: f"{start['path']} ({start['digest']})" for flag, start in starts.items()},
    }


def _of_prepared(path: Path) -> Facts:
    state = read_state(path)
    finished = state.get("finished") or {}
    languages = str(state["source_lang"]), str(state["target_lang"])
    found = Facts(str(path), "prepared folder", {"languages": "-".join(languages)})
    if LAST_STEP not in finished:
        found.notes.append("not finished: run its `gtrans prepare` again")
        return found
    check_recorded(
        path, (name for step in finished.values() for name in step["outputs"]), whole=True
    )
    splits: dict[str, Any] = {}
    for name in sorted({step.split()[1] for step in finished if step.startswith("encode ")}):
        side = count_split(path, name, languages)[0]
        splits[name] = f"{side.sentences:,} sentences in {side.documents:,} documents"
    dictionaries = [read_dictionary(str(path), lang) for lang in languages]
    source, target = (Vocabulary.of(one, len(one)) for one in dictionaries)
    identity = ModelIdentity(languages, source, target, Preparation.read(path), {})
    found.facts |= {"splits": splits, **_of_data(identity)}
    return found


def _of_run(path: Path) -> Facts:
    names = sorted(checkpoint.name for checkpoint in path.glob(_CHECKPOINTS))
    newest = path / "checkpoint_last.pt"
    if not newest.is_file():
        newest = max(path.glob(_CHECKPOINTS), key=lambda file: file.stat().st_mtime_ns)
    shown = of_checkpoint(newest)
    facts = {"checkpoints": names, "shown": newest.name, **shown.facts}
    return Facts(str(path), "run folder", facts, shown.notes)


def _of_translation(path: Path) -> Facts | None:
    """What a translation is, by the record beside it; None if it has none.

    Raises:
        GtransError: the record is damaged, or of another text.
    """
    record = read_record(path)
    if record is None:
        return None
    if not record.describes(path) or fingerprint(record.made_from) != record.run:
        raise GtransError(
            f"{path}: it or its record was changed after `gtrans translate` wrote it, so nobody "
            "knows what it is; translate again."
        )
    parts = (("files", record.names), ("made from", record.made_from))
    facts = {
        "sentences": record.sentences,
        **{name: {k: v for k, v in part.items() if v is not None} for name, part in parts},
        "identity": record.run,
        "sha256": record.output,
    }
    return Facts(str(path), "translation", facts)
