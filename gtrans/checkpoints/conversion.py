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
from gtrans.checkpoints.reading import reading, write_checkpoint
from gtrans.checkpoints.sources import (
    BIAS,
    DECODER_TABLE,
    ENCODER_TABLE,
    OUTPUT,
    ForeignCheckpoint,
    read_fairseq,
    read_g_transformer,
)
from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.data.vocabulary import MASK, Vocabulary, language_symbol, split_languages
from gtrans.errors import GtransError
from gtrans.files import check_output
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
_OF_BERT = "bert_positions"

# Parts of fairseq's Transformer that this model does not have, by the names of their tensors.
_MISSING_PARTS = (
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


def convert(
    program: str,
    path: Path,
    target: Path,
    data: Path | None = None,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    langs: str | None = None,
    marks: str | None = None,
    unit: str | None = None,
    max_doc_tokens: int = 512,
    positions: int | None = None,
) -> list[str]:
    """Write the checkpoint ``path`` of another program as this project's checkpoint ``target``.

    Of what a checkpoint does not contain, None means: as in the checkpoint or usual for its kind.

    Args:
        program: one of :data:`SOURCES`.
        path: file to read, or folder for programs that write one.
        target: file to write; after an error it does not exist.
        data: folder of the dictionaries that the model was trained with; None: the checkpoint has
            all that it needs, or lies beside it.
        source_lang, target_lang: languages to translate from and to.
        langs: all languages that have a symbol, in the order of the symbols: ``en_XX,de_DE``.
        marks: the marks around sentences.
        unit: the unit that the model was trained on.
        max_doc_tokens: longest document unit in tokens.
        positions: new number of learned positions.

    Returns:
        lines that say what was found.

    Raises:
        GtransError: the checkpoint is unreadable, of another program or has parts that gtrans
            does not have, the dictionaries have another size, or ``target`` cannot be written.
    """
    _check_target(path, target, data)
    foreign = SOURCES[program](path)
    state = foreign.state
    refuse_missing_parts(state, foreign.options, path)
    names = split_languages(langs) or foreign.langs
    languages = source_lang or foreign.source_lang, target_lang or foreign.target_lang
    own = None
    if data is None:
        own = _own_data(foreign, *languages)
        data = Path(own.name)
    task_cfg = DocumentTranslationConfig(
        data=os.path.abspath(data),
        source_lang=languages[0],
        target_lang=languages[1],
        unit=unit or foreign.unit,
        max_doc_tokens=max_doc_tokens,
        sentence_marks=marks or foreign.marks,
        langs=",".join(names) or None,
    )
    task_cfg._name = "document_translation"
    root = OmegaConf.structured(FairseqConfig)
    root.task = task_cfg
    root.common_eval.path = str(path)  # a model is read, not trained
    # setup_task infers missing languages, and reads other groups of the options.
    task = DocumentTranslationTask.setup_task(root.task)
    root.common_eval.path = None
    if foreign.add_mask(len(task.target_dictionary)):
        say(f"{path}: it has no {MASK}; its new row is the mean of all")
    _check_vocabulary(foreign, task, names)
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
    criterion = LabelSmoothedCrossEntropyCriterionConfig(
        label_smoothing=float(foreign.options.get("label_smoothing") or 0.0)
    )
    criterion._name = "label_smoothed_cross_entropy"
    root.model, root.criterion = model_cfg, criterion
    task.published = foreign.card
    written = _as_fairseq_checkpoint(root, model.state_dict(), task.state_dict())
    if own is not None:
        written["cfg"]["task"]["data"] = ""
        own.cleanup()
    write_checkpoint(written, target)
    kept = [name for name in foreign.original if name in state]
    renamed = len(foreign.original) - len(kept) - len(foreign.ignored)
    symbols = len(task.source_dictionary), len(task.target_dictionary)
    parameters = sum({x.data_ptr(): x.numel() for x in written["model"].values()}.values())
    return [
        *(f"{what} {value}" for what, value in foreign.card.items()),
        f"{parameters:,} parameters",
        *_described(model_cfg, symbols),
        f"tensors: {len(kept)} kept, {renamed} renamed, {len(foreign.ignored)} ignored",
        *(f"  ignored: {name}" for name in foreign.ignored),
    ]


def _own_data(
    foreign: ForeignCheckpoint, source: str | None, target: str | None
) -> tempfile.TemporaryDirectory[str]:
    """A temporary data folder with what a published model reads text with.

    Raises:
        GtransError: its folder does not hold that, or nothing names its languages.
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
            f"to ({', '.join(foreign.langs) or foreign.path} does not say)."
        )
    special = Dictionary().symbols
    sides = [Vocabulary((*special, *words)) for words in tokens.words]
    state = {"source_lang": source, "target_lang": target, **_PLAIN_TEXT, **tokens.state}
    preparation = Preparation(state, tokens.files)
    return ModelIdentity((source, target), sides[0], sides[1], preparation, {}).data_folder()


def _described(model: GTransformerConfig, symbols: tuple[int, int]) -> list[str]:
    """The model in words; ``symbols`` of the source and the target vocabulary."""
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
    learned = []
    if model.learned_positions:
        norm = ", layer norm on embeddings" if model.layernorm_embedding else ""
        marks = f"sentence marks {model.sentence_marks}"
        learned = [f"{model.max_positions} learned positions{norm}, {marks}"]
    return [
        f"layers {model.encoder_layers} + {model.decoder_layers}, "
        f"dim {model.encoder_embed_dim}, "
        f"feed-forward {model.encoder_ffn_embed_dim} + {model.decoder_ffn_embed_dim}, "
        f"heads {model.encoder_attention_heads} + {model.decoder_attention_heads}, "
        + (norms[0] if norms[0] == norms[1] else " + ".join(norms)),
        attention,
        f"symbols {symbols[0]} + {symbols[1]}, languages {model.langs}, {tables}",
        *learned,
    ]


def _check_vocabulary(
    foreign: ForeignCheckpoint, task: DocumentTranslationTask, langs: list[str]
) -> None:
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
            symbols = ", ".join([*(language_symbol(lang) for lang in langs), MASK])
            raise GtransError(
                f"{path}: {name} has {rows} symbols, but {task.cfg.data}/dict.{lang}.txt with "
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
    """Refuse a checkpoint to write that cannot be written, or is a file that is read.

    Args:
        source: checkpoint, or folder of one.
        target: the file to write.
        data: folder of the dictionaries.

    Raises:
        GtransError: see :func:`gtrans.files.check_output`.
    """
    inputs = list(source.iterdir()) if source.is_dir() else [source]
    inputs += prepared_files(data) if data is not None else []
    check_output("OUT.pt", target, inputs)


def _as_fairseq_checkpoint(
    root: Any, state: dict[str, Tensor], task_state: dict[str, Any]
) -> dict[str, Any]:
    """The checkpoint as fairseq's trainer writes it at update 0.

    Args:
        root: all options.
        state: parameters.
        task_state: what the checkpoint carries of its task.
    """
    return {
        "args": None,
        "cfg": OmegaConf.to_container(root, resolve=True, enum_to_str=True),
        "model": state,
        "criterion": None,
        # fairseq reads the last entry of this history even with --reset-optimizer.
        "optimizer_history": [
            {
                "criterion_name": "LabelSmoothedCrossEntropyCriterion",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "task_state": task_state,
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


# ---- the model that fits ------------------------------------------------------------------------


def refuse_missing_parts(
    state: Mapping[str, Tensor], options: Mapping[str, Any], path: Path
) -> None:
    """Raises GtransError for parts that this model does not have."""
    parts = [
        label for pattern, label in _MISSING_PARTS if any(re.search(pattern, n) for n in state)
    ]
    parts += [label for name, label in _MISSING_OPTIONS.items() if options.get(name)]
    activation = options.get("activation_fn") or "relu"
    if activation not in ACTIVATIONS:
        parts.append(f"the activation {activation} (there is {', '.join(ACTIVATIONS)})")
    if parts:
        raise GtransError(f"{path}: it has parts that gtrans does not have: {'; '.join(parts)}.")
    for name in (ENCODER_TABLE, DECODER_TABLE, *_NETWORKS):
        if name not in state:
            raise GtransError(f"{path}: not a G-Transformer, it holds no {name}.")


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

    def option(name: str, default: Any) -> Any:
        value = options.get(name)
        return default if value is None else value

    layers = {side: _count_layers(state, side, path) for side in SIDES}
    encoder_top, decoder_top, cross_top = (
        _count_global(state, side, attention, layers[side], path)
        for side, attention in (
            ("encoder", "self_attn"),
            ("decoder", "self_attn"),
            ("decoder", "encoder_attn"),
        )
    )
    preset = PRESETS.get(str(option("arch", "")), PRESETS["gtransformer"])
    tied = torch.equal(state[OUTPUT], state[DECODER_TABLE])
    shared = joint and tied and torch.equal(state[ENCODER_TABLE], state[DECODER_TABLE])
    activation_dropout = option("activation_dropout", 0.0) or option("relu_dropout", 0.0)
    no_final_norm = bool(
        option("decoder_normalize_before", False) and option("no_decoder_final_norm", False)
    )
    doc_mode = "partial"
    if not (encoder_top or decoder_top or cross_top):
        # Without gates, only the options say whether attention is grouped. The names of tensors
        # do not: the last version of the authors' program has self_attn_local in both modes.
        doc_mode = "full" if option("doc_mode", named_mode) == "full" else "partial"
    cfg = GTransformerConfig(
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        encoder_embed_dim=state[ENCODER_TABLE].size(1),
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
        decoder_normalize_before="decoder.layer_norm.weight" in state or no_final_norm,
        no_decoder_final_norm=no_final_norm,
        layernorm_embedding="encoder.layernorm_embedding.weight" in state,
        sinusoid=option("sinusoid", "fairseq"),
        output_bias=BIAS in state,
        start_by_bos=bool(option("start_by_bos", False)),
        learned_positions=_POSITIONS[0] in state,
        max_positions=state[_POSITIONS[0]].size(0) - OFFSET if _POSITIONS[0] in state else None,
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
    """Number of top layers that have global attention in addition to group attention."""
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


# ---- more positions -----------------------------------------------------------------------------


def extend_positions(
    state: dict[str, Tensor], wanted: int, path: Path, is_bert: bool = False
) -> dict[str, int]:
    """Extend the position tables in ``state`` to ``wanted`` positions, in place.

    A new position starts as a copy of the one that is a table's size before it, as in Longformer
    (Beltagy et al. 2020). So what the model has learnt about neighbouring positions still holds,
    except at the seams, and nothing changes for texts of up to the old size.

    Args:
        state: parameters by name.
        wanted: positions of every table that has fewer.
        path: the file, for messages.
        is_bert: the encoder is a BERT.

    Returns:
        the options of the model that are ``wanted`` now, each with its value before.

    Raises:
        GtransError: the model has no learned positions, or has enough of them.
    """
    sizes: dict[str, int] = {}
    for name in _POSITIONS:
        if name not in state:
            continue
        option, offset = "max_positions", OFFSET
        if is_bert and name.startswith("encoder."):
            option, offset = _OF_BERT, 0
        table = state[name]
        sizes[option] = size = table.size(0) - offset
        if wanted > size:
            copies = torch.arange(size, wanted) % size + offset
            state[name] = torch.cat([table, table[copies]])
    if not sizes:
        raise GtransError(
            f"{path}: its positions are not learned and have no limit; leave out "
            "`--extend-positions`."
        )
    before = {option: size for option, size in sizes.items() if wanted > size}
    if not before:
        raise GtransError(
            f"`--extend-positions` must be more than the model's {min(sizes.values())} positions, "
            f"but is {wanted}."
        )
    return before


def extend_own(path: Path, target: Path, wanted: int) -> str:
    """Write this project's checkpoint ``path`` with ``wanted`` positions as ``target``.

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
    before = extend_positions(checkpoint.tensors, wanted, path, model.get(_OF_BERT) is not None)
    model.update(dict.fromkeys(before, wanted))
    checkpoint.forget_training()
    checkpoint.write(target)
    return f"{wanted} learned positions, {min(before.values())} before"
