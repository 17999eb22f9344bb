"""`gtrans average`: the mean of checkpoints, which ones, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.cli import main


def write(path: Path, weight: list[float], **more: Any) -> Path:
    table = torch.tensor(weight)
    half = table.half().clamp(max=60000)
    model = {"table": table, "output": table, "half": half, "steps": torch.tensor([3])}
    state = {
        "model": {**model, **more.pop("model", {})},
        "cfg": {"model": {"_name": "x"}},
        "optimizer_history": [{"num_updates": int(weight[0])}],
        "last_optimizer_state": {"state": {0: {"exp_avg": table}}},
        "extra_state": {"run_state": {"optimizer": {"fp32": [table]}}},
        **more,
    }
    torch.save(state, path)
    return path


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run of 12 epochs, which has kept all of them, two updates, and the usual names."""
    for epoch in range(1, 13):
        write(tmp_path / f"checkpoint{epoch}.pt", [epoch, 10.0])
    for epoch, update in ((1, 900), (2, 1000), (3, 20000)):
        write(tmp_path / f"checkpoint_{epoch}_{update}.pt", [update, 0.0])
    for name in ("best", "last", "1.5"):
        write(tmp_path / f"checkpoint_{name}.pt", [1e9, 1e9])
    return tmp_path


def averaged(*arguments: str | Path, target: Path) -> dict[str, Any]:
    assert main(["average", "--output", str(target), *map(str, arguments)]) == 0
    return read_checkpoint(target)


def test_the_mean_by_hand(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.pt", [n, -n * 3.0]) for n in (1, 2, 6)]
    state = averaged(*paths, target=tmp_path / "mean.pt")
    model = state["model"]
    assert model["table"].tolist() == [3.0, -9.0] and model["half"].tolist() == [3.0, -9.0]
    assert (model["table"].dtype, model["half"].dtype) == (torch.float32, torch.float16)
    assert model["steps"].tolist() == [3]
    assert model["output"].data_ptr() == model["table"].data_ptr()  # one table stays one
    assert state["optimizer_history"] == [{"num_updates": 6}]  # the rest is the last one's
    # Nor is there an fp32 copy of the last checkpoint's parameters.
    assert "last_optimizer_state" not in state and state["extra_state"] == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.pt", "2.pt", "6.pt", "mean.pt"]


@pytest.mark.parametrize(
    ("arguments", "mean"),
    [
        (("--last-epochs", "5"), (8 + 9 + 10 + 11 + 12) / 5),
        (("--last-epochs", "1"), 12),
        (("--last-updates", "2"), 10500),
    ],
)
def test_the_last_checkpoints_of_a_run(
    arguments: tuple[str, ...], mean: float, run_folder: Path
) -> None:
    """In the order of their numbers, not of their names: checkpoint9.pt before checkpoint10.pt."""
    state = averaged(*arguments, run_folder, target=run_folder / "mean.pt")
    assert state["model"]["table"].tolist()[0] == mean


def test_a_table_is_summed_in_double_precision(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{n}.pt", [x], number=n) for n, x in enumerate((2.0**24, 1.0, 1.0, 2.0))
    ]
    model = averaged(*paths, target=tmp_path / "mean.pt")["model"]
    assert model["table"].tolist() == [2.0**22 + 1]


def test_a_shared_table_in_double_precision_is_summed_once(tmp_path: Path) -> None:
    paths = []
    for number in (1.0, 3.0):
        table = torch.tensor([number], dtype=torch.float64)
        model = {"table": table, "output": table}
        paths.append(write(tmp_path / f"{number}.pt", [number, 1.0], model=model))
    model = averaged(*paths, target=tmp_path / "mean.pt")["model"]
    assert model["table"].tolist() == model["output"].tolist() == [2.0]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    capsys.readouterr()
    assert main(["average", *map(str, arguments)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_mistakes_are_one_line(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = run_folder / "mean.pt"
    one = run_folder / "checkpoint1.pt"
    other = write(run_folder / "other.pt", [1.0, 2.0, 3.0])
    more = write(run_folder / "more.pt", [1.0, 2.0], model={"extra": torch.ones(1)})
    steps = write(run_folder / "steps.pt", [1.0, 2.0], model={"steps": torch.tensor([4])})
    twice = Path(shutil.copy(one, run_folder / "copy.pt"))
    one_run, other_run = (
        write(
            run_folder / f"seed{seed}.pt",
            [3.0, seed],
            cfg={"model": {"_name": "x"}, "common": {"seed": seed}},
        )
        for seed in (1, 2)
    )
    for arguments, message in (
        ((one, other), "other.pt: table is (3,), but (2,) in"),
        ((one, more), "more.pt: has a tensor extra that"),
        ((one, steps), "steps.pt: steps differs from steps of"),
        ((one, run_folder / "no.pt"), "no.pt: there is no such checkpoint."),
        (
            ("--last-epochs", "13", run_folder),
            "13 checkpoints checkpointE.pt are needed, but there are 12;",
        ),
        (
            ("--last-updates", "4", run_folder),
            "checkpoint_E_U.pt are needed, but there are 3; train",
        ),
        (("--last-epochs", "2", one, one), "`--last-epochs` takes one folder, but 2 paths"),
        (("--last-epochs", "2", run_folder / "none"), "none: there is no such folder."),
        ((one, one), "checkpoint1.pt are the same checkpoint; name it once."),
        ((one, twice), "are the same checkpoint; name it once."),
        (
            (one_run, other_run),
            "are of different trainings (--seed 1 -> 2); average checkpoints of on",
        ),
        ((run_folder,), "is a folder; say how many of its checkpoints to average (`--last-ep"),
    ):
        assert message in refusal(capsys, "--output", target, *arguments)
    assert "; say how many of its checkpoints" in refusal(capsys, run_folder)
    assert "`--output` is missing: the file to write" in refusal(capsys, one)
    assert "there is no folder" in refusal(capsys, "--output", run_folder / "no" / "x.pt", one)
    for name in ("_last", "_best", "13", "_9_9"):
        message = refusal(capsys, "--output", run_folder / f"checkpoint{name}.pt", one)
        assert "the training in its folder has checkpoints of this name" in message
    for content in ("no checkpoint\n", "PK"):
        target.write_text(content)
        words = ["average", str(one), "--output", str(target)]
        assert "exists, and this command did not write it" in refusal(capsys, *words[1:])
        assert target.read_text() == content
        assert main([*words, "--force"]) == 0
        assert main(words) == 0  # an average is written again
    lost = write(run_folder / "lost.pt", [1.0, 2.0])
    assert "did not write it; name another place" in refusal(capsys, one, "--output", lost)


def test_a_moving_average_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parameters that fairseq's EMA keeps beside the model are not those of the average."""
    paths = []
    for number in (1, 2):
        ema = {"ema": {"table": torch.ones(2)}}
        paths.append(write(tmp_path / f"{number}.pt", [number, 1.0], extra_state=ema))
    assert "ema" not in averaged(*paths, target=tmp_path / "mean.pt")["extra_state"]
    told = capsys.readouterr().err
    for name in ("1.pt", "2.pt"):
        assert told.count(f"{name}: its moving average of parameters (EMA) is left out") == 1
