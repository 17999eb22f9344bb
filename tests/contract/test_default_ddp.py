"""Two processes under fairseq's default DDP: every parameter of every class gets its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.contract import WITH_BERT, Case, cases
from support.running import free_port
from support.tiny_models import StockCommands

TRAINING = (
    *("--optimizer", "adam", "--lr", "0.003", "--max-tokens", "300", "--max-update", "3"),
    *("--disable-validation", "--no-save", "--label-smoothing", "0.1"),
    *("--num-workers", "0", "--cpu", "--log-format", "json"),
    *("--log-interval", "1"),
)


# One of each kind of batch in any run of the tests, and what has once failed; all in the long one.
ALWAYS = (
    "memory_transformer_tiny-stream", "gtrans_fusion_tiny-sentence-one-group",
)  # fmt: skip


def variants() -> Iterator[Any]:
    """Every class with every unit, and options of their own."""
    one_group = ("--encoder-group-size", "2", "--decoder-group-size", "2")
    groups = ("--encoder-group-size", "1", "--decoder-group-size", "1")
    for case in cases():
        fusion = "fusion" in case.arch
        own = [("", ()), ("-one-group" if fusion else "-fused", one_group if fusion else groups)]
        own.append(("-tied", ("--share-decoder-input-output-embed",)))
        for name, further in own:
            # as in the recipes
            grouped = fusion or name == "-fused"
            criterion = "multi_level_cross_entropy" if grouped else "chunked_cross_entropy"
            options = (*further, "--criterion", criterion)
            marks = () if f"{case}{name}" in ALWAYS else pytest.mark.long
            yield pytest.param(case, options, id=f"{case}{name}", marks=marks)


VARIANTS = list(variants())
assert set(ALWAYS) <= {variant.id for variant in VARIANTS}


@pytest.mark.parametrize(("case", "options"), VARIANTS)
def test_two_processes_train(
    case: Case, options: tuple[str, ...], stock: StockCommands, prepared_with_bert, tmp_path
) -> None:
    """Also when buffers are sent, and processes have accumulated batches."""
    command = [
        "train", prepared_with_bert, "--user-dir", "gtrans", "--task", "document_translation",
        *case.flags, *options, *TRAINING, "--save-dir", tmp_path,
        "--distributed-world-size", "2", "--distributed-no-spawn", "--device-id", "0",
        "--distributed-backend", "gloo", "--broadcast-buffers", "--update-freq", "2",
        "--distributed-init-method", f"tcp://127.0.0.1:{free_port()}",
    ]  # fmt: skip
    caches = [tmp_path / f"features{rank}" for rank in range(2)]
    first, second = stock.together(
        "gtrans",
        *(
            [*command, "--distributed-rank", str(rank), "--bert-cache", caches[rank]]
            for rank in range(2)
        ),
    )
    assert (first.status, second.status) == (0, 0), first.stderr + second.stderr
    assert "done training" in first.stdout + first.stderr
    if case == WITH_BERT:
        # The first process has measured the whitening for both; what is measured is written.
        assert [bool(list(cache.rglob("*.safetensors"))) for cache in caches] == [True, False]
