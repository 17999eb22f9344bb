"""What the numbers among the options of a training can be, for whichever door they come through."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gtrans.errors import GtransError
from gtrans.option_types import real, several, whole

_SHARE = real(0, below=1)
WITHOUT_LR = ("sgd", "nag", "adadelta")
"""The optimizers for which fairseq's default of ``--lr``, 0.25, is meant."""


def _each(names: str, of: Callable[[str], Any]) -> dict[str, Callable[[str], Any]]:
    return dict.fromkeys(names.split(), of)


# What fairseq evaluates as Python is here, too: nothing but numbers passes.
LIMITS: Mapping[str, Callable[[str], Any]] = {
    **_each(
        "max_tokens batch_size max_tokens_valid batch_size_valid log_interval save_interval "
        "validate_interval required_batch_size_multiple distributed_world_size nprocs_per_node",
        whole(1),
    ),
    **_each(
        "num_workers warmup_updates max_update max_epoch save_interval_updates "
        "validate_interval_updates validate_after_updates max_valid_steps data_buffer_size "
        "distributed_rank",
        whole(0),
    ),
    "seed": whole(0, 2**32 - 1),  # of NumPy
    **_each("clip_norm weight_decay stop_time_hours", real(0)),
    **_each("label_smoothing", _SHARE),
    "adam_eps": real(above=0),
    "update_freq": several(whole(1)),
    "lr": several(real(above=0)),
    **_each("adam_betas adamax_betas lamb_betas", several(_SHARE, 2)),
    "adafactor_eps": several(real(0), 2),
}


# What a schedule of the learning rate cannot do without; fairseq's own error does not name it.
NEEDED = {
    "inverse_sqrt": "warmup_updates", "polynomial_decay": "total_num_update",
    "tri_stage": "max_update", "triangular": "max_lr",
}  # fmt: skip


def check_limits(cfg: Any) -> None:
    """Refuse numbers out of range, and a learning rate that nobody has chosen.

    Args:
        cfg: all options of a training, by group.

    Raises:
        GtransError: naming the option.
    """
    groups = {name: _options(group) for name, group in cfg.items()}
    for group in groups.values():
        check_numbers(group)
    optimizer = str(groups.get("optimizer", {}).get("_name"))
    if optimizer == "None":
        raise GtransError("`--optimizer` is missing, such as `--optimizer adam`.")
    if list(cfg.optimization.lr) == [0.25] and optimizer not in WITHOUT_LR:
        raise GtransError(
            "`--lr` is missing: the highest learning rate, such as `--lr 5e-4` (0.25, fairseq's "
            f"default, is not for {optimizer})."
        )
    schedule = groups.get("lr_scheduler", {})
    needed = NEEDED.get(str(schedule.get("_name")))
    if needed not in (None, "max_lr") and not schedule[needed] >= 1:
        raise GtransError(
            f"`--lr-scheduler {schedule['_name']}` needs `--{needed.replace('_', '-')}` of at "
            f"least 1, but it is {schedule[needed]}."
        )


def check_numbers(options: Mapping[str, Any]) -> None:
    """Raises GtransError for numbers out of range among options, by name."""
    for name, value in options.items():
        if name in LIMITS and value is not None:
            _check(name, value)


def _options(group: Any) -> dict[str, Any]:
    """The options of a group, which fairseq's older classes have in a namespace of all groups."""
    if isinstance(group, argparse.Namespace):
        return vars(group)
    return dict(group) if isinstance(group, Mapping) else {}


def _check(name: str, value: Any) -> None:
    # Some schedules declare updates as a number of another type.
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    several_values = isinstance(value, Iterable) and not isinstance(value, str)
    try:
        LIMITS[name](",".join(map(str, value)) if several_values else str(value))
    except argparse.ArgumentTypeError as error:
        raise GtransError(f"`--{name.replace('_', '-')}`: {error}.") from None
