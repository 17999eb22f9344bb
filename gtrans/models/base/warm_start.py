"""Starting a model from the parameters of another one, with a report."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from gtrans.checkpoints.fingerprint import ModelFingerprint, published, report_missing_fingerprint
from gtrans.checkpoints.reading import options_of, read_checkpoint
from gtrans.checkpoints.sources import RENAMES, flat_options, rename_parameters
from gtrans.data.binarised import load_dictionary
from gtrans.data.frame import pretrained_special_tokens
from gtrans.data.vocabulary import MASK, language_token, split_languages
from gtrans.errors import GtransError
from gtrans.models.base.checkpoint_fit import described_model
from gtrans.models.base.model import DocumentModel
from gtrans.optim.two_rate_adam import mark_pretrained

logger = logging.getLogger(__name__)

# Parameters with one row for each entry.
_BY_ENTRY = re.compile(r"(embed_tokens|output_projection)\.(weight|bias)$")
# Below this share of known entries, embeddings would begin mostly at random.
_LEAST_SHARE = 0.5
# Options that change what pretrained parameters compute, but not their names or shapes.
_COMPUTED = (
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_normalize_before",
    "decoder_normalize_before",
    "activation_fn",
    "no_scale_embedding",
    "sinusoid",
    "start_by_bos",
)
# The same for parts of a model: an option, and the option that is above 0 if there is the part.
_OF_PARTS = {"memory_output": "memory_size", "decoder_group_fusion": "decoder_group_size"}


@dataclass
class WarmStartReport:
    """The names of the model's tensors, by where they come from.

    Attributes:
        copied: global attention that was started from group attention.
        grown: embeddings with another vocabulary, with ``(entries,)`` True on copied rows.
        ignored: tensors of the checkpoint that the model does not have.
        entries: for each side how many entries were found, of how many.
        published: see :func:`gtrans.checkpoints.fingerprint.published`.
    """

    loaded: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    grown: dict[str, Tensor] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    entries: dict[str, tuple[int, int]] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)

    def lines(self, path: str) -> list[str]:
        """Return the report as text."""
        counts = {
            "loaded": self.loaded,
            "renamed": self.renamed,
            "copied local-to-global": self.copied,
            "grown": list(self.grown),
            "newly initialised": self.new,
            "ignored": self.ignored,
        }
        lines = [f"initialised from {path}:"]
        for label, names in counts.items():
            line = f"  {len(names):5d} {label}"
            if names:
                shown = ", ".join(names[:3])
                line += f" ({shown}, ...)" if len(names) > 3 else f" ({shown})"
            lines.append(line)
        shares = [f"{side} {_share(*pair)}" for side, pair in self.entries.items()]
        if shares:
            lines.append(f"  vocabulary entries found: {', '.join(shares)}")
        return lines

    def count_known(self, side: str, rows: Mapping[str, int], new: Dictionary) -> Tensor:
        """Return ``(entries,)`` True on the entries of ``new`` in ``rows``; count them."""
        known = torch.tensor([entry in rows for entry in new.symbols])
        words = known[new.nspecial :]
        self.entries[side] = int(words.sum()), len(words)
        return known

    def note_pretrained(self, model: nn.Module) -> None:
        """Mark loaded parameters for the optimizer; copied global attention counts as new."""
        pretrained: dict[str, Tensor | None] = {**self.grown}
        for name in {*self.loaded, *self.renamed}:
            pretrained[name] = None
        mark_pretrained(model, pretrained)


def _share(known: int, entries: int) -> str:
    return f"{known} of {entries} ({known / max(entries, 1):.0%})"


@dataclass(frozen=True)
class WarmStartOptions:
    """How a model starts, and which properties are checked against the checkpoint.

    Attributes:
        copy_local_to_global: start global attention from the group attention of its layer.
        init_dict: dictionaries of a checkpoint that does not store its vocabulary.
        other_vocabulary: accept other languages, and few known entries.
        special_tokens: value of ``--sentence-marks``; like the next two not compared if None.
        model: options of the model.
        languages: source and target.
    """

    copy_local_to_global: bool = False
    init_dict: str | None = None
    other_vocabulary: bool = False
    special_tokens: str | None = None
    model: Any = None
    languages: tuple[str, str] | None = None


def warm_start(
    model: nn.Module,
    path: str,
    dictionaries: Mapping[str, Dictionary],
    options: WarmStartOptions | None = None,
) -> WarmStartReport:
    """Load the parameters that fit into ``model``, embeddings row by row, and mark them.

    Args:
        model: changed in place.
        path: a checkpoint of this project, of fairseq, or of the authors' G-Transformer.
        dictionaries: of ``encoder`` and ``decoder``.

    Raises:
        GtransError: the checkpoint cannot be read or does not fit.
    """
    options = options or WarmStartOptions()
    checkpoint = read_checkpoint(path)
    _check_special_tokens(checkpoint, path, options.special_tokens)
    original = checkpoint["model"]
    stored, _ = rename_parameters(original, RENAMES["g-transformer"])
    own = model.state_dict()
    if not stored.keys() & own.keys():
        raise GtransError(
            f"--init-from {path}: none of its {len(original)} tensors fits this model; "
            "it must be a Transformer's or G-Transformer's checkpoint."
        )
    fingerprint = ModelFingerprint.of_checkpoint(checkpoint, path)
    task = options_of(checkpoint, "task")
    vocabularies = _vocabularies(fingerprint, task, options.init_dict, path)
    if options.languages is not None and not options.other_vocabulary:
        _check_languages(fingerprint, task, options.languages, path)
    if options.model is not None:
        _check_options(checkpoint, path, type(model), options.model)
    report = WarmStartReport(published=published(checkpoint))
    report.ignored = [name for name in stored if name not in own]
    transfer = _Transfer(path, original, stored, vocabularies, dictionaries, report)
    for name, tensor in own.items():
        source_name = name
        if options.copy_local_to_global and name not in stored:
            source_name = name.replace(".global_attn.", ".")
        transfer.take(name, tensor, source_name)
    _check_misfits(transfer.misfits, path)
    if not options.other_vocabulary:
        _check_share(report, path)
    _check_tied(own, transfer.tensors, path)
    model.load_state_dict({**own, **transfer.tensors})
    report.note_pretrained(model)
    if fingerprint is None:
        report_missing_fingerprint(f"--init-from {path}")
    for line in report.lines(path):
        logger.info(line)
    return report


@dataclass
class _Transfer:
    """Takes tensors of a checkpoint for a model, and reports each."""

    path: str
    original: Mapping[str, Tensor]  # by their names in the checkpoint
    stored: Mapping[str, Tensor]  # the same by their names in a model
    vocabularies: Mapping[str, _StoredVocabulary]
    dictionaries: Mapping[str, Dictionary]
    report: WarmStartReport
    tensors: dict[str, Tensor] = field(default_factory=dict)
    misfits: list[str] = field(default_factory=list)

    def take(self, name: str, tensor: Tensor, source_name: str) -> None:
        if source_name not in self.stored:
            self.report.new.append(name)
            return
        source = self.stored[source_name]
        has_rows = _BY_ENTRY.search(name) is not None and source.dim() == tensor.dim()
        if has_rows and self._grow(name, tensor, source):
            return
        same_kind = source.is_floating_point() == tensor.is_floating_point()
        if source.shape != tensor.shape or not same_kind:
            self.misfits.append(
                f"{name} is {tuple(source.shape)} of {source.dtype} there but "
                f"{tuple(tensor.shape)} of {tensor.dtype} in this model"
            )
            return
        self.tensors[name] = source
        if source_name != name:
            self.report.copied.append(name)
        elif name in self.original:
            self.report.loaded.append(name)
        else:
            self.report.renamed.append(name)

    def _grow(self, name: str, tensor: Tensor, source: Tensor) -> bool:
        """Take the rows of known entries; return False if none moves, or if the widths differ."""
        side = name.split(".")[0]
        entries = _entries_of(self.vocabularies, side, source.size(0), self.path)
        rows = {entry: row for row, entry in enumerate(entries)}
        dictionary = self.dictionaries[side]
        known = self.report.count_known(side, rows, dictionary)
        if entries == dictionary.symbols or source.shape[1:] != tensor.shape[1:]:
            return False
        self.tensors[name] = grown(tensor, source, rows, dictionary)
        self.report.grown[name] = known
        return True


def _check_misfits(misfits: list[str], path: str) -> None:
    if not misfits:
        return
    more = f" (and {len(misfits) - 3} more)" if len(misfits) > 3 else ""
    raise GtransError(
        f"--init-from {path}: {', '.join(misfits[:3])}{more}; choose an --arch of the same size."
    )


def _check_special_tokens(
    checkpoint: dict[str, Any], path: str, special_tokens: str | None
) -> None:
    # mBART and mBART-50 have the same language tokens.
    there = options_of(checkpoint, "model") | options_of(checkpoint, "task")
    theirs = pretrained_special_tokens(there)
    both = (theirs, special_tokens or "")
    if all(name.startswith("mbart") for name in both) and both.count("mbart50") == 1:
        raise GtransError(
            f"--init-from {path}: it was trained with `--sentence-marks {theirs}`, not "
            f"{special_tokens}; give these, and all its languages as `--langs`."
        )


def _check_options(
    checkpoint: Mapping[str, Any], path: str, model: type[nn.Module], options: Any
) -> None:
    """Raise GtransError if parameters would compute something else than in the checkpoint."""
    raw = options_of(checkpoint, "model")
    theirs = described_model(raw, path)
    if theirs is None:  # a model of fairseq's may not say all of it
        stock = flat_options(raw)
        there = {name: stock[name] for name in _COMPUTED if stock.get(name) is not None}
    else:
        there = _traits(*theirs)
    assert issubclass(model, DocumentModel)
    here = _traits(model, options)
    differences: list[str] = []
    ways: list[str] = []
    preset = model.presets.get(str(options._name), {})
    for name in sorted(there.keys() & here.keys()):
        value = there[name]
        if value == here[name]:
            continue
        differences.append(f"{name} {value}, but this model has {here[name]}")
        flag = f"--{name.replace('_', '-')}"
        if not isinstance(value, bool):
            ways.append(f"give `{flag} {value}`")
        elif value:
            ways.append(f"give `{flag}`")
        elif preset.get(name):  # which no flag turns off
            ways.append(f"train its sentence model again with `{flag}`")
        else:
            ways.append(f"leave out `{flag}`")
    if differences:
        raise GtransError(
            f"--init-from {path}: it was trained with {'; '.join(differences)}, with which its "
            f"parameters would compute something else; {', '.join(ways)}, or choose an --arch (or "
            "--system) that has the same."
        )


def _traits(model: type[DocumentModel], options: Any) -> dict[str, Any]:
    traits = {name: getattr(options, name) for name in _COMPUTED if hasattr(options, name)}
    for side in ("encoder", "decoder"):
        # A system may not follow the option.
        spec = model.layer_spec(options, side)
        traits[f"{side}_normalize_before"] = spec.pre_norm
    for name, size in _OF_PARTS.items():
        if getattr(options, size, 0):
            traits[name] = str(getattr(options, name))
    return traits


def _check_share(report: WarmStartReport, path: str) -> None:
    for side, (known, entries) in report.entries.items():
        if known < _LEAST_SHARE * entries:
            raise GtransError(
                f"--init-from {path}: its vocabulary has only {_share(known, entries)} of the "
                f"entries of the {side}'s dictionary; prepare the data with its subwords "
                "(`gtrans prepare --reuse`), or give `--init-other-vocabulary` if this is meant."
            )


def _check_tied(own: Mapping[str, Tensor], result: Mapping[str, Tensor], path: str) -> None:
    """Raise GtransError if a table of the model is two different ones in the checkpoint."""
    tables: dict[int, str] = {}
    for name in result:
        first = tables.setdefault(own[name].data_ptr(), name)
        if own[name].numel() and not torch.equal(result[first], result[name]):
            flag = "--share-all-embeddings"
            if first.split(".")[0] == name.split(".")[0]:
                flag = "--share-decoder-input-output-embed"
            raise GtransError(
                f"--init-from {path}: {first} and {name} differ there, but are one table in this "
                f"model; leave out `{flag}`, or choose an --arch without it."
            )


def grown(tensor: Tensor, source: Tensor, rows: Mapping[str, int], new: Dictionary) -> Tensor:
    """Return ``tensor (entries, dim)`` with the rows of ``source`` for known entries.

    ``rows``: the row of each entry in ``source``; ``new``: the entries of ``tensor``.
    """
    table = tensor.clone()
    places, sources = [], []
    for place, entry in enumerate(new.symbols):
        if entry in rows:
            places.append(place)
            sources.append(rows[entry])
    table[places] = source[sources].to(table.dtype)
    return table


def dictionaries_of(task: Any) -> dict[str, Dictionary]:
    """Return the dictionaries of a task under ``encoder`` and ``decoder``."""
    return {"encoder": task.source_dictionary, "decoder": task.target_dictionary}


@dataclass(frozen=True)
class _StoredVocabulary:
    entries: list[str]
    least: int  # how many of them have embeddings for sure


def _vocabularies(
    fingerprint: ModelFingerprint | None,
    options: Mapping[str, Any],
    init_dict: str | None,
    path: str,
) -> dict[str, _StoredVocabulary]:
    """Return the vocabularies of ``encoder`` and ``decoder``, if they are known."""
    vocabularies: dict[str, _StoredVocabulary] = {}
    if fingerprint is not None:
        if init_dict:
            raise GtransError(f"`--init-dict`: {path} stores its vocabulary; leave the option out.")
        for side, vocabulary in (("encoder", fingerprint.source), ("decoder", fingerprint.target)):
            entries = vocabulary.entries
            vocabularies[side] = _StoredVocabulary(entries, len(entries))
    elif init_dict:
        # Dictionaries of both sides, joined by ":", or one for both.
        source, _, target = init_dict.partition(os.pathsep)
        # The checkpoint's task may have added these.
        added = [language_token(name) for name in split_languages(options.get("langs"))]
        added.append(MASK)
        for side, name in (("encoder", source), ("decoder", target or source)):
            entries = load_dictionary(name).symbols
            vocabularies[side] = _StoredVocabulary([*entries, *added], len(entries))
    return vocabularies


def _entries_of(
    vocabularies: Mapping[str, _StoredVocabulary], side: str, rows: int, path: str
) -> list[str]:
    if side not in vocabularies:
        raise GtransError(
            f"--init-from {path}: no fingerprint: it does not say which vocabulary its {rows} "
            "embeddings belong to; name its dictionary with `--init-dict DICT` (dict.LANG.txt of "
            "the folder it was trained with, or the dict.txt of a published model)."
        )
    vocabulary = vocabularies[side]
    if not vocabulary.least <= rows <= len(vocabulary.entries):
        raise GtransError(
            f"--init-from {path}: it has {rows} embeddings, but its dictionary has "
            f"{vocabulary.least} entries; name the dictionary it was trained with (`--init-dict`)."
        )
    return vocabulary.entries[:rows]


def _check_languages(
    fingerprint: ModelFingerprint | None,
    options: Mapping[str, Any],
    languages: tuple[str, str],
    path: str,
) -> None:
    if options.get("langs"):  # a multilingual model
        return
    there = (str(options.get("source_lang") or ""), str(options.get("target_lang") or ""))
    if fingerprint is not None:
        there = fingerprint.languages
    known = all(name not in ("", "None") for name in (*there, *languages))
    if known and there != languages:
        raise GtransError(
            f"--init-from {path}: it translates {'-'.join(there)}, not {'-'.join(languages)}; give "
            "a checkpoint of these languages, or `--init-other-vocabulary` if this is meant."
        )
