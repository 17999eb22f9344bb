"""Translate with the program of Bao et al. (2021): settings come in as JSON, results go out so.

It needs the folder of their program in PYTHONPATH, whose fairseq takes the place of the installed
one, and nothing of this package.
"""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy
import torch

# Their fairseq is of a time when numpy had these names for Python's types.
for _type in (bool, float, int):
    if _type.__name__ not in vars(numpy):
        setattr(numpy, _type.__name__, _type)


def main() -> None:
    """Translate documents into as many words as their sentences have."""
    from fairseq.data import Dictionary
    from fairseq.models.gtransformer import GTransformerModel
    from fairseq.sequence_generator import SequenceGenerator

    torch.set_num_threads(1)
    settings: dict[str, Any] = json.load(sys.stdin)
    dictionary: Any = Dictionary()
    for number in range(settings["vocabulary"] - dictionary.nspecial):
        dictionary.add_symbol(f"w{number}")
    source_end, target_end = (dictionary.add_symbol(f"[{lang}]") for lang in ("en", "de"))
    layers = {f"{part}_ctxlayers": 2 for part in ("encoder", "decoder", "cross")}
    options = SimpleNamespace(
        **settings["sizes"], **layers, share_all_embeddings=True, doc_mode="partial",
        source_lang="en", target_lang="de", max_source_positions=4096, max_target_positions=4096,
        encoder_layers_to_keep=None, decoder_layers_to_keep=None, tie_adaptive_weights=False,
        encoder_layerdrop=0, decoder_layerdrop=0, quant_noise_pq=0,
    )  # fmt: skip
    torch.manual_seed(1)
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model: Any = GTransformerModel.build_model(options, task).eval()
    project = model.decoder.output_layer

    def endless(features: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = project(features)
        logits[..., dictionary.eos()] = -1e4
        return logits

    model.decoder.output_layer = endless
    generator: Any = SequenceGenerator(
        [model], dictionary, dictionary, force_length=True, beam_size=settings["beam"],
        max_len_a=1, max_len_b=0, min_len=1, eos=target_end,
    )  # fmt: skip
    rows = [
        [token for words in document for token in (dictionary.bos(), *words, dictionary.eos())]
        + [source_end]
        for document in settings["documents"]
    ]
    source = torch.tensor(rows)
    lengths = torch.full((len(rows),), source.size(1))
    begin = time.process_time()
    with torch.no_grad():
        found = generator.generate(
            [model], {"net_input": {"src_tokens": source, "src_lengths": lengths}}
        )
    seconds = time.process_time() - begin
    written = torch.cat([row[0]["tokens"] for row in found])
    words = int(((written >= dictionary.nspecial) & (written < source_end)).sum())
    print(json.dumps({"words": words, "seconds": seconds}))


if __name__ == "__main__":
    main()
