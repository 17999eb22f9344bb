"""A run that is stopped at any update and resumed ends like one that nobody disturbed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support.runs import GROUPS, differing, log_of, outcome, train
from support.tiny_models import StockCommands, TinyWorld

STREAM = "--arch memory_transformer_tiny --max-tokens 200 --min-window 1 --max-window 2"
CHUNKS = "--arch gtransformer_memory_tiny --max-doc-tokens 20 --max-tokens 300"
FUSION = "--arch gtrans_fusion_tiny --encoder-group-size 1 --decoder-group-size 1"
OFTEN = "--validate-interval-updates 2 --save-interval-updates 2 --keep-interval-updates 1"
FEATURES = "--arch bert_context_transformer_tiny --bert-cache {run}/features"
# Options, updates after which the run is stopped, and its updates; with more than ten, units of
# equal length come again in a third epoch.
CASES: dict[str, tuple[str, tuple[int, ...], int]] = {
    "later epoch": (
        "--word-dropout 0.2 --unit sentence --max-tokens 1500 --word-dropout-epochs 2", (9, 17), 20
    ),
    "mixed folders": ("--mix 0.5:0.25 --max-doc-tokens 60 --max-tokens 3000", (5, 8), 10),
    "folders in turns": ("--max-tokens 3000", (7,), 9),
    "two rates": (
        "--word-dropout 0.1 --word-dropout-epochs 40 --init-from {sentence} "
        "--optimizer two_rate_adam", (2,), 4
    ),
    "bf16": ("--bf16", (3,), 6),
    "memory-efficient bf16": ("--bf16 --memory-efficient-bf16", (3,), 6),
    "amp": ("--amp", (3,), 6),
    "batches in an update": ("--update-freq 2 --num-workers 1", (3,), 6),
    "schedule": ("--lr-scheduler inverse_sqrt --warmup-updates 4 --curriculum 1", (3,), 6),
    "order by epoch": ("--update-ordered-indices-seed --max-tokens 2000", (3,), 6),
    "streams": (f"{STREAM} --update-freq 2", (3, 5), 7),
    "streams of instances": (f"{CHUNKS} --update-freq 2 --memory-output residual", (3,), 5),
    "random neighbours": (
        "--arch flat_transformer_tiny --context-kind random --num-workers 2", (2,), 4
    ),
    "features of a BERT": (FEATURES, (2,), 4),
    "multi-level loss": (f"{FUSION} --criterion multi_level_cross_entropy", (2,), 4),
    # Validation of every second update and at the ends of epochs decides on rate and patience.
    "plateau": (
        f"--lr-scheduler reduce_lr_on_plateau --lr-patience 1 --lr 0.5 --patience 30 {OFTEN} "
        "--max-tokens 3000", (4, 8, 12), 20,
    ),
    # fairseq writes the checkpoint before it tells the schedule the epoch's loss.
    "end of an epoch": (
        "--lr-scheduler inverse_sqrt --patience 30 --max-tokens 3000", (), 20
    ),
}  # fmt: skip
QUICK = ("streams", "bf16")


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in CASES],
)
def test_it_goes_on_exactly(
    name: str, tiny: TinyWorld, stock: StockCommands, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words, stops, updates = CASES[name]
    options, data = words.split(), tiny.data
    if name == "streams of instances":
        options += GROUPS
    elif name in ("mixed folders", "folders in turns"):
        data = Path(f"{data}:{shutil.copytree(data, tmp_path / 'other')}")
    elif name == "features of a BERT":
        data = request.getfixturevalue("prepared_with_bert")

    def run(folder: str, end: int) -> str:
        """Each run has a cache of its own, and loses what is not written yet."""
        places = {"run": tmp_path / folder, "sentence": tiny.checkpoints["sentence"]}
        named = [option.format(**places) for option in options]
        return log_of(train(stock, data, tmp_path / folder, *named, updates=end))

    log = run("whole", updates)
    if not stops:
        saved = [int(at) for at in re.findall(r"Saved checkpoint .* @ (\d+) updates", log)]
        assert len(saved) > 2
        stops = saved[0], saved[1]
    for stop in (*stops, updates):
        run("parts", stop)
    ends = [outcome(tmp_path / folder) for folder in ("whole", "parts")]
    assert ends[0]["updates"] == updates
    assert differing(*ends) == []
    if name == "plateau":
        assert max(map(int, re.findall(r"begin training epoch (\d+)", log))) > 3
    if updates > 8:
        assert max(map(int, re.findall(r"begin training epoch (\d+)", log))) > 2
