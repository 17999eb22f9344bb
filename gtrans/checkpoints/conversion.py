"""Convert a checkpoint of another program into one of this project, or give one more positions.

The new model is created and loaded in the same way as by all commands, so a converted file can
certainly be read. Layers and sizes are read from the tensors; what tensors cannot show (heads,
activation, dropout) is read from the options in the checkpoint.
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

from gtrans.checkpoints.checkpoint import Checkpoint
from gtrans.checkpoints.hugging_face import read_hugging_face
from gtrans.checkpoints.identity import ModelIdentity
from gtrans.checkpoints.reading import reading
from gtrans.checkpoints.sources import (
    BIAS,
    DECODER_TABLE,
    ENCODER_TABLE,
    LACKING,
    OUTPUT,
    ForeignCheckpoint,
    read_fairseq,
    read_g_transformer,
)
from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.data.vocabulary import MASK, Vocabulary, language_symbol
from gtrans.errors import GtransError
from gtrans.files import check_output
from gtrans.languages import language_code
from gtrans.messages import say
from gtrans.models.base.checkpoint_fit import check_fit
from gtrans.models.gtransformer import PRESETS, GTransformerConfig
from gtrans.modules.embedding import OFFSET
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
_POSITIONS = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")
_NETWORKS = tuple(f"{side}.layers.0.fc1.weight" for side in SIDES)
# An encoder that is a BERT has a size of its own, and no vectors before the first position.
_BERT_OPTION = "bert_positions"

# Options with the same name and meaning in both, and what they are where a checkpoint is silent.
_SAME = {
    **{"activation_fn": "relu", "sinusoid": "fairseq"},
    **{"start_by_bos": False, "no_scale_embedding": False},
}
# Parts of fairseq's Transformer that this model does not have and no tensor shows, by option.
_MISSING = {
    "no_token_positional_embeddings": "no positions",
    "cross_self_attention": "joint cross- and self-attention",
    "no_cross_attention": "no cross-attention",
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
) -> list[str]:
    """Write the checkpoint ``path`` of another program as this project's checkpoint ``target``.

    Args:
        program: one of :data:`SOURCES`.
        path: file to read, or folder for programs that write one.
        target: file to write; after an error it does not exist.
        data: folder of the dictionaries that the model was trained with; None: the checkpoint has
            all that it needs, or lies beside it.
        source_lang, target_lang: languages to translate from and to; None: as in the checkpoint.
        positions: new number of learned positions.

    Returns:
        lines that say what was found.

    Raises:
        GtransError: the checkpoint is unreadable, of another program or has parts that gtrans
            does not have, the dictionaries have another size, or ``target`` cannot be written.
    """
    _check_target(path, target, data)
    foreign = SOURCES[program](path)
    state, card = foreign.state, foreign.card
    refuse_missing_parts(state, foreign.options, path)
    languages = source_lang or foreign.source_lang, target_lang or foreign.target_lang
    with ExitStack() as stack:
        folder = stack.enter_context(_own_data(foreign, *languages)) if data is None else str(data)
        root, task = _task(foreign, os.path.abspath(folder), *languages)
        if foreign.add_mask(len(task.source_dictionary), len(task.target_dictionary)):
            say(f"{path}: it has no {MASK}; its new row is the mean of all")
        _check_vocabulary(foreign, task)
        joint = task.source_dictionary == task.target_dictionary
        with reading(path, "what it says of its options"):
            model_cfg = model_options(state, foreign.options, joint, foreign.doc_mode, path)
        for name in (*UNIT_FIELDS, "source_lang", "target_lang"):
            setattr(model_cfg, name, getattr(root.task, name))
        if positions is not None:
            for name in extend_positions(state, positions, path):
                setattr(model_cfg, name, positions)
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
    kept = [name for name in foreign.original if name in state]
    renamed = len(foreign.original) - len(kept) - len(foreign.ignored)
    return [
        *(f"{what} {value}" for what, value in card.items()),
        f"{checkpoint.parameters:,} parameters",
        *_described(model_cfg, len(task.source_dictionary), len(task.target_dictionary)),
        f"tensors: {len(kept)} kept, {renamed} renamed, {len(foreign.ignored)} ignored",
        *(f"  ignored: {name}" for name in foreign.ignored),
    ]


def _task(
    foreign: ForeignCheckpoint, data: str, source: str | None, target: str | None
) -> tuple[Any, DocumentTranslationTask]:
    """All options of fairseq for a converted model, and its task; it infers missing languages."""
    root = OmegaConf.structured(FairseqConfig)
    root.task = DocumentTranslationConfig(
        data=data,
        source_lang=source,
        target_lang=target,
        unit=foreign.unit,
        sentence_marks=foreign.marks,
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


def _own_data(
    foreign: ForeignCheckpoint, source: str | None, target: str | None
) -> tempfile.TemporaryDirectory[str]:
    """A temporary data folder with what a published model reads text with.

    Raises:
        GtransError: its folder does not hold that, or names no or other languages.
    """
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
    return ModelIdentity((source, target), sides[0], sides[1], preparation, {}).data_folder()


def _described(model: GTransformerConfig, source: int, target: int) -> list[str]:
    """The model in words; ``source`` and ``target``: sizes of the vocabularies."""
    before = model.encoder_normalize_before, model.decoder_normalize_before
    norms = ["pre-norm" if is_pre else "post-norm" for is_pre in before]
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
    lines = [
        f"layers {model.encoder_layers} + {model.decoder_layers}, dim {model.encoder_embed_dim}, "
        f"feed-forward {model.encoder_ffn_embed_dim} + {model.decoder_ffn_embed_dim}, "
        f"heads {model.encoder_attention_heads} + {model.decoder_attention_heads}, "
        + " + ".join(dict.fromkeys(norms)),
        attention,
        f"vocabulary {source} + {target}, languages {model.langs}, {tables}",
    ]
    if model.learned_positions:
        norm = ", layer norm on embeddings" if model.layernorm_embedding else ""
        marks = f"special tokens {model.sentence_marks}"
        lines.append(f"{model.max_positions} learned positions{norm}, {marks}")
    return lines


def _check_vocabulary(foreign: ForeignCheckpoint, task: DocumentTranslationTask) -> None:
    """Refuse dictionaries that are not those of the checkpoint, as far as it says which."""
    path, state = foreign.path, foreign.state
    sides = (
        (ENCODER_TABLE, task.source_dictionary, task.cfg.source_lang),
        (DECODER_TABLE, task.target_dictionary, task.cfg.target_lang),
        (OUTPUT, task.target_dictionary, task.cfg.target_lang),
    )
    for name, dictionary, lang in sides:
        rows = state[name].size(0)
        if rows != len(dictionary):
            symbols = ", ".join([*map(language_symbol, foreign.langs), MASK])
            raise GtransError(
                f"{path}: {name} has {rows} rows, but {task.cfg.data}/dict.{lang}.txt with "
                f"{symbols} has {len(dictionary)}; `--data` must hold the dictionaries that the "
                "model was trained with."
            )
    differences = [] if foreign.identity is None else foreign.identity.differences(task.identity)
    if differences:
        raise GtransError(
            f"{path}: it was not made with '{task.cfg.data}', it has other "
            f"{'; '.join(differences)}; `--data` must be a folder prepared with the model's own "
            "subwords."
        )


def _check_target(source: Path, target: Path, data: Path | None = None) -> None:
    """Raises GtransError for a checkpoint that cannot be written, or is a file that is read."""
    inputs = list(source.iterdir()) if source.is_dir() else [source]
    inputs += prepared_files(data) if data is not None else []
    check_output("OUT.pt", target, inputs)


def _as_of_fairseq(
    root: Any, state: dict[str, Tensor], task_state: dict[str, Any]
) -> dict[str, Any]:
    """The checkpoint as fairseq's trainer writes it at update 0.

    Args:
        root: all options.
        state: parameters.
        task_state: what the checkpoint carries of its task.
    """
    # fairseq reads the last entry of this history even with --reset-optimizer.
    begin = {
        **{"criterion_name": "LabelSmoothedCrossEntropyCriterion", "optimizer_name": "FairseqAdam"},
        **{"lr_scheduler_state": {}, "num_updates": 0},
    }
    iterator = {"epoch": 1, "iterations_in_epoch": 0, "shuffle": True, "version": 2}
    return {
        "args": None,
        "cfg": OmegaConf.to_container(root, resolve=True, enum_to_str=True),
        "model": state,
        "criterion": None,
        "optimizer_history": [begin],
        "task_state": task_state,
        "extra_state": {"train_iterator": iterator, "previous_training_time": 0.0},
    }


# ---- the model that fits ------------------------------------------------------------------------


def refuse_missing_parts(
    state: Mapping[str, Tensor], options: Mapping[str, Any], path: Path
) -> None:
    """Raises GtransError for parts that this model does not have."""
    parts = [label for name, label in _MISSING.items() if options.get(name)]
    activation = options.get("activation_fn") or "relu"
    if activation not in ACTIVATIONS:
        parts.append(f"the activation {activation} (there is {', '.join(ACTIVATIONS)})")
    if parts:
        raise GtransError(f"{path}: it has parts that gtrans does not have: {'; '.join(parts)}.")
    for name in _NETWORKS:
        if name not in state:
            raise GtransError(f"{path}: {LACKING} {name}.")


def model_options(
    state: Mapping[str, Tensor],
    options: Mapping[str, Any],
    joint: bool,
    named_mode: str,
    path: Path,
) -> GTransformerConfig:
    """Options of the model that fits the checkpoint at ``path``.

    Args:
        state: its tensors, under their names in this project.
        options: its options.
        joint: both sides share one dictionary.
        named_mode: the doc_mode to which the names of its tensors point.
        path: the checkpoint, for messages.
    """

    options = {name: value for name, value in options.items() if value is not None}
    preset = PRESETS.get(str(options.get("arch")), PRESETS["gtransformer"])
    tops: dict[str, Any] = {
        "encoder_global_layers": _count_global(state, "encoder", "self_attn", path),
        "decoder_global_layers": _count_global(state, "decoder", "self_attn", path),
        "cross_global_layers": _count_global(state, "decoder", "encoder_attn", path),
    }
    tied = torch.equal(state[OUTPUT], state[DECODER_TABLE])
    shared = joint and tied and torch.equal(state[ENCODER_TABLE], state[DECODER_TABLE])
    no_final_norm = bool(
        options.get("decoder_normalize_before") and options.get("no_decoder_final_norm")
    )
    # Without gates, only the options say whether attention is grouped. The names of tensors
    # do not: the last version of the authors' program has self_attn_local in both modes.
    is_full = not any(tops.values()) and options.get("doc_mode", named_mode) == "full"
    positions = state.get(_POSITIONS[0])
    heads = [f"{side}_attention_heads" for side in SIDES]
    others = {name: options.get(name, preset[name]) for name in heads}
    others |= {name: options.get(name, default) for name, default in _SAME.items()}
    return GTransformerConfig(
        _name="gtransformer",
        encoder_layers=_count_layers(state, "encoder", path),
        decoder_layers=_count_layers(state, "decoder", path),
        encoder_embed_dim=state[ENCODER_TABLE].size(1),
        encoder_ffn_embed_dim=state[_NETWORKS[0]].size(0),
        decoder_ffn_embed_dim=state[_NETWORKS[1]].size(0),
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


def _count_layers(state: Mapping[str, Tensor], side: str, path: Path) -> int:
    matches = (re.match(rf"{side}\.layers\.(\d+)\.", name) for name in state)
    numbers = sorted({int(match[1]) for match in matches if match})
    if numbers != list(range(len(numbers))):
        raise GtransError(f"{path}: layers of its {side} are missing, there are {numbers}.")
    return len(numbers)


def _count_global(state: Mapping[str, Tensor], side: str, attention: str, path: Path) -> int:
    """Number of top layers that have global attention in addition to group attention."""
    gate, layers = f"{attention}.gate.proj.weight", _count_layers(state, side, path)
    numbers = [n for n in range(layers) if f"{side}.layers.{n}.{gate}" in state]
    if numbers != list(range(layers))[layers - len(numbers) :]:
        raise GtransError(
            f"{path}: {side} layers {numbers} have global {attention}, but this model can have "
            "it in the top layers only."
        )
    return len(numbers)


# ---- more positions -----------------------------------------------------------------------------


def extend_positions(
    state: dict[str, Tensor], positions: int, path: Path, is_bert: bool = False
) -> dict[str, int]:
    """Extend the position tables in ``state`` to ``positions`` positions, in place.

    A new position starts as a copy of the one that is a table's size before it, as in Longformer
    (Beltagy et al. 2020). So what the model has learnt about neighbouring positions still holds,
    except at the seams, and nothing changes for texts of up to the old size.

    Args:
        state: parameters by name.
        positions: new number of positions of every table that has fewer.
        path: the file, for messages.
        is_bert: the encoder is a BERT.

    Returns:
        the options of the model that are ``positions`` now, each with its value before.

    Raises:
        GtransError: the model has no learned positions, or has enough of them.
    """
    sizes: dict[str, int] = {}
    for name in _POSITIONS:
        if name not in state:
            continue
        option, offset = "max_positions", OFFSET
        if is_bert and name.startswith("encoder."):
            option, offset = _BERT_OPTION, 0
        table = state[name]
        sizes[option] = size = table.size(0) - offset
        if positions > size:
            copies = torch.arange(size, positions) % size + offset
            state[name] = torch.cat([table, table[copies]])
    if not sizes:
        raise GtransError(
            f"{path}: its positions are not learned and have no limit; leave out "
            "`--extend-positions`."
        )
    before = {option: size for option, size in sizes.items() if positions > size}
    if not before:
        raise GtransError(
            f"`--extend-positions` must be more than the model's {min(sizes.values())} positions, "
            f"but is {positions}."
        )
    return before


def extend_own(path: Path, target: Path, positions: int) -> str:
    """Write this project's checkpoint ``path`` with more positions as ``target``.

    The optimizer state does not fit the new tables and is dropped: training can start from the
    new file (``--init-from``, ``--finetune-from-model``) but not resume from it. A model whose
    encoder is a BERT is for translating only: a training has the positions of its BERT.

    Returns:
        a line that says what was done.

    Raises:
        GtransError: the checkpoint is unreadable, or as in :func:`extend_positions`.
    """
    _check_target(path, target)
    checkpoint = Checkpoint.read(path)
    checkpoint.check_fit()
    model = (checkpoint.state.get("cfg") or {}).get("model")
    if not isinstance(model, dict) or not str(model.get("_name")).startswith("gtransformer"):
        raise GtransError(f"{path}: not a checkpoint of this project's G-Transformer.")
    is_bert = model.get(_BERT_OPTION) is not None
    before = extend_positions(checkpoint.tensors, positions, path, is_bert)
    model.update(dict.fromkeys(before, positions))
    checkpoint.forget_training()
    checkpoint.write(target)
    return f"{positions} learned positions, {min(before.values())} before"
