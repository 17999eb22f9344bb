"""What a training run is compared by when it is started again in its folder."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from fairseq.dataclass.configs import FairseqConfig
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from gtrans.data.unit_options import UNIT_FIELDS

Options = Mapping[str, Any]
Settings = dict[str, Any]

_NAMES = {"model": "arch"}
# Options of schedules that are --max-update unless they are given.
_FOLLOW_MAX_UPDATE = ("max_update", "total_num_update")
_LANGUAGES = ("source_lang", "target_lang")
# What may differ when a run goes on. Units and languages are those of the model, which has
# them as they were understood; a folder or file is compared by what is in it.
_FREE: dict[str, frozenset[str]] = {
    "common": frozenset(
        (
            *("no_progress_bar", "log_interval", "log_format", "log_file", "aim_repo"),
            *("aim_run_hash", "tensorboard_logdir", "wandb_project", "azureml_logging"),
            *("reset_logging", "profile", "suppress_crashes", "user_dir", "cpu", "tpu"),
            *("empty_cache_freq", "all_gather_list_size", "use_plasma_view", "plasma_path"),
        )
    ),
    "dataset": frozenset(
        (
            *("num_workers", "data_buffer_size", "dataset_impl", "num_shards", "shard_id"),
            *("valid_subset", "combine_valid_subsets", "ignore_unused_valid_subsets"),
            *("validate_interval", "validate_interval_updates", "validate_after_updates"),
            *("fixed_validation_seed", "disable_validation", "max_valid_steps", "gen_subset"),
            *("max_tokens_valid", "batch_size_valid", "skip_invalid_size_inputs_valid_test"),
        )
    ),
    # Batches of an update are compared as a product, see below.
    "optimization": frozenset(
        ("max_epoch", "max_update", "stop_time_hours", "stop_min_lr", "update_freq")
    ),
    "bmuf": frozenset(("distributed_world_size",)),
    "task": frozenset(
        (
            *("data", "bert_cache", "bert_cache_gb", "init_from", "init_dict", "restart"),
            *("dataset_impl", "update_freq", "num_batch_buckets", "load_alignments"),
            # Validation by translations; some are those of fairseq's translation only.
            *("eval_bleu", "eval_bleu_args", "eval_bleu_detok", "eval_bleu_detok_args"),
            *("eval_tokenized_bleu", "eval_bleu_remove_bpe", "eval_bleu_print_samples"),
            *("eval_bleu_documents", "eval_bleu_reference", "valid_subset"),
            *("patience_unit", "save_without_validation"),
            *UNIT_FIELDS,
            *_LANGUAGES,
        )
    ),
    "model": frozenset(("init_xlmr", "checkpoint_activations")),
    # Neither changes what is learned.
    "criterion": frozenset(("softmax_rows", "report_accuracy")),
    "optimizer": frozenset(("tpu",)),
    "lr_scheduler": frozenset(),
    "ema": frozenset(),
}


CHUNKED = "chunked_cross_entropy"


def losses_alike(grouped: bool) -> frozenset[str]:
    """The criterions with the same options, losses and gradients.

    ``grouped``: the layers of the model's decoder are in groups, each with a loss.
    """
    names = {CHUNKED, "label_smoothed_cross_entropy"}
    return frozenset(names if grouped else names | {"multi_level_cross_entropy"})


def has_groups(options: Options, model: Any) -> bool:
    """Whether the layers of the decoder are in groups, by a run's options and model class."""
    return bool(_values("model", group_of(options, "model"), model).get("decoder_group_size"))


def group_of(options: Any, group: str) -> Settings:
    """A group of options; those of fairseq's older tasks are a namespace with all options."""
    found = options.get(group) or {}
    return dict(vars(found)) if isinstance(found, Namespace) else dict(found)


def differences(recorded: Options, now: Options, model: Any) -> list[str]:
    """The settings in which two runs differ, as ``--flag old -> new``.

    Options that this version does not have are left out; one that ``recorded`` does not have
    had its default.

    Args:
        recorded: the options in the checkpoint of a run, by group.
        now: those of this run.
        model: the class of this run's model, with its ``options`` and ``presets``.
    """
    found: dict[str, str] = {}
    for group in _FREE:
        old, new = (_settings(group, options, model) for options in (recorded, now))
        if old.get("_name") != new.get("_name"):
            old, new = ({"_name": side.get("_name")} for side in (old, new))
        for name in new:
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


