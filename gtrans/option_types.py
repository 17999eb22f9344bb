"""Types of options for argparse, options as fields of dataclasses, and the ranges of both.

A type is a function from the word on the command line to its value, that raises
``argparse.ArgumentTypeError`` with the possible values.
"""

from __future__ import annotations

import argparse
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

from gtrans.errors import GtransError
from gtrans.messages import print_message

Number = TypeVar("Number", int, float)

_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "at least": operator.ge,
    "at most": operator.le,
    "above": operator.gt,
    "below": operator.lt,
}
_LARGEST = 2**63 - 1  # of torch and NumPy
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def whole(least: int | None = None, most: int = _LARGEST) -> Callable[[str], int]:
    """Whole numbers from ``least`` to ``most``."""
    return _within(int, "whole number", {"at least": least, "at most": most})


def real(
    least: float | None = None, above: float | None = None, below: float | None = None
) -> Callable[[str], float]:
    """Finite numbers from ``least``, or ``above`` a number, and ``below`` another."""
    return _within(float, "number", {"at least": least, "above": above, "below": below})


def _within(
    kind: Callable[[str], Number], what: str, limits: Mapping[str, float | None]
) -> Callable[[str], Number]:
    """Numbers of a kind within limits, which :data:`_HOLDS` explains."""

    def parse(word: str) -> Number:
        try:
            value = kind(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{word}' is no {what}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"'{word}' is no finite number")
        for words, limit in limits.items():
            if limit is not None and not _HOLDS[words](value, limit):
                raise argparse.ArgumentTypeError(f"must be {words} {limit}, but is {value}")
        return value

    return parse


def several(
    convert: Callable[[str], float], count: int | None = None
) -> Callable[[str], list[float]]:
    """Numbers with commas between them, also in brackets, as fairseq's lists are written.

    fairseq evaluates such words as Python; nothing but ``count`` numbers is let through.
    """

    def parse(word: str) -> list[float]:
        inner = word.strip()
        if inner[:1] + inner[-1:] in ("()", "[]"):
            inner = inner[1:-1]
        parts = [part.strip() for part in inner.rstrip(",").split(",")]
        if count not in (None, len(parts)) or not all(map(_NUMBER.fullmatch, parts)):
            many = "numbers with commas between them" if count is None else f"{count} numbers"
            raise argparse.ArgumentTypeError(f"must be {many}, such as 0.9,0.98, but is {word}")
        return [convert(part) for part in parts]

    return parse


# ---- options as fields of dataclasses ------------------------------------------------------------

START = "starting from a sentence model"
"""A heading of the help, for options of the task and of models."""


def option(
    default: Any,
    help_text: str,
    group: str = "",
    alias: str = "",
    least: float | None = None,
    below: float | None = None,
) -> Any:
    """A field of a class of options.

    Args:
        default: value of the option.
        help_text: its meaning.
        group: heading under which the help shows it; empty: the heading of its class.
        alias: a short name, such as ``-s``.
        least, below: limits of a number, for :func:`check_ranges`.
    """
    metadata: dict[str, Any] = {"help": help_text}
    if group:
        metadata["group"] = group
    if alias:
        metadata["argparse_alias"] = alias
    if least is not None:
        metadata["least"] = least
    if below is not None:
        metadata["below"] = below
    return field(default=default, metadata=metadata)


def option_again(options: type, name: str, default: Any) -> Any:
    """The field ``name`` of a class of options with another default, for a subclass."""
    declared = options.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return field(default=default, metadata=declared.metadata)


def check_ranges(cfg: Any, options: type) -> None:
    """Raises GtransError for numbers out of the range that their fields in ``options`` declare."""
    for declared in fields(options):
        value = getattr(cfg, declared.name, None)
        if value is None:
            continue
        flag = _flag(declared.name)
        least = declared.metadata.get("least")
        below = declared.metadata.get("below", math.inf)
        if least is None:
            if "float" in str(declared.type) and not math.isfinite(value):
                raise GtransError(f"`{flag}` must be a finite number, but is {value}.")
        elif not least <= value < below:
            most = "" if below == math.inf else f" and below {below:g}"
            raise GtransError(f"`{flag}` must be at least {least:g}{most}, but is {value}.")


def refuse_given(cfg: Any, options: type, names: Iterable[str], why: str) -> None:
    """Refuse options that nothing would read.

    Args:
        cfg: the options.
        options: the class that declares them with their defaults.
        names: the options that must have their defaults.
        why: the rest of a sentence that begins with the option.

    Raises:
        GtransError: one of them has another value.
    """
    defaults = options()
    for name in names:
        value = getattr(cfg, name)
        if str(value) == str(getattr(defaults, name)):
            continue
        flag = _flag(name)
        given = flag if value is True else f"{flag} {value}"
        raise GtransError(f"`{given}` {why}, or leave `{flag}` out.")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# ---- the options of a training -------------------------------------------------------------------

_SHARE = real(0, below=1)
# The optimizers for which fairseq's default of --lr, 0.25, is meant.
_WITHOUT_LR = ("sgd", "nag", "adadelta")


def _each(names: str, option_type: Callable[[str], Any]) -> dict[str, Callable[[str], Any]]:
    return dict.fromkeys(names.split(), option_type)


# What fairseq evaluates as Python is here, too: nothing but numbers passes.
LIMITS: Mapping[str, Callable[[str], Any]] = {
    **_each(
        "max_tokens batch_size max_tokens_valid batch_size_valid log_interval save_interval "
        "validate_interval required_batch_size_multiple distributed_world_size nprocs_per_node",
        whole(1),
    ),
    **_each(
        "warmup_updates max_update max_epoch save_interval_updates "
        "validate_interval_updates validate_after_updates max_valid_steps data_buffer_size "
        "distributed_rank",
        whole(0),
    ),
    "num_workers": whole(0, max(64, 4 * (os.cpu_count() or 1))),
    "seed": whole(0, 2**32 - 1),  # of NumPy
    **_each("clip_norm weight_decay stop_time_hours", real(0)),
    **_each("label_smoothing", _SHARE),
    "adam_eps": real(above=0),
    "update_freq": several(whole(1)),
    "lr": several(real(above=0)),
    **_each("adam_betas adamax_betas lamb_betas", several(_SHARE, 2)),
    "adafactor_eps": several(real(0), 2),
}


# The option without which a learning-rate schedule fails; fairseq's own error does not name it.
_NEEDED = {
    "inverse_sqrt": "warmup_updates",
    "polynomial_decay": "total_num_update",
    "tri_stage": "max_update",
}


def check_limits(cfg: Any) -> None:
    """Refuse numbers out of range, and a learning rate that nobody has chosen.

    Args:
        cfg: all options of a training, by group.

    Raises:
        GtransError: naming the option.
    """
    groups = {name: group_of(cfg, name) for name in cfg}
    for group in groups.values():
        check_numbers(group)
    optimizer = str(groups.get("optimizer", {}).get("_name"))
    if optimizer == "None":
        raise GtransError("`--optimizer` is missing, such as `--optimizer adam`.")
    if list(cfg.optimization.lr) == [0.25] and optimizer not in _WITHOUT_LR:
        raise GtransError(
            "`--lr` is missing: the highest learning rate, such as `--lr 5e-4` (0.25, fairseq's "
            f"default, is not for {optimizer})."
        )
    schedule = groups.get("lr_scheduler", {})
    needed = _NEEDED.get(str(schedule.get("_name")))
    if needed is not None and not schedule[needed] >= 1:
        raise GtransError(
            f"`--lr-scheduler {schedule['_name']}` needs `{_flag(needed)}` of at "
            f"least 1, but it is {schedule[needed]}."
        )


def warn_if_endless(cfg: Any) -> None:
    """Say so if no option ends a training; ``cfg``: all its options, by group."""
    optimization = cfg.optimization
    ends = (optimization.max_update, optimization.max_epoch, optimization.stop_time_hours)
    if not any(ends) and cfg.checkpoint.patience <= 0 and optimization.stop_min_lr <= 0:
        print_message(
            "nothing ends this training; give `--max-update`, `--max-epoch` or `--patience`, or "
            "stop it with Ctrl-C, which saves a checkpoint"
        )


def check_numbers(options: Mapping[str, Any]) -> None:
    """Raises GtransError for numbers out of range among options, by name."""
    for name, value in options.items():
        if name in LIMITS and value is not None:
            _check_number(name, value)


def group_of(options: Any, group: str) -> dict[str, Any]:
    """A group of options; older classes of fairseq keep all options in one namespace."""
    settings = options.get(group) or {}
    if isinstance(settings, argparse.Namespace):
        return dict(vars(settings))
    return dict(settings) if isinstance(settings, Mapping) else {}


def _check_number(name: str, value: Any) -> None:
    # Some schedules declare updates as a number of another type.
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    several_values = isinstance(value, Iterable) and not isinstance(value, str)
    try:
        LIMITS[name](",".join(map(str, value)) if several_values else str(value))
    except argparse.ArgumentTypeError as error:
        raise GtransError(f"`{_flag(name)}`: {error}.") from None
