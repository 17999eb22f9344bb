"""Starting a model from the parameters of another one, with a report of what was loaded."""

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

from gtrans.checkpoints.fingerprint import ModelFingerprint, published, say_unknown
from gtrans.checkpoints.reading import options_of, read_checkpoint
from gtrans.checkpoints.sources import RENAMES, flat_options, renamed
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
# Those of parts: an option, and the option that is above 0 where a model has the part.
_OF_PARTS = {"memory_output": "memory_size", "decoder_group_fusion": "decoder_group_size"}


@dataclass
class WarmStartReport:
    """Names of tensors, by what happened to them.

    Attributes:
        loaded: copied under the same name.
        renamed: copied from another name.
        copied: global attention that was started from group attention.
        grown: embeddings whose vocabulary differs, copied row by row; of each
            ``(entries,)`` True on the rows that were copied.
        new: initialised as in a new model.
        ignored: tensors of the checkpoint that the model does not have.
        entries: of each side how many entries were found, of how many.
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
        """The report as text."""
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
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            lines.append(f"  {len(names):5d} {label}" + (f" ({shown})" if names else ""))
        shares = [f"{side} {_share(*pair)}" for side, pair in self.entries.items()]
        return [*lines, f"  vocabulary entries found: {', '.join(shares)}"] if shares else lines

    def known(self, side: str, rows: Mapping[str, int], new: Dictionary) -> Tensor:
        """``(entries,)`` which of the entries of ``new`` are among ``rows``; they are counted."""
        known = torch.tensor([entry in rows for entry in new.symbols])
        words = known[new.nspecial :]
        self.entries[side] = int(words.sum()), len(words)
        return known

    def note_pretrained(self, model: nn.Module) -> None:
        """Mark the parameters of ``model`` that were loaded, for the optimizer.

        Global attention that is a copy counts as new: it has still to learn its task.
        """
        whole = {*self.loaded, *self.renamed}
        special_tokens: dict[str, Tensor | None] = {**self.grown, **dict.fromkeys(whole)}
        mark_pretrained(model, special_tokens)


def _share(known: int, entries: int) -> str:
    return f"{known} of {entries} ({known / max(entries, 1):.0%})"


def warm_start(
    model: nn.Module,
    path: str,
    dictionaries: dict[str, Dictionary],
    copy_local_to_global: bool = False,
    init_dict: str | None = None,
    special_tokens: str | None = None,
    options: Any = None,
    languages: tuple[str, str] | None = None,
    other_vocabulary: bool = False,
) -> WarmStartReport:
    """Load the parameters that fit from the checkpoint at ``path`` into ``model``.

    Embeddings are copied row by row. Parameters that were loaded are marked for the
    optimizer (:meth:`WarmStartReport.note_pretrained`).

    Args:
        model: changed in place.
        path: a checkpoint of this project, of a stock fairseq Transformer, or of the
            authors' G-Transformer.
        dictionaries: ``encoder`` and ``decoder`` dictionaries of ``model``.
        copy_local_to_global: start global attention from the group attention of its layer.
        init_dict: dictionaries of a checkpoint that does not carry its vocabulary.
        special_tokens: value of ``--sentence-marks``, if it is to be compared.
        options: all options of ``model``, if they are to be compared.
        languages: source and target language of ``model``, if they are to be compared.
        other_vocabulary: accept other languages, and a vocabulary with less than half of its
            entries known.

    Raises:
        GtransError: an unreadable checkpoint, other sizes or options, no tensor that fits, a
            vocabulary that is not known or too different, other languages, several tables of
            embeddings for one of ``model``, or an mBART-50 with the special tokens of mBART,
            or the other way round.
    """
    checkpoint = read_checkpoint(path)
    _check_special_tokens(checkpoint, path, special_tokens)
    original = checkpoint["model"]
    state, _ = renamed(original, RENAMES["g-transformer"])
    own = model.state_dict()
    report = WarmStartReport(ignored=[name for name in state if name not in own])
    report.published = published(checkpoint)
    if not set(state) & set(own):
        raise GtransError(
            f"--init-from {path}: none of its {len(original)} tensors fits this model; "
            "it must be a Transformer's or G-Transformer's checkpoint."
        )
    fingerprint = ModelFingerprint.of_checkpoint(checkpoint, path)
    task = options_of(checkpoint, "task")
    vocabularies = _vocabularies(fingerprint, task, init_dict, path)
    if languages is not None and not other_vocabulary:
        _check_languages(fingerprint, task, languages, path)
    if options is not None:
        _check_options(checkpoint, path, type(model), options)
    result: dict[str, Tensor] = {}
    misfits: list[str] = []
    for name, tensor in own.items():
        local = name.replace(".global_attn.", ".") if copy_local_to_global else name
        if local not in state:
            report.new.append(name)
            continue
        source = state[name if name in state else local]
        if _BY_ENTRY.search(name) and source.dim() == tensor.dim():
            side = name.split(".")[0]
            entries = _entries_of(vocabularies, side, source.size(0), path)
            rows, new = {entry: row for row, entry in enumerate(entries)}, dictionaries[side]
            known = report.known(side, rows, new)
            if entries != new.symbols and source.shape[1:] == tensor.shape[1:]:
                result[name] = grown(tensor, source, rows, new)
                report.grown[name] = known
                continue
        if (source.shape, source.is_floating_point()) != (tensor.shape, tensor.is_floating_point()):
            kinds = [f"{tuple(x.shape)} of {x.dtype}" for x in (source, tensor)]
            misfits.append(f"{name} is {kinds[0]} there but {kinds[1]} in this model")
            continue
        result[name] = source
        where = report.loaded if name in original else report.renamed
        (where if name in state else report.copied).append(name)
    if misfits:
        more = f" (and {len(misfits) - 3} more)" if len(misfits) > 3 else ""
        raise GtransError(
            f"--init-from {path}: {', '.join(misfits[:3])}{more}; choose an --arch of the same "
            "size."
        )
    if not other_vocabulary:
        _check_share(report, path)
    _check_tied(own, result, path)
    model.load_state_dict({**own, **result})
    report.note_pretrained(model)
    if fingerprint is None:
        say_unknown(f"--init-from {path}")
    for line in report.lines(path):
        logger.info(line)
    return report


def _check_special_tokens(
    checkpoint: dict[str, Any], path: str, special_tokens: str | None
) -> None:
    """Raises GtransError if a language stands in front of sentences in one and behind in the other.

    Both have the language tokens, so that nothing else would show the difference.
    """
    theirs = pretrained_special_tokens(
        options_of(checkpoint, "model") | options_of(checkpoint, "task")
    )
    both = (theirs, special_tokens or "")
    if all(name.startswith("mbart") for name in both) and both.count("mbart50") == 1:
        raise GtransError(
            f"--init-from {path}: it was trained with `--sentence-marks {theirs}`, not "
            f"{special_tokens}; give these, and all its languages as `--langs`."
        )


def _check_options(
    checkpoint: Mapping[str, Any], path: str, model: type[nn.Module], options: Any
) -> None:
    """Raises GtransError if parameters would compute something else than in the checkpoint."""
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
    """Of a model of this project what :data:`_COMPUTED` and :data:`_OF_PARTS` name."""
    traits = {name: getattr(options, name) for name in _COMPUTED if hasattr(options, name)}
    for side in ("encoder", "decoder"):
        # A system may decide it itself.
        spec = model.layer_spec(options, side)
        traits[f"{side}_normalize_before"] = spec.pre_norm
    for name, size in _OF_PARTS.items():
        if getattr(options, size, 0):
            traits[name] = str(getattr(options, name))
    return traits


def _check_share(report: WarmStartReport, path: str) -> None:
    """Raises GtransError if most embeddings of a side would stay random."""
    for side, (known, entries) in report.entries.items():
        if known < _LEAST_SHARE * entries:
            raise GtransError(
                f"--init-from {path}: its vocabulary has only {_share(known, entries)} of the "
                f"entries of the {side}'s dictionary; prepare the data with its subwords "
                "(`gtrans prepare --reuse`), or give `--init-other-vocabulary` if this is meant."
            )


def _check_tied(own: Mapping[str, Tensor], result: Mapping[str, Tensor], path: str) -> None:
    """Raises GtransError if the model has one table where the checkpoint has different ones."""
    tables: dict[int, str] = {}
    for name in result:
        first = tables.setdefault(own[name].data_ptr(), name)
        if own[name].numel() and not torch.equal(result[first], result[name]):
            both = {first.split(".")[0], name.split(".")[0]}
            flag = "--share-all-embeddings"
            if len(both) == 1:
                flag = "--share-decoder-input-output-embed"
            raise GtransError(
                f"--init-from {path}: {first} and {name} differ there, but are one table in this "
                f"model; leave out `{flag}`, or choose an --arch without it."
            )


def grown(tensor: Tensor, source: Tensor, rows: Mapping[str, int], new: Dictionary) -> Tensor:
    """The embedding ``tensor (entries, dim)`` with the rows of ``source`` at their entries.

    ``rows``: the row of ``source`` of each entry; ``new``: the entries of ``tensor``.
    """
    table = tensor.clone()
    known = [(place, rows[entry]) for place, entry in enumerate(new.symbols) if entry in rows]
    places, sources = [place for place, _ in known], [row for _, row in known]
    table[places] = source[sources].to(table.dtype)
    return table


def dictionaries_of(task: Any) -> dict[str, Dictionary]:
    """The dictionaries of a task under ``encoder`` and ``decoder``."""
    return {"encoder": task.source_dictionary, "decoder": task.target_dictionary}


Vocabularies = dict[str, tuple[list[str], int]]
"""Of ``encoder`` and ``decoder`` all entries, and how many of them have embeddings at least."""


def _vocabularies(
    fingerprint: ModelFingerprint | None,
    options: Mapping[str, Any],
    init_dict: str | None,
    path: str,
) -> Vocabularies:
    """The entries of a checkpoint's embeddings, in order; empty if they are not known.

    A checkpoint of this project stores them; for one that does not, its dictionary is named.

    Args:
        fingerprint: the one that the checkpoint stores, or None.
        options: of its task.
        init_dict: ``--init-dict``: dictionaries of source and target, joined by ``:``, or one for
            both.
        path: of the checkpoint.

    Raises:
        GtransError: a dictionary is missing, or its checkpoint stores another vocabulary.
    """
    vocabularies: Vocabularies = {}
    if fingerprint is not None:
        if init_dict:
            raise GtransError(f"`--init-dict`: {path} stores its vocabulary; leave the option out.")
        for side, vocabulary in (("encoder", fingerprint.source), ("decoder", fingerprint.target)):
            vocabularies[side] = vocabulary.entries, len(vocabulary.entries)
    elif init_dict:
        source, _, target = init_dict.partition(os.pathsep)
        # What the checkpoint's task may have added.
        added = [*map(language_token, split_languages(options.get("langs"))), MASK]
        for side, name in (("encoder", source), ("decoder", target or source)):
            entries = load_dictionary(name).symbols
            vocabularies[side] = [*entries, *added], len(entries)
    return vocabularies


def _entries_of(vocabularies: Vocabularies, side: str, rows: int, path: str) -> list[str]:
    """The entries of an embedding of ``rows`` rows on one side.

    Raises:
        GtransError: they are not known, or do not fit the embedding.
    """
    if side not in vocabularies:
        raise GtransError(
            f"--init-from {path}: no fingerprint: it does not say which vocabulary its {rows} "
            "embeddings belong to; name its dictionary with `--init-dict DICT` (dict.LANG.txt of "
            "the folder it was trained with, or the dict.txt of a published model)."
        )
    entries, least = vocabularies[side]
    if not least <= rows <= len(entries):
        raise GtransError(
            f"--init-from {path}: it has {rows} embeddings, but its dictionary has {least} "
            "entries; name the dictionary it was trained with (`--init-dict`)."
        )
    return entries[:rows]


def _check_languages(
    fingerprint: ModelFingerprint | None,
    options: Mapping[str, Any],
    languages: tuple[str, str],
    path: str,
) -> None:
    """Raises GtransError if the checkpoint translates other languages.

    One that has language tokens has learned several, and is not compared.
    """
    named = (str(options.get("source_lang") or ""), str(options.get("target_lang") or ""))
    there = named if fingerprint is None else fingerprint.languages
    known = all(name not in ("", "None") for name in (*there, *languages))
    if known and not options.get("langs") and there != languages:
        raise GtransError(
            f"--init-from {path}: it translates {'-'.join(there)}, not {'-'.join(languages)}; give "
            "a checkpoint of these languages, or `--init-other-vocabulary` if this is meant."
        )
