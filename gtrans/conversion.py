"""Checkpoints of the authors' G-Transformer become checkpoints of this project.

Their file is ``{'args': argparse.Namespace, 'model': state dict}``, with ``[lang]`` of
each of ``args.langs`` and ``<mask>`` behind the dictionary's own symbols. What the model
is made of is read from the state dict, and only what tensors cannot tell (heads,
activation, dropout, languages) from ``args``. The new model is built and loaded as every
command will build and load it, so a file that has been written can be read.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf
from torch import Tensor

from gtrans.checkpoints import read_checkpoint
from gtrans.data.symbols import MASK, language_symbol
from gtrans.errors import GtransError
from gtrans.models._warm_start import rename
from gtrans.models.gtransformer import PRESETS, GTransformerConfig
from gtrans.modules.transformer import ACTIVATIONS
from gtrans.tasks._options import DocumentTranslationConfig
from gtrans.tasks.document_translation import DocumentTranslationTask

_SIDES = ("encoder", "decoder")
_ENCODER_TABLE = "encoder.embed_tokens.weight"
_DECODER_TABLE = "decoder.embed_tokens.weight"
_OUTPUT = "decoder.output_projection.weight"

# Parts of fairseq's Transformer that this model does not have, by their tensors' names.
_MISSING_PARTS = (
    (r"\.embed_positions\.weight$", "learned positions (--encoder-learned-pos)"),
    (r"\.layernorm_embedding\.", "a layer norm on embeddings (--layernorm-embedding)"),
    (r"\.adaptive_softmax\.", "an adaptive softmax (--adaptive-softmax-cutoff)"),
    (r"\.project_(in|out)_dim\.", "embeddings of another width than its layers"),
    (r"\.in_proj_weight$", "joint query, key and value projections (fairseq before 0.7)"),
)
# The same for parts without tensors, by option.
_MISSING_OPTIONS = {
    "no_token_positional_embeddings": "no positions",
    "cross_self_attention": "joint cross- and self-attention",
    "no_cross_attention": "no cross-attention",
}


@dataclass(frozen=True)
class Summary:
    """What a conversion found.

    Attributes:
        model: options of the new model.
        symbols: size of the source and the target vocabulary.
        kept: tensors that have the same name here.
        renamed: tensors that have another name here.
        ignored: entries without meaning for the model.
    """

    model: GTransformerConfig
    symbols: tuple[int, int]
    kept: list[str]
    renamed: list[str]
    ignored: list[str]

    def lines(self) -> list[str]:
        """The report as text."""
        model = self.model
        norms = [
            "pre-norm" if before else "post-norm"
            for before in (model.encoder_normalize_before, model.decoder_normalize_before)
        ]
        tables = "separate embeddings"
        if model.share_decoder_input_output_embed:
            tables = "decoder input and output embeddings shared"
        if model.share_all_embeddings:
            tables = "all embeddings shared"
        attention = "plain attention over the whole unit"
        if model.doc_mode == "partial":
            attention = (
                "group attention; global attention in the top "
                f"{model.encoder_global_layers} encoder, {model.decoder_global_layers} decoder "
                f"and {model.cross_global_layers} cross-attention layers"
            )
        return [
            f"layers {model.encoder_layers} + {model.decoder_layers}, "
            f"dim {model.encoder_embed_dim}, "
            f"feed-forward {model.encoder_ffn_embed_dim} + {model.decoder_ffn_embed_dim}, "
            f"heads {model.encoder_attention_heads} + {model.decoder_attention_heads}, "
            + (norms[0] if norms[0] == norms[1] else " + ".join(norms)),
            attention,
            f"symbols {self.symbols[0]} + {self.symbols[1]}, languages {model.langs}, {tables}",
            f"tensors: {len(self.kept)} kept, {len(self.renamed)} renamed, "
            f"{len(self.ignored)} ignored" + "".join(f"\n  ignored: {n}" for n in self.ignored),
        ]


def convert_g_transformer(
    source: Path, target: Path, data: Path, unit: str = "document", max_doc_tokens: int = 512
) -> Summary:
    """Write the authors' checkpoint ``source`` as this project's checkpoint ``target``.

    Args:
        source: checkpoint in the authors' format.
        target: file to write; nothing is left of it when anything is wrong.
        data: folder of the dictionaries that the model was trained with.
        unit: what the model was trained on, ``document`` or ``sentence``.
        max_doc_tokens: most tokens of a document unit.

    Raises:
        GtransError: unreadable or foreign checkpoint, parts that this model does not have,
            dictionaries of another size, a ``target`` that cannot be written.
    """
    _check_target(source, target)
    checkpoint = read_checkpoint(source)
    args = checkpoint.get("args")
    if not isinstance(args, argparse.Namespace):
        raise GtransError(
            f"{source}: not a checkpoint of the authors' G-Transformer, it holds no options "
            "('args') of fairseq 0.9."
        )
    original = checkpoint["model"]
    ignored = [n for n, entry in original.items() if not _is_parameter(n, entry)]
    state = _own_names({n: entry for n, entry in original.items() if n not in ignored})
    _refuse_missing_parts(state, args, source)

    source_lang, target_lang, langs = _languages(args, source)
    task_cfg = DocumentTranslationConfig(
        data=os.path.abspath(data),
        source_lang=source_lang,
        target_lang=target_lang,
        unit=unit,
        max_doc_tokens=max_doc_tokens,
        langs=",".join(langs),
    )
    task_cfg._name = "document_translation"
    task = DocumentTranslationTask.setup_task(OmegaConf.structured(task_cfg))
    _check_vocabulary(state, task, langs, source)
    joint = task.source_dictionary == task.target_dictionary
    named_mode = "partial" if any("_attn_local." in name for name in original) else "full"
    model_cfg = _model_options(state, args, joint, named_mode, source)
    for name in ("unit", "max_doc_tokens", "sentence_marks", "langs"):
        setattr(model_cfg, name, getattr(task_cfg, name))
    model = task.build_model(OmegaConf.structured(model_cfg), from_checkpoint=True)
    _check_shapes(state, model.state_dict(), source)
    model.load_state_dict(state)
    criterion = LabelSmoothedCrossEntropyCriterionConfig(
        label_smoothing=float(getattr(args, "label_smoothing", 0.0))
    )
    criterion._name = "label_smoothed_cross_entropy"
    root = OmegaConf.structured(FairseqConfig)
    root.task, root.model, root.criterion = task_cfg, model_cfg, criterion
    _write(_as_trainer(root, model.state_dict()), target)
    return Summary(
        model_cfg,
        (len(task.source_dictionary), len(task.target_dictionary)),
        kept=[name for name in original if name in state],
        renamed=[name for name in original if name not in state and name not in ignored],
        ignored=ignored,
    )


def _check_target(source: Path, target: Path) -> None:
    if target.exists() and source.exists() and os.path.samefile(source, target):
        raise GtransError(f"{target}: input and output are the same file; name another output.")
    if not target.parent.is_dir():
        raise GtransError(f"{target}: there is no folder {target.parent}; make it first.")
    if target.is_dir():
        raise GtransError(f"{target}: this is a folder; name a file in it.")


def _is_parameter(name: str, entry: Any) -> bool:
    return isinstance(entry, Tensor) and bool(rename({name: entry}))


def _own_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a state dict under their names here.

    Older fairseq calls an output projection that is not shared ``embed_out``; where it is
    shared, it has no entry at all.
    """
    state = rename(state)
    if "decoder.embed_out" in state:
        state[_OUTPUT] = state.pop("decoder.embed_out")
    if _OUTPUT not in state and _DECODER_TABLE in state:
        state[_OUTPUT] = state[_DECODER_TABLE]
    return state


