"""BERT from the ``transformers`` library: its subwords, and its output as frozen features.

A BERT is given as a local folder in the library's format or as a name on the hub. Subwords
are numbered so that they fit fairseq's dictionaries: first ``[CLS]``, ``[PAD]``, ``[SEP]`` and
``[UNK]`` with the numbers of ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``; then other entries
that are not text (``[MASK]``, ``[unused1]``, ..); then the subwords of words.
:attr:`BertSubwords.order` maps them to BERT's own ids.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from functools import cached_property
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
    """The configuration of the BERT in a folder or on the hub.

    Raises:
        GtransError: it is missing, not readable, or not a BERT.
    """
    if not os.path.isdir(name) and (name.startswith(("/", ".", "~")) or name.count("/") > 1):
        raise GtransError(f"{name}: there is no such BERT folder.")
    library = transformers("BERT")
    with loading(name, "this BERT"):
        # None would ask the user whether to run the code of a model on the hub.
        config = library.AutoConfig.from_pretrained(name, trust_remote_code=False)
    if config.model_type != "bert":
        raise GtransError(f"{name}: this is a model of type {config.model_type}, not a BERT.")
    return config


def load_bert(name: str) -> Any:
    """The ``BertModel`` in a folder or on the hub, without the pooling layer.

    Raises:
        GtransError: as in :func:`load_config`, and if weights are missing or no numbers.
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
        name: the BERT's folder or name.
        longest: most subwords that the BERT can read at once, ``[CLS]`` and ``[SEP]`` included.
        norm_eps: epsilon of its LayerNorm.
        mask: the entry of a masked subword.
        entries: the subwords; their indices are the ids used everywhere outside of BERT.
        order: ``(subwords,)`` BERT's own id of each subword.
        first_word: the first id of a subword of a word; all later ones are such subwords, too.
    """

    def __init__(self, name: str) -> None:
        """Raises GtransError as :func:`load_config`."""
        self.name = name
        config, library = load_config(name), transformers("BERT")
        self.longest = int(config.max_position_embeddings)
        self.norm_eps = float(config.layer_norm_eps)
        with loading(name, "the tokenizer of this BERT"):
            here = [(Path(name) / file).is_file() for file in _VOCABULARIES]
            if os.path.isdir(name) and not any(here):  # the library would make an empty one
                raise FileNotFoundError(f"it has no {' or '.join(_VOCABULARIES)}")
            self._tokenizer = library.BertTokenizerFast.from_pretrained(name)
        own = self._tokenizer.get_vocab()
        roles = ("cls", "pad", "sep", "unk")
        special = [getattr(self._tokenizer, f"{role}_token") for role in roles]
        self.mask = str(self._tokenizer.mask_token)
        added = set(self._tokenizer.all_special_tokens)
        rest = sorted(own.keys() - set(special), key=lambda entry: own[entry])
        no_text: list[str] = []
        words: list[str] = []
        for entry in rest:
            is_word = entry not in added and not _UNUSED.fullmatch(entry)
            (words if is_word else no_text).append(entry)
        self.entries: list[str] = [*special, *no_text, *words]
        self.first_word = len(special) + len(no_text)
        self.order = torch.tensor([own[entry] for entry in self.entries])
        # An entry like [SEP] or [MASK] that is written in the text is an unknown word.
        self._ids = {own[entry]: id_ for id_, entry in enumerate(self.entries)}
        for entry in (*special, *no_text):
            self._ids[own[entry]] = UNK

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the vocabulary and of how text becomes subwords."""
        tokenizer = json.loads(self._tokenizer.backend_tokenizer.to_str())
        parts = {key: tokenizer.get(key) for key in ("normalizer", "pre_tokenizer")}
        text = json.dumps([parts, self.entries, self.order.tolist()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def files(self) -> dict[str, bytes]:
        """The contents of the files that make the same tokenizer again, by their names."""
        with tempfile.TemporaryDirectory() as folder:
            self._tokenizer.save_pretrained(folder)
            load_config(self.name).save_pretrained(folder)
            return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}

    def encode(self, sentences: Sequence[str]) -> list[Tensor]:
        """``(subwords + 1,)`` ids of each sentence: at least one subword, then ``[SEP]``."""
        encoded = self._tokenizer(
            list(sentences),
            add_special_tokens=False,
            verbose=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        unknown = int(self.order[UNK])
        rows = []
        for subwords in encoded["input_ids"]:
            ids = [self._ids[subword] for subword in subwords or [unknown]]
            rows.append(torch.tensor([*ids, SEP]))
        return rows


def context_row(context: Sequence[Tensor], sentence: Tensor, longest: int) -> Tensor:
    """``[CLS] context [SEP] sentence [SEP]``; without context ``[CLS] sentence [SEP]``.

    Args:
        context: sentences as :meth:`BertSubwords.encode` returns them, the oldest first.
        sentence: the current sentence.
        longest: most subwords of the row. The oldest subwords of the context are left out to fit,
            but none of the sentence, even if it is longer than that.
    """
    cls = sentence.new_tensor([CLS])
    before = torch.cat([cls[:0], *(part[:-1] for part in context)])
    room = longest - len(sentence) - 2
    before = before[max(len(before) - room, 0) :] if room > 0 else before[:0]
    if not len(before):
        return torch.cat([cls, sentence])
    return torch.cat([cls, before, sentence.new_tensor([SEP]), sentence])


def token_types(row: Tensor) -> Tensor:
    """``(length,)`` of a :func:`context_row`: 0 up to the first ``[SEP]``, 1 after it."""
    separators = row.eq(SEP).long()
    return (separators.cumsum(0) - separators).clamp(max=1)


class FrozenBert:
    """A BERT that is never trained and whose last hidden layer is read.

    It is not an ``nn.Module``, so it is in no model, optimizer or checkpoint. It runs in
    evaluation mode and without gradients.

    Attributes:
        dim: width of its features.
    """

    def __init__(self, subwords: BertSubwords) -> None:
        """Raises GtransError as :func:`load_bert`."""
        self._pieces = subwords
        self._model = load_bert(subwords.name).eval().requires_grad_(False)
        self.dim = int(self._model.config.hidden_size)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of weights, configuration and subwords."""
        digest = hashlib.sha256(self._pieces.fingerprint.encode())
        config = self._model.config.to_dict()
        for key in ("num_attention_heads", "hidden_act", "layer_norm_eps"):
            digest.update(f"{key}={config[key]};".encode())
        for name, tensor in sorted(self._model.state_dict().items()):
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @torch.no_grad()
    def __call__(self, rows: Sequence[Tensor], device: torch.device) -> list[Tensor]:
        """Features of rows ``[CLS] .. [SEP]``, each ``(length,)`` ids.

        A row with more subwords than BERT can read is read in parts.

        Returns:
            for each row ``(length, dim)`` in half precision on the CPU, as they are cached.
        """
        self._model.to(device)
        # Ids, who is real, and token types of every part.
        parts: list[tuple[Tensor, ...]] = []
        counts = []
        for row in rows:
            columns = self._pieces.order[row], torch.ones_like(row), token_types(row)
            cut = list(
                zip(*(torch.split(column, self._pieces.longest) for column in columns), strict=True)
            )
            parts += cut
            counts.append(len(cut))
        features = [torch.empty(0)] * len(parts)
        by_length = sorted(range(len(parts)), key=lambda index: -len(parts[index][0]))
        while by_length:
            most = max(_TOKENS_AT_ONCE // len(parts[by_length[0]][0]), 1)
            batch, by_length = by_length[:most], by_length[most:]
            ids, real, types = (
                nn.utils.rnn.pad_sequence(list(column), True).to(device)
                for column in zip(*(parts[index] for index in batch), strict=True)
            )
            states = self._model(input_ids=ids, attention_mask=real, token_type_ids=types)
            halves = states.last_hidden_state.half().cpu()
            for index, state in zip(batch, halves, strict=True):
                features[index] = state[: len(parts[index][0])].clone()
        remaining = iter(features)
        return [torch.cat(list(islice(remaining, count))) for count in counts]


SHRINKAGE = 0.01
"""Share of the mean variance that whitening adds to every variance, so that noise stays small."""


class Whitening(nn.Module):
    """Whitening of a frozen encoder's states: ``(x - mean) map``, the identity until measured.

    The variance of a frozen encoder's states may differ between directions by several orders of
    magnitude: one direction may tell subjects from objects, a far smaller one may tell two nouns
    apart. Adam scales every parameter on its own, which does not help where the directions are not
    the axes, so a projection of such states learns the small directions last.

    Where the states are attended to directly, a fixed affine map before the projections does not
    change what these can express: keys and values of ``(x - m) W`` are keys and values of ``x``
    with other weights and another bias, and the bias of a key has no effect. What a model learns
    from its
    random start does change: it is another system. Where trained layers read the states
    (``--context-input bert``), residual connections carry them past all projections, so the two
    models do not express the same functions either, unless the widths differ and a projection comes
    first.

    The map is ZCA whitening (Bell and Sejnowski 1997; Kessy, Lewin and Strimmer 2018), which
    changes states least. It is this project's own; the thesis (Guo Zhiyu 2021) and Zhu et al.
    (2020) attend to BERT's output as it is.

    Attributes:
        mean: ``(dim,)``.
        map: ``(dim, dim)``, ``(C + SHRINKAGE trace(C) / dim)^(-1/2)`` with covariance ``C``.
        of: ``(32,)`` bytes, the SHA-256 of the encoder whose states were measured; zeros before
            that. (The name is part of checkpoints.)
    """

    mean: Tensor
    map: Tensor
    of: Tensor

    def __init__(self, dim: int, raw: bool = False) -> None:
        """``raw``: leave states as they are, and only store their encoder's fingerprint."""
        super().__init__()
        self.raw = raw
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("map", torch.zeros(dim, dim).fill_diagonal_(1))
        self.register_buffer("of", torch.zeros(32, dtype=torch.uint8))

    def forward(self, states: Tensor) -> Tensor:
        """``(.., dim) -> (.., dim)`` in the precision of ``mean``."""
        if not self.raw:
            # Some of BERT's outputs have a mean far from 0: half precision would lose the rest.
            states = (states.float() - self.mean.float()) @ self.map.float()
        return states.to(self.mean)

    @property
    def measured_on(self) -> str | None:
        """The fingerprint given to :meth:`measure`, in hexadecimal; None before that."""
        return bytes(self.of.tolist()).hex() if bool(self.of.any()) else None

    @torch.no_grad()
    def measure(self, chunks: Iterable[Tensor], fingerprint: str) -> None:
        """Set ``mean`` and ``map`` from states.

        Args:
            chunks: each ``(states, dim)``; not read if ``raw``.
            fingerprint: SHA-256 of their encoder, in hexadecimal.
        """
        self.of.copy_(torch.tensor(list(bytes.fromhex(fingerprint))))
        if self.raw:
            return
        dim = self.mean.numel()
        count, total = 0, self.mean.new_zeros(dim, dtype=torch.double)
        squares = self.map.new_zeros(dim, dim, dtype=torch.double)
        for chunk in chunks:
            states = chunk.to(total)
            count += states.size(0)
            total += states.sum(0)
            squares += states.T @ states
        mean = total / count
        variances, axes = torch.linalg.eigh(squares / count - torch.outer(mean, mean))
        variances = variances.clamp_min(0)
        # The floor avoids a division by 0 if all states are equal; they become zero.
        added = (SHRINKAGE * variances.mean()).clamp_min(torch.finfo(torch.float).eps)
        self.mean.copy_(mean)
        self.map.copy_((axes * (variances + added).rsqrt()) @ axes.T)


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
    """The name that a parameter of a BERT or an XLM-R has in an encoder of this project."""
    for old, new in _RENAMES:
        name = name.replace(old, new)
    return name


class BertWeights:
    """The parameters of a BERT, to initialise an encoder of this project.

    Attributes:
        name: folder or name of the BERT.
        dim, layers, heads, ffn_dim: its sizes.
        parameters: under the names of the encoder, without the word embeddings.
        words: ``(subwords, dim)`` word embeddings in the order of :class:`BertSubwords`.
        mask: ``(dim,)`` the embedding of ``[MASK]``, or None.
    """

    def __init__(self, subwords: BertSubwords) -> None:
        """Raises GtransError as :func:`load_bert`, and if the activation is not GELU."""
        self.name = subwords.name
        model = load_bert(subwords.name)
        config = model.config
        if config.hidden_act != "gelu":
            raise GtransError(
                f"{self.name}: this BERT has the activation {config.hidden_act}; an encoder can "
                "only start from a BERT with gelu."
            )
        self.dim, self.layers = int(config.hidden_size), int(config.num_hidden_layers)
        self.heads, self.ffn_dim = int(config.num_attention_heads), int(config.intermediate_size)
        self.parameters: dict[str, Tensor] = {}
        for name, tensor in model.named_parameters():
            if name == _WORDS:
                self.words: Tensor = tensor.detach()[subwords.order]
                continue
            self.parameters[name_in_encoder(name)] = tensor.detach()
        mask = subwords.entries.index(subwords.mask) if subwords.mask in subwords.entries else None
        self.mask: Tensor | None = None if mask is None else self.words[mask]
