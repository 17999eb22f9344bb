"""Count what makes the host wait for the GPU, in a training update and in a decoding step.

    python scripts/count_waits.py [--device cpu] [--out FILE]

Counted are the calls of CUDA that wait, as torch's profiler sees them; without a GPU the operations
that would lead to them. The first update and the first search are not counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parent / "benchmarks"))

import measuring  # of scripts/benchmarks
from documents import dictionary_of, document_batches, documents_of
from systems import Trainer, gtransformer, write_document

# Operations whose result the host reads, or whose size it has to know.
_OPERATIONS = (
    *("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2"),
)
_CALLS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
_WORDS = 64


def waits(work: Callable[[], object], device: measuring.Device) -> Counter[str]:
    """How often ``work`` waits, by the name of the call or operation."""
    activities = [ProfilerActivity.CPU]
    names: tuple[str, ...] = _OPERATIONS
    if device.name == "cuda":
        activities.append(ProfilerActivity.CUDA)
        names = _CALLS
        torch.cuda.synchronize()
    with profile(activities=activities) as recorded:
        work()
    return Counter(event.name for event in recorded.events() if event.name in names)


def count(device: measuring.Device, backend: str) -> dict[str, object]:
    """The waits of forward and backward pass, of the rest of an update, and of a decoding step."""
    dictionary = dictionary_of(measuring.SIZES["recipes"])
    model = gtransformer(
        measuring.SIZES["recipes"], dictionary, attention_backend=backend,
        encoder_global_layers=1, decoder_global_layers=1, cross_global_layers=1,
    )  # fmt: skip
    trainer = Trainer(model, dictionary, device)
    batch = device.place(document_batches(documents_of(_WORDS, 1, dictionary), dictionary, 1)[0])
    trainer.step(batch)

    def passes() -> None:
        trainer.criterion(trainer.model, batch)[0].backward()

    training = waits(passes, device)
    trainer.optimizer.zero_grad()
    model = trainer.model.eval()
    source = batch["net_input"]["src_tokens"]
    written = write_document(model, dictionary, source)
    decoding = waits(lambda: write_document(model, dictionary, source), device)
    return {
        "backend": backend,
        "forward and backward": dict(training),
        "waits of forward and backward": training.total(),
        "waits of a decoding step": round(decoding.total() / written, 2),
    }


def main() -> None:
    """Count, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda-bf16"), default="cuda-bf16")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the numbers as JSON")
    args = parser.parse_args()
    measuring.prepare_process()
    device = measuring.DEVICES[args.device]
    backends = ("regroup", "varlen") if device.name == "cuda" else ("regroup",)
    rows = [count(device, backend) for backend in backends]
    for row in rows:
        print("  ".join(f"{key}: {value}" for key, value in row.items()))
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