def _refuse_missing_parts(
    state: Mapping[str, Tensor], args: argparse.Namespace, path: Path
) -> None:
    parts = [
        label for pattern, label in _MISSING_PARTS if any(re.search(pattern, n) for n in state)
    ]
    parts += [label for name, label in _MISSING_OPTIONS.items() if getattr(args, name, False)]
    if getattr(args, "no_decoder_final_norm", False) and getattr(
        args, "decoder_normalize_before", False
    ):
        parts.append("pre-norm layers without a last layer norm (--no-decoder-final-norm)")
    activation = getattr(args, "activation_fn", "relu")
    if activation not in ACTIVATIONS:
        parts.append(f"the activation {activation} (there is {', '.join(ACTIVATIONS)})")
    if parts:
        raise GtransError(f"{path}: it has what this model does not have: {'; '.join(parts)}.")
    for name in (_ENCODER_TABLE, _DECODER_TABLE, *(f"{s}.layers.0.fc1.weight" for s in _SIDES)):
        if name not in state:
            raise GtransError(f"{path}: not a G-Transformer, it holds no {name}.")


def _languages(args: argparse.Namespace, path: Path) -> tuple[str, str, list[str]]:
    """Source and target language, and all languages that have a symbol."""
    given = getattr(args, "langs", None) or []
    langs = [str(lang) for lang in (given.split(",") if isinstance(given, str) else given)]
    source, target = (getattr(args, f"{side}_lang", None) for side in ("source", "target"))
    if not (source and target):
        if len(langs) != 2:
            raise GtransError(f"{path}: its options name no source and target language.")
        source, target = langs
    return source, target, langs or list(dict.fromkeys([source, target]))


