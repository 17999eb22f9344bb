"""What a checkpoint, a prepared folder, a run folder or a translation is: ``gtrans show``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
"""By short names: text, numbers, None (unknown), lists, or such by names."""

_CHECKPOINTS = "checkpoint*.pt"
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_SIZE_OF_BPE = {"symbols": "BPE subwords, at most", "merges": "BPE merges, at most"}
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
    """What a file or a folder is: ``path``, ``kind``, facts of that kind, and ``notes``.

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
    return {"path": str(path), "kind": facts.pop("kind"), **facts, "notes": facts.get("notes", [])}


def lines_of(facts: Facts) -> list[str]:
    """The facts as text under headings, digests by their first 12 digits."""
    known = {name: facts[name] for name in facts if name not in ("path", "kind", "notes")}
    return [
        f"{facts['path']}: {facts['kind']}",
        *_rows(known, "  "),
        *(f"  note: {note}" for note in facts["notes"]),
    ]


def _rows(facts: Facts, indent: str) -> Iterator[str]:
    """Names and values in columns, then the nested facts, each under its name."""
    known = {name: value for name, value in facts.items() if value is not None}
    plain = [name for name, value in known.items() if not isinstance(value, dict)]
    width = max(map(len, plain), default=0)
    for name in plain:
        text = _DIGEST.sub(r"\1", _text(known[name]))
        yield f"{indent}{name.ljust(width)}  {text}"
    for name, value in known.items():
        if isinstance(value, dict) and (rows := list(_rows(value, f"{indent}  "))):
            yield f"{indent}{name}"
            yield from rows


def _text(value: Any) -> str:
    """A value as a reader expects it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value)) or "none"
    return str(value)


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
    averaged, card = ", ".join(state.get(AVERAGE_OF, [])), published(state)
    unknown = ["it does not say which data and preparation it comes from"]
    return {
        "kind": "checkpoint",
        "architecture": model.get("arch") or model.get("_name"),
        **({PUBLISHED: card} if card else {}),
        "parameters": checkpoint.parameters,
        **_identity_facts(identity, checkpoint.options("task")),
        **({"average of": averaged} if averaged else {}),
        "training": _training(checkpoint),
        "provenance": _provenance(checkpoint),
        "sha256": checkpoint.fingerprint,
        "notes": unknown if identity is None else [],
    }


def _identity_facts(identity: ModelIdentity | None, task: Mapping[str, Any]) -> Facts:
    """What a model was made for; ``task``: the options of its task."""
    if identity is None:
        pair = [task.get("source_lang"), task.get("target_lang")]
        return {"languages": "-".join(map(str, pair)) if all(pair) else None}
    kind = identity.unit.get("unit")
    return {
        "languages": "-".join(identity.languages),
        **_data_facts(identity),
        "unit": kind,
        "unit options": {
            name.replace("_", " "): value
            for name, value in identity.unit.items()
            if value and name != "unit" and _matters(name, value, kind)
        },
        "written by": f"gtrans {identity.version}",
        "fingerprint": identity.digest,
    }


def _matters(name: str, value: Any, unit: str | None) -> bool:
    """Whether models of a unit depend on an option."""
    if name == "context_kind":
        return str(value) != "true"
    if name.startswith("context_"):
        return unit == "window"
    return name != "max_doc_tokens" or unit in ("document", "stream")


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
    segmented: Facts = {"subwords": state.get("pieces")}
    if not state.get("pieces"):
        # The first of the two, if the size of the vocabulary was given.
        name = next(name for name in _SIZE_OF_BPE if state["bpe"].get(name))
        steps = [name for name, done in state["steps"].items() if done]
        segmented = {"steps": [*steps, "BPE"], _SIZE_OF_BPE[name]: state["bpe"][name]}
    bert = {"BERT": state["bert"]["name"]} if state.get("bert") else {}
    return {**segmented, **bert, "fingerprint": preparation.digest}


def _training(checkpoint: Checkpoint) -> Facts:
    history = checkpoint.state.get("optimizer_history") or [{}]
    extra = checkpoint.state.get("extra_state") or {}
    settings = {
        (group if name == "_name" else name).replace("_", " "): value
        for group, names in _SETTINGS.items()
        for name in names.split()
        if (value := checkpoint.options(group).get(name)) not in (None, "", False)
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
        return {**facts, "notes": ["not finished: run its `gtrans prepare` again"]}
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
    parts = {"files": record.names, "provenance": record.made_from}
    return {
        "kind": "translation",
        "sentences": record.sentences,
        **{name: {k: v for k, v in part.items() if v is not None} for name, part in parts.items()},
        "fingerprint": record.run,
        "sha256": record.output,
    }
