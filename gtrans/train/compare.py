"""What two trainings in one folder are compared by: their options, their data and their start."""

from __future__ import annotations

import hashlib
import os
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gtrans.checkpoints.reading import reading
from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.files import digest, fingerprint
from gtrans.text.prepared_folder import check_recorded

Options = Mapping[str, Any]
Settings = dict[str, Any]
MadeFrom = dict[str, Any]
"""``data``: digest of the training data. ``start``: by flag, ``path`` and ``digest`` of what the
flag names; the digest is None if there is no such file any more."""

# Options of schedules that are --max-update unless they are given.
_FOLLOW_MAX_UPDATE = ("max_update", "total_num_update")
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
    "eval_bleu_detok_args eval_tokenized_bleu"
)
_LOSSES = ("loss", "nll_loss", "ppl", "accuracy")
# Units and languages are those of the model, which has them as they were understood.
_FREE = {
    "task": "data bert_cache init_from init_dict restart update_freq "
    "num_batch_buckets load_alignments valid_subset eval_bleu patience_unit "
    f"save_without_validation source_lang target_lang {' '.join(UNIT_FIELDS)}",
    "model": "init_xlmr",
    "criterion": "softmax_rows report_accuracy",  # neither changes what is learned
    "optimizer": "tpu",
    "lr_scheduler": "",
}
# Of a folder in the format of transformers, what its model consists of.
_MODEL_FILES = ("config.json", "*.safetensors", "*.bin", "*.index.json")
_DIGEST = 64  # characters


def group_of(options: Any, group: str) -> Settings:
    """A group of options; those of fairseq's older tasks are a namespace with all options."""
    found = options.get(group) or {}
    return dict(vars(found)) if isinstance(found, Namespace) else dict(found)


# ---- options -------------------------------------------------------------------------------------


def different_options(recorded: Options, now: Options, presets: Mapping[str, Options]) -> list[str]:
    """The options in which two runs differ, as ``--flag old -> new``.

    Options that one of them does not have are left out.

    Args:
        recorded: those in the checkpoint of a run, by group.
        now: those of this run.
        presets: the sizes of the model's architectures, which stand for None.
    """
    found: dict[str, str] = {}
    for group in (*_COMPARED, *_FREE):
        old, new = (_compared(group, options, presets) for options in (recorded, now))
        names = ["_name"] if old.get("_name") != new.get("_name") else list(new)
        for name in names:
            # What is interpolated stands in several groups and is named once.
            flag = _flag(group, name)
            if name in old and not _equal(old[name], new[name]) and flag not in found:
                found[flag] = f"{flag} {_shown(old[name])} -> {_shown(new[name])}"
                if name in _FOLLOW_MAX_UPDATE:
                    found[flag] += " (the learning rate's schedule depends on it)"
    batches = [_batches_of_updates(options) for options in (recorded, now)]
    if batches[0] != batches[1]:
        found["--update-freq"] = (
            f"GPUs x --update-freq {_shown(batches[0])} -> {_shown(batches[1])}"
        )
    return list(found.values())


def _compared(group: str, options: Options, presets: Mapping[str, Options]) -> Settings:
    """The options of a group that are compared."""
    settings = group_of(options, group)
    others: set[str] = set()
    if isinstance(options.get(group), Namespace):
        # It has the options of all groups.
        others = {"arch", "no_seed_provided", *options}
        others |= {name for part in options.values() if isinstance(part, Mapping) for name in part}
    if group in _COMPARED:
        return {name: settings[name] for name in _COMPARED[group].split() if name in settings}
    free = {*_FREE[group].split(), *others} - {"_name"}
    if group_of(options, "checkpoint").get("best_checkpoint_metric") in _LOSSES:
        free |= {*_TRANSLATED.split()}
    settings = {name: value for name, value in settings.items() if name not in free}
    if group == "model":
        preset = presets.get(str(settings.get("_name")), {})
        settings |= {k: preset.get(k) for k, value in settings.items() if value is None}
    return settings


