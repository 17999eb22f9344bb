"""The options of training and generation, read in the sources that declare them.

To import them is to import torch, which takes seconds. A mistake in an option is told at once by
what its declaration says: a field of a dataclass of options, or an ``add_argument``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

# Where options are declared: in this package, then in fairseq.
_OURS = ("tasks", "data", "models", "criterions", "optim", "modules")
_FAIRSEQS = ("dataclass/configs.py", "dataclass/constants.py", "options.py", "registry.py", "optim",
             "criterions", "tasks/__init__.py", "tasks/translation_multi_simple_epoch.py",
             "data/encoders", "data/multilingual")  # fmt: skip
# fairseq declares these while it looks for the classes that they choose among.
_CHOOSING = {"criterion": "register_criterion", "optimizer": "register_optimizer",
             "lr_scheduler": "register_lr_scheduler", "task": "", "arch": "", "tokenizer": "",
             "bpe": "", "scoring": "", "simul_type": ""}  # fmt: skip
# A field of a class of options: its name, type and default, and what follows up to the next one.
_FIELD = re.compile(
    r"^    (?P<name>\w+): (?P<kind>\S.*?) = (?:(?P<how>\w+)\((?:\s*#.*\n)?\s*)?"
    r"(?:default=)?(?P<default>\w*)"
    r"(?P<rest>(?:.*\n(?!    \w))*)",
    re.MULTILINE,
)
_ARGUMENT = re.compile(r"add_argument\((?P<names>(?:\s*['\"]-[\w-]+['\"],)+)(?P<rest>[^)]*)")


@dataclass(frozen=True)
class Option:
    """An option of the command line.

    Attributes:
        name: of the value.
        kind: ``flag``; ``off``, a flag of what is on by default; ``int``, ``float`` or ``str``;
            ``optional``, which needs no value.
        choices: the words that it takes; empty if there are others, or if they are not known.
    """

    name: str
    kind: str
    choices: tuple[str, ...] = ()


@cache
def options() -> dict[str, Option]:
    """All options by their flags, ``--name`` or ``-n``."""
    found = {_flag(name): Option(name, "str", _registered(how)) for name, how in _CHOOSING.items()}
    # Fields that have the value of another option come last; fairseq reads any word for them.
    declared = list(_FIELD.finditer(_sources()))
    declared.sort(key=lambda field: "II" in (field["how"], field["default"]))
    for field in declared:
        choices: tuple[str, ...] = ()
        kind = re.sub(r"Optional\[(.*)\]", r"\1", field["kind"])
        if "II" in (
            field["how"],
            field["default"],
        ):  # the value of another option; fairseq takes any word
            kind = "str"
        elif kind == "bool":
            kind = "off" if field["default"] == "True" else "flag"
        if kind not in ("off", "flag", "int", "float"):
            kind, choices = "str", _choices(kind)
        if "argparse_const" in field["rest"]:  # its value may be left out
            kind = "optional"
        one = Option(field["name"], kind, choices)
        aliases = re.findall(r'"argparse_alias": "(.*?)"', field["rest"])
        for flag in (_flag(field["name"]), *aliases):
            found.setdefault(flag, one)
    for argument in _ARGUMENT.finditer(_sources()):
        number = re.search(r"type=(int|float)\b", argument["rest"])
        what = number[1] if number else "flag" if "store_" in argument["rest"] else "str"
        flags = re.findall(r"['\"](-.*?)['\"]", argument["names"])
        for flag in flags:
            found.setdefault(flag, Option(flags[0].lstrip("-").replace("-", "_"), what))
    found["-a"] = found["--arch"]
    return found


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def architectures() -> list[str]:
    """The presets that the models of this project declare."""
    return re.findall(r'^    "(\w+)": (?:sizes\(|\{|dict\()', _sources(), re.MULTILINE)


def mentions(name: str) -> bool:
    """Whether a source has ``name`` in quotes, as one that registers it in another way would."""
    return f'"{name}"' in _sources()


def _registered(function: str) -> tuple[str, ...]:
    """The names of the classes that are registered with a decorator of fairseq."""
    if not function:
        return ()
    return tuple(re.findall(rf"@{function}\(\s*\"(\w+)\"", _sources()))


def _choices(kind: str) -> tuple[str, ...]:
    """The words of ``ChoiceEnum(..)``, given as a list or by the name of a constant."""
    found = re.search(r"ChoiceEnum\((?:list\()?(\[.*?\]|\w+)", kind)
    if found is None:
        return ()
    text = found[1]
    if not text.startswith("["):
        values = re.findall(rf"^{text}\b(?:: [^=]+)? = ([({{\[][^)}}\]]*[)}}\]])", _sources(), re.M)
        if len(values) != 1:
            return ()
        text = re.sub(r":[^,]*(?=[,}])", "", values[0]) if values[0][0] == "{" else values[0]
    try:
        return tuple(map(str, ast.literal_eval(text)))
    except (ValueError, SyntaxError):
        return ()


@cache
def _sources() -> str:
    package = Path(__file__).parents[2]
    fairseq = find_spec("fairseq")
    folders = [package / name for name in _OURS]
    if fairseq is not None and fairseq.submodule_search_locations:
        place = Path(fairseq.submodule_search_locations[0])
        folders += [place / name for name in _FAIRSEQS]
    files = (path for folder in folders for path in
             (sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]))  # fmt: skip
    return "\n".join(path.read_text(encoding="utf-8") for path in files)
