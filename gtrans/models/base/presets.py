"""Presets (named sizes of models), and how a system is registered.

fairseq fills in the preset of a command line; a model fills in one of a configuration file.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from fairseq.dataclass import FairseqDataclass
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gtrans.errors import GtransError
from gtrans.models.base.options import DocumentModelConfig
from gtrans.option_types import check_numbers

Presets = Mapping[str, Mapping[str, Any]]
Config = TypeVar("Config", bound=FairseqDataclass)
Model = TypeVar("Model", bound=type)

# The switches of a preset besides its sizes: the Transformer of Vaswani et al. 2017.
PLAIN_SWITCHES: dict[str, Any] = {
    "activation_fn": "relu",
    "layernorm_embedding": False,
    "learned_positions": False,
    "max_positions": 1024,
    "share_all_embeddings": False,
    "no_scale_embedding": False,
}
POST_NORM: dict[str, Any] = {"encoder_normalize_before": False, "decoder_normalize_before": False}


def sizes(
    layers: int,
    dim: int,
    ffn_dim: int,
    heads: int,
    decoder_layers: int | None = None,
    switches: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a preset with equal sizes on both sides.

    ``switches``: further options (None: for a post-norm Transformer).
    """
    if decoder_layers is None:
        decoder_layers = layers
    if switches is None:
        switches = {**PLAIN_SWITCHES, **POST_NORM}
    return {
        "encoder_layers": layers,
        "decoder_layers": decoder_layers,
        "encoder_embed_dim": dim,
        "encoder_ffn_embed_dim": ffn_dim,
        "decoder_ffn_embed_dim": ffn_dim,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        **switches,
    }


def register_system(
    name: str, options: type[DocumentModelConfig], presets: Presets
) -> Callable[[Model], Model]:
    """Decorate a model class: register it, and each preset as ``--arch`` and hydra's ``model``."""
    return partial(_register, name, options, presets)


def _register(
    name: str, options: type[DocumentModelConfig], presets: Presets, model: Model
) -> Model:
    model.options, model.presets = options, presets  # type: ignore[attr-defined]
    registered: Model = register_model(name, dataclass=options)(model)
    for arch, preset in presets.items():
        fill_in = partial(_fill_in, preset)
        if arch == name:
            # register_model has registered an empty function under the model's own name.
            ARCH_CONFIG_REGISTRY[arch] = fill_in
            continue
        register_model_architecture(name, arch)(fill_in)
        node = options()
        node._name = arch
        ConfigStore.instance().store(name=arch, group="model", node=node, provider="gtrans")
    return registered


def _fill_in(preset: Mapping[str, Any], args: Any) -> None:
    if not isinstance(args, argparse.Namespace):
        return
    check_numbers(vars(args))
    if getattr(args, "bf16", False):
        # fairseq expects a TPU then; hydra's common.bf16=true does not.
        args.tpu = False
    for key, value in preset.items():
        if getattr(args, key, None) is None:
            setattr(args, key, value)


def resolve_sizes(cfg: Any, dataclass: type[Config], presets: Presets) -> Config:
    """Return ``cfg`` with all fields of ``dataclass``; sizes that are None come from its preset.

    Raises:
        GtransError: an unknown option.
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
        options: Any = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    elif isinstance(cfg, argparse.Namespace):
        options = vars(cfg)
    else:
        return cfg
    return {name: value for name, value in options.items() if value is not None}