def _batches_of_updates(options: Options) -> list[int]:
    """Batches in an update, by epoch; the last number holds for all later epochs."""
    workers = int(group_of(options, "distributed_training").get("distributed_world_size", 1))
    frequencies = group_of(options, "optimization").get("update_freq", [1])
    batches = [workers * int(number) for number in frequencies]
    while len(batches) > 1 and batches[-1] == batches[-2]:
        batches.pop()
    return batches


def _flag(group: str, name: str) -> str:
    if name == "_name":
        name = {"model": "arch"}.get(group, group)
    # A model has the traits of its BERT as options, which are no flags.
    if group == "model" and name.startswith("bert_"):
        return "BERT's " + name.removeprefix("bert_")
    return "--" + name.replace("_", "-")


def _equal(old: Any, new: Any) -> bool:
    return bool(old == new) or _shown(old) == _shown(new)


def _shown(value: Any) -> str:
    """An option's value as a user writes it, the values of a list joined by commas."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return ",".join(_shown(member) for member in value)
    text = str(value).strip("()[]").replace(", ", ",")
    return text[:8] if len(text) == _DIGEST and all(c in "0123456789abcdef" for c in text) else text


# ---- data and start ------------------------------------------------------------------------------


def made_from(
    symbols: Iterable[list[str]], data: Iterable[Path], start: Mapping[str, str]
) -> MadeFrom:
    """What a run is made from; reads all files once.

    Args:
        symbols: those of both dictionaries.
        data: the files with the training data.
        start: by flag, the files and folders from which the model starts.

    Raises:
        GtransError: a file of the training data is not the one that ``gtrans prepare`` wrote.
    """
    paths = list(data)
    files = [[path.name, digest(path)] for path in paths]
    for path, (name, found) in zip(paths, files, strict=True):
        check_recorded(path.parent, [name], whole=True, known={name: found})
    return {
        "data": fingerprint(list(symbols), files),
        "start": {
            flag: {"path": os.path.abspath(path), "digest": _digest_of(Path(path))}
            for flag, path in start.items()
        },
    }


def recorded_in(state: Mapping[str, Any], path: str | Path) -> MadeFrom | None:
    """What the run of a checkpoint is made from; None if the checkpoint does not say."""
    with reading(path, "what it says of its run"):
        found = (state.get("task_state") or {}).get("run")
        return dict(found) if found else None


def _digest_of(path: Path) -> str | None:
    if path.is_file():
        return digest(path)
    if not path.is_dir():
        return None
    parts = sorted({part for pattern in _MODEL_FILES for part in path.glob(pattern)})
    found = hashlib.sha256()
    for part in parts:
        found.update(f"{part.name} {digest(part)}\n".encode())
    return found.hexdigest()


def different_start(recorded: Options, now: MadeFrom, data: tuple[str, str]) -> list[str]:
    """What differs between the things that two runs are made from, in words.

    Args:
        recorded: of the run in the folder; what it does not have is unknown.
        now: of this run.
        data: ``--data`` of both.
    """
    found = []
    if recorded.get("data") not in (None, now["data"]):
        old, new = data
        changed = f"in {new} (it has changed)" if old == new else f"(--data {old} -> {new})"
        found.append(f"the training data {changed}")
    starts = recorded.get("start", now["start"]), now["start"]
    for flag in sorted({**starts[0], **starts[1]}):
        before, after = (start.get(flag) for start in starts)
        if not same_file(before, after):
            names = ["none" if file is None else file["path"] for file in (before, after)]
            same_name = names[0] == names[1]
            found.append(
                f"{flag} {names[0]} {'(it has changed)' if same_name else f'-> {names[1]}'}"
            )
    return found


def same_file(old: Options | None, new: Options | None) -> bool:
    """Whether two starts are the same, by what is in the file; one that is gone, by its path."""
    if old is None or new is None:
        return old is new
    key = "digest" if old["digest"] and new["digest"] else "path"
    return bool(old[key] == new[key])


def completed(now: MadeFrom, recorded: Options) -> MadeFrom:
    """``now`` with the digests of files that are gone, as the run in the folder knows them."""
    known = recorded.get("start") or {}
    start = {
        flag: known[flag] if file["digest"] is None and flag in known else file
        for flag, file in now["start"].items()
    }
    return {**now, "start": start}
