"""How fast GTRANS layer fusion decodes, next to the plain Transformer (its table VII).

All systems write equally much with fairseq's own beam search. Beside the ratio of times stands
that of a count of multiplications, in which every group adds one output matrix.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from documents import dictionary_of
from fairseq.data import Dictionary
from measuring import Device, Size, ratio, take_turns
from report import Benchmark, Row, Rows, table
from systems import ours, stock, write_sequences
from torch import nn

YARDSTICK = "post-norm Transformer"
STOCK = "fairseq's Transformer"
GROUPS = 6
# Name -> options of our model, and how many groups have a softmax.
SYSTEMS: dict[str, tuple[dict[str, Any], int]] = {
    YARDSTICK: ({"system": "post-norm"}, 1),
    "GTRANS, 6 groups": ({}, GROUPS),
    "GTRANS, groups 3:6": ({"use_groups": "3:6"}, 4),
    "GTRANS, group 6:6": ({"use_groups": "6:6"}, 1),
}


def multiplications(size: Size, groups: int, words: int, beam: int) -> float:
    """Of one token of one hypothesis, the encoder's share included.

    Args:
        size: of the model.
        groups: softmaxes that are computed.
        words: of a sentence, on both sides.
        beam: hypotheses of the search.
    """
    dim, ffn = size.dim, size.ffn
    encoder_layers, decoder_layers = size.depth
    attended = 2 * dim * (words / 2 + words)
    layer = 6 * dim * dim + 2 * dim * ffn + attended
    source = encoder_layers * (6 * dim * dim + 2 * dim * ffn + 2 * dim * words)
    return decoder_layers * layer + source / beam + groups * dim * size.vocabulary


def models_of(size: Size, dictionary: Dictionary) -> dict[str, nn.Module]:
    """All systems, untrained."""
    layers = max(size.depth[1] // GROUPS, 1)
    found = {
        name: ours(
            "gtrans_fusion_small", size, dictionary, decoder_group_size=layers, **options
        )
        for name, (options, _) in SYSTEMS.items()
    }
    return {**found, STOCK: stock(size, dictionary)}


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Words per second of every system, for every number of sentences at once."""
    dictionary = dictionary_of(args.size)
    models = {n: device.model(m).eval() for n, m in models_of(args.size, dictionary).items()}
    for sentences in args.batches:
        draw = torch.Generator().manual_seed(2)
        shape = (sentences, args.words + 1)
        source = torch.randint(dictionary.nspecial, len(dictionary), shape, generator=draw)
        source[:, -1] = dictionary.eos()
        work = {
            name: partial(
                write_sequences, model, dictionary, source.to(device.name), args.words, args.beam
            )
            for name, model in models.items()
        }
        for write in work.values():
            write()  # the first one finds tables and buffers unmade
        times = take_turns(
            {name: partial(device.seconds, write) for name, write in work.items()}, args.rounds
        )
        for name, found in times.items():
            _, groups = SYSTEMS.get(name, ({}, 1))
            count, plain = (
                multiplications(args.size, n, args.words, args.beam) for n in (groups, 1)
            )
            yield {
                "sentences": sentences,
                "system": name,
                "words_per_second": sentences * args.words / statistics.median(found),
                "time_ratio": ratio(found, times[YARDSTICK]),
                "operations_ratio": count / plain,
            }


def shown(rows: Rows) -> str:
    """The table."""
    lines = []
    for row in rows:
        time, operations = row["time_ratio"], row["operations_ratio"]
        lines.append(
            [
                row["system"], str(row["sentences"]), f"{row['words_per_second']:,.1f}",
                f"{time:.2f}", f"{operations:.2f}", f"{time / operations:.2f}",
            ]
        )  # fmt: skip
    return table(
        ["system", "sentences", "words/s", "time", "operations", "time / operations"], lines
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[1, 8], metavar="N",
        help="sentences at once (default: %(default)s)",
    )  # fmt: skip
    for flag, default, meaning in (
        ("--words", 25, "words of a sentence"), ("--beam", 8, "hypotheses of the search"),
    ):  # fmt: skip
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )


BENCHMARK = Benchmark(
    name="fusion",
    title="Decoding speed of layer fusion",
    text="Table VII of GTRANS, with 10,000 words: untrained models translate sentences of {words} "
    "words into as many, beam {beam}, with fairseq's own search, one or several sentences at once. "
    "`time` is that of the plain post-norm Transformer here; `operations` is the ratio by a count "
    "of multiplications, in which every group adds one output matrix.",
    size="deep",
    rounds=5,
    measure=measure,
    table=shown,
    add_options=add_options,
)
