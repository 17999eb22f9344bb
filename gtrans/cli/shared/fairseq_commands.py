"""fairseq's commands with the plugin in place: their parsers and their help."""

from __future__ import annotations

import argparse
import inspect
import logging
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from types import ModuleType
from typing import Any

from fairseq import options, utils
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
)
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from omegaconf import OmegaConf

import gtrans
from gtrans.cli.shared.before_torch import HELP, HELP_ALL, first_help
from gtrans.cli.shared.config_file import FLAG, FOLDER, config_names
from gtrans.cli.shared.dispatch import BY_ARCH, show_defaults, with_short_errors
from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.environment import import_plugin, project_file
from gtrans.errors import GtransError
from gtrans.models.base.model import DocumentModel
from gtrans.option_types import LIMITS
from gtrans.tasks.options import DocumentTranslationConfig, adopt_unit
from gtrans.translating.loading import TASK

_LONGEST_NAME = 34
_SIZES = (
    "{encoder_layers}+{decoder_layers} layers, width {encoder_embed_dim}, "
    "FFN {encoder_ffn_embed_dim}, {encoder_attention_heads} heads"
)


def parse(
    command: ModuleType,
    make_parser: Callable[..., argparse.ArgumentParser],
    argv: Sequence[str],
    trains: bool = False,
    ignorable: Collection[str] = (),
) -> tuple[argparse.Namespace, list[str]]:
    """Return the options of a fairseq command, and the words in ``ignorable`` that are no option.

    The task is ``document_translation`` and ``--user-dir`` this package unless they are given.

    Args:
        command: the command's module.
        trains: whether the command makes a model.
    """
    logging.raiseExceptions = False  # nobody may read the log any more, as after `| head`
    # fairseq composes options with hydra, which logs what it does in between.
    logging.getLogger("hydra").setLevel(logging.INFO)
    import_plugin()
    asks = {HELP_ALL, *HELP} & set(argv)
    words = [word for word in argv if word not in asks]
    _import_user_dir(words)
    parser = with_short_errors(make_parser(default_task=TASK))
    parser.prog = f"gtrans {command.__name__.rpartition('.')[2]}"
    parser.set_defaults(user_dir=gtrans.__path__[0])
    if trains:
        parser.add_argument(FLAG, help=argparse.SUPPRESS)  # is read before, and can be misspelt
        for action in parser._actions:
            action.type = LIMITS.get(action.dest, action.type)
    else:  # as fairseq-generate does, for tasks that ask the model for options
        parser.add_argument("--arch", "-a", metavar="ARCH", default="wav2vec2")
    chosen, _ = parser.parse_known_args(words)
    if asks:
        print(_help(command, parser, chosen, trains, HELP_ALL in asks))
        parser.exit()
    if chosen.arch is None:
        raise GtransError(
            "`--arch` is missing, or `--config NAME`; `gtrans train --help-all` lists both."
        )
    parsed, unread = options.parse_args_and_arch(parser, words, parse_known=True)
    mistyped = [word for word in unread if word not in ignorable]
    if mistyped:
        parser.error(f"unrecognized arguments: {' '.join(mistyped)}")
    return parsed, unread


def _import_user_dir(words: Sequence[str]) -> None:
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--user-dir")
    args, _ = early.parse_known_args(words)
    try:
        utils.import_user_module(args)
    except (FileNotFoundError, ImportError) as error:
        raise GtransError(f"`--user-dir` cannot be imported: {error}") from error


def architectures() -> dict[str, type[DocumentModel]]:
    """Return this project's architectures with their model classes, sorted by model."""
    import_plugin()
    # fairseq imports the files of models/ in no certain order.
    names = sorted(ARCH_MODEL_REGISTRY, key=lambda arch: ARCH_MODEL_NAME_REGISTRY[arch])
    ours = {}
    for name in names:
        model = ARCH_MODEL_REGISTRY[name]
        if isinstance(model, type) and issubclass(model, DocumentModel):
            ours[name] = model
    return ours


