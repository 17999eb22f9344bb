"""Named sizes of models: one table for the command line, presets and hydra.

fairseq calls the function registered with an architecture for the command line
only; with a configuration file the sizes must be filled in when the model is
built. Both read the same table.

The functions are also the one place where options of the stock commands are
adjusted for our architectures, because fairseq calls them after everything else
has been parsed (see :func:`adjust_command_line`).
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model_architecture
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gtrans.errors import GtransError


def option(default: Any, help_text: str) -> Any:
    """A field of a model's options."""
    return field(default=default, metadata={"help": help_text})


def size_option(help_text: str) -> Any:
    """A field for a size; left open, it is the preset's (see :func:`resolve_sizes`)."""
    return option(None, f"{help_text} (default: the preset's)")


@dataclass
class DocumentModelConfig(FairseqDataclass):
    """What a checkpoint must know of the units its model was trained on.

    The task fills these in when it builds a new model, and takes them over when it
    loads one, so nobody has to remember them in decoding.
    """

    unit: Optional[str] = option(None, "set by the task")
    max_doc_tokens: Optional[int] = option(None, "set by the task")
    context_before: Optional[int] = option(None, "set by the task")
    context_after: Optional[int] = option(None, "set by the task")
    context_kind: Optional[str] = option(None, "set by the task")
    context_sentence: Optional[str] = option(None, "set by the task")
    context_sides: Optional[str] = option(None, "set by the task")
    sentence_marks: Optional[str] = option(None, "set by the task")
    # Any: a stock task has an option of this name, whose value is a list.
    langs: Any = option(None, "set by the task")
    source_lang: Optional[str] = option(None, "set by the task")
    target_lang: Optional[str] = option(None, "set by the task")

    def _get_all_attributes(self) -> list[str]:
        """Names of the options that the command line gets: tasks have those above already."""
        names: list[str] = super()._get_all_attributes()
        return [name for name in names if name not in DocumentModelConfig.__dataclass_fields__]


# What a checkpoint says of its units, and models that work as one must agree on.
UNIT_FIELDS = tuple(
    name
    for name in DocumentModelConfig.__dataclass_fields__
    if name not in ("_name", "source_lang", "target_lang")
)

Presets = Mapping[str, Mapping[str, Any]]
Config = TypeVar("Config", bound=FairseqDataclass)


def adjust_command_line(args: argparse.Namespace) -> None:
    """Make stock options mean for our architectures what they say.

    * ``--bf16``: fairseq takes it for a TPU and fails to import one; here it is
      bfloat16 on the device at hand, as ``common.bf16=true`` is under hydra.
    * ``--optimizer adam`` with ``--init-from``: becomes ``two_rate_adam`` with the
      same options, so that new and loaded parameters train at their own rates.

    Raises:
        GtransError: ``--fp16`` that would flatten the parameters of two rates into one.
    """
    if getattr(args, "bf16", False):
        args.tpu = False
    if getattr(args, "init_from", None) and getattr(args, "optimizer", None) == "adam":
        args.optimizer = "two_rate_adam"
    if getattr(args, "optimizer", None) == "two_rate_adam" and (
        getattr(args, "fp16", False)
        and not getattr(args, "memory_efficient_fp16", False)
        and not getattr(args, "fp16_no_flatten_grads", False)
    ):
        raise GtransError(
            "`--fp16` alone flattens all parameters into one, which cannot have two learning "
            "rates; add --fp16-no-flatten-grads (or use --memory-efficient-fp16, --bf16, --amp)."
        )


def register_presets(model: str, dataclass: type[FairseqDataclass], presets: Presets) -> None:
    """Register every preset as ``--arch NAME`` and as hydra's ``model=NAME``."""
    from fairseq.models import ARCH_CONFIG_REGISTRY

    for name, sizes in presets.items():

        def fill(args: Any, sizes: Mapping[str, Any] = sizes) -> None:
            if isinstance(args, argparse.Namespace):
                adjust_command_line(args)
                for key, value in sizes.items():
                    if getattr(args, key, None) is None:
                        setattr(args, key, value)

        if name == model:
            # register_model has registered an empty function under the model's own name.
            ARCH_CONFIG_REGISTRY[name] = fill
            continue
        register_model_architecture(model, name)(fill)
        node = dataclass()
        node._name = name
        ConfigStore.instance().store(name=name, group="model", node=node, provider="gtrans")


def resolve_sizes(cfg: Any, dataclass: type[Config], presets: Presets) -> Config:
    """``cfg`` with all of ``dataclass``'s fields, open sizes filled in from its preset.

    Raises:
        GtransError: a key that the model does not have.
    """
    name = getattr(cfg, "_name", None)
    try:
        merged = OmegaConf.merge(OmegaConf.structured(dataclass), _plain(cfg))
    except OmegaConfBaseException as error:
        raise GtransError(
            f"the options of model {name} are wrong: {str(error).splitlines()[0]}"
        ) from error
    # A model without a name of its own has the sizes of its first preset.
    first = next(iter(presets.values()))
    for key, value in presets.get(str(name), first).items():
        if getattr(merged, key) is None:
            setattr(merged, key, value)
    return merged  # type: ignore[return-value]


def _plain(cfg: Any) -> Any:
    if isinstance(cfg, DictConfig):
        return OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    return vars(cfg) if isinstance(cfg, argparse.Namespace) else cfg
