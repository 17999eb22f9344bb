"""How fast GTRANS layer fusion decodes, next to the plain Transformer (its table VII).

    python scripts/benchmark_fusion.py

The model of that table: 12 + 12 layers, 512/1,024/8, 10,000 words. All systems write
equally much with fairseq's own beam search, in turn, several times; a ratio is the median of
the ratios of the rounds. Beside it stands the ratio by a count of multiplications, which a
softmax for every group makes. Results go to docs/benchmarks_fusion.json and .md.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from benchmark_systems import Device, devices
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.sequence_generator import SequenceGenerator
from gtrans.models._gtrans_fusion_options import GtransFusionConfig
from omegaconf import OmegaConf
from torch import Tensor, nn

from gtrans.models.gtrans_fusion import GtransFusion

DOCS = Path(__file__).resolve().parent.parent / "docs"
YARDSTICK = "post-norm Transformer"
STOCK = "fairseq's Transformer"
SYSTEMS: dict[str, dict[str, Any]] = {
    YARDSTICK: {"system": "post-norm"},
    "GTRANS, 6 groups": {},
    "GTRANS, groups 3:6": {"use_groups": "3:6"},
    "GTRANS, group 6:6": {"use_groups": "6:6"},
}
GROUPS = dict(zip(SYSTEMS, (1, 6, 4, 1), strict=True))


@dataclass(frozen=True)
class Shape:
    """Sizes of the models and of what they write."""

    layers: int = 12
    dim: int = 512
    ffn: int = 1024
    heads: int = 8
    words: int = 10_000
    source: int = 25
    target: int = 25
    beam: int = 8

    def multiplications(self, groups: int) -> float:
        """Of one token of one hypothesis, the encoder's share included."""
        dim, ffn = self.dim, self.ffn
        attended = 2 * dim * (self.target / 2 + self.source)
        layer = 6 * dim * dim + 2 * dim * ffn + attended
        source = self.layers * (6 * dim * dim + 2 * dim * ffn + 2 * dim * self.source)
        encoder = source * self.source / (self.target * self.beam)
        return self.layers * layer + encoder + groups * dim * self.words


TOY = Shape(layers=12, dim=16, ffn=16, heads=2, words=100, source=4, target=4, beam=2)


def models_of(shape: Shape, dictionary: Dictionary) -> dict[str, nn.Module]:
    """All systems, untrained."""
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    found: dict[str, nn.Module] = {}
    for name, options in SYSTEMS.items():
        cfg = OmegaConf.structured(GtransFusionConfig)
        for side in ("encoder", "decoder"):
            cfg[f"{side}_layers"], cfg[f"{side}_ffn_embed_dim"] = shape.layers, shape.ffn
            cfg[f"{side}_attention_heads"] = shape.heads
        cfg.encoder_embed_dim, cfg.share_all_embeddings = shape.dim, True
        for key, value in options.items():
            cfg[key] = value
        cfg._name = "gtrans_fusion_small"
        torch.manual_seed(1)
        found[name] = GtransFusion.build_model(cfg, task)
    stock = TransformerConfig()
    for side in (stock.encoder, stock.decoder):
        side.layers, side.embed_dim = shape.layers, shape.dim
        side.ffn_embed_dim, side.attention_heads = shape.ffn, shape.heads
    stock.decoder.input_dim = stock.decoder.output_dim = shape.dim
    stock.share_all_embeddings = stock.share_decoder_input_output_embed = True
    stock.max_source_positions = stock.max_target_positions = 1024
    found[STOCK] = TransformerModelBase.build_model(stock, task)
    return found


def seconds(
    model: nn.Module, dictionary: Dictionary, shape: Shape, source: Tensor, device: Device
) -> float:
    """Time of translating ``source (sentences, length)`` into as many words each."""
    generator = SequenceGenerator(
        [model], dictionary, beam_size=shape.beam, max_len_a=0, max_len_b=shape.target,
        min_len=shape.target,
    )  # fmt: skip
    lengths = torch.full((source.size(0),), source.size(1), device=source.device)
    begin = device.seconds()
    generator.generate([model], {"net_input": {"src_tokens": source, "src_lengths": lengths}})
    return device.seconds() - begin


def measure(shape: Shape, batches: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """Rows of the table, for every device and batch size."""
    dictionary = Dictionary()
    for word in range(shape.words - len(dictionary)):
        dictionary.add_symbol(f"w{word}")
    rows = []
    for device in devices():
        models = {n: device.model(m).eval() for n, m in models_of(shape, dictionary).items()}
        for size in batches:
            torch.manual_seed(2)
            source = torch.randint(4, shape.words, (size, shape.source + 1), device=device.name)
            source[:, -1] = dictionary.eos()
            times: dict[str, list[float]] = {name: [] for name in models}
            for number in range(rounds + 1):
                for name, model in models.items():
                    took = seconds(model, dictionary, shape, source, device)
                    if number:  # the first one finds tables and buffers unmade
                        times[name].append(took)
            for name, found in times.items():
                groups = GROUPS.get(name, 1)
                pairs = zip(found, times[YARDSTICK], strict=True)
                rows.append(
                    {
                        "device": device.label,
                        "sentences": size,
                        "system": name,
                        "words_per_second": size * shape.target / statistics.median(found),
                        "time_ratio": statistics.median(a / b for a, b in pairs),
                        "operations_ratio": shape.multiplications(groups)
                        / shape.multiplications(1),
                    }
                )
                print(rows[-1], flush=True)
    return rows


def page(result: dict[str, Any]) -> str:
    """The results as markdown."""
    lines = [
        "# Decoding speed of layer fusion",
        "",
        "Written by `python scripts/benchmark_fusion.py`; do not edit. The numbers are in",
        "`benchmarks_fusion.json`.",
        "",
        "12 + 12 layers, 512/1,024/8, 10,000 words, untrained; sentences of 25 words into as "
        "many, beam 8,",
        "with fairseq's own search. `time` is that of the plain post-norm Transformer here; "
        "`operations` is",
        "the ratio by a count of multiplications, in which every group adds one output matrix. "
        "On the CPU",
        f"one thread; medians of {result['rounds']} rounds in turn.",
    ]
    keys = dict.fromkeys((row["device"], row["sentences"]) for row in result["rows"])
    for device, size in keys:
        lines += [
            "",
            f"## {device}, {size} sentence{'s' if size > 1 else ''} at once",
            "",
            "| system | words/s | time | operations | time / operations |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        for row in result["rows"]:
            if (row["device"], row["sentences"]) == (device, size):
                time, operations = row["time_ratio"], row["operations_ratio"]
                lines.append(
                    f"| {row['system']} | {row['words_per_second']:,.1f} | {time:.2f} | "
                    f"{operations:.2f} | {time / operations:.2f} |"
                )
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8], metavar="N")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--toy", action="store_true", help="tiny models, to try the script")
    parser.add_argument(
        "--out", type=Path, default=DOCS / "benchmarks_fusion.md", metavar="FILE"
    )
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    if args.toy and args.out.parent == DOCS:
        parser.error("`--toy` needs `--out` elsewhere.")
    rows = measure(TOY if args.toy else Shape(), args.batches, args.rounds)
    result = {"rounds": args.rounds, "torch": torch.__version__, "rows": rows}
    args.out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    args.out.write_text(page(result), "utf-8")


if __name__ == "__main__":
    main()
