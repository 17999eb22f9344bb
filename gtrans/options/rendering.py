"""Options as text for a terminal, and as YAML with explanations in comments."""

import re
import textwrap
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from omegaconf import MISSING

from gtrans.options.catalogue import (
    TASK,
    Option,
    model_of,
    model_options,
    models,
    plain,
    section_options,
    siblings,
    summary,
    task_options,
)

WIDTH = 100
_FLAGS = 28  # column in which explanations begin on the terminal
_COMMENTS = 34  # column in which comments begin in a file
_METAVARS = {int: "N", float: "X", bool: ""}


def overview() -> str:
    """One line for each architecture, in groups under the title of their model."""
    lines = []
    for model, names in models().items():
        lines += ["", f"{summary(model)}."]
        for arch in names:
            sizes = {option.name: option.arch_default for option in model_options(arch)}
            unit = next(option for option in task_options(arch) if option.name == "unit")
            # the default first
            units = [name for name in model.units if name in unit.choices]
            layers = f"{sizes['encoder_layers']} + {sizes['decoder_layers']} layers"
            width = f"width {sizes['encoder_embed_dim']}"
            lines.append(f"  {arch:<34}{layers}, {width}, reads {', '.join(units)}")
    return "\n".join(lines[1:])


def explanation(arch: str) -> str:
    """All options of an architecture and its task in groups, as on the command line."""
    lines = [f"{arch}: {summary(model_of(arch))}.", *_others(arch)]
    for title, options in _groups((*task_options(arch), *model_options(arch))):
        lines += ["", title, *_as_flags(options)]
    return "\n".join(lines)


def task_explanation() -> str:
    """The options of the task in groups, for an architecture that is not known yet."""
    return _paragraphs((title, options) for title, options in _groups(task_options(None)))


def systems_explanation() -> str:
    """The options of all systems: what all of them have first, then that of each system."""
    groups: dict[str, list[Option]] = {}
    systems: dict[str, list[str]] = {}
    for names in models().values():
        for title, options in _groups(model_options(names[0], preset=False)):
            known = groups.setdefault(title, [])
            listed = {option.name for option in known}
            known += [option for option in options if option.name not in listed]
            systems.setdefault(title, []).append(names[0])
    count = len(models())
    shown = sorted(groups, key=lambda title: -len(systems[title]))
    return _paragraphs(
        (title if len(systems[title]) == count else f"{title} ({', '.join(systems[title])})", part)
        for title, part in ((title, groups[title]) for title in shown)
    )


def chosen_explanation(section_name: str, name: str) -> str:
    """The options of a criterion, an optimizer or a schedule; empty if it has none of its own."""
    options = [
        option
        for option in section_options(section_name, name)
        if not str(option.default).startswith("${")  # copies one of fairseq's general options
    ]
    if not options:
        return ""
    return _paragraphs([(f"--{section_name.replace('_', '-')} {name}", options)])


def _paragraphs(groups: Iterable[tuple[str, Iterable[Option]]]) -> str:
    return "\n\n".join("\n".join([title, *_as_flags(options)]) for title, options in groups)


def _as_flags(options: Iterable[Option]) -> list[str]:
    """Options as on the command line, with meaning and default."""
    lines = []
    for option in options:
        text, default = option.meaning_and_default()
        if default not in ("null", "false"):
            text += f" (default: {default})"
        lines += _columns(f"  {option.flag} {_metavar(option)}".rstrip(), text, _FLAGS, "")
    return lines


def hydra_form(arch: str) -> str:
    """The same options as sections of a configuration file, all at their defaults."""
    return "\n".join(
        [
            *section("task", TASK, "", task_options(arch), {}, {}),
            "",
            *section("model", arch, ", ".join(_others(arch)), model_options(arch), {}, {}),
        ]
    )


def section(
    name: str,
    chosen: str | None,
    about_chosen: str,
    options: Iterable[Option],
    values: Mapping[str, Any],
    reasons: Mapping[str, str],
) -> list[str]:
    """The lines of a section of a configuration file.

    Args:
        name: name of the section.
        chosen: its ``_name``, if it has one.
        about_chosen: comment on ``_name``.
        options: its options.
        values: values of the options that are not at their defaults.
        reasons: what a recipe says about its values.
    """
    lines = [f"{name}:"]
    if chosen is not None:
        lines += _columns(f"  _name: {chosen}", about_chosen, _COMMENTS, "# ")
    for title, members in _groups(options):
        if title:
            lines.append(f"  # {title}")
        for option in members:
            text, default = option.meaning_and_default()
            value = values.get(option.name, option.default)
            if option.choices and not all(_mentions(text, choice) for choice in option.choices):
                text += f"; one of {', '.join(option.choices)}"
            needed = value == MISSING
            comment = _as_keys(f"{text}; must be given" if needed else f"{text}; default {default}")
            if option.name in reasons:
                comment += f". Here: {reasons[option.name]}"
            key, given = f"  {option.name}:", plain(value)
            if len(given) <= WIDTH // 2:
                lines += _columns(f"{key} {given}", comment, _COMMENTS, "# ")
            else:
                lines += [*_columns(key, comment, _COMMENTS, "# "), f"    {given}"]
    return lines


def _groups(options: Iterable[Option]) -> list[tuple[str, list[Option]]]:
    """Options by the class that declares them; those that only copy another are left out."""
    shown = [o for o in options if not (o.ours and str(o.default).startswith("${"))]
    return [
        (title, list(members))
        for title, members in groupby(shown, key=lambda option: option.title if option.ours else "")
    ]


def _columns(left: str, right: str, column: int, mark: str) -> list[str]:
    """``left`` with the wrapped text ``right`` in the next column, or below if it is too long."""
    if not right:
        return [left]
    lines = textwrap.wrap(
        right, WIDTH - column - len(mark), break_long_words=False, break_on_hyphens=False
    )
    first = f"{left:<{column - 1}} {mark}{lines[0]}"
    # a text that reaches into the next column needs a mark to be told apart from it
    same_line = len(left) < column or (mark != "" and len(first) <= WIDTH)
    head, rest = (first, lines[1:]) if same_line else (left, lines)
    return [head, *(f"{'':<{column}}{mark}{line}" for line in rest)]


def _metavar(option: Option) -> str:
    if option.choices:
        return "|".join(option.choices)
    return _METAVARS.get(option.kind, "TEXT") if option.kind else "VALUE"


def _others(arch: str) -> list[str]:
    """A line with the other architectures of the same model; empty if there are none."""
    others = [name for name in siblings(arch) if name != arch]
    return [f"also {', '.join(others)}"] if others else []


def _mentions(text: str, choice: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(choice)}(?![\w-])", text) is not None


def _as_keys(text: str) -> str:
    """``--init-from`` becomes ``init_from``; commands in backticks are not changed."""
    parts = text.split("`")
    parts[::2] = [
        re.sub(r"--([a-z][a-z0-9-]*)", lambda flag: flag[1].replace("-", "_"), part)
        for part in parts[::2]
    ]
    return "`".join(parts)
