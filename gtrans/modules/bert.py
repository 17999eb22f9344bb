"""BERT from the ``transformers`` library: its subwords, and its output as frozen features.

A BERT is a folder in the library's format or a name on the hub. Ids fit fairseq's dictionaries:
``[CLS]``, ``[PAD]``, ``[SEP]`` and ``[UNK]`` are ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``; then
come other entries that are no text (``[MASK]``, ``[unused1]``, ..), then the subwords of words.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.modules.file_values import check_values
from gtrans.modules.pretrained_files import loading, transformers

CLS, PAD, SEP, UNK = range(4)
_VOCABULARIES = ("tokenizer.json", "vocab.txt")
_UNUSED = re.compile(r"\[unused\d+\]")
# Tokens of one call of BERT, padding included.
_TOKENS_AT_ONCE = 8192


def load_config(name: str) -> Any:
    """Load a BERT's configuration.

    Raises:
        GtransError: it is missing, not readable, or not a BERT.
    """
    is_path = name.startswith(("/", ".", "~")) or name.count("/") > 1
    if is_path and not os.path.isdir(name):
        raise GtransError(f"{name}: there is no such BERT folder.")
    library = transformers("BERT")
    with loading(name, "this BERT"):
        # None would ask the user whether to run the code of a model on the hub.
        config = library.AutoConfig.from_pretrained(name, trust_remote_code=False)
    if config.model_type != "bert":
        raise GtransError(f"{name}: this is a model of type {config.model_type}, not a BERT.")
    return config


def load_bert(name: str) -> Any:
    """Load a ``BertModel`` without its pooling layer.

    Raises:
        GtransError: as :func:`load_config`; weights are missing or no numbers.
    """
    config = load_config(name)
    library = transformers("BERT")
    with loading(name, "the weights of this BERT"):
        model, report = library.BertModel.from_pretrained(
            name,
            config=config,
            add_pooling_layer=False,
            output_loading_info=True,
            dtype=torch.float32,
        )
    missing = sorted(report["missing_keys"])
    if missing:
        raise GtransError(
            f"{name}: this BERT is incomplete, its weights lack {len(missing)} tensors "
            f"({', '.join(missing[:2])}, ..)."
        )
    check_values(model.state_dict(), name)
    return model


class BertSubwords:
    """The tokenizer of a BERT.

    Attributes:
        longest: most subwords of a row, special tokens included.
        norm_eps: epsilon of LayerNorm.
        mask: the entry of a masked subword.
        entries: the subwords, in the order of ids outside of BERT.
        order: ``(subwords,)`` their ids inside BERT.
        first_word: the first id of a word's subwords.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        config = load_config(name)
        library = transformers("BERT")
        self.longest = int(config.max_position_embeddings)
        self.norm_eps = float(config.layer_norm_eps)
        with loading(name, "the tokenizer of this BERT"):
            here = [(Path(name) / file).is_file() for file in _VOCABULARIES]
            if os.path.isdir(name) and not any(here):  # the library would make an empty one
                raise FileNotFoundError(f"it has no {' or '.join(_VOCABULARIES)}")
            self._tokenizer = library.BertTokenizerFast.from_pretrained(name)
        own = self._tokenizer.get_vocab()
        tokenizer = self._tokenizer
        special: list[str] = [
            tokenizer.cls_token,
            tokenizer.pad_token,
            tokenizer.sep_token,
            tokenizer.unk_token,
        ]
        self.mask = str(tokenizer.mask_token)
        added = set(tokenizer.all_special_tokens)
        others = own.keys() - set(special)
        no_text: list[str] = []
        words: list[str] = []
        for entry in sorted(others, key=lambda entry: own[entry]):
            if entry in added or _UNUSED.fullmatch(entry):
                no_text.append(entry)
            else:
                words.append(entry)
        self.entries: list[str] = [*special, *no_text, *words]
        self.first_word = len(special) + len(no_text)
        self.order = torch.tensor([own[entry] for entry in self.entries])
        # An entry like [SEP] or [MASK] that is written in the text is an unknown word.
        self._ids = {own[entry]: id_ for id_, entry in enumerate(self.entries)}
        for entry in (*special, *no_text):
            self._ids[own[entry]] = UNK

    @cached_property
    def fingerprint(self) -> str:
        """Return a digest of the vocabulary and the normalisation."""
        tokenizer = json.loads(self._tokenizer.backend_tokenizer.to_str())
        rules = {
            "normalizer": tokenizer.get("normalizer"),
            "pre_tokenizer": tokenizer.get("pre_tokenizer"),
        }
        content = [rules, self.entries, self.order.tolist()]
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def files(self) -> dict[str, bytes]:
        """Return the files of the tokenizer, by name."""
        with tempfile.TemporaryDirectory() as folder:
            self._tokenizer.save_pretrained(folder)
            load_config(self.name).save_pretrained(folder)
            paths = sorted(Path(folder).iterdir())
            return {path.name: path.read_bytes() for path in paths}

    def encode(self, sentences: Sequence[str]) -> list[Tensor]:
        """Return ``(subwords + 1,)`` ids of each sentence, at least one subword, then ``[SEP]``."""
        encoded = self._tokenizer(
            list(sentences),
            add_special_tokens=False,
            verbose=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        rows = []
        for subwords in encoded["input_ids"]:
            ids = [self._ids[subword] for subword in subwords]
            if not ids:
                ids = [UNK]
            rows.append(torch.tensor([*ids, SEP]))
        return rows


def context_row(context: Sequence[Tensor], sentence: Tensor, longest: int) -> Tensor:
    """Return ``[CLS] context [SEP] sentence [SEP]``; without context ``[CLS] sentence [SEP]``.

    Args:
        context: sentences from :meth:`BertSubwords.encode`, the oldest first.
        sentence: the current sentence, never cut.
        longest: most subwords; the oldest of the context are cut to fit.
    """
    cls = sentence.new_tensor([CLS])
    sep = sentence.new_tensor([SEP])
    room = max(longest - len(sentence) - 2, 0)
    without_end = [part[:-1] for part in context]
    before = torch.cat([cls[:0], *without_end])
    too_many = max(len(before) - room, 0)
    before = before[too_many:]
    if not len(before):
        return torch.cat([cls, sentence])
    return torch.cat([cls, before, sep, sentence])


def token_types(row: Tensor) -> Tensor:
    """Return ``(length,)`` types: 0 up to the first ``[SEP]``, then 1."""
    separators = row.eq(SEP).long()
    separators_before = separators.cumsum(0) - separators
    return separators_before.clamp(max=1)


class FrozenBert:
    """A BERT that is never trained and gives the states of its last layer.

    It is no ``nn.Module``, so no model, optimizer or checkpoint stores it.
    """

    def __init__(self, subwords: BertSubwords) -> None:
        self._subwords = subwords
        self._model = load_bert(subwords.name).eval().requires_grad_(False)
        self.dim = int(self._model.config.hidden_size)

    @cached_property
    def fingerprint(self) -> str:
        """Return a digest of weights, configuration and subwords."""
        digest = hashlib.sha256(self._subwords.fingerprint.encode())
        config = self._model.config.to_dict()
        for key in ("num_attention_heads", "hidden_act", "layer_norm_eps"):
            digest.update(f"{key}={config[key]};".encode())
        for name, tensor in sorted(self._model.state_dict().items()):
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @torch.no_grad()
    def __call__(self, rows: Sequence[Tensor], device: torch.device) -> list[Tensor]:
        """Return features ``(length, dim)`` of rows of ids, in half precision on the CPU.

        Rows that are too long for BERT go through it in parts.
        """
        self._model.to(device)
        ids: list[Tensor] = []
        types: list[Tensor] = []
        counts = []
        for row in rows:
            parts = torch.split(self._subwords.order[row], self._subwords.longest)
            ids += parts
            types += torch.split(token_types(row), self._subwords.longest)
            counts.append(len(parts))
        features = [torch.empty(0)] * len(ids)
        by_length = sorted(range(len(ids)), key=lambda index: -len(ids[index]))
        begin = 0
        while begin < len(by_length):
            longest = len(ids[by_length[begin]])
            most = max(_TOKENS_AT_ONCE // longest, 1)
            batch = by_length[begin : begin + most]
            begin += len(batch)
            batch_ids = [ids[index] for index in batch]
            batch_types = [types[index] for index in batch]
            states = self._states(batch_ids, batch_types, device)
            for index, state in zip(batch, states, strict=True):
                length = len(ids[index])
                features[index] = state[:length].clone()
        remaining = iter(features)
        return [torch.cat(list(islice(remaining, count))) for count in counts]

    def _states(self, ids: list[Tensor], types: list[Tensor], device: torch.device) -> Tensor:
        """Return ``(parts, longest, dim)`` states on the CPU; padding is arbitrary."""
        real = [torch.ones_like(part) for part in ids]
        pad = partial(nn.utils.rnn.pad_sequence, batch_first=True)
        states = self._model(
            input_ids=pad(ids).to(device),
            attention_mask=pad(real).to(device),
            token_type_ids=pad(types).to(device),
        )
        halves: Tensor = states.last_hidden_state.half().cpu()
        return halves


# The share of the mean variance that whitening adds to every variance, to keep noise small.
SHRINKAGE = 0.01


class Whitening(nn.Module):
    """Whitening of a frozen encoder's states: ``(x - mean) map``, the identity until measured.

    The variance of states differs between directions by orders of magnitude, and Adam learns the
    small directions last. ZCA whitening (Bell and Sejnowski 1997; Kessy, Lewin and Strimmer 2018)
    is this project's own addition.

    Attributes:
        mean: ``(dim,)``.
        map: ``(dim, dim)``, ``(C + SHRINKAGE trace(C) / dim)^(-1/2)`` with covariance ``C``.
        encoder_digest: ``(32,)`` bytes, the SHA-256 of the measured encoder; zeros before.
    """

    mean: Tensor
    map: Tensor
    encoder_digest: Tensor

    def __init__(self, dim: int, raw: bool = False) -> None:
        """``raw``: leave states as they are, and store only the digest."""
        super().__init__()
        self.raw = raw
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("map", torch.zeros(dim, dim).fill_diagonal_(1))
        self.register_buffer("encoder_digest", torch.zeros(32, dtype=torch.uint8))

    def forward(self, states: Tensor) -> Tensor:
        """Return whitened states ``(.., dim)`` in the precision of ``mean``."""
        if not self.raw:
            # Some of BERT's outputs have a mean far from 0: half precision would lose the rest.
            centred = states.float() - self.mean.float()
            states = centred @ self.map.float()
        return states.to(self.mean)

    @property
    def measured_on(self) -> str | None:
        """The hexadecimal digest given to :meth:`measure`, or None."""
        if not self.encoder_digest.any():
            return None
        return bytes(self.encoder_digest.tolist()).hex()

    @torch.no_grad()
    def measure(self, chunks: Iterable[Tensor], fingerprint: str) -> None:
        """Set ``mean`` and ``map`` from chunks of states, each ``(states, dim)``.

        ``fingerprint`` is the hexadecimal SHA-256 of their encoder.
        """
        digest = list(bytes.fromhex(fingerprint))
        self.encoder_digest.copy_(torch.tensor(digest))
        if self.raw:
            return
        dim = self.mean.numel()
        count = 0
        total = self.mean.new_zeros(dim, dtype=torch.double)
        squares = self.map.new_zeros(dim, dim, dtype=torch.double)
        for chunk in chunks:
            states = chunk.to(total)
            count += states.size(0)
            total += states.sum(0)
            squares += states.T @ states
        mean = total / count
        mean_square = squares / count
        covariance = mean_square - torch.outer(mean, mean)
        variances, axes = torch.linalg.eigh(covariance)
        variances = variances.clamp_min(0)
        # The floor avoids a division by 0 if all states are equal; they become zero.
        smallest = torch.finfo(torch.float).eps
        added = SHRINKAGE * variances.mean()
        added = added.clamp_min(smallest)
        shrunk = variances + added
        scales = shrunk.rsqrt()
        self.mean.copy_(mean)
        self.map.copy_((axes * scales) @ axes.T)


# Names of parameters in BERT -> in this project's encoder.
_RENAMES = (
    ("embeddings.position_embeddings.", "embed_positions."),
    ("embeddings.token_type_embeddings.", "embed_segments."),
    ("embeddings.LayerNorm.", "layernorm_embedding."),
    ("encoder.layer.", "layers."),
    (".attention.self.query.", ".self_attn.q_proj."),
    (".attention.self.key.", ".self_attn.k_proj."),
    (".attention.self.value.", ".self_attn.v_proj."),
    (".attention.output.dense.", ".self_attn.out_proj."),
    (".attention.output.LayerNorm.", ".self_attn_layer_norm."),
    (".intermediate.dense.", ".fc1."),
    (".output.dense.", ".fc2."),
    (".output.LayerNorm.", ".final_layer_norm."),
)
_WORDS = "embeddings.word_embeddings.weight"


def name_in_encoder(name: str) -> str:
    """Return a BERT's or XLM-R's parameter name as in an encoder of this project."""
    for old, new in _RENAMES:
        name = name.replace(old, new)
    return name


class BertWeights:
    """The parameters of a BERT, to initialise an encoder of this project.

    Attributes:
        parameters: by names of the encoder, without word embeddings.
        words: ``(subwords, dim)`` word embeddings in the order of :class:`BertSubwords`.
        mask: ``(dim,)`` the embedding of ``[MASK]``, or None.
    """

    def __init__(self, subwords: BertSubwords) -> None:
        """Raise GtransError if the activation is not GELU."""
        self.name = subwords.name
        model = load_bert(subwords.name)
        config = model.config
        if config.hidden_act != "gelu":
            raise GtransError(
                f"{self.name}: this BERT has the activation {config.hidden_act}; an encoder can "
                "only start from a BERT with gelu."
            )
        self.dim = int(config.hidden_size)
        self.layers = int(config.num_hidden_layers)
        self.heads = int(config.num_attention_heads)
        self.ffn_dim = int(config.intermediate_size)
        self.parameters: dict[str, Tensor] = {}
        for name, tensor in model.named_parameters():
            if name == _WORDS:
                self.words: Tensor = tensor.detach()[subwords.order]
                continue
            self.parameters[name_in_encoder(name)] = tensor.detach()
        self.mask: Tensor | None = None
        if subwords.mask in subwords.entries:
            number = subwords.entries.index(subwords.mask)
            self.mask = self.words[number]
