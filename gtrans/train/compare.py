"""What makes a run what it is, its options, data and start, as one dictionary; two are compared."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.files import digest, fingerprint
from gtrans.modules.file_values import reading
from gtrans.option_types import group_of
from gtrans.text.prepared_folder import check_recorded

Options = Mapping[str, Any]
MadeFrom = dict[str, Any]
"""``data``: digest of the training data. ``start``: by flag, ``path`` and ``digest`` of what the
flag names; the digest is None if there is no such file any more."""

Settings = dict[tuple[str, str], tuple[Any, str]]
"""By group and name: the value that is compared, and how it is shown."""

STARTS = ("--init-from", "--init-xlmr", "--finetune-from-model")
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
    "task": "data bert_cache init_from init_dict restart update_freq num_batch_buckets "
    "load_alignments valid_subset eval_bleu patience_unit save_without_validation source_lang "
    f"target_lang {' '.join(UNIT_FIELDS)}",
    "model": "init_xlmr",
    "criterion": "softmax_rows report_accuracy",  # neither changes what is learned
    "optimizer": "tpu",
    "lr_scheduler": "",
}

# Of a folder in the format of transformers, what its model consists of.
_MODEL_FILES = ("config.json", "*.safetensors", "*.bin", "*.index.json")


def different(
    recorded: Options, known: MadeFrom | None, now: Options, made: MadeFrom, presets: Options
) -> list[str]:
    """What differs between the run in a folder and this one, as ``--flag old -> new``.

    What one of them does not know is left out.

    Args:
        recorded: the options in the checkpoint of the run, by group.
        known: what that run is made from; None: it does not say.
        now: the options of this run.
        made: what this run is made from.
        presets: by architecture, the sizes that stand for None.
    """
    old, new = _settings(recorded, known or {}, presets), _settings(now, made, presets)
    changed = [
        (group, name)
        for group, name in new
        if (group, name) in old
        and old[group, name][0] != new[group, name][0]
        # Options may be written in several ways; what has a digest is compared by that alone.
        and (not group or old[group, name][1] != new[group, name][1])
    ]
    others = {group for group, name in changed if name == "_name"}  # whose options are others
    changes: dict[str, str] = {}
    for group, name in changed:
        before, after = old[group, name][1], new[group, name][1]
        if name == "_name" or group not in others:
            # What is interpolated stands in several groups and is named once.
            change = "(it has changed)" if before == after else f"-> {after}"
            changes.setdefault(_flag(group, name), f"{before} {change}")
    return [f"{flag} {change}" for flag, change in changes.items()]


def _settings(options: Options, made: MadeFrom, presets: Options) -> Settings:
    """All that is compared of a run."""
    settings: Settings = {}
    if "data" in made:
        settings["", "the training data"] = made["data"], str(group_of(options, "task").get("data"))
    for flag in STARTS if "start" in made else ():
        file = made["start"].get(flag) or {"path": "none", "digest": None}
        settings["", flag] = file["digest"] or file["path"], file["path"]
    for group in (*_COMPARED, *_FREE):
        for name, value in _compared(options, group, presets).items():
            settings[group, name] = value, _shown(value)
    workers = int(group_of(options, "distributed_training").get("distributed_world_size", 1))
    frequencies = group_of(options, "optimization").get("update_freq", [1])
    batches = [workers * int(number) for number in frequencies]
    while len(batches) > 1 and batches[-1] == batches[-2]:  # the last one holds for what follows
        batches.pop()
    settings["", "GPUs x --update-freq"] = batches, _shown(batches)
    return settings


def _compared(options: Options, group: str, presets: Options) -> dict[str, Any]:
    """The options of a group that are compared."""
    settings = group_of(options, group)
    if group in _COMPARED:
        return {name: settings[name] for name in _COMPARED[group].split() if name in settings}
    free = {*_FREE[group].split()}
    if group_of(options, "checkpoint").get("best_checkpoint_metric") in _LOSSES:
        free |= {*_TRANSLATED.split()}
    if isinstance(options.get(group), Namespace):
        # It has the options of all groups.
        free |= {"arch", "no_seed_provided", *options}
        free |= {name for part in options.values() if isinstance(part, Mapping) for name in part}
    settings = {name: value for name, value in settings.items() if name not in free - {"_name"}}
    if group == "model":
        preset = presets.get(str(settings.get("_name")), {})
        settings |= {k: preset.get(k) for k, value in settings.items() if value is None}
    return settings


def _flag(group: str, name: str) -> str:
    if name == "_name":
        name = {"model": "arch"}.get(group, group)
    # A model has the traits of its BERT as options, which are no flags.
    if group == "model" and name.startswith("bert_"):
        return "BERT's " + name.removeprefix("bert_")
    return "--" + name.replace("_", "-") if group else name


def _shown(value: Any) -> str:
    """An option's value as a user writes it, the values of a list joined by commas."""
    return str(value).strip("()[]").replace(", ", ",")


# ---- data and start ------------------------------------------------------------------------------


def made_from(
    symbols: Iterable[list[str]],
    data: Iterable[Path],
    start: Mapping[str, str],
    known: MadeFrom | None,
) -> MadeFrom:
    """What a run is made from; reads all files once.

    Args:
        symbols: those of both dictionaries.
        data: the files with the training data.
        start: by flag, the files and folders from which the model starts.
        known: what the run in the folder is made from; a file that it began with may be gone.

    Raises:
        GtransError: a file of the training data is not the one that ``gtrans prepare`` wrote.
    """
    files = []
    for path in data:
        contents = digest(path)
        check_recorded(path.parent, [path.name], whole=True, computed={path.name: contents})
        files.append([path.name, contents])
    begun = ((known or {}).get("start") or {}).items()
    gone = {flag: file for flag, file in begun if not os.path.exists(file["path"])}
    starts = {}
    for flag, name in start.items():
        place = os.path.abspath(name)
        same = flag in gone and gone[flag]["path"] == place
        starts[flag] = gone[flag] if same else {"path": place, "digest": _digest_of(Path(place))}
    return {"data": fingerprint(list(symbols), files), "start": starts}


def recorded_in(state: Mapping[str, Any], path: str | Path) -> MadeFrom | None:
    """What the run of a checkpoint is made from; None if the checkpoint does not say."""
    with reading(path, "what it says of its run"):
        record = (state.get("task_state") or {}).get("run")
        return dict(record) if record else None


def _digest_of(path: Path) -> str | None:
    """The digest of a file, or of the files in a folder; None if there is neither."""
    if path.is_dir():
        files = sorted({part for pattern in _MODEL_FILES for part in path.glob(pattern)})
        return fingerprint([[part.name, digest(part)] for part in files])
    return digest(path) if path.is_file() else None
