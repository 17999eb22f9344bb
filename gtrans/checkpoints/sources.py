"""Checkpoints of other programs: where their parts are, and one table of renames for each.

=================  =============================================================================
``g-transformer``  the authors' G-Transformer: ``{'args': Namespace, 'model': state dict}``
``fairseq``        mBART and ``transformer`` of fairseq (``model.pt``): the same, or ``cfg`` in
                   place of ``args``
``huggingface``    :mod:`gtrans.conversion.hugging_face`
=================  =============================================================================

The rows of all embeddings are in fairseq's order: the entries of ``dict.txt``, then ``[lang]`` for
each language, then ``<mask>``.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from gtrans.checkpoints.fingerprint import ModelFingerprint
from gtrans.checkpoints.reading import options_of, read_checkpoint
from gtrans.data.frame import pretrained_special_tokens
from gtrans.data.vocabulary import split_languages
from gtrans.errors import GtransError
from gtrans.text.moses import MosesSteps
from gtrans.text.subwords import read_subwords

ENCODER_TABLE = "encoder.embed_tokens.weight"
DECODER_TABLE = "decoder.embed_tokens.weight"
OUTPUT = "decoder.output_projection.weight"
TABLES = (ENCODER_TABLE, DECODER_TABLE, OUTPUT)
BIAS = "decoder.output_projection.bias"
MARIAN_SUFFIX = ".npz"
_SHARED = "shared.weight"
LACKING = "no translation model, or only a part of one: it holds no"

Renames = Sequence[tuple[str, str | None]]
"""Regular expressions of names there, and what stands for them here; None: it is no parameter."""

_FAIRSEQ: Renames = (
    # Entries without arithmetic meaning that older versions have.
    (r"(^|\.)(version|_float_tensor|embed_positions\.weights)$", None),
    (r"^decoder\.embed_out$", OUTPUT),
)
_HUGGING_FACE: Renames = (
    (r"^model\.", ""),
    (r"^final_logits_bias$", BIAS),
    (r"^lm_head\.weight$", OUTPUT),
)
RENAMES: dict[str, Renames] = {
    "g-transformer": (
        *_FAIRSEQ,
        (r"_attn_local\.", "_attn."),
        (r"_attn_global\.", "_attn.global_attn."),
        (r"_attn_gate\.0\.", "_attn.gate.proj."),
    ),
    "fairseq": _FAIRSEQ,
    "huggingface": _HUGGING_FACE,
    # Tables of positions that are computed.
    "sinusoidal": (*_HUGGING_FACE, (r"embed_positions\.weights?$", None)),
}

MBART25 = (
    "ar_AR,cs_CZ,de_DE,en_XX,es_XX,et_EE,fi_FI,fr_XX,gu_IN,hi_IN,it_IT,ja_XX,kk_KZ,ko_KR,lt_LT,"
    "lv_LV,my_MM,ne_NP,nl_XX,ro_RO,ru_RU,si_LK,tr_TR,vi_VN,zh_CN"
)
"""The languages of mBART, in the order of their tokens."""
MBART50 = (
    f"{MBART25},af_ZA,az_AZ,bn_IN,fa_IR,he_IL,hr_HR,id_ID,ka_GE,km_KH,mk_MK,ml_IN,mn_MN,mr_IN,"
    "pl_PL,ps_AF,pt_XX,sv_SE,sw_KE,ta_IN,te_IN,th_TH,tl_XX,uk_UA,ur_PK,xh_ZA,gl_ES,sl_SI"
)

# Names of the codes of BPE beside a Transformer; the first is the name in a data folder.
_CODES = ("codes.bpe", "bpecodes", "code", "codes")


@dataclass(frozen=True)
class Tokens:
    """How the published model of a folder reads text.

    Attributes:
        words: subwords of both sides, by row.
        state: entries of ``prepare.json``.
        files: contents by name.
    """

    words: tuple[list[str], list[str]]
    state: Mapping[str, Any]
    files: Mapping[str, bytes]


@dataclass
class ForeignCheckpoint:
    """A checkpoint of another program.

    Attributes:
        state: parameters under their names in this project.
        options: options under the names of fairseq's Transformer.
        original, ignored: names of all entries, and of entries without parameters.
        langs: languages whose tokens follow the dictionary.
        special_tokens: see :class:`gtrans.data.frame.Frame`.
        doc_mode: ``partial`` if the names of tensors point to group attention, else ``full``.
        fingerprint: of ``gtrans trim-vocab``.
        without_mask: the embeddings may lack the mask.
        card: ``name`` and ``licence``.
    """

    path: Path
    state: dict[str, Tensor]
    options: Mapping[str, Any]
    original: list[str]
    ignored: list[str]
    langs: list[str] = field(default_factory=list)
    source_lang: str | None = None
    target_lang: str | None = None
    special_tokens: str = "both"
    unit: str = "sentence"
    doc_mode: str = "full"
    fingerprint: ModelFingerprint | None = None
    without_mask: bool = False
    tokens: Tokens | None = None
    card: dict[str, str] = field(default_factory=dict)

    def add_mask(self, source: int, target: int) -> bool:
        """Add a row for the mask, the last entry, to embeddings; return False if they have one.

        The row is the mean of all rows, so that the logit of the mask is the mean of all logits.
        """
        if not self.without_mask:
            return False
        tables = {name: self.state[name] for name in TABLES if name in self.state}
        for name, table in tables.items():
            entries = source if name == ENCODER_TABLE else target
            if table.size(0) != entries - 1:
                return False
        for name, table in tables.items():
            mean = table.float().mean(0, keepdim=True).to(table.dtype)
            self.state[name] = torch.cat([table, mean])
        return True


def rename_parameters(
    tensors: Mapping[str, Tensor], renames: Renames
) -> tuple[dict[str, Tensor], list[str]]:
    """Return the parameters under this project's names, and the names of other entries."""
    state: dict[str, Tensor] = {}
    ignored: list[str] = []
    for original, tensor in tensors.items():
        name = original
        for pattern, replacement in renames:
            if replacement is None and re.search(pattern, name):
                ignored.append(original)
                break
            name = re.sub(pattern, replacement or "", name)
        else:
            state[name] = tensor
    return state, ignored


