"""Starting encoder and decoder from XLM-R, as in XLM-T (Ma et al. 2020), which GTRANS refers to.

A decoder layer takes self-attention and feed-forward network from the XLM-R layer of the same
number; cross-attention is new. With two feed-forward networks (the authors' code), layer ``2 i`` of
XLM-R (from 0) gives self-attention and the first network, layer ``2 i + 1`` cross-attention and the
second.
"""

import logging
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models.base.warm_start import WarmStartReport, grown
from gtrans.modules.bert import name_in_encoder
from gtrans.modules.embedding import OFFSET
from gtrans.modules.file_values import check_values
from gtrans.modules.pretrained_files import loading, transformers

logger = logging.getLogger(__name__)


# For a decoder layer with two feed-forward networks: names in the first and in the second of its
# two layers of XLM-R, and their names in the decoder layer.
_HALVES = (
    {"fc1": "fc3", "fc2": "fc4", "final_layer_norm": "ffn_layer_norm"},
    {"self_attn": "encoder_attn", "self_attn_layer_norm": "encoder_attn_layer_norm"},
)


_EMBEDDINGS = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.output_projection.weight",
)


def start_from_xlmr(
    model: nn.Module, folder: str, dictionaries: dict[str, Dictionary]
) -> WarmStartReport:
    """Load the XLM-R in ``folder`` into ``model``; embeddings are copied row by row.

    ``folder``: written by ``save_pretrained`` of `transformers`; no code in it is run.

    Raises:
        GtransError: the folder holds no XLM-R, sizes differ, or no word is in both vocabularies.
    """
    config, state, entries = _read(folder)
    _check_sizes(model, config, folder)
    own = model.state_dict()
    renamed: dict[str, Tensor] = {}
    for side in ("encoder", "decoder"):
        renamed |= _named_for(side, getattr(model, side).layers, state)
    report = WarmStartReport(renamed=[name for name in renamed if name in own])
    position_tables = ["encoder.embed_positions.weight", "decoder.embed_positions.weight"]
    missing = sorted({*renamed, *position_tables} - set(own))
    different = [name for name in report.renamed if renamed[name].shape != own[name].shape]
    misfits = missing + different
    if misfits:
        name = misfits[0]
        raise GtransError(
            f"--init-xlmr {folder}: this model has no {name} as XLM-R does; choose --arch "
            "gtrans_fusion_xlmr_base, sizes like those of XLM-R, and a post-norm --system."
        )
    words = state["embeddings.word_embeddings.weight"]
    for name in _EMBEDDINGS:
        side = name.partition(".")[0]
        new = dictionaries[side]
        renamed[name] = grown(own[name], words, entries, new)
        report.grown[name] = report.count_known(side, entries, new)
    if not any(known for known, _ in report.entries.values()):
        raise GtransError(
            f"--init-xlmr {folder}: its vocabulary has no word of this corpus; prepare the corpus "
            "with its sentencepiece model."
        )
    for name in position_tables:
        # XLM-R has a single token type, which it adds to every position.
        positions = state["embeddings.position_embeddings.weight"].clone()
        positions[OFFSET:] += state["embeddings.token_type_embeddings.weight"][0]
        rows = min(positions.size(0), own[name].size(0))
        renamed[name] = torch.cat([positions[:rows], own[name][rows:]])
        report.renamed.append(name)
    report.new = sorted(set(own) - set(renamed))
    model.load_state_dict({**own, **renamed})
    for line in report.lines(folder):
        logger.info(line)
    return report


def _named_for(side: str, layers: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return XLM-R's parameters for one side, without tables."""
    halves = _HALVES if layers[0].spec.two_feed_forwards else ({},)
    named = {}
    for there, tensor in state.items():
        group, _, rest = name_in_encoder(there).partition(".")
        if group == "layernorm_embedding":
            named[f"{side}.{group}.{rest}"] = tensor
        elif group == "layers":
            number, part, kind = rest.split(".", 2)
            layer, half = divmod(int(number), len(halves))
            if layer < len(layers):
                part = halves[half].get(part, part)
                named[f"{side}.layers.{layer}.{part}.{kind}"] = tensor
    return named


def _read(folder: str) -> tuple[Any, dict[str, Tensor], dict[str, int]]:
    name = f"--init-xlmr {folder}"
    library = transformers("`--init-xlmr`")
    # None would ask the user whether to run code.
    files_only = {"local_files_only": True, "trust_remote_code": False}
    with loading(name, "this XLM-R"):
        config = library.AutoConfig.from_pretrained(folder, **files_only)
        if config.model_type != "xlm-roberta":
            raise GtransError(f"it holds a {config.model_type}, no XLM-R")
        model = library.XLMRobertaModel.from_pretrained(
            folder, add_pooling_layer=False, dtype=torch.float32, **files_only
        )
        entries = library.AutoTokenizer.from_pretrained(folder, **files_only).get_vocab()
    state = model.state_dict()
    check_values(state, name)
    return config, state, entries


def _check_sizes(model: nn.Module, config: Any, folder: str) -> None:
    spec = model.encoder.layers[0].spec  # type: ignore[union-attr,index]
    wanted = [
        ("--encoder-embed-dim", spec.dim, config.hidden_size),
        ("--encoder-attention-heads", spec.heads, config.num_attention_heads),
        ("--encoder-ffn-embed-dim", spec.ffn_dim, config.intermediate_size),
        ("--activation-fn", spec.activation, config.hidden_act),
    ]
    for side in ("encoder", "decoder"):
        layers = getattr(model, side).layers
        most = config.num_hidden_layers
        if layers[0].spec.two_feed_forwards:
            most //= 2
        if len(layers) > most:
            wanted.append((f"--{side}-layers", len(layers), f"at most {most}"))
    for flag, here, there in wanted:
        if here != there:
            raise GtransError(
                f"--init-xlmr {folder}: `{flag}` must be {there}, as in this XLM-R, but is {here}."
            )