def _check_vocabulary(
    state: Mapping[str, Tensor], task: DocumentTranslationTask, langs: list[str], path: Path
) -> None:
    sides = (
        (_ENCODER_TABLE, task.source_dictionary, task.cfg.source_lang),
        (_DECODER_TABLE, task.target_dictionary, task.cfg.target_lang),
        (_OUTPUT, task.target_dictionary, task.cfg.target_lang),
    )
    for name, dictionary, lang in sides:
        rows = state[name].size(0)
        if rows != len(dictionary):
            symbols = ", ".join([*(language_symbol(lang) for lang in langs), MASK])
            raise GtransError(
                f"{path}: {name} has {rows} symbols, but {task.cfg.data}/dict.{lang}.txt with "
                f"{symbols} has {len(dictionary)}; `--data` must hold the dictionaries that the "
                "model was trained with."
            )


def _model_options(
    state: Mapping[str, Tensor],
    args: argparse.Namespace,
    joint: bool,
    named_mode: str,
    path: Path,
) -> GTransformerConfig:
    """Options of the model that fits the checkpoint at ``path``.

    Args:
        state: its tensors, under their names here.
        args: its options.
        joint: both sides have one dictionary.
        named_mode: the doc_mode that its tensors had names of.
        path: for messages.
    """

    def option(name: str, default: Any) -> Any:
        value = getattr(args, name, None)
        return default if value is None else value

    layers = {side: _count_layers(state, side, path) for side in _SIDES}
    encoder_top, decoder_top, cross_top = (
        _count_global(state, side, attention, layers[side], path)
        for side, attention in (
            ("encoder", "self_attn"),
            ("decoder", "self_attn"),
            ("decoder", "encoder_attn"),
        )
    )
    preset = PRESETS.get(str(option("arch", "")), PRESETS["gtransformer"])
    tied = torch.equal(state[_OUTPUT], state[_DECODER_TABLE])
    shared = joint and tied and torch.equal(state[_ENCODER_TABLE], state[_DECODER_TABLE])
    activation_dropout = option("activation_dropout", 0.0) or option("relu_dropout", 0.0)
    doc_mode = "partial"
    if not (encoder_top or decoder_top or cross_top):
        # Without gates nothing tells whether attention is grouped, not even the tensors' names:
        # the last version of the authors' program says self_attn_local in both modes.
        doc_mode = "full" if option("doc_mode", named_mode) == "full" else "partial"
    cfg = GTransformerConfig(
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        encoder_embed_dim=state[_ENCODER_TABLE].size(1),
        encoder_ffn_embed_dim=state["encoder.layers.0.fc1.weight"].size(0),
        decoder_ffn_embed_dim=state["decoder.layers.0.fc1.weight"].size(0),
        encoder_attention_heads=option(
            "encoder_attention_heads", preset["encoder_attention_heads"]
        ),
        decoder_attention_heads=option(
            "decoder_attention_heads", preset["decoder_attention_heads"]
        ),
        dropout=float(option("dropout", 0.1)),
        attention_dropout=float(option("attention_dropout", 0.0)),
        activation_dropout=float(activation_dropout),
        activation_fn=option("activation_fn", "relu"),
        encoder_normalize_before="encoder.layer_norm.weight" in state,
        decoder_normalize_before="decoder.layer_norm.weight" in state,
        share_decoder_input_output_embed=tied and not shared,
        share_all_embeddings=shared,
        no_scale_embedding=bool(option("no_scale_embedding", False)),
        doc_mode=doc_mode,
        encoder_global_layers=encoder_top,
        decoder_global_layers=decoder_top,
        cross_global_layers=cross_top,
    )
    cfg._name = "gtransformer"
    return cfg


