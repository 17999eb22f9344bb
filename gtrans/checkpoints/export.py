"""A model of this project as fairseq's own Transformer, which fast engines read.

Sentence models and document Transformers (``--doc-mode full``) compute what fairseq's
``transformer`` computes, but begin and end their texts with other symbols. So that a program which
only knows ``</s>`` gives the same translations, rows of the decoder's tables change places:

* ``both``: ``<s>`` opens the decoder's input, so its vector becomes the input of ``</s>``.
* ``document``: ``<s>`` opens and ends a document, and ``</s>`` ends its sentences. In the decoder
  the two are exchanged, so that a program stops at the end of the document, and finds ``<s>`` at
  the end of each sentence.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from gtrans.checkpoints.checkpoint import Checkpoint
from gtrans.checkpoints.reading import write_checkpoint
from gtrans.checkpoints.sources import DECODER_TABLE, OUTPUT
from gtrans.decoding.loading import TASK, check_described, import_plugin
from gtrans.errors import GtransError
from gtrans.files import atomic_writer, check_output_folder
from gtrans.models.gtransformer import GTransformer

CHECKPOINT_FILE = "model.pt"
_SINUSOIDAL = 4096  # tokens: positions without a limit get one in an engine's table
_SIDES = ("encoder", "decoder")
_SHARED = (
    *(f"{side}_{end}" for side in _SIDES for end in ("layers", "ffn_embed_dim", "attention_heads")),
    *(f"{side}_normalize_before" for side in _SIDES),
    *("encoder_embed_dim", "no_decoder_final_norm", "activation_fn", "layernorm_embedding"),
    *("no_scale_embedding", "dropout"),
)
"""Options with the same name and meaning in both."""
_FIRST_WORDS = {
    "both": "write <s> before every source text",
    "end": "nothing stands before a source text",
    "document": "write <s> before a document and </s> between its sentences; in its translation "
    "<s> ends each sentence",
}


def export_stock(path: Path, out: Path) -> list[str]:
    """Write the checkpoint ``path`` as fairseq's ``transformer`` into the folder ``out``.

    The folder gets ``model.pt``, the dictionaries, and what turns text into the model's pieces, as
    the checkpoint carries it.

    Returns:
        lines that say what was written and how to use it.

    Raises:
        GtransError: fairseq's Transformer cannot hold the model, the checkpoint does not carry its
            dictionaries, or ``out`` cannot be written.
    """
    check_output_folder("OUT", out, [path.parent])
    import_plugin()
    checkpoint = Checkpoint.read(path)
    check_described(checkpoint.state, path)
    checkpoint.check_fit()
    identity, marks = checkpoint.identity, marks_of(checkpoint)
    if identity is None or not all(identity.languages):
        raise GtransError(f"{path}: it does not store its dictionaries; train it anew.")
    tensors = _exchanged(dict(checkpoint.tensors), marks)
    source, target = identity.languages
    args = _options(checkpoint.options("model"), tensors, marks, source, target)
    cfg = TranslationConfig(source_lang=source, target_lang=target)
    task = TranslationTask(cfg, identity.source.dictionary(), identity.target.dictionary())
    model = TransformerModel.build_model(args, task)
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    others = sorted(names ^ set(tensors))
    if others:
        raise GtransError(f"{path}: fairseq's Transformer has no place for it: '{others[0]}'.")
    model.load_state_dict(tensors, strict=False)
    out.mkdir(parents=True, exist_ok=True)
    if identity.preparation is not None:
        identity.preparation.write(out)
    for lang, vocabulary in ((source, identity.source), (target, identity.target)):
        with atomic_writer(out / f"dict.{lang}.txt") as file:
            file.writelines(vocabulary.dictionary_lines())
            file.writelines(f"{symbol} 1\n" for symbol in vocabulary.added)
    state = {"args": args, "cfg": None, "model": model.state_dict()}
    write_checkpoint(state, out / CHECKPOINT_FILE)
    return [
        f"transformer, {args.encoder_layers} + {args.decoder_layers} layers, {source}-{target}",
        f"special tokens {marks}: {_FIRST_WORDS[marks]}",
    ]


def marks_of(checkpoint: Checkpoint) -> str:
    """The marks of a model that fairseq's Transformer can hold.

    Raises:
        GtransError: it cannot.
    """
    path, model, task = checkpoint.path, checkpoint.options("model"), checkpoint.options("task")
    name = str(model.get("_name"))
    if task.get("_name") != TASK:
        raise GtransError(f"{path}: its task is '{task.get('_name')}', not {TASK}.")
    if {**MODEL_REGISTRY, **ARCH_MODEL_REGISTRY}.get(name) is not GTransformer:
        raise GtransError(
            f"{path}: fairseq's Transformer cannot hold the model '{name}'; only sentence models "
            "and document Transformers (gtransformer_* with --unit sentence or --doc-mode full) "
            "can be exported."
        )
    unit, marks = str(model.get("unit")), str(model.get("sentence_marks") or "both")
    for wrong, part in (
        (model.get("encoder_group_size") or model.get("decoder_group_size"), "fused layers"),
        (unit not in ("sentence", "document"), f"the unit {unit}"),
        (model.get("sinusoid", "fairseq") != "fairseq", "the positions of OPUS-MT"),
        (unit == "document" and model.get("doc_mode") != "full", "group attention"),
        (unit == "document" and model.get("positions") == "sentence", "positions of sentences"),
        (unit == "document" and marks != "document", f"documents with '{marks}' special tokens"),
        (unit == "sentence" and marks not in ("both", "end"), f"'{marks}' special tokens"),
    ):
        if wrong:
            raise GtransError(
                f"{path}: fairseq's Transformer has no place for {part} of this model; export a "
                "sentence model, or a document Transformer (--doc-mode full)."
            )
    return marks


def _exchanged(tensors: dict[str, Any], marks: str) -> dict[str, Any]:
    """The parameters with the rows of ``<s>`` and ``</s>`` where stock programs expect them."""
    bos, eos = 0, 2
    for name in (DECODER_TABLE, OUTPUT):
        table = tensors[name].clone()
        if marks == "both" and name == DECODER_TABLE:
            table[eos] = table[bos]
        elif marks == "document":
            table[[bos, eos]] = table[[eos, bos]]
        tensors[name] = table
    return tensors


def _options(
    model: dict[str, Any], tensors: dict[str, Any], marks: str, source: str, target: str
) -> Namespace:
    """The options of the stock model, in the form of fairseq before its release 0.10."""
    options = {name: model[name] for name in _SHARED if model.get(name) is not None}
    learned = bool(model.get("learned_positions"))
    for side in _SIDES:
        options[f"{side}_learned_pos"] = learned
    for side in ("source", "target"):
        options[f"max_{side}_positions"] = model["max_positions"] if learned else _SINUSOIDAL
    # Tables that were one may differ now.
    shared = marks == "end" and bool(model.get("share_all_embeddings"))
    return Namespace(
        **options,
        arch="transformer",
        task="translation",
        source_lang=source,
        target_lang=target,
        decoder_embed_dim=model["encoder_embed_dim"],
        attention_dropout=0.0,
        activation_dropout=0.0,
        share_all_embeddings=shared,
        share_decoder_input_output_embed=torch.equal(tensors[DECODER_TABLE], tensors[OUTPUT]),
    )
