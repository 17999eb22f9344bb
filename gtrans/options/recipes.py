"""Configuration files for ``fairseq-hydra-train``, generated from short recipes.

A recipe (``configs/recipes/NAME.yaml``) has a heading and the values that differ from the
defaults; ``every.yaml`` has what all recipes share. The generated file ``configs/NAME.yaml``
has all options, each with its meaning and default from the code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from gtrans.data.units import UNIT_OPTIONS, unit_class
from gtrans.errors import GtransError
from gtrans.options.catalogue import (
    Option,
    has_field,
    model_of,
    model_options,
    section_options,
    siblings,
    task_options,
)
from gtrans.options.rendering import section

EVERY = "every.yaml"
COMMAND = "gtrans options --write"

# The options of fairseq that training with this project is likely to need, in the order of the
# file. Their help is written here because fairseq's own is partly wrong for this project.
FAIRSEQ: Mapping[str, Mapping[str, str]] = {
    "common": {
        "user_dir": "the folder gtrans/ of this project",
        "seed": "random seed of parameters, batches and word dropout",
        "cpu": "train on the CPU even if there is a GPU",
        "bf16": "bfloat16, on a GPU or a CPU (docs/training.md)",
        "amp": "mixed precision: fp16 on a GPU, bf16 on a CPU",
        "fp16": "half precision, on a GPU",
        "fp16_no_flatten_grads": "one gradient for each parameter; fp16 with init_from needs it",
        "memory_efficient_fp16": "fp16 without an fp32 copy of the parameters",
        "log_format": "format of the log (default: tqdm at a terminal, otherwise simple)",
        "log_interval": "updates between two lines of the log",
    },
    "criterion": {"label_smoothing": "epsilon of label smoothing; 0: no smoothing"},
    "optimizer": {
        "_name": "adam; with init_from two_rate_adam, which is Adam with two learning rates",
        "adam_betas": "decay rates of Adam's two moments",
        "adam_eps": "Adam's epsilon, added to the denominator",
        "weight_decay": "weight decay, decoupled from the gradient as in AdamW",
    },
    "lr_scheduler": {
        "warmup_updates": "updates in which the learning rate rises to lr",
        "warmup_init_lr": "learning rate at the first update; -1: 0",
        "total_num_update": "update at which the rate is end_learning_rate (default: max_update)",
        "power": "exponent of the polynomial decay",
    },
    "optimization": {
        "lr": "highest learning rate; with two_rate_adam, that of new parameters",
        "update_freq": "batches per update; the effective batch is max_tokens x GPUs x this",
        "clip_norm": "gradients with a larger norm are scaled down to this norm; 0: no clipping",
        "max_update": "stop after this number of updates; 0: no limit",
        "max_epoch": "stop after this number of epochs; 0: no limit",
    },
    "dataset": {
        "max_tokens": "largest batch in tokens on one GPU, padding included",
        "batch_size": "largest batch in units; with unit stream, the number of documents that are "
        "read in parallel (default: as many as fill max_tokens)",
        "num_workers": "number of processes that load data",
        "train_subset": "split to train on",
        "valid_subset": "splits to validate on, separated by commas",
        "disable_validation": "skip validation",
    },
    "distributed_training": {"ddp_backend": "how several GPUs share gradients"},
    "checkpoint": {
        "save_dir": "folder for checkpoints",
        "patience": "stop after this number of validations without a lower loss; -1: never",
        "no_epoch_checkpoints": "keep only the best and the last checkpoint",
    },
}
# The prefix of options that only models with a BERT have.
_OF_BERT = "bert_"
_ORDER = ("common", "task", "model", "criterion", "optimizer", "lr_scheduler", "optimization",
          "dataset", "distributed_training", "checkpoint")  # fmt: skip
_FOOT = """\
With fairseq-hydra-train instead, add common.user_dir=PATH-OF-THE-PACKAGE; checkpoint.save_dir is
then relative to hydra.run.dir.
The comment after a key has its meaning and its default, the value that it has without this file.
More keys of fairseq's own groups (common, dataset, ...) may be added. Misspelt keys are refused."""


