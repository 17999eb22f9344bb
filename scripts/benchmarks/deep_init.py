"""What the initialisation of feed-forward networks does to deep post-norm models.

GTRANS reports that models of 24 + 18 and 36 + 30 layers fail to train without encoder fusion
(table VIII). Its program begins feed-forward networks as ``nn.Linear`` does, this project with
Xavier's weights, as older fairseq did. Here are the gradients with which training begins, at the
paper's width, and trainings of narrower models.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from deep_fusion import add_options as training_options
from deep_fusion import runs, shown
from documents import dictionary_of
from measuring import Device, Size
from report import Benchmark, Row, Rows, table
from systems import ours
from torch import Tensor, nn

INITS = {"Xavier": "xavier", "nn.Linear": "linear"}
DEPTHS = ((24, 18), (36, 30))
FUSIONS: dict[str, dict[str, Any]] = {
    "GTRANS": {},
    "GTRANS, last layers of groups": {"decoder_group_fusion": "last"},
    "without encoder fusion": {"no_encoder_fusion": True},
    "without encoder fusion, last layers": {
        "no_encoder_fusion": True, "decoder_group_fusion": "last",
    },
    "without fusion": {"system": "post-norm"},
}  # fmt: skip
SIDES = ("encoder", "decoder")


# ---- gradients at initialisation -----------------------------------------------------------------


def measure_gradients(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Norms of the gradient of every layer's parameters, before the first update."""
    size = args.size
    for depth in DEPTHS if args.depths is None else [tuple(args.depths)]:
        deep = Size(
            depth[0], size.dim, size.ffn, size.heads, size.vocabulary, decoder_layers=depth[1]
        )
        for init in INITS:
            for fusion in FUSIONS:
                norms = gradient_norms(deep, init, fusion, args.words, args.sentences, device)
                yield {"depth": list(depth), "init": init, "system": fusion, **norms}


def gradient_norms(
    size: Size, init: str, fusion: str, words: int, sentences: int, device: Device
) -> dict[str, list[float]]:
    """For each side the norms of its layers' gradients of Eq 7, the bottom layer first."""
    dictionary = dictionary_of(size)
    model = device.model(
        ours(
            "gtrans_fusion_small", size, dictionary,
            ffn_init=INITS[init], dropout=0.0, **FUSIONS[fusion],
        )
    ).train()  # fmt: skip
    draw = torch.Generator().manual_seed(2)
    shape = (sentences, words + 1)
    source, target = (
        torch.randint(dictionary.nspecial, len(dictionary), shape, generator=draw)
        for _ in range(2)
    )
    source[:, -1] = target[:, -1] = dictionary.eos()
    read = target.roll(1, 1)
    outputs = model(source.to(device.name), None, read.to(device.name), states_only=True)[0]
    aims = target.flatten().to(device.name)
    weights, losses = outputs.log_weights.exp(), []
    for features in outputs.features:
        losses.append(nn.functional.cross_entropy(features @ outputs.projection.t(), aims))
    loss: Tensor = torch.stack(losses).mul(weights).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return {
        side: [_norm(layer) for layer in getattr(model, side).layers] for side in SIDES
    }


def _norm(layer: nn.Module) -> float:
    gradients: list[Tensor] = [p.grad for p in layer.parameters() if p.grad is not None]
    return float(torch.stack([gradient.norm() for gradient in gradients]).norm())


def shown_gradients(rows: Rows) -> str:
    """The bottom, middle and top layer of each side."""
    lines = []
    for row in rows:
        cells = []
        for side in SIDES:
            norms = row[side]
            for number in (0, len(norms) // 2, len(norms) - 1):
                cells.append(f"{norms[number]:.2g}")
        depth = " + ".join(map(str, row["depth"]))
        lines.append([depth, row["init"], row["system"], *cells])
    places = [f"{side}: {place}" for side in SIDES for place in ("bottom", "middle", "top")]
    return table(["layers", "feed-forward", "system", *places], lines, texts=3)


def add_gradient_options(parser: argparse.ArgumentParser) -> None:
    """Options of the gradients alone."""
    for flag, default, meaning in (
        ("--words", 24, "words of a sentence"), ("--sentences", 32, "sentences of the batch"),
    ):  # fmt: skip
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )
    parser.add_argument(
        "--depths", type=int, nargs=2, metavar="N",
        help="encoder and decoder layers (default: 24 18 and 36 30)",
    )  # fmt: skip


GRADIENTS = Benchmark(
    name="deep-gradients",
    title="Gradients of deep post-norm models at initialisation",
    text="Norms of the gradient of Eq 7 by the parameters of single layers, before the first "
    "update: 8,000 words, one batch of {sentences} random sentence pairs of {words} words, no "
    "dropout, groups of 3 and 2 layers. `Xavier` and `nn.Linear` are `--ffn-init xavier` and "
    "`linear`. Width, heads and feed-forward width are those of the models named here, layers "
    "those of the rows.",
    size="deep-small",
    devices=("cpu",),
    rounds=None,
    measure=measure_gradients,
    table=shown_gradients,
    add_options=add_gradient_options,
)


# ---- training ------------------------------------------------------------------------------------

TRAINED = {
    f"{init}, {name}": ["--ffn-init", value, *flags]
    for init, value in INITS.items()
    for name, flags in (("GTRANS", []), ("without encoder fusion", ["--no-encoder-fusion"]))
}


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Validation losses of deep models with both initialisations."""
    yield from runs(args, TRAINED)


BENCHMARK = Benchmark(
    name="deep-init",
    title="Training deep post-norm models by initialisation",
    text="As the experiment above, with wider models and both initialisations of feed-forward "
    "networks, with and without encoder fusion: {updates} updates of at most 1,024 tokens.",
    size="deep-128",
    devices=("cpu",),
    rounds=None,
    measure=measure,
    table=shown,
    add_options=partial(training_options, updates=500, seeds=(1, 2)),
)
