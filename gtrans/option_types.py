"""Types of options for argparse, options as dataclass fields, and ranges of fairseq's options."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

from gtrans.errors import GtransError
from gtrans.messages import print_message

Number = TypeVar("Number", int, float)

_LARGEST = 2**63 - 1  # of torch and NumPy
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def whole(least: int | None = None, most: int = _LARGEST) -> Callable[[str], int]:
    """Return the type of whole numbers from ``least`` to ``most``."""
    return NumberType(int, "whole number", least=least, most=most)


def real(
    least: float | None = None, above: float | None = None, below: float | None = None
) -> Callable[[str], float]:
    """Return the type of finite numbers from ``least``, or ``above`` and ``below`` others."""
    return NumberType(float, "number", least=least, above=above, below=below)


@dataclass(frozen=True)
class NumberType(Generic[Number]):
    """The type of numbers within limits."""

    kind: Callable[[str], Number]
    name: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def __call__(self, word: str) -> Number:
        """Return the number."""
        try:
            value = self.kind(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{word}' is no {self.name}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"'{word}' is no finite number")
        limit = ""
        if self.least is not None and value < self.least:
            limit = f"at least {self.least}"
        elif self.most is not None and value > self.most:
            limit = f"at most {self.most}"
        elif self.above is not None and value <= self.above:
            limit = f"above {self.above}"
        elif self.below is not None and value >= self.below:
            limit = f"below {self.below}"
        if limit:
            raise argparse.ArgumentTypeError(f"must be {limit}, but is {value}")
        return value


@dataclass(frozen=True)
class NumberList:
    """The type of numbers joined by commas, also in brackets, as in fairseq.

    fairseq evaluates such words as Python; only ``count`` numbers pass.
    """

    convert: Callable[[str], float]
    count: int | None = None

    def __call__(self, word: str) -> list[float]:
        """Return the numbers."""
        inner = word.strip()
        if inner[:1] + inner[-1:] in ("()", "[]"):
            inner = inner[1:-1]
        parts = [part.strip() for part in inner.rstrip(",").split(",")]
        fits = self.count is None or len(parts) == self.count
        if not fits or not all(_NUMBER.fullmatch(part) for part in parts):
            many = "numbers with commas between them"
            if self.count is not None:
                many = f"{self.count} numbers"
            raise argparse.ArgumentTypeError(f"must be {many}, such as 0.9,0.98, but is {word}")
        return [self.convert(part) for part in parts]


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
    """Return a field of a class of options.

    Args:
        group: heading in the help; empty: the heading of its class.
        least, below: limits of a number (:func:`check_ranges`).
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
    """Return the field ``name`` of a class of options with another default, for a subclass."""
    declared = options.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return field(default=default, metadata=declared.metadata)


def check_ranges(cfg: Any, options: type) -> None:
    """Raise GtransError for numbers out of the ranges that ``options`` declares."""
    for declared in fields(options):
        least = declared.metadata.get("least")
        below = declared.metadata.get("below", math.inf)
        is_float = "float" in str(declared.type)
        if least is None and not is_float:
            continue
        value = getattr(cfg, declared.name, None)
        if value is None:
            continue
        flag = _flag(declared.name)
        if least is None:
            if not math.isfinite(value):
                raise GtransError(f"`{flag}` must be a finite number, but is {value}.")
        elif not least <= value < below:
            most = "" if below == math.inf else f" and below {below:g}"
            raise GtransError(f"`{flag}` must be at least {least:g}{most}, but is {value}.")


def refuse_given(cfg: Any, options: type, names: Iterable[str], why: str) -> None:
    """Raise GtransError for options without a use whose values are not their defaults.

    ``why``: the rest of a sentence that begins with the option.
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
    "update_freq": NumberList(whole(1)),
    "lr": NumberList(real(above=0)),
    **_each("adam_betas adamax_betas lamb_betas", NumberList(_SHARE, 2)),
    "adafactor_eps": NumberList(real(0), 2),
}


# The option without which a learning-rate schedule fails; fairseq's own error does not name it.
_NEEDED = {
    "inverse_sqrt": "warmup_updates",
    "polynomial_decay": "total_num_update",
    "tri_stage": "max_update",
}


def check_limits(cfg: Any) -> None:
    """Raise GtransError for numbers out of range, or a missing optimizer or learning rate."""
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
    """Print a warning if no option ends a training."""
    optimization = cfg.optimization
    limits = optimization.max_update, optimization.max_epoch, optimization.stop_time_hours
    may_stop = cfg.checkpoint.patience > 0 or optimization.stop_min_lr > 0
    if not any(limits) and not may_stop:
        print_message(
            "nothing ends this training; give `--max-update`, `--max-epoch` or `--patience`, or "
            "stop it with Ctrl-C, which saves a checkpoint"
        )


def check_numbers(options: Mapping[str, Any]) -> None:
    """Raise GtransError for numbers out of range."""
    for name, value in options.items():
        if name in LIMITS and value is not None:
            _check_number(name, value)


def group_of(options: Any, group: str) -> dict[str, Any]:
    """Return a group of options, which fairseq's older classes keep in a namespace."""
    settings = options.get(group) or {}
    if isinstance(settings, argparse.Namespace):
        return dict(vars(settings))
    return dict(settings) if isinstance(settings, Mapping) else {}


def _check_number(name: str, value: Any) -> None:
    # Some schedules declare updates as a number of another type.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    word = str(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        word = ",".join(map(str, value))
    try:
        LIMITS[name](word)
    except argparse.ArgumentTypeError as error:
        raise GtransError(f"`{_flag(name)}`: {error}.") from None