def foreign_checkpoint(
    renames: str,
    path: Path,
    options: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    is_tied: bool = False,
    **more: Any,
) -> ForeignCheckpoint:
    """Return the checkpoint of another program, with an entry for each shared table.

    Args:
        renames: a name in :data:`RENAMES`.
        tensors: parameters under their names there.
        is_tied: a missing table is the same as the others.
        more: attributes of :class:`ForeignCheckpoint`.
    """
    state, ignored = rename_parameters(tensors, RENAMES[renames])
    shared = state.pop(_SHARED, None)
    if shared is None and is_tied:
        shared = next((state[name] for name in TABLES if name in state), None)
    if shared is not None:
        state = {**dict.fromkeys(TABLES, shared), **state}
    if OUTPUT not in state and DECODER_TABLE in state:
        state[OUTPUT] = state[DECODER_TABLE]
    for name in (ENCODER_TABLE, DECODER_TABLE):
        if name not in state:
            raise GtransError(f"{path}: {LACKING} {name}.")
    return ForeignCheckpoint(path, state, options, list(tensors), ignored, **more)


def refuse_marian(path: Path) -> NoReturn:
    """Raise GtransError for a model of Marian itself."""
    raise GtransError(
        f"{path}: this is a model of Marian itself; convert it with "
        "`python -m transformers.models.marian.convert_marian_to_pytorch`, or download the same "
        "model from huggingface.co/Helsinki-NLP, and give that folder to `--from huggingface`."
    )


