"""Convert a checkpoint of another program into one of this project.

Layers and sizes are read from the tensors; heads, activation and dropout from the options.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf
from torch import Tensor

from gtrans.checkpoints.fingerprint import ModelFingerprint
from gtrans.checkpoints.sources import (
    BIAS,
    DECODER_TABLE,
    ENCODER_TABLE,
    OUTPUT,
    ForeignCheckpoint,
    read_fairseq,
    read_g_transformer,
)
from gtrans.conversion.checkpoint import Checkpoint
from gtrans.conversion.hugging_face import read_hugging_face
from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.data.vocabulary import MASK, Vocabulary, language_token
from gtrans.errors import GtransError
from gtrans.files import check_output, check_replaceable
from gtrans.languages import language_code
from gtrans.messages import print_message
from gtrans.models.base.checkpoint_fit import check_fit
from gtrans.models.gtransformer import PRESETS, GTransformerConfig
from gtrans.modules.embedding import OFFSET
from gtrans.modules.file_values import reading
from gtrans.modules.transformer import ACTIVATIONS
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig
from gtrans.text.moses import NO_STEPS
from gtrans.text.prepared_folder import Preparation, prepared_files

SOURCES: dict[str, Callable[[Path], ForeignCheckpoint]] = {
    "g-transformer": read_g_transformer,
    "fairseq": read_fairseq,
    "huggingface": read_hugging_face,
}
"""The programs whose checkpoints can be read, as ``gtrans convert --from`` names them."""
# Entries of ``prepare.json`` where a model of subwords takes plain text.
_PLAIN_TEXT = {"steps": NO_STEPS.record(), "bpe": {"merges": None}, "bert": None}
SIDES = ("encoder", "decoder")
_POSITIONS = tuple(f"{side}.embed_positions.weight" for side in SIDES)

# Options with the same name and meaning in both, with the value for a checkpoint without them.
_SAME = {
    "activation_fn": "relu",
    "sinusoid": "fairseq",
    "start_by_bos": False,
    "no_scale_embedding": False,
}
# Parts of fairseq's Transformer that this model does not have and no tensor shows, by option.
_MISSING = {
    "no_token_positional_embeddings": "no positions",
    "cross_self_attention": "joint cross- and self-attention",
}


def convert(
    program: str,
    path: Path,
    target: Path,
    data: Path | None = None,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    positions: int | None = None,
    force: bool = False,
) -> list[str]:
    """Write the checkpoint ``path`` of another program as ``target``; return the lines of a report.

    Args:
        program: one of :data:`SOURCES`.
        path: the model's file, or its folder for ``huggingface``.
        data: folder with the dictionaries; None: they are in the checkpoint or beside it.
        source_lang, target_lang: None: as in the checkpoint.
        positions: new number of learned positions.
        force: replace ``target`` even if it is no converted checkpoint.
    """
    inputs = list(path.iterdir()) if path.is_dir() else [path]
    if data is not None:
        inputs += prepared_files(data)
    check_output("OUT.pt", target, inputs)
    check_replaceable("OUT.pt", target, is_converted, force)
    foreign = SOURCES[program](path)
    state, card = foreign.state, foreign.card
    _refuse_missing_parts(foreign.options, path)
    languages = source_lang or foreign.source_lang, target_lang or foreign.target_lang
    with ExitStack() as stack:
        folder = str(data)
        if data is None:
            folder = stack.enter_context(_temporary_data_folder(foreign, *languages))
        root, task = _task(foreign, os.path.abspath(folder), *languages)
        if foreign.add_mask(len(task.source_dictionary), len(task.target_dictionary)):
            print_message(f"{path}: it has no {MASK}; its new row is the mean of all")
        _check_vocabulary(foreign, task)
        joint = task.source_dictionary == task.target_dictionary
        with reading(path, "the record of its options"):
            model_cfg = _model_options(state, foreign.options, joint, foreign.doc_mode)
        for name in (*UNIT_FIELDS, "source_lang", "target_lang"):
            setattr(model_cfg, name, getattr(root.task, name))
        if positions is not None:
            _extend_positions(state, positions, path)
            model_cfg.max_positions = positions
        check_fit({"cfg": {"model": asdict(model_cfg)}, "model": state}, path)
        model = task.build_model(OmegaConf.structured(model_cfg), from_checkpoint=True)
        model.load_state_dict(state)
        root.model = model_cfg
        task.published = card
        written = _as_of_fairseq(root, model.state_dict(), task.state_dict())
    if data is None:
        written["cfg"]["task"]["data"] = ""
    checkpoint = Checkpoint(target, written)
    checkpoint.write(target)
    kept = sum(name in state for name in foreign.original)
    renamed = len(foreign.original) - kept - len(foreign.ignored)
    report = [f"{name} {value}" for name, value in card.items()]
    report.append(f"{checkpoint.parameters:,} parameters")
    report += _description(model_cfg, len(task.source_dictionary), len(task.target_dictionary))
    report.append(f"tensors: {kept} kept, {renamed} renamed, {len(foreign.ignored)} ignored")
    report += [f"  ignored: {name}" for name in foreign.ignored]
    return report


def is_converted(path: Path) -> bool:
    """Return whether ``gtrans convert`` wrote a file, not yet trained."""
    checkpoint = Checkpoint.read(path, in_memory=False)
    return "task_state" in checkpoint.state and checkpoint.updates == 0


def _task(
    foreign: ForeignCheckpoint, data: str, source: str | None, target: str | None
) -> tuple[Any, DocumentTranslationTask]:
    root = OmegaConf.structured(FairseqConfig)
    root.task = DocumentTranslationConfig(
        data=data,
        source_lang=source,
        target_lang=target,
        unit=foreign.unit,
        sentence_marks=foreign.special_tokens,
        langs=",".join(foreign.langs) or None,
    )
    root.task._name = "document_translation"
    root.criterion = LabelSmoothedCrossEntropyCriterionConfig(
        label_smoothing=float(foreign.options.get("label_smoothing") or 0.0)
    )
    root.criterion._name = "label_smoothed_cross_entropy"
    # setup_task reads other groups of the options: a model is read, not trained.
    root.common_eval.path = str(foreign.path)
    task = DocumentTranslationTask.setup_task(root.task)
    root.common_eval.path = None
    return root, task


def _temporary_data_folder(
    foreign: ForeignCheckpoint, source: str | None, target: str | None
) -> tempfile.TemporaryDirectory[str]:
    tokens = foreign.tokens
    if tokens is None:
        raise GtransError(
            f"{foreign.path}: the files of its subwords are not beside it; give `--data`, a folder "
            "prepared with them."
        )
    if not (source and target):
        raise GtransError(
            "`--source-lang` and `--target-lang` are missing: the languages to translate from and "
            f"to; {foreign.path} has {', '.join(foreign.langs) or 'no name of its own for them'}."
        )
    for own, given in ((foreign.source_lang, source), (foreign.target_lang, target)):
        code = language_code(own or given)
        if code not in (None, language_code(given)):
            raise GtransError(f"{foreign.path}: its language is '{own}', not '{given}'.")
    special = Dictionary().symbols
    sides = [Vocabulary((*special, *words)) for words in tokens.words]
    state = {"source_lang": source, "target_lang": target, **_PLAIN_TEXT, **tokens.state}
    preparation = Preparation(state, tokens.files)
    return ModelFingerprint((source, target), sides[0], sides[1], preparation, {}).data_folder()


def _description(model: GTransformerConfig, source: int, target: int) -> list[str]:
    norms = []
    for is_pre in (model.encoder_normalize_before, model.decoder_normalize_before):
        norm = "pre-norm" if is_pre else "post-norm"
        if norm not in norms:
            norms.append(norm)
    attention = "plain attention over the whole unit"
    if model.doc_mode == "partial":
        attention = (
            "group attention; global attention in the top "
            f"{model.encoder_global_layers} encoder, {model.decoder_global_layers} decoder "
            f"and {model.cross_global_layers} cross-attention layers"
        )
    return [
        f"layers {model.encoder_layers} + {model.decoder_layers}, dim {model.encoder_embed_dim}, "
        f"feed-forward {model.encoder_ffn_embed_dim} + {model.decoder_ffn_embed_dim}, "
        f"heads {model.encoder_attention_heads} + {model.decoder_attention_heads}, "
        + " + ".join(norms),
        attention,
        f"vocabulary {source} + {target}, languages {model.langs}, special tokens "
        f"{model.sentence_marks}",
    ]


def _check_vocabulary(foreign: ForeignCheckpoint, task: DocumentTranslationTask) -> None:
    path, state = foreign.path, foreign.state
    sides = (
        (ENCODER_TABLE, task.source_dictionary, task.cfg.source_lang),
        (DECODER_TABLE, task.target_dictionary, task.cfg.target_lang),
        (OUTPUT, task.target_dictionary, task.cfg.target_lang),
    )
    for name, dictionary, lang in sides:
        rows = state[name].size(0)
        if rows != len(dictionary):
            added = ", ".join([*map(language_token, foreign.langs), MASK])
            raise GtransError(
                f"{path}: {name} has {rows} rows, but {task.cfg.data}/dict.{lang}.txt with "
                f"{added} has {len(dictionary)}; `--data` must hold the dictionaries that the "
                "model was trained with."
            )
    differences: list[str] = []
    if foreign.fingerprint is not None:
        differences = foreign.fingerprint.differences(task.fingerprint)
    if differences:
        raise GtransError(
            f"{path}: it was not made with '{task.cfg.data}', it has other "
            f"{'; '.join(differences)}; `--data` must be a folder prepared with the model's own "
            "subwords."
        )


def _as_of_fairseq(
    root: Any, state: dict[str, Tensor], task_state: dict[str, Any]
) -> dict[str, Any]:
    """Return the checkpoint as fairseq's trainer writes it at update 0."""
    # fairseq reads the last entry of this history even with --reset-optimizer.
    start = {
        "criterion_name": "LabelSmoothedCrossEntropyCriterion",
        "optimizer_name": "FairseqAdam",
        "lr_scheduler_state": {},
        "num_updates": 0,
    }
    iterator = {"epoch": 1, "iterations_in_epoch": 0, "shuffle": True, "version": 2}
    return {
        "args": None,
        "cfg": OmegaConf.to_container(root, resolve=True, enum_to_str=True),
        "model": state,
        "criterion": None,
        "optimizer_history": [start],
        "task_state": task_state,
        "extra_state": {"train_iterator": iterator, "previous_training_time": 0.0},
    }


