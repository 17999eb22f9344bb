"""Starting a model from the parameters of another one, with a report of what was loaded."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from gtrans.checkpoint_contents import options_of
from gtrans.checkpoints import read_checkpoint
from gtrans.data.pretrained_frame import pretrained_marks
from gtrans.errors import GtransError
from gtrans.model_identity import say_unknown
from gtrans.models.base.checkpoint_vocabulary import CheckpointVocabulary

logger = logging.getLogger(__name__)

# Names of the authors' G-Transformer (and of older fairseq) -> names here.
_RENAMES = (
    (re.compile(r"_attn_local\."), "_attn."),
    (re.compile(r"_attn_global\."), "_attn.global_attn."),
    (re.compile(r"_attn_gate\.0\."), "_attn.gate.proj."),
)
# Entries without arithmetic meaning that older checkpoints hold.
_NO_PARAMETERS = re.compile(r"(^|\.)(version|_float_tensor|embed_positions\.weights)$")
# Parameters with one row for each symbol.
_BY_SYMBOL = re.compile(r"(embed_tokens|output_projection)\.weight$")


def rename(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with this project's names, without entries that are not parameters."""
    renamed = {}
    for name, tensor in state.items():
        if _NO_PARAMETERS.search(name):
            continue
        for pattern, replacement in _RENAMES:
            name = pattern.sub(replacement, name)
        renamed[name] = tensor
    return renamed


@dataclass
class WarmStartReport:
    """Names of tensors, by what happened to them.

    Attributes:
        loaded: copied under the same name.
        renamed: copied from another name.
        copied: global attention that was started from group attention.
        grown: embeddings whose vocabulary differs, copied symbol by symbol.
        new: initialised as in a new model.
        ignored: tensors of the checkpoint that the model does not have.
    """

    loaded: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    grown: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def lines(self, path: str) -> list[str]:
        """The report as text."""
        counts = (
            ("loaded", self.loaded),
            ("renamed", self.renamed),
            ("copied local-to-global", self.copied),
            ("grown", self.grown),
            ("newly initialised", self.new),
            ("ignored", self.ignored),
        )
        return [f"initialised from {path}:"] + [
            f"  {len(names):5d} {label}" + (f" ({_shorten(names)})" if names else "")
            for label, names in counts
        ]


def _shorten(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def warm_start(
    model: nn.Module,
    path: str,
    dictionaries: dict[str, Dictionary],
    copy_local_to_global: bool = False,
    data: str | None = None,
    init_dict: str | None = None,
    marks: str | None = None,
) -> WarmStartReport:
    """Load the parameters that fit from the checkpoint at ``path`` into ``model``.

    Embeddings are copied symbol by symbol, see
    :class:`gtrans.models.base.checkpoint_vocabulary.CheckpointVocabulary`.

    Args:
        model: changed in place.
        path: a checkpoint of this project, of a stock fairseq Transformer, or of the
            authors' G-Transformer.
        dictionaries: ``encoder`` and ``decoder`` dictionaries of ``model``.
        copy_local_to_global: start global attention from the group attention of its layer.
        data: data folder of ``model``.
        init_dict: dictionaries of a checkpoint that does not carry its vocabulary.
        marks: the marks around sentences of ``model``, if they are to be compared.

    Raises:
        GtransError: an unreadable checkpoint, other sizes, no tensor that fits, a vocabulary
            that is not known, or an mBART-50 with the marks of mBART, or the other way round.
    """
    checkpoint = read_checkpoint(path)
    _check_marks(checkpoint, path, marks)
    original = checkpoint["model"]
    state = rename(original)
    own = model.state_dict()
    report = WarmStartReport(ignored=[name for name in state if name not in own])
    if not set(state) & set(own):
        raise GtransError(
            f"--init-from {path}: none of its {len(original)} tensors fits this model; "
            "it must be a Transformer's or G-Transformer's checkpoint."
        )
    vocabulary = CheckpointVocabulary(checkpoint, path, data, init_dict)
    result: dict[str, Tensor] = {}
    for name, tensor in own.items():
        if name in state:
            source = state[name]
            if source.is_floating_point() != tensor.is_floating_point():
                raise GtransError(
                    f"--init-from {path}: {name} has the type {source.dtype} there but "
                    f"{tensor.dtype} in this model."
                )
            if _BY_SYMBOL.search(name):
                side = name.split(".")[0]
                if source.dim() != 2:
                    raise _other_size(path, name, source, tensor)
                symbols, new = vocabulary.symbols(side, source.size(0)), dictionaries[side]
                if symbols != new.symbols:
                    result[name] = _grown(path, name, symbols, new, source, tensor)
                    report.grown.append(name)
                    continue
            if source.shape != tensor.shape:
                raise _other_size(path, name, source, tensor)
            result[name] = source
            (report.loaded if name in original else report.renamed).append(name)
        elif (
            copy_local_to_global
            and ".global_attn." in name
            and (local := name.replace(".global_attn.", ".")) in state
        ):
            if state[local].shape != tensor.shape:
                raise _other_size(path, local, state[local], tensor)
            result[name] = state[local]
            report.copied.append(name)
        else:
            report.new.append(name)
    model.load_state_dict({**own, **result})
    if not vocabulary.carried:
        say_unknown(f"--init-from {path}")
    for line in report.lines(path):
        logger.info(line)
    return report


def _check_marks(checkpoint: dict[str, Any], path: str, marks: str | None) -> None:
    """Raises GtransError if a language stands in front of sentences in one and behind in the other.

    Both have the symbols of languages, so that nothing else would show the difference.
    """
    theirs = pretrained_marks(options_of(checkpoint, "model") | options_of(checkpoint, "task"))
    both = (theirs, marks or "")
    if all(name.startswith("mbart") for name in both) and both.count("mbart50") == 1:
        raise GtransError(
            f"--init-from {path}: it was trained with `--sentence-marks {theirs}`, not {marks}; "
            "give these, and all its languages as `--langs`."
        )


def _other_size(path: str, name: str, source: Tensor, tensor: Tensor) -> GtransError:
    return GtransError(
        f"--init-from {path}: {name} is {tuple(source.shape)} there but {tuple(tensor.shape)} in "
        "this model; choose an --arch of the same size."
    )


def _grown(
    path: str, name: str, symbols: list[str], new: Dictionary, source: Tensor, tensor: Tensor
) -> Tensor:
    """The embedding ``tensor``, with the rows of ``source`` at the places of their symbols."""
    if source.size(1) != tensor.size(1):
        raise GtransError(
            f"--init-from {path}: {name} has width {source.size(1)} there but "
            f"{tensor.size(1)} in this model; choose an --arch of the same size."
        )
    grown = tensor.clone()
    known = [(row, new.indices[symbol]) for row, symbol in enumerate(symbols) if symbol in new]
    if known:
        rows, places = map(list, zip(*known, strict=True))
        grown[places] = source[rows].to(grown.dtype)
    return grown


def dictionaries_of(task: Any) -> dict[str, Dictionary]:
    """The dictionaries of a task under ``encoder`` and ``decoder``."""
    return {"encoder": task.source_dictionary, "decoder": task.target_dictionary}