def read_g_transformer(path: Path) -> ForeignCheckpoint:
    """Read a checkpoint of the authors' G-Transformer."""
    if path.suffix == MARIAN_SUFFIX and path.is_file():
        refuse_marian(path)
    checkpoint = read_checkpoint(path)
    args, tensors = checkpoint.get("args"), checkpoint["model"]
    if not isinstance(args, Namespace):
        raise GtransError(
            f"{path}: not a checkpoint of the authors' G-Transformer, it holds no options "
            "('args') of fairseq 0.9."
        )
    langs = split_languages(getattr(args, "langs", None))
    source = getattr(args, "source_lang", None)
    target = getattr(args, "target_lang", None)
    if not (source and target):
        if len(langs) != 2:
            raise GtransError(f"{path}: its options name no source and target language.")
        source, target = langs
    return foreign_checkpoint(
        "g-transformer",
        path,
        vars(args),
        tensors,
        langs=langs or list(dict.fromkeys([source, target])),
        source_lang=source,
        target_lang=target,
        unit="document",
        doc_mode="partial" if any("_attn_local." in name for name in tensors) else "full",
    )


def read_fairseq(path: Path) -> ForeignCheckpoint:
    """Read an mBART or Transformer of fairseq."""
    if path.is_dir():
        raise GtransError(
            f"{path} is a folder; give the checkpoint in it, such as model.pt, or say "
            "`--from huggingface`."
        )
    if not path.is_file():
        raise GtransError(f"{path}: there is no such checkpoint; check the path.")
    if path.suffix == MARIAN_SUFFIX:
        refuse_marian(path)
    checkpoint = read_checkpoint(path)
    options = options_of(checkpoint, "model")
    task = options_of(checkpoint, "task")
    if not options:
        raise GtransError(f"{path}: not a checkpoint of fairseq's, it holds no options.")
    name = str(options.get("arch") or options.get("_name"))
    is_stock = name.startswith("transformer")
    special_tokens = "end" if is_stock else pretrained_special_tokens(options)
    if not is_stock and not special_tokens.startswith("mbart"):
        raise GtransError(f"{path}: the model is '{name}', neither mBART nor a `transformer`.")
    source = options.get("source_lang") or task.get("source_lang")
    target = options.get("target_lang") or task.get("target_lang")
    return foreign_checkpoint(
        "fairseq",
        path,
        flat_options(options),
        checkpoint["model"],
        langs=split_languages(options.get("langs")),
        source_lang=source,
        target_lang=target,
        special_tokens=special_tokens,
        fingerprint=ModelFingerprint.of_checkpoint(checkpoint, path),
        without_mask=is_stock,
        tokens=_tokens_beside(path, source, target) if is_stock else None,
    )


def flat_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of fairseq's Transformer by older names: ``encoder_normalize_before``."""
    flat = dict(options)
    for side in ("encoder", "decoder"):
        inner = options.get(side)
        if isinstance(inner, Mapping):
            flat |= {f"{side}_{name}": value for name, value in inner.items()}
    return flat


def _tokens_beside(path: Path, *languages: str | None) -> Tokens | None:
    """Return the fastBPE codes and dictionaries beside a Transformer, if any.

    The codes have a third column with counts, and merges as in subword-nmt's 0.2.
    """
    found = [path.with_name(name) for name in _CODES if path.with_name(name).is_file()]
    dictionaries = [path.with_name(f"dict.{lang}.txt") for lang in languages]
    if not found or not all(dictionary.is_file() for dictionary in dictionaries):
        return None
    merges = []
    for line in found[0].read_text("utf-8").splitlines():
        if not line.startswith("#version"):
            merges.append(" ".join(line.split(" ")[:2]))
    contents = "\n".join(["#version: 0.2", *merges, ""]).encode()
    source, target = map(read_subwords, dictionaries)
    steps = MosesSteps(normalise=False, truecase=False, plain=True).record()
    state = {"subwords": None, "steps": steps, "bpe": {"merges": len(merges)}}
    return Tokens((source, target), state, {_CODES[0]: contents})