# ---- the model that fits ------------------------------------------------------------------------


def _refuse_missing_parts(options: Mapping[str, Any], path: Path) -> None:
    parts = [label for name, label in _MISSING.items() if options.get(name)]
    activation = options.get("activation_fn") or "relu"
    if activation not in ACTIVATIONS:
        parts.append(f"the activation {activation} (there is {', '.join(ACTIVATIONS)})")
    if parts:
        raise GtransError(f"{path}: it has parts that gtrans does not have: {'; '.join(parts)}.")


def _model_options(
    state: Mapping[str, Tensor],
    options: Mapping[str, Any],
    joint: bool,
    named_mode: str,
) -> GTransformerConfig:
    """Return options of the model that fits a checkpoint.

    ``joint``: the sides share a dictionary; ``named_mode``: doc_mode by names of tensors.
    """
    options = {name: value for name, value in options.items() if value is not None}
    preset = PRESETS.get(str(options.get("arch")), PRESETS["gtransformer"])
    tops: dict[str, Any] = {
        "encoder_global_layers": _count(state, "encoder", "self_attn.gate.proj"),
        "decoder_global_layers": _count(state, "decoder", "self_attn.gate.proj"),
        "cross_global_layers": _count(state, "decoder", "encoder_attn.gate.proj"),
    }
    tied = torch.equal(state[OUTPUT], state[DECODER_TABLE])
    shared = joint and tied and torch.equal(state[ENCODER_TABLE], state[DECODER_TABLE])
    no_final_norm = bool(
        options.get("decoder_normalize_before") and options.get("no_decoder_final_norm")
    )
    # Without gates, only the options say whether attention is grouped. The names of tensors
    # do not: the last version of the authors' code has self_attn_local in both modes.
    is_full = not any(tops.values()) and options.get("doc_mode", named_mode) == "full"
    positions = state.get(_POSITIONS[0])
    others = {}
    for side in SIDES:
        heads = f"{side}_attention_heads"
        others[heads] = options.get(heads, preset[heads])
    for name, default in _SAME.items():
        others[name] = options.get(name, default)
    return GTransformerConfig(
        _name="gtransformer",
        encoder_layers=_count(state, "encoder", "fc1"),
        decoder_layers=_count(state, "decoder", "fc1"),
        encoder_embed_dim=state[ENCODER_TABLE].size(1),
        encoder_ffn_embed_dim=state["encoder.layers.0.fc1.weight"].size(0),
        decoder_ffn_embed_dim=state["decoder.layers.0.fc1.weight"].size(0),
        dropout=float(options.get("dropout", 0.1)),
        attention_dropout=float(options.get("attention_dropout", 0.0)),
        activation_dropout=float(
            options.get("activation_dropout") or options.get("relu_dropout") or 0.0
        ),
        encoder_normalize_before="encoder.layer_norm.weight" in state,
        decoder_normalize_before="decoder.layer_norm.weight" in state or no_final_norm,
        no_decoder_final_norm=no_final_norm,
        layernorm_embedding="encoder.layernorm_embedding.weight" in state,
        output_bias=BIAS in state,
        learned_positions=positions is not None,
        max_positions=None if positions is None else positions.size(0) - OFFSET,
        share_decoder_input_output_embed=tied and not shared,
        share_all_embeddings=shared,
        doc_mode="full" if is_full else "partial",
        **tops,
        **others,
    )


def _count(state: Mapping[str, Tensor], side: str, part: str) -> int:
    pattern = re.compile(rf"{side}\.layers\.\d+\.{re.escape(part)}\.weight")
    return sum(pattern.fullmatch(name) is not None for name in state)


# ---- more positions -----------------------------------------------------------------------------


def _extend_positions(state: dict[str, Tensor], positions: int, path: Path) -> None:
    """Extend the position tables to ``positions`` positions, in place.

    New positions are copies of the table, as in Longformer (Beltagy et al. 2020): neighbouring
    positions stay as learnt except at the seams, and short texts do not change.
    """
    tables = [name for name in _POSITIONS if name in state]
    if not tables:
        raise GtransError(
            f"{path}: its positions are not learned and have no limit; leave out "
            "`--extend-positions`."
        )
    size = state[tables[0]].size(0) - OFFSET
    if positions <= size:
        raise GtransError(
            f"`--extend-positions` must be more than the model's {size} positions, but is "
            f"{positions}."
        )
    copies = torch.arange(size, positions) % size + OFFSET
    for name in tables:
        state[name] = torch.cat([state[name], state[name][copies]])
