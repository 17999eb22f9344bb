"""Convert a checkpoint of another program into one of this project.

The new model is created and loaded in the same way as by all commands, so a converted file can
certainly be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf

from gtrans.checkpoints.reading import write_checkpoint
from gtrans.conversion.files import as_fairseq_checkpoint, check_target
from gtrans.conversion.foreign_checkpoint import ForeignCheckpoint
from gtrans.conversion.g_transformer import read_g_transformer
from gtrans.conversion.hugging_face import read_hugging_face
from gtrans.conversion.model_options import (
    DECODER_TABLE,
    ENCODER_TABLE,
    OUTPUT,
    model_options,
    refuse_missing_parts,
)
from gtrans.conversion.positions import extend_positions
from gtrans.conversion.pretrained import read_pretrained
from gtrans.data.symbols import MASK, language_symbol, split_languages
from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.errors import GtransError
from gtrans.messages import say
from gtrans.models.base.checkpoint_fit import check_fit
from gtrans.models.gtransformer import GTransformerConfig
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig

READERS: dict[str, Callable[[Path], ForeignCheckpoint]] = {
    "g-transformer": read_g_transformer,
    "fairseq": read_pretrained,
    "huggingface": read_hugging_face,
}


@dataclass(frozen=True)
class ConversionOptions:
    """What a checkpoint does not contain. None means: as in the checkpoint or usual for its kind.

    Attributes:
        data: folder of the dictionaries that the model was trained with.
        source_lang, target_lang: languages to translate from and to.
        langs: all languages that have a symbol, in the order of the symbols: ``en_XX,de_DE``.
        marks: the marks around sentences.
        unit: the unit that the model was trained on.
        max_doc_tokens: longest document unit in tokens.
        extend_positions: new number of learned positions.
    """

    data: Path
    source_lang: str | None = None
    target_lang: str | None = None
    langs: str | None = None
    marks: str | None = None
    unit: str | None = None
    max_doc_tokens: int = 512
    extend_positions: int | None = None


@dataclass(frozen=True)
class Summary:
    """The result of a conversion.

    Attributes:
        model: options of the new model.
        symbols: sizes of the source and the target vocabulary.
        kept: tensors that keep their name.
        renamed: tensors that have got another name.
        ignored: entries that are not parameters of the model.
    """

    model: GTransformerConfig
    symbols: tuple[int, int]
    kept: list[str]
    renamed: list[str]
    ignored: list[str]

    def lines(self) -> list[str]:
        """The result as text."""
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
            *self._embedding(),
            f"tensors: {len(self.kept)} kept, {len(self.renamed)} renamed, "
            f"{len(self.ignored)} ignored" + "".join(f"\n  ignored: {n}" for n in self.ignored),
        ]

    def _embedding(self) -> list[str]:
        """A line about the embeddings of BART's models; empty for other models."""
        model = self.model
        if not model.learned_positions:
            return []
        norm = ", layer norm on embeddings" if model.layernorm_embedding else ""
        return [
            f"{model.max_positions} learned positions{norm}, sentence marks {model.sentence_marks}"
        ]


def convert(program: str, path: Path, target: Path, options: ConversionOptions) -> Summary:
    """Write the checkpoint ``path`` of another program as this project's checkpoint ``target``.

    Args:
        program: one of :data:`READERS`.
        path: file to read, or folder for programs that write one.
        target: file to write; after an error it does not exist.
        options: what the checkpoint does not contain.

    Raises:
        GtransError: the checkpoint is unreadable, of another program or has parts that gtrans
            does not have, the dictionaries have another size, or ``target`` cannot be written.
    """
    check_target(path, target, options.data)
    foreign = READERS[program](path)
    state = foreign.state
    refuse_missing_parts(state, foreign.args, path)
    langs = split_languages(options.langs) or foreign.langs
    task_cfg = DocumentTranslationConfig(
        data=os.path.abspath(options.data),
        source_lang=options.source_lang or foreign.source_lang,
        target_lang=options.target_lang or foreign.target_lang,
        unit=options.unit or foreign.unit,
        max_doc_tokens=options.max_doc_tokens,
        sentence_marks=options.marks or foreign.marks,
        langs=",".join(langs) or None,
    )
    task_cfg._name = "document_translation"
    root = OmegaConf.structured(FairseqConfig)
    root.task = task_cfg
    root.common_eval.path = str(path)  # a model is read, not trained
    # setup_task infers missing languages, and reads other groups of the options.
    task = DocumentTranslationTask.setup_task(root.task)
    root.common_eval.path = None
    if foreign.add_mask(len(task.target_dictionary)):
        say(f"{path}: it has no {MASK} (fine-tuning cuts it off); its new row is the mean of all")
    _check_vocabulary(foreign, task, langs)
    joint = task.source_dictionary == task.target_dictionary
    model_cfg = model_options(state, foreign.args, joint, foreign.doc_mode, path)
    for name in (*UNIT_FIELDS, "source_lang", "target_lang"):
        setattr(model_cfg, name, getattr(root.task, name))
    if options.extend_positions is not None:
        for name in extend_positions(state, options.extend_positions, path):
            setattr(model_cfg, name, options.extend_positions)
    check_fit({"cfg": {"model": asdict(model_cfg)}, "model": state}, path)
    model = task.build_model(OmegaConf.structured(model_cfg), from_checkpoint=True)
    model.load_state_dict(state)
    criterion = LabelSmoothedCrossEntropyCriterionConfig(
        label_smoothing=float(getattr(foreign.args, "label_smoothing", 0.0) or 0.0)
    )
    criterion._name = "label_smoothed_cross_entropy"
    root.model, root.criterion = model_cfg, criterion
    write_checkpoint(as_fairseq_checkpoint(root, model.state_dict(), task.state_dict()), target)
    return Summary(
        model_cfg,
        (len(task.source_dictionary), len(task.target_dictionary)),
        kept=[name for name in foreign.original if name in state],
        renamed=[
            name for name in foreign.original if name not in state and name not in foreign.ignored
        ],
        ignored=foreign.ignored,
    )


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
            "pieces."
        )
