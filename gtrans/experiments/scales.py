"""At which size experiments are run: ``exp_gtransformer/experiments/scales.yaml``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import split
from typing import Any

import yaml

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import FOLDER, Scale
from gtrans.shipped import shipped

_SETTING = re.compile(r"\{([a-z-]+)\}")
_UPDATES = "-updates"
_ALL_UPDATES = _UPDATES.removeprefix("-")


@dataclass(frozen=True)
class Preparation:
    """What all seeds share.

    Attributes:
        recipe: the run script that makes it.
        options: of that script.
        of: the preparation whose truecasers, BPE and vocabulary it takes; models with either share
            a sentence model, which is trained with that one. Empty: none.
    """

    recipe: str
    options: tuple[str, ...]
    of: str


@dataclass(frozen=True)
class RecipeSettings:
    """How a recipe is called at a scale.

    Attributes:
        preparation: name of its preparation.
        options: of the script.
        training: what follows ``--`` for the document model.
        sentence: the same for the sentence model.
        translation: the same for ``gtrans translate``.
        corpora: by corpus, the one of the recipe whose settings it gets; ``other``: for all others.
    """

    preparation: str
    options: tuple[str, ...]
    training: tuple[str, ...]
    sentence: tuple[str, ...]
    translation: tuple[str, ...]
    corpora: Mapping[str, str]


@dataclass(frozen=True)
class ScaleSettings:
    """One scale.

    Attributes:
        name: of it.
        label: that, and the settings that a user has changed; the name of its folder.
        seeds: of the runs.
        settings: numbers that stand in braces in options.
        corpora: those that are made here, with the options of ``gtrans make-corpus``.
        assembled: those that ``gtrans get-corpus`` puts together from the corpora that are given.
        preparations: by name.
        recipes: by name; a recipe that is missing is not run at this scale.
        languages: source and target of corpora.
        pair: source and target of a corpus that is not in ``languages``.
        device: options of commands that use a model.
        changes: the settings that a user has changed, as ``NAME=VALUE``, sorted.
        amp: whether all translation models are trained in mixed precision (``--amp``).
    """

    name: Scale
    label: str
    seeds: tuple[int, ...]
    settings: Mapping[str, str]
    corpora: Mapping[str, tuple[str, ...]]
    assembled: tuple[str, ...]
    preparations: Mapping[str, Preparation]
    recipes: Mapping[str, RecipeSettings]
    languages: Mapping[str, tuple[str, str]]
    pair: tuple[str, str]
    device: tuple[str, ...]
    changes: tuple[str, ...]
    amp: bool

    @property
    def gpu(self) -> bool:
        """Whether models are trained and used on GPUs."""
        return "--cpu" not in self.device


def read_scale(
    name: Scale, changes: Iterable[str] = (), path: Path | None = None, *, amp: bool = False
) -> ScaleSettings:
    """A scale with some settings changed.

    Args:
        name: of the scale.
        changes: ``NAME=VALUE`` each; ``updates`` stands for all settings whose names end in it.
        path: instead of the project's own file.
        amp: whether all translation models are trained in mixed precision.

    Raises:
        GtransError: there is no such setting, its value is not a whole number, or the file is not
            as it describes itself.
    """
    file = path or shipped(FOLDER) / "scales.yaml"
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))[name]
        return _scale(name, content, list(changes), amp)
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise GtransError(f"{file}: not the settings of scale {name} ({error}).") from None


def _scale(
    name: Scale, content: dict[str, Any], changes: Sequence[str], amp: bool
) -> ScaleSettings:
    settings = {key: str(value) for key, value in content["settings"].items()}
    names = [change.partition("=")[0] for change in changes]
    twice = [key for key in names if names.count(key) > 1]
    if twice:
        raise GtransError(f"`--set` has several values for {twice[0]}; give one.")
    every = content["recipes"].pop("every", {})
    if _ALL_UPDATES in names:
        _check_updates(name, content["recipes"], settings)
    # The order on the command line is not in the label: what names one setting is the last word.
    for change in sorted(changes, key=lambda it: it.partition("=")[0] in settings):
        _change(settings, change, name)
    labels = [change.replace("=", "-") for change in changes]
    recipes = {
        recipe: RecipeSettings(
            entry["preparation"],
            _words([*every.get("options", []), *entry.get("options", [])]),
            _words(entry.get("training", [])),
            _words(entry.get("sentence", [])),
            _words(entry.get("translation", [])),
            dict(entry.get("corpora", {})),
        )
        for recipe, entry in content["recipes"].items()
    }
    return ScaleSettings(
        name=name,
        label=".".join([name, *(["amp"] if amp else []), *sorted(labels)]),
        changes=tuple(sorted(changes)),
        amp=amp,
        seeds=tuple(content["seeds"]),
        settings=settings,
        corpora={key: tuple(value) for key, value in content.get("corpora", {}).items()},
        assembled=tuple(content.get("assembled", ())),
        preparations={
            key: Preparation(value["recipe"], _words(value["options"]), value.get("of", ""))
            for key, value in content["preparations"].items()
        },
        recipes=recipes,
        languages={key: tuple(value) for key, value in content.get("languages", {}).items()},
        pair=tuple(content.get("pair", ("en", "de"))),
        device=tuple(content.get("device", ())),
    )


def _change(settings: dict[str, str], change: str, scale: str) -> None:
    key, _, value = change.partition("=")
    names = [key] if key in settings else []
    if key == _ALL_UPDATES:
        names = [name for name in settings if name.endswith(_UPDATES)]
    if not names:
        known = ", ".join(["updates", *settings]) if settings else "none"
        raise GtransError(
            f"`--set {change}`: scale {scale} has no setting '{key}' (it has {known})."
        )
    if not re.fullmatch("[1-9][0-9]{0,8}", value):
        raise GtransError(f"`--set {change}`: the value must be a whole number of at least 1.")
    settings.update(dict.fromkeys(names, value))


def _check_updates(scale: str, recipes: Mapping[str, Any], settings: Iterable[str]) -> None:
    """Raises GtransError unless a setting has the updates of every recipe."""
    left_out = [
        recipe
        for recipe, entry in recipes.items()
        if not any(f"{_UPDATES}}}" in word for word in _words(entry.get("options", [])))
    ]
    if left_out:
        raise GtransError(
            f"`--set {_ALL_UPDATES}`: at scale {scale} no setting has the updates of "
            f"{', '.join(left_out)}; name those that are meant of "
            f"{', '.join(it for it in settings if it.endswith(_UPDATES))}."
        )


def _words(lines: Iterable[Any]) -> tuple[str, ...]:
    """Single words; a line may have several, and may be a list."""
    words: list[str] = []
    for line in lines:
        words += _words(line) if isinstance(line, list) else split(str(line))
    return tuple(words)


def filled(words: Iterable[str], values: Mapping[str, str]) -> list[str]:
    """The words with ``{NAME}`` replaced by its value.

    Raises:
        GtransError: there is no value of this name.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise GtransError(f"{match[0]}: there is no such value here, only {', '.join(values)}.")
        return values[match[1]]

    return [_SETTING.sub(value, word) for word in words]
