"""Starting a model from the parameters of another one, with a report of what was loaded."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary, data_utils
from torch import Tensor, nn

from gtrans.checkpoints import read_checkpoint
from gtrans.data.symbols import MASK, language_symbol, split_languages
from gtrans.errors import GtransError

logger = logging.getLogger(__name__)

# Names of the authors' G-Transformer (and of older fairseq) -> names here.
_RENAMES = (
    (re.compile(r"_attn_local\."), "_attn."),
    (re.compile(r"_attn_global\."), "_attn.global_attn."),
    (re.compile(r"_attn_gate\.0\."), "_attn.gate.proj."),
)
# Entries without arithmetic meaning that older checkpoints hold.
_NO_PARAMETERS = re.compile(r"(^|\.)(version|_float_tensor|embed_positions\.weights)$")


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
) -> WarmStartReport:
    """Load the parameters that fit from the checkpoint at ``path`` into ``model``.

    Embeddings are copied symbol by symbol when the vocabularies differ. The old vocabulary is
    read from the data folder that the checkpoint names, or from ``dict.txt`` next to it.

    Args:
        model: changed in place.
        path: a checkpoint of this project, of a stock fairseq Transformer, or of the
            authors' G-Transformer.
        dictionaries: ``encoder`` and ``decoder`` dictionaries of ``model``.
        copy_local_to_global: start global attention from the group attention of its layer.

    Raises:
        GtransError: an unreadable checkpoint, other sizes, or no tensor that fits.
    """
    checkpoint = read_checkpoint(path)
    original = checkpoint["model"]
    state = rename(original)
    own = model.state_dict()
    report = WarmStartReport(ignored=[name for name in state if name not in own])
    if not set(state) & set(own):
        raise GtransError(
            f"--init-from {path}: none of its {len(original)} tensors fits this model; "
            "it must be a Transformer's or G-Transformer's checkpoint."
        )
    old_symbols = _OldVocabulary(checkpoint, path)
    result: dict[str, Tensor] = {}
    for name, tensor in own.items():
        if name in state:
            source = state[name]
            by_symbol = re.search(r"(embed_tokens|output_projection)\.weight$", name)
            if by_symbol and old_symbols.differ(dictionaries, name, source):
                result[name] = old_symbols.grow(dictionaries, name, source, tensor)
                report.grown.append(name)
                continue
            if source.shape != tensor.shape:
                raise GtransError(
                    f"--init-from {path}: {name} is {tuple(source.shape)} there but "
                    f"{tuple(tensor.shape)} in this model; choose an --arch of the same size."
                )
            result[name] = source
            (report.loaded if name in original else report.renamed).append(name)
        elif (
            copy_local_to_global
            and ".global_attn." in name
            and (local := name.replace(".global_attn.", ".")) in state
        ):
            result[name] = state[local]
            report.copied.append(name)
        else:
            report.new.append(name)
    model.load_state_dict({**own, **result})
    for line in report.lines(path):
        logger.info(line)
    return report


class _OldVocabulary:
    """The symbols with which a checkpoint was trained, if they can be found."""

    def __init__(self, checkpoint: dict[str, Any], path: str) -> None:
        self.path = path
        cfg = checkpoint.get("cfg") or {}
        task = cfg.get("task") if isinstance(cfg, dict) else None
        args = task or checkpoint.get("args") or {}
        self.options = args if isinstance(args, dict) else vars(args)
        self._read: dict[str, Dictionary | None] = {}
        model = (cfg.get("model") if isinstance(cfg, dict) else None) or {}
        get = model.get if hasattr(model, "get") else lambda name: getattr(model, name, None)
        if get("bert_pieces"):
            # The encoder's vocabulary is BERT's, which no dictionary of the folder holds.
            self._read["encoder"] = None

    def _dictionary(self, side: str) -> Dictionary | None:
        if side not in self._read:
            data = Path(str(self.options.get("data") or "").split(":")[0])
            pair = [self.options.get(f"{name}_lang") for name in ("source", "target")]
            if not all(pair) and data.is_dir():
                # Languages that the command line did not name are not in the options either.
                pair = list(data_utils.infer_language_pair(str(data)))
            source_lang, target_lang = pair
            lang = target_lang if side == "decoder" else source_lang
            file = data / f"dict.{lang}.txt"
            if not file.is_file():
                # Published models have one dictionary, next to the checkpoint.
                file = Path(self.path).with_name("dict.txt")
            self._read[side] = Dictionary.load(str(file)) if file.is_file() else None
        return self._read[side]

    def symbols(self, side: str, rows: int) -> list[str] | None:
        """The symbols of an embedding of ``rows`` rows; None if its dictionary is missing.

        After the dictionary's own symbols come those that a task has added: ``[lang]`` of each
        language and the mask. A row whose symbol is unknown has the empty symbol.
        """
        dictionary = self._dictionary(side)
        if dictionary is None:
            return None
        langs = split_languages(self.options.get("langs"))
        symbols: list[str] = list(dictionary.symbols)
        added = [*(language_symbol(lang) for lang in langs), MASK]
        if len(symbols) + len(added) == rows:
            symbols += added
        return symbols[:rows] + [""] * (rows - len(symbols))

    def differ(self, dictionaries: dict[str, Dictionary], name: str, source: Tensor) -> bool:
        side = name.split(".")[0]
        old, new = self.symbols(side, source.size(0)), dictionaries[side].symbols
        return len(new) != source.size(0) if old is None else old != new

    def grow(
        self, dictionaries: dict[str, Dictionary], name: str, source: Tensor, tensor: Tensor
    ) -> Tensor:
        side = name.split(".")[0]
        symbols, new = self.symbols(side, source.size(0)), dictionaries[side]
        if source.size(1) != tensor.size(1):
            raise GtransError(
                f"--init-from {self.path}: {name} has width {source.size(1)} there but "
                f"{tensor.size(1)} in this model; choose an --arch of the same size."
            )
        if symbols is None:
            if source.size(0) > len(new):
                raise GtransError(
                    f"--init-from {self.path}: it has {source.size(0)} symbols and this model "
                    f"{len(new)}, and its dictionary ({self.options.get('data')}/dict.*.txt) is "
                    "missing, so its symbols are unknown; put it back."
                )
            logger.warning(
                "cannot find the dictionary of %s; its %d symbols are taken for the first ones of "
                "this model's dictionary",
                self.path,
                source.size(0),
            )
            symbols = new.symbols[: source.size(0)]
        grown = tensor.clone()
        for row, symbol in enumerate(symbols):
            if symbol in new.indices:
                grown[new.indices[symbol]] = source[row]
        return grown


def dictionaries_of(task: Any) -> dict[str, Dictionary]:
    """The dictionaries of a task under ``encoder`` and ``decoder``."""
    return {"encoder": task.source_dictionary, "decoder": task.target_dictionary}