@dataclass
class Recipe:
    """A recipe: its heading and, by section, its values and the reasons for them."""

    path: Path
    heading: list[str] = field(default_factory=list)
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)

    def on(self, base: "Recipe") -> "Recipe":
        """This recipe on top of another: its own values and reasons take precedence."""
        values = {name: dict(group) for name, group in base.values.items()}
        reasons = {name: dict(group) for name, group in base.reasons.items()}
        for name, group in self.values.items():
            values.setdefault(name, {}).update(group)
            kept = {key: why for key, why in reasons.get(name, {}).items() if key not in group}
            reasons[name] = {**kept, **self.reasons.get(name, {})}
        return replace(self, values=values, reasons=reasons)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe, comments included.

    Raises:
        GtransError: the file does not exist, or is no recipe.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = yaml.safe_load(text)
    except (OSError, yaml.YAMLError) as error:
        raise GtransError(f"{path}: {str(error).splitlines()[0]}") from error
    if not isinstance(values, dict) or not all(isinstance(v, dict) for v in values.values()):
        raise GtransError(
            f"{path}: a recipe must have sections with keys, such as 'model:' with '_name'."
        )
    recipe = Recipe(path, values=values)
    name = key = ""
    for line in text.splitlines():
        if line.startswith("#") and not name:
            recipe.heading.append(line)
        elif match := re.match(r"(\w+):", line):
            name = match[1]
        elif match := re.match(r"  (\w+):.*?(?:\s#\s+(.*))?$", line):
            key = match[1]
            if match[2]:
                recipe.reasons.setdefault(name, {})[key] = match[2]
        elif match := re.match(r"\s+#\s+(.*)", line):
            reasons = recipe.reasons.setdefault(name, {})
            reasons[key] = f"{reasons[key]} {match[1]}" if key in reasons else match[1]
    return recipe


def configuration(path: Path) -> str:
    """The text of the configuration file of a recipe; ``every.yaml`` is in the same folder.

    Raises:
        GtransError: the recipe has a key that does not exist.
    """
    recipe = read_recipe(path).on(read_recipe(path.with_name(EVERY)))
    arch = recipe.values.get("model", {}).get("_name")
    if not arch:
        raise GtransError(f"{path}: model._name, the architecture, is missing.")
    if unknown := recipe.values.keys() - set(_ORDER):
        raise GtransError(f"{path}: unknown section '{min(unknown)}'; known: {', '.join(_ORDER)}.")
    shown = {name: _shown(recipe, name, arch) for name in _ORDER}
    lines = [
        f"# Generated from recipes/{path.name} by `{COMMAND}`:",
        "# change the recipe, or an option's help in the code, and run that again.",
        "#",
        *recipe.heading,
        "#",
        *(f"# {line}" for line in _FOOT.splitlines()),
    ]
    for name in _ORDER:
        values = recipe.values.get(name, {})
        reasons = recipe.reasons.get(name, {})
        about = FAIRSEQ.get(name, {}).get("_name", "")
        if name == "model":
            about = f"sizes; also {', '.join(other for other in siblings(arch) if other != arch)}"
        if "_name" in reasons:
            about = f"{about}. Here: {reasons['_name']}" if about else reasons["_name"]
        chosen = values.get("_name")
        lines += ["", *section(name, chosen, about, shown[name], values, reasons)]
    return "\n".join([*lines, ""])


def _shown(recipe: Recipe, name: str, arch: str) -> list[Option]:
    """The options of a section: all of this project, and those of fairseq in :data:`FAIRSEQ`.

    Raises:
        GtransError: the recipe has an option that does not exist.
    """
    given = {key: value for key, value in recipe.values.get(name, {}).items() if key != "_name"}
    try:
        if name == "task":
            options = task_options(arch)
        elif name == "model":
            options = model_options(arch)
        else:
            options = section_options(name, recipe.values.get(name, {}).get("_name"))
    except GtransError as error:
        raise GtransError(f"{recipe.path}: {error}") from error
    for key in given:
        if all(option.name != key for option in options):
            raise GtransError(f"{recipe.path}: {name}.{key}: there is no such option.")
    texts = FAIRSEQ.get(name, {})
    place = {key: number for number, key in enumerate(texts)}
    idle = _idle(recipe, arch) if name == "task" else frozenset()
    shown = []
    for option in options:
        if option.ours:
            if option.name in given or option.name not in idle:
                shown.append(option)
        elif option.name in texts or option.name in given:
            shown.append(replace(option, help=texts.get(option.name, option.help)))
    return sorted(
        shown, key=lambda option: -1 if option.ours else place.get(option.name, len(place))
    )


def _idle(recipe: Recipe, arch: str) -> frozenset[str]:
    """The options of the task that have no effect with this unit and this model."""
    task = task_options(arch)
    unit = next(option.arch_default for option in task if option.name == "unit")
    unit = recipe.values["task"].get("unit", unit)
    idle = UNIT_OPTIONS - set(unit_class(unit, model_of(arch).stream_of).options)
    if unit != "document" or model_of(arch).instance_context is None:
        idle |= {"instance_context"}
    if not has_field(arch, _OF_BERT):
        idle |= {option.name for option in task if option.name.startswith(_OF_BERT)}
    return idle


def configurations(folder: Path) -> dict[Path, str]:
    """All configuration files of ``folder``, each with the text generated from its recipe.

    Raises:
        GtransError: there are no recipes, or one is wrong.
    """
    recipes = sorted(path for path in folder.glob("recipes/*.yaml") if path.name != EVERY)
    if not recipes:
        raise GtransError(
            f"{folder}/recipes: there are no recipes; give the folder of the project."
        )
    return {folder / path.name: configuration(path) for path in recipes}