# Which translations are scored, and against what, by the tasks' options.
_TRANSLATED = (
    *("eval_bleu_args", "eval_bleu_documents", "eval_bleu_reference", "eval_bleu_remove_bpe"),
    *("eval_bleu_detok", "eval_bleu_detok_args", "eval_tokenized_bleu"),
)


def judged_by(options: Options, scores: Collection[str]) -> Settings:
    """What the validation scores of a run are of: two runs' are comparable if this is the same.

    Args:
        options: of the run, by group.
        scores: the metrics that are scores of translations.

    Returns:
        the values by flag: the metric, its direction, the set whose scores count (the first of
        several), and for scores of translations the search and its reference.
    """
    metric = str(_option(options, "checkpoint", "best_checkpoint_metric", "loss"))
    highest = _option(options, "checkpoint", "maximize_best_checkpoint_metric", False)
    subsets = str(_option(options, "dataset", "valid_subset", "valid"))
    found: Settings = {
        "--best-checkpoint-metric": metric,
        "--maximize-best-checkpoint-metric": bool(highest),
        "--valid-subset": subsets.split(",")[0],
    }
    for name in ("combine_valid_subsets", "max_valid_steps"):
        found[_flag("dataset", name)] = _option(options, "dataset", name, None)
    if metric in scores:
        task = group_of(options, "task")
        # Arguments in another order or with other spaces are the same.
        found |= {_flag("task", name): _parsed(task.get(name)) for name in _TRANSLATED}
    return found


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def compared(recorded: Settings, now: Settings) -> list[str]:
    """In what two results of :func:`judged_by` differ, as ``--flag old -> new``."""
    return [
        f"{flag} {_shown(recorded[flag])} -> {_shown(value)}"
        for flag, value in now.items()
        # What only one of two metrics has is no difference of its own.
        if flag in recorded and not _equal(recorded[flag], value)
    ]


def _settings(group: str, options: Options, model: Any) -> Settings:
    """The compared options of a group of a run; of criterions that are alike one name."""
    settings = _values(group, group_of(options, group), model)
    if group == "criterion" and settings["_name"] in losses_alike(has_groups(options, model)):
        settings["_name"] = CHUNKED
    return settings


def _values(group: str, options: Options, model: Any) -> Settings:
    """The compared options of a group, with defaults for those that are missing."""
    known = _dataclass(group, options, model)
    settings: Settings = {"_name": options.get("_name")}
    if group == "task" and known is None:
        others = _names_of_other_groups(model)
        return {name: value for name, value in options.items() if name not in others}
    preset = model.presets.get(str(options.get("_name")), {}) if group == "model" else {}
    for option in () if known is None else fields(known):
        if option.name == "_name" or option.name in _FREE[group]:
            continue
        default = option.default if option.default is not MISSING else None
        if option.name not in options and str(default).startswith("${"):
            continue  # the value of another option, which is compared itself
        value = options.get(option.name, default)
        settings[option.name] = preset.get(option.name) if value is None else value
    return settings


def _names_of_other_groups(model: Any) -> set[str]:
    """The options in the namespace of one of fairseq's older tasks that are not the task's."""
    names = {*vars(FairseqConfig()), *REGISTRIES, *_FREE["task"], "arch", "no_seed_provided"}
    classes = [model.options]
    classes += [option.default for option in fields(FairseqConfig)]
    for registry in REGISTRIES.values():
        classes += registry["dataclass_registry"].values()
    for known in classes:
        names |= set(getattr(known, "__dataclass_fields__", ()))
    return names


def _dataclass(group: str, options: Options, model: Any) -> Any:
    """The class of a group's options; None if there is none."""
    if group == "model":
        return model.options
    if group == "task":
        return TASK_DATACLASS_REGISTRY.get(str(options.get("_name")))
    if group in REGISTRIES:
        return REGISTRIES[group]["dataclass_registry"].get(options.get("_name"))
    return {option.name: option.default for option in fields(FairseqConfig)}[group]


def _batches_of_updates(options: Options) -> list[int]:
    """Batches in an update, by epoch; the last number holds for all later epochs."""
    workers = int(_option(options, "distributed_training", "distributed_world_size", 1))
    batches = [
        workers * int(number) for number in _option(options, "optimization", "update_freq", [1])
    ]
    while len(batches) > 1 and batches[-1] == batches[-2]:
        batches.pop()
    return batches


def _option(options: Options, group: str, name: str, default: Any) -> Any:
    return group_of(options, group).get(name, default)


def _flag(group: str, name: str) -> str:
    if name == "_name":
        name = _NAMES.get(group, group)
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


# Characters of a digest, of which the first ones are shown.
_DIGEST = 64
