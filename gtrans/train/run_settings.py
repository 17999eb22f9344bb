"""The provenance of a run: settings, training data and start."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.files import digest, digest_of_values
from gtrans.modules.file_values import reading
from gtrans.option_types import group_of
from gtrans.text.prepared_folder import check_recorded

Provenance = dict[str, Any]
"""``settings``: flag -> value, as a user writes it. ``folders``: the data folders. ``data``: digest
of the training data. ``start``: flag -> ``path`` and ``digest`` of the file that the flag names;
the digest is None if there is no such file any more."""

Options = Mapping[str, Any]  # of a whole command, by group
Starts = Mapping[str, dict[str, Any]]  # ``start`` of a Provenance

RUN = "run"
"""The provenance's entry in a checkpoint's task state."""

# Options that name a start: flag -> (group, name).
_STARTS = {
    "--init-from": ("task", "init_from"),
    "--init-xlmr": ("model", "init_xlmr"),
    "--finetune-from-model": ("checkpoint", "finetune_from_model"),
}
# The options that are compared: of these groups some, of the others all but those below.
_COMPARED = {
    "common": "seed fp16 bf16 amp memory_efficient_fp16 memory_efficient_bf16 fp16_init_scale "
    "fp16_scale_window fp16_scale_tolerance fp16_no_flatten_grads on_cpu_convert_precision "
    "min_loss_scale amp_init_scale amp_scale_window amp_batch_retries",
    "dataset": "max_tokens batch_size required_batch_size_multiple train_subset curriculum "
    "grouped_shuffling update_epoch_batch_itr update_ordered_indices_seed "
    "skip_invalid_size_inputs_valid_test valid_subset combine_valid_subsets max_valid_steps",
    "optimization": "lr clip_norm sentence_avg use_bmuf skip_remainder_batch",
    "checkpoint": "best_checkpoint_metric maximize_best_checkpoint_metric",
}
# Which translations validation scores, and against what; free unless their scores choose the best.
_TRANSLATED = (
    "eval_bleu_args eval_bleu_documents eval_bleu_reference eval_bleu_remove_bpe eval_bleu_detok "
    "eval_bleu_detok_args eval_bleu_print_samples eval_tokenized_bleu"
)
_LOSSES = ("loss", "nll_loss", "ppl", "accuracy")
# Units and languages are compared as the model has them, where open ones are filled in.
_FREE = {
    "task": "data bert_cache init_from init_dict restart update_freq num_batch_buckets "
    "load_alignments valid_subset eval_bleu patience_unit save_without_validation source_lang "
    f"target_lang {' '.join(UNIT_FIELDS)}",
    "model": "init_xlmr checkpoint_activations",  # nor does the second
    "criterion": "softmax_rows report_accuracy",  # neither changes what is learned
    "optimizer": "tpu",
    "lr_scheduler": "",
}
# Flags that choose the class of a group.
_CHOICES = {
    "task": "--task",
    "model": "--arch",
    "criterion": "--criterion",
    "optimizer": "--optimizer",
    "lr_scheduler": "--lr-scheduler",
}
_NO_FILE: dict[str, Any] = {"path": "none", "digest": None}

# In a folder in the format of transformers: the files of its model.
_MODEL_FILES = ("config.json", "*.safetensors", "*.bin", "*.index.json")


def changed_settings(recorded: Provenance, now: Provenance) -> list[str]:
    """Return ``--flag old -> new`` for each difference between a stored run and this one.

    Entries that only one of them has are not compared.
    """
    changes = []
    shared = recorded.keys() & now.keys()
    has_data = {"data", "folders"} <= shared
    if has_data and recorded["data"] != now["data"]:
        changes.append(f"the training data {_change(recorded['folders'], now['folders'])}")
    if "start" in shared:
        changes += _changed_starts(recorded["start"], now["start"])
    return changes + _changed_values(recorded["settings"], now["settings"])


def _changed_starts(recorded: Starts, now: Starts) -> list[str]:
    changes = []
    for flag in _STARTS:
        old = recorded.get(flag) or _NO_FILE
        new = now.get(flag) or _NO_FILE
        # A missing file has no digest.
        old_file = old["digest"] or old["path"]
        new_file = new["digest"] or new["path"]
        if old_file != new_file:
            changes.append(f"{flag} {_change(old['path'], new['path'])}")
    return changes


def _changed_values(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    differing = [flag for flag in after if flag in before and before[flag] != after[flag]]
    classes = [flag for flag in differing if flag in _CHOICES.values()]
    # The options of another class need not be named, too.
    return [f"{flag} {before[flag]} -> {after[flag]}" for flag in classes or differing]


def _change(old: str, new: str) -> str:
    return f"{old} (it has changed)" if old == new else f"{old} -> {new}"


def settings_of(options: Options, presets: Mapping[str, Any]) -> dict[str, str]:
    """Return the compared settings of a run, by flag.

    ``presets``: architecture -> the sizes that replace None.
    """
    settings: dict[str, str] = {}
    for group, names in _COMPARED.items():
        values = group_of(options, group)
        for name in names.split():
            if name in values:
                settings[_flag(group, name)] = shown(values[name])
    for group, class_flag in _CHOICES.items():
        for name, value in _options_of_class(options, group, presets).items():
            flag = class_flag if name == "_name" else _flag(group, name)
            # An interpolated option stands in several groups.
            settings.setdefault(flag, shown(value))
    settings["GPUs x --update-freq"] = shown(_batches_of_updates(options))
    return settings


def _batches_of_updates(options: Options) -> list[int]:
    """Return the batches of an update, for each epoch, on all devices."""
    distributed = group_of(options, "distributed_training")
    workers = int(distributed.get("distributed_world_size", 1))
    frequencies = group_of(options, "optimization").get("update_freq", [1])
    batches = [workers * int(frequency) for frequency in frequencies]
    while len(batches) > 1 and batches[-1] == batches[-2]:
        batches.pop()
    return batches


def _options_of_class(options: Options, group: str, presets: Mapping[str, Any]) -> dict[str, Any]:
    free = _free_options(options, group)
    values = {}
    for name, value in group_of(options, group).items():
        if name == "_name" or name not in free:
            values[name] = value
    if group == "model":
        preset = presets.get(str(values.get("_name")), {})
        for name, value in values.items():
            if value is None:
                values[name] = preset.get(name)
    return values


def _free_options(options: Options, group: str) -> set[str]:
    free = set(_FREE[group].split())
    metric = group_of(options, "checkpoint").get("best_checkpoint_metric")
    if metric in _LOSSES:
        free.update(_TRANSLATED.split())
    if isinstance(options.get(group), Namespace):
        # fairseq's older classes have the options of all groups.
        free.update(("arch", "no_seed_provided"), options)
        for other_group in options.values():
            if isinstance(other_group, Mapping):
                free.update(other_group)
    return free


def _flag(group: str, name: str) -> str:
    # A model has the properties of its BERT as options, which are no flags.
    if group == "model" and name.startswith("bert_"):
        return "BERT's " + name.removeprefix("bert_")
    return "--" + name.replace("_", "-")


def shown(value: Any) -> str:
    """Return an option's value as text, always in the same form."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (list, tuple)):
        return ",".join(shown(entry) for entry in value)
    return str(value).strip("()[]").replace(", ", ",")