def _count_layers(state: Mapping[str, Tensor], side: str, path: Path) -> int:
    found = (re.match(rf"{side}\.layers\.(\d+)\.", name) for name in state)
    numbers = sorted({int(match[1]) for match in found if match})
    if numbers != list(range(len(numbers))):
        raise GtransError(f"{path}: layers of its {side} are missing, there are {numbers}.")
    return len(numbers)


def _count_global(
    state: Mapping[str, Tensor], side: str, attention: str, layers: int, path: Path
) -> int:
    """How many layers from the top have global attention beside group attention."""
    names = [f"{side}.layers.{number}.{attention}" for number in range(layers)]
    has_global = [f"{name}.gate.proj.weight" in state for name in names]
    count = sum(has_global)
    if not all(has_global[layers - count :]):
        numbers = [number for number, found in enumerate(has_global) if found]
        raise GtransError(
            f"{path}: {side} layers {numbers} have global {attention}, but this model can have "
            "it in the top layers only."
        )
    return count


def _check_shapes(state: Mapping[str, Tensor], own: Mapping[str, Tensor], path: Path) -> None:
    unknown, absent = ([n for n in a if n not in b] for a, b in ((state, own), (own, state)))
    for names, what in ((unknown, "this model has no place for"), (absent, "it lacks")):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise GtransError(f"{path}: {what} {', '.join(names[:3])}{more}.")
    for name, tensor in own.items():
        if state[name].shape != tensor.shape:
            raise GtransError(
                f"{path}: {name} is {tuple(state[name].shape)} there, but {tuple(tensor.shape)} "
                "in the model that the other tensors describe; this model needs the same width "
                "everywhere."
            )


def _as_trainer(root: Any, state: dict[str, Tensor]) -> dict[str, Any]:
    """The checkpoint that fairseq's trainer would write before the first update."""
    return {
        "args": None,
        "cfg": OmegaConf.to_container(root, resolve=True, enum_to_str=True),
        "model": state,
        "criterion": None,
        # fairseq reads the last entry of this history even when it is told to forget it.
        "optimizer_history": [
            {
                "criterion_name": "LabelSmoothedCrossEntropyCriterion",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "task_state": {},
        "extra_state": {
            "train_iterator": {
                "epoch": 1,
                "iterations_in_epoch": 0,
                "shuffle": True,
                "version": 2,
            },
            "previous_training_time": 0.0,
        },
    }


def _write(checkpoint: dict[str, Any], target: Path) -> None:
    part = target.with_name(f"{target.name}.tmp")
    try:
        with open(part, "wb") as file:
            torch.save(checkpoint, file)
        os.replace(part, target)
    except OSError as error:
        raise GtransError(f"{target}: cannot be written ({error.strerror}).") from error
    finally:
        part.unlink(missing_ok=True)
