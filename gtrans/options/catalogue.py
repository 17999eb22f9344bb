"""All options of an architecture, read from fairseq's registries.

Meaning and default of an option are written where its field is defined. Options are shown in
groups, one for each dataclass that declares some of them; the title of a group is the first line
of that class's docstring. So a new option appears everywhere by itself.
"""

import argparse
import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from inspect import get_annotations
from typing import Any, get_args

import yaml
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import OmegaConf

from gtrans.decoding.loading import import_plugin
from gtrans.errors import GtransError
from gtrans.models.base.contract import DocumentModel

TASK = "document_translation"
_register = cache(import_plugin)


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        section: section of hydra's configuration: task, model, optimizer, ...
        name: name of the field.
        title: title of its group.
        ours: defined by this project, not by fairseq.
        help: its help text.
        default: default of the field; an interpolation is the text ``${...}``.
        arch_default: the value that the architecture fills in for a default of None.
        choices: the allowed values, if they are listed.
        kind: type of the value, if it is a single class.
    """

    section: str
    name: str
    title: str
    ours: bool
    help: str
    default: Any
    arch_default: Any
    choices: tuple[str, ...]
    kind: type | None

    @property
    def flag(self) -> str:
        """Its name on the command line, where fairseq has ``data`` without dashes."""
        return self.name if self.name == "data" else f"--{self.name.replace('_', '-')}"

    def meaning_and_default(self) -> tuple[str, str]:
        """Meaning and default as text; a help text may end with ``(default: WORDS)``."""
        match = re.fullmatch(r"(.*?)\s*\(default: (.*)\)", self.help, re.DOTALL)
        text, words = (match[1], match[2]) if match else (self.help, "")
        known = self.arch_default if self.default is None else self.default
        if words and (known is None or str(known).startswith("${")):
            return text, words
        default = known if isinstance(known, str) else plain(known)
        return text, f"{default}, {words}" if words else default


def plain(value: Any) -> str:
    """A value as it is written in a configuration file."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000).strip()
    return str(text.removesuffix("...").strip())


def architectures() -> dict[str, Any]:
    """The architectures of this project, each with its model class, sorted by model."""
    _register()
    ours = {
        name: model
        for name, model in ARCH_MODEL_REGISTRY.items()
        if isinstance(model, type) and issubclass(model, DocumentModel)
    }
    # fairseq imports the files of models/ in no certain order.
    names = sorted(ours, key=lambda arch: ARCH_MODEL_NAME_REGISTRY[arch])
    return {name: ours[name] for name in names}


def models() -> dict[Any, list[str]]:
    """The model classes of this project, each with its architectures."""
    found: dict[Any, list[str]] = {}
    for arch, model in architectures().items():
        found.setdefault(model, []).append(arch)
    return found


def summary(model: Any) -> str:
    """The first line of a class's docstring."""
    return str(model.__doc__).strip().splitlines()[0].replace("``", "").rstrip(".")


def model_of(arch: str) -> Any:
    """The model class of an architecture.

    Raises:
        GtransError: this project has no such architecture.
    """
    known = architectures()
    if arch not in known:
        raise GtransError(
            f"there is no architecture '{arch}' in this project; `gtrans options` lists all."
        )
    return known[arch]


def siblings(arch: str) -> list[str]:
    """All architectures of the same model, including this one."""
    model = ARCH_MODEL_NAME_REGISTRY[arch]
    return [name for name, of in ARCH_MODEL_NAME_REGISTRY.items() if of == model]


def task_options(arch: str | None) -> list[Option]:
    """The options of the document task, with the defaults of ``arch`` if it is given."""
    if arch is None:
        _register()
        return list(_options("task", TASK_DATACLASS_REGISTRY[TASK], {}))
    model = model_of(arch)
    schema = TASK_DATACLASS_REGISTRY[TASK]
    completed = _adopted(schema, model, arch)
    found = []
    for option in _options("task", schema, completed or {}):
        choices = tuple(
            choice
            for choice in option.choices
            if _adopted(schema, model, arch, **{option.name: choice}) is not None
        )
        found.append(dataclasses.replace(option, choices=choices))
    return found


def model_options(arch: str, preset: bool = True) -> list[Option]:
    """The options of a model, with the values of the preset ``arch`` unless ``preset`` is False."""
    model_of(arch)
    values = argparse.Namespace()
    if preset:
        ARCH_CONFIG_REGISTRY[arch](values)
    schema = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]]
    return list(_options("model", schema, vars(values)))


def has_field(arch: str, prefix: str) -> bool:
    """Whether an option of the model begins with ``prefix``, even if the task sets it."""
    schema = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]]
    return any(field.name.startswith(prefix) for field in dataclasses.fields(schema))


def section_options(section: str, name: str | None) -> list[Option]:
    """The options of another section; ``name`` chooses a criterion, optimizer or schedule.

    Raises:
        GtransError: there is no such section, or it has nothing of that name.
    """
    sections = {field.name: field.type for field in dataclasses.fields(FairseqConfig)}
    if section in REGISTRIES:
        known = REGISTRIES[section]["dataclass_registry"]
        if name not in known:
            raise GtransError(f"{section}._name '{name}' is unknown; known: {', '.join(known)}.")
        schema = known[name]
    elif dataclasses.is_dataclass(sections.get(section)):
        schema = sections[section]
    else:
        raise GtransError(f"there is no section '{section}' of options.")
    return list(_options(section, schema, {}))


def _options(section: str, schema: Any, arch_defaults: dict[str, Any]) -> Iterator[Option]:
    on_command_line = set(schema()._get_all_attributes())
    for field in dataclasses.fields(schema):
        text = str(field.metadata.get("help") or "")
        # nobody can choose what the task fills in
        if field.name == "_name" or field.name not in on_command_line or text == "set by the task":
            continue
        # the class that defines it; the others inherit it
        declaring = [cls for cls in schema.__mro__ if field.name in get_annotations(cls)][-1]
        kinds = [kind for kind in get_args(field.type) or (field.type,) if kind is not type(None)]
        kind = kinds[0] if len(kinds) == 1 and isinstance(kinds[0], type) else None
        listed = kind is not None and issubclass(kind, Enum)
        yield Option(
            section=section,
            name=field.name,
            title=_title(declaring),
            ours=declaring.__module__.startswith("gtrans."),
            help=" ".join(text.split()),
            default=_default(field),
            arch_default=arch_defaults.get(field.name),
            choices=tuple(str(choice.value) for choice in kind) if listed and kind else (),  # type: ignore[attr-defined]
            kind=kind,
        )


def _title(declaring: type) -> str:
    """The first line of a docstring, without its markup."""
    line = (declaring.__doc__ or declaring.__name__).strip().splitlines()[0]
    return re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", line).rstrip(".")


def _default(field: Any) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    if isinstance(field.default, Enum):
        return field.default.value
    # a tuple, as Adam's betas, is given as text
    return str(field.default) if isinstance(field.default, tuple) else field.default


@cache
def _adopted(
    schema: type[FairseqDataclass], model: Any, arch: str, **given: Any
) -> dict[str, Any] | None:
    """The task's options as ``arch`` completes them; None if it does not accept them."""
    from gtrans.tasks.options import adopt_unit

    # values interpolated from other sections are not needed here
    cfg = OmegaConf.structured(schema)
    for name, value in given.items():
        cfg[name] = value
    try:
        adopt_unit(cfg, model, {"_name": arch})
    except GtransError:
        return None
    values = OmegaConf.to_container(cfg, resolve=False, enum_to_str=True)
    return {str(name): value for name, value in values.items()} if isinstance(values, dict) else {}