# ---- data and start ------------------------------------------------------------------------------


def start_options(root: Any) -> dict[str, str]:
    """Return the files from which a model starts, by flag."""
    starts = {}
    for flag, (group, name) in _STARTS.items():
        path = group_of(root, group).get(name)
        if path:
            starts[flag] = str(path)
    return starts


def provenance_of(
    root: Any,
    presets: Mapping[str, Any],
    entries: Iterable[list[str]],
    data: Iterable[Path],
    start: Mapping[str, str],
    recorded: Provenance | None,
) -> Provenance:
    """Return the provenance of a run.

    Args:
        entries: of both dictionaries.
        data: the training files.
        start: the files from which the model starts, by flag.
        recorded: the provenance in the folder; the files of its start may have been deleted.
    """
    files = []
    for path in data:
        contents = digest(path)
        check_recorded(path.parent, [path.name], whole=True, computed={path.name: contents})
        files.append([path.name, contents])
    recorded_starts = {} if recorded is None else recorded["start"]
    starts = {}
    for flag, name in start.items():
        start_path = os.path.abspath(name)
        earlier = recorded_starts.get(flag)
        is_same = earlier is not None and earlier["path"] == start_path
        if is_same and not os.path.exists(start_path):
            starts[flag] = earlier
            continue
        contents_digest = _digest_of(Path(start_path))
        starts[flag] = {"path": start_path, "digest": contents_digest}
    options: Any = OmegaConf.to_container(root, resolve=True, enum_to_str=True)
    return {
        "settings": settings_of(options, presets),
        "folders": str(group_of(root, "task").get("data")),
        "data": digest_of_values(list(entries), files),
        "start": starts,
    }


def recorded_provenance(state: Mapping[str, Any], path: str | Path) -> Provenance | None:
    """Return the provenance in a checkpoint, or None."""
    with reading(path, "the provenance of its run"):
        record = (state.get("task_state") or {}).get(RUN)
        return dict(record) if record else None


def run_of_checkpoint(
    state: Mapping[str, Any], path: str | Path, presets: Mapping[str, Any] | None = None
) -> Provenance:
    """Return the provenance of a checkpoint's run; settings alone if it stores none."""
    recorded = recorded_provenance(state, path) or {}
    if "settings" in recorded:
        return recorded
    with reading(path, "its options"):
        return {**recorded, "settings": settings_of(state["cfg"], presets or {})}


def _digest_of(path: Path) -> str | None:
    if path.is_file():
        return digest(path)
    if not path.is_dir():
        return None
    files: set[Path] = set()
    for pattern in _MODEL_FILES:
        files.update(path.glob(pattern))
    contents = [[file.name, digest(file)] for file in sorted(files)]
    return digest_of_values(contents)