def _help(
    command: ModuleType,
    parser: argparse.ArgumentParser,
    chosen: argparse.Namespace,
    trains: bool,
    whole: bool,
) -> str:
    """Return the help: this project's options and, if ``whole``, fairseq's."""
    usage, text = f"usage: {parser.prog} DATA [OPTION ...]", str(command.__doc__).strip()
    parts = [usage, text, f"example:\n  {command.EXAMPLE}"]
    if trains:
        parts = [first_help(text, command.EXAMPLE)]
        if chosen.arch is None:
            parts.append(_choices())
    ours = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS, allow_abbrev=False)
    schema = TASK_DATACLASS_REGISTRY.get(chosen.task)
    _add_options(ours, f"--task {chosen.task}", TASK_REGISTRY[chosen.task], schema)
    if trains and chosen.arch is not None:
        model = ARCH_MODEL_REGISTRY[chosen.arch]
        _add_options(ours, f"--arch {chosen.arch}", model, getattr(model, "options", None))
        for name, value in _values_of(chosen.arch).items():
            if value is not None:
                ours.set_defaults(**{name: value})
    elif trains:
        _add_defaults_by_arch(ours)
    for section, registry in REGISTRIES.items():
        class_name = getattr(chosen, section, None)
        schema = registry["dataclass_registry"].get(class_name)
        if schema is not None:
            gen_parser_from_dataclass(
                ours.add_argument_group(f"--{section} {class_name}"), schema()
            )
    parts.append(_with_values(ours))
    if whole or not trains:
        parser.usage = argparse.SUPPRESS
        parts += ["Options of fairseq", _with_values(parser)]
    return "\n\n".join(part.strip("\n") for part in parts)


def _add_defaults_by_arch(parser: argparse.ArgumentParser) -> None:
    """Add the values that architectures give them to the help of a unit's options."""
    values = [_values_of(arch) for arch in architectures()]
    for action in parser._actions:
        if action.dest not in UNIT_FIELDS or action.default is not None:
            continue
        defaults = dict.fromkeys(options.get(action.dest) for options in values)
        text = " or ".join(str(value) for value in defaults if value is not None)
        if text:
            action.help = str(action.help).replace(BY_ARCH, f"{BY_ARCH}: {text}")


def _choices() -> str:
    lines: list[str] = []
    for arch, model in architectures().items():
        title = f"  {_title(model)}:"
        if title not in lines:
            lines.append(title)
        lines.append(f"    {arch.ljust(_LONGEST_NAME)}{_SIZES.format_map(_values_of(arch))}")
    return (
        f"--config NAME (files of {project_file(FOLDER)}):\n{_listed(config_names())}\n\n"
        f"--arch ARCH (`--help --arch ARCH` has the options of ARCH):\n" + "\n".join(lines)
    )


def _add_options(
    parser: argparse.ArgumentParser, title: str, owner: Any, schema: type | None
) -> None:
    """Declare the options of a task or model.

    Their heading is the ``group`` of a field, or the docstring of the class that declares it.
    """
    declared = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    owner.add_args(declared)
    headings = {} if schema is None else _headings(title, schema)
    groups = {group.title: group for group in parser._action_groups}
    for action in declared._actions:
        heading = headings.get(action.dest, title)
        if heading not in groups:
            groups[heading] = parser.add_argument_group(heading)
        groups[heading]._add_action(action)


def _headings(title: str, schema: type) -> dict[str, str]:
    headings: dict[str, str] = {}
    for cls in schema.__mro__[:-1]:
        for name in inspect.get_annotations(cls):
            headings[name] = f"{title}: {_title(cls)}"
    for field in fields(schema):
        headings[field.name] = field.metadata.get("group", headings[field.name])
    return headings


def _values_of(arch: str) -> dict[str, Any]:
    """Return an architecture's values for options of model and units."""
    preset = argparse.Namespace()
    ARCH_CONFIG_REGISTRY[arch](preset)
    model = ARCH_MODEL_REGISTRY[arch]
    if not issubclass(model, DocumentModel):
        return vars(preset)
    structured: Any = OmegaConf.structured(model.options())
    defaults: Any = OmegaConf.to_container(structured, enum_to_str=True)
    values = {**defaults, **vars(preset)}
    units = OmegaConf.structured(DocumentTranslationConfig())
    adopt_unit(units, model, {**values, "_name": arch})
    return values | {name: units[name] for name in UNIT_FIELDS}


def _listed(names: Iterable[str]) -> str:
    return textwrap.fill(
        ", ".join(names),
        100,
        initial_indent="    ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )


def _title(model: type) -> str:
    first = str(model.__doc__).strip().splitlines()[0]
    return first.replace(":class:", "").replace("`", "").rstrip(".")


def _with_values(parser: argparse.ArgumentParser) -> str:
    for action in parser._get_optional_actions():
        value = parser.get_default(action.dest)
        if str(value).startswith("${"):
            action.help = argparse.SUPPRESS
    show_defaults(parser)
    return parser.format_help()
