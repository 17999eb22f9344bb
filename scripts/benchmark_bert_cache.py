"""What an epoch costs with BERT's output from the cache, against computing it every time.

Trains a BERT-context Transformer for some batches of a data folder made by
`gtrans prepare --bert`, forward and backward, three times: BERT computes every batch, its
output comes from the cache on disk, and it stands in memory already, batch by batch. The
times are CPU seconds of the process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.models import import_models
from fairseq.tasks import import_tasks
from omegaconf import OmegaConf

ROOT = Path(__file__).resolve().parent.parent


def build(data: str, arch: str, cache: Path) -> tuple[Any, Any]:
    """The task and an untrained model, as fairseq-train builds them."""
    import_tasks(str(ROOT / "gtrans" / "tasks"), "gtrans.tasks")
    import_models(str(ROOT / "gtrans" / "models"), "gtrans.models")
    from gtrans.tasks.options import DocumentTranslationConfig

    from gtrans.models.bert_context_transformer import BertContextConfig
    from gtrans.tasks.document_translation import DocumentTranslationTask

    cfg = OmegaConf.structured(DocumentTranslationConfig)
    OmegaConf.set_struct(cfg, False)
    cfg.update(
        data=data, unit="window", bert_cache=str(cache), dataset_impl="mmap", seed=1,
        train_subset="train",
    )  # fmt: skip
    task = DocumentTranslationTask.setup_task(cfg)
    options = OmegaConf.structured(BertContextConfig(share_all_embeddings=True))
    options._name = arch
    model = task.build_model(options).train()
    task.load_dataset("train")
    return task, model


def step(model: Any, net_input: dict[str, Any], target: torch.Tensor) -> None:
    """Forward and backward of one batch."""
    model.zero_grad()
    logits = model(**net_input)[0]
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=1
    )
    loss.backward()  # type: ignore[no-untyped-call]


def seconds(work: Callable[[], None], repetitions: int) -> float:
    """The least CPU time of a few repetitions."""
    found = []
    for _ in range(repetitions):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def measure(task: Any, model: Any, samples: Sequence[dict[str, Any]], times: int) -> dict[str, Any]:
    """CPU seconds of each way."""
    frozen = task.bert.frozen

    def every_time() -> None:
        for sample in samples:
            found = dict(sample["net_input"])
            padded = found.pop("pieces")
            rows = [row[row.ne(1)] for row in padded]
            found["context_states"] = torch.cat(frozen(rows, torch.device("cpu"))).float()
            found["context_lengths"] = torch.tensor([len(row) for row in rows])
            step(model, found, sample["target"])

    def cached() -> None:
        for sample in samples:
            step(model, task.ready(sample["net_input"]), sample["target"])

    for sample in samples:
        task.ready(sample["net_input"])
    task.bert.flush()
    in_memory = [task.ready(sample["net_input"]) for sample in samples]

    def from_memory() -> None:
        for sample, ready in zip(samples, in_memory, strict=True):
            step(model, ready, sample["target"])

    from_memory()  # nothing is measured cold
    result = {
        "uncached": seconds(every_time, 1),
        "cached": seconds(cached, times),
        "memory": seconds(from_memory, times),
    }
    result["cached / memory"] = result["cached"] / result["memory"]
    result["uncached / memory"] = result["uncached"] / result["memory"]
    return result


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder made by gtrans prepare --bert")
    parser.add_argument("--arch", default="bert_context_transformer_base")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=2000, help="tokens of a batch")
    parser.add_argument("--repetitions", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        task, model = build(args.data, args.arch, Path(folder))
        dataset = task.dataset("train")
        batches = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=args.max_tokens)
        chosen = batches[:: max(len(batches) // args.batches, 1)][: args.batches]
        samples = [dataset.collater([dataset[int(i)] for i in batch]) for batch in chosen]
        result = measure(task, model, samples, args.repetitions)
    pieces = sum(int(sample["net_input"]["pieces"].ne(1).sum()) for sample in samples)
    result |= {"batches": len(samples), "word pieces": pieces, "bert width": task.bert.frozen.dim}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
