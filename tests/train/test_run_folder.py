"""A run folder knows its settings: what goes on, what is refused, what is finished."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.folders import binarised_again
from support.runs import GROUPS, last, log_of, refusal, train, updates
from support.suites import one_in
from support.tiny_models import StockCommands, TinyWorld

from gtrans.checkpoints.reading import read_checkpoint, write_checkpoint
from gtrans.cli import main
from gtrans.files import locked
from gtrans.lab.logs import read_history

OFTEN = ("--validate-interval-updates", "1", "--save-interval-updates", "1")
VALIDATED = (*OFTEN, "--keep-interval-updates", "1")
WAYS_OUT = (
    "; give another --save-dir, or --restart to start anew (the checkpoints are kept), or "
    "--reset-meters, --reset-optimizer or --restore-file if the change is meant."
)


@pytest.fixture(scope="module")
def run(tiny: TinyWorld, stock: StockCommands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two updates; not to be changed."""
    folder = tmp_path_factory.mktemp("run") / "run"
    log_of(train(stock, tiny.data, folder, updates=2))
    return folder


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """The run of two updates, to be changed."""
    return Path(shutil.copytree(run, tmp_path / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    """The checkpoints of a folder, byte for byte."""
    return {path.name: path.read_bytes() for path in folder.rglob("*.pt")}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--seed 2", "--seed 1 -> 2"),
        ("--dropout 0.5 --lr 0.1", "--lr 0.003 -> 0.1, --dropout 0.1 -> 0.5"),
        ("--max-tokens 256", "--max-tokens 512 -> 256"),
        ("--update-freq 2", "GPUs x --update-freq 1 -> 2"),
        ("--unit sentence", "--unit document -> sentence, --doc-mode partial -> full"),
        (
            f"--arch gtransformer_base {' '.join(GROUPS)}",
            "--arch gtransformer_tiny -> gtransformer_base",
        ),
        ("--bf16", "--bf16 False -> True"),
        ("--adam-betas (0.9,0.9)", "--adam-betas 0.9,0.999 -> 0.9,0.9"),
        ("--lr-scheduler inverse_sqrt", "--lr-scheduler fixed -> inverse_sqrt"),
        (
            "--best-checkpoint-metric nll_loss --valid-subset test",
            "--valid-subset valid -> test, --best-checkpoint-metric loss -> nll_loss",
        ),
    ],
)
def test_other_settings_are_refused(options, found, run, tiny, stock):
    before = contents(run)
    line = refusal(train(stock, tiny.data, run, *options.split(), updates=4))
    assert line == f"--save-dir {run} holds a run with other settings: {found}{WAYS_OUT}"
    assert contents(run) == before


def test_what_is_free_may_change(folder, tiny, stock):
    """Equal settings may be written in several ways, too."""
    free = (
        *("--max-epoch", "7", "--num-workers", "1", "--log-interval", "1", "--log-format", "json"),
        *("--save-interval-updates", "3", "--keep-interval-updates", "1", "--patience", "3"),
        *("--validate-interval", "2", "--data-buffer-size", "2", "--max-tokens-valid", "300"),
        *("--adam-betas", "(0.9,0.999)"),
    )
    assert "(epoch 1 @ 2 updates)" in log_of(train(stock, tiny.data, folder, *free, updates=3))
    assert updates(folder) == 3


def test_other_training_data_is_refused(run, tiny, stock, tmp_path):
    """The same data under another name is not."""
    same = shutil.copytree(tiny.data, tmp_path / "same")
    assert "is finished" in log_of(train(stock, same, run, updates=2))
    for name in ("de.bin", "de.idx", "en.bin", "en.idx"):
        shutil.copy(same / f"valid.en-de.{name}", same / f"train.en-de.{name}")
    binarised_again(same)
    found = f"the training data {tiny.data} -> {same}"
    assert f"other settings: {found};" in refusal(train(stock, same, run, updates=4))


# ---- the end of a run ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "more", "reason"),
    [
        (("--max-update", "2"), ("--max-update", "3"), "2 updates, --max-update 2"),
        pytest.param(
            *(("--max-epoch", "1"), ("--max-epoch", "2"), "1 epochs, --max-epoch 1"),
            marks=pytest.mark.long,
        ),
        (
            (*VALIDATED, "--patience", "2", "--max-update", "9"),
            (*VALIDATED, "--patience", "3", "--max-update", "9"),
            "2 validations without a gain, --patience 2",
        ),
        pytest.param(
            ("--stop-time-hours", "1e-9", "--max-update", "9"),
            ("--max-update", "2"),
            "0.00 hours, --stop-time-hours 1e-09",
            marks=pytest.mark.long,
        ),
    ],
    ids=["max-update", "max-epoch", "patience", "stop-time-hours"],
)
def test_a_finished_run_does_nothing(options, more, reason, tiny, tmp_path):
    # With this rate the loss gets worse from the first update on.
    folder = tmp_path / "run"
    command = (tiny.run, tiny.data, folder, "--max-tokens", "9000", "--lr", "9")
    log_of(train(*command, *options))
    before, ended = contents(folder), updates(folder)
    log = log_of(train(*command, *options))
    assert f"{folder}: the run is finished ({reason}); nothing is left to do" in log
    if "--patience" not in options:  # which --reset-meters counts anew
        assert "nothing is left" in log_of(train(*command, *options, "--reset-meters"))
    assert contents(folder) == before
    assert "is finished" not in log_of(train(*command, *more))
    assert updates(folder) > ended


def test_a_training_without_an_end_says_so(tiny, stock, tmp_path):
    line = "nothing ends this training; give `--max-update`"
    refused = train(stock, tiny.data, tmp_path, "--init-from", tmp_path / "no.pt")
    assert line in refused.stderr
    assert line not in log_of(train(stock, tiny.data, tmp_path, updates=1))


# ---- changes that are meant ----------------------------------------------------------------------


def test_a_run_keeps_its_log(run: Path) -> None:
    """`gtrans analyse curves` finds it without any option."""
    assert read_history(run).records("train")[-1].updates == 2


def test_the_log_has_each_printed_line_once(folder, tiny, stock):
    """A run that goes on appends its lines."""
    log = folder / "train.log"
    before = log.read_text(encoding="utf-8")
    done = train(stock, tiny.data, folder, updates=3)
    assert "done training" in log_of(done)
    assert log.read_text(encoding="utf-8") == before + done.stdout


def test_another_optimizer_is_told(folder, tiny, stock):
    options = ("--optimizer", "adafactor", "--reset-meters")
    line = refusal(train(stock, tiny.data, folder, *options, updates=4))
    assert "its optimizer is FairseqAdam, but that of this training is FairseqAdafactor" in line


def test_restart_starts_anew_and_keeps_what_there_was(folder, tiny, stock):
    before = contents(folder)
    for number, seed in (("1", "2"), ("2", "3")):
        log = log_of(train(stock, tiny.data, folder, "--seed", seed, "--restart", updates=1))
        aside = folder / f"before-restart-{number}"
        assert f"the checkpoints of the earlier one are in {aside}" in log
        assert updates(folder) == 1 and contents(folder / "before-restart-1") == before
    assert contents(aside) != before


@pytest.mark.long
def test_a_reset_says_that_a_change_is_meant(folder, tiny, stock):
    options = ("--lr", "0.1", "--reset-optimizer")
    log = log_of(train(stock, tiny.data, folder, *options, updates=1))
    assert f"{folder}: goes on with other settings, as --reset-optimizer says: --lr 0.003" in log
    assert "Loaded checkpoint" in log


def test_a_restored_file_says_that_a_change_is_meant(folder, run, tiny, stock):
    start = run / "checkpoint_last.pt"
    options = ("--lr", "0.1", "--restore-file", start)
    assert f"Loaded checkpoint {start}" in log_of(
        train(stock, tiny.data, folder, *options, updates=3)
    )
    assert updates(folder) == 3


@pytest.mark.long
def test_another_validation_that_is_meant_counts_anew(tiny, stock, tmp_path):
    """A loss of 6 is no worse than one of another set."""
    often = ("--validate-interval-updates", "1", "--patience", "9", "--lr", "9")
    log_of(train(stock, tiny.data, tmp_path, *often, updates=2))
    other = (*often, "--valid-subset", "test")
    line = refusal(train(stock, tiny.data, tmp_path, *other, updates=3))
    assert "other settings: --valid-subset valid -> test;" in line
    log_of(train(stock, tiny.data, tmp_path, *other, "--reset-meters", updates=3))
    extra = last(tmp_path)["extra_state"]
    stop = extra["run_state"]["early_stop"]
    assert extra["best"] == extra["val_loss"] == stop["best"] and stop["num_runs"] == 0


# ---- the start -----------------------------------------------------------------------------------


@pytest.mark.long
def test_the_start_is_compared_by_what_is_in_the_file(tiny, stock, tmp_path):
    start, folder = tmp_path / "start.pt", tmp_path / "run"
    shutil.copy(tiny.checkpoints["sentence"], start)
    log_of(train(stock, tiny.data, folder, "--init-from", start, updates=1))
    renamed = start.rename(tmp_path / "renamed.pt")
    log_of(train(stock, tiny.data, folder, "--init-from", renamed, updates=2))
    shutil.copy(tiny.checkpoints["other"], renamed)
    for options, found in (
        (("--init-from", tmp_path / "no.pt"), f"{renamed} -> {tmp_path / 'no.pt'};"),
        (("--init-from", renamed), f"{renamed} (it has changed);"),
        ((), f"{renamed} -> none"),
    ):
        line = refusal(train(stock, tiny.data, folder, *options, updates=4))
        assert f"other settings: --init-from {found}" in line


@pytest.mark.parametrize(
    ("flag", "model"), [("--init-from", "sentence"), ("--finetune-from-model", "document")]
)
def test_a_start_that_is_gone_does_not_keep_a_run_from_going_on(flag, model, tiny, stock, tmp_path):
    start, folder = tmp_path / "start.pt", tmp_path / "run"
    shutil.copy(tiny.checkpoints[model], start)
    for goal in (1, 2):
        log_of(train(stock, tiny.data, folder, flag, start, updates=goal))
        start.unlink(missing_ok=True)
    assert updates(folder) == 2 and not list(folder.glob("before-restart-*"))
    if flag == "--init-from":  # nor from translating
        files = ["--input", str(tiny.text / "test.en"), "--output", str(tmp_path / "out.de")]
        path = ["--path", str(folder / "checkpoint_last.pt"), "--max-len-a", "0", "--max-len-b"]
        assert main(["translate", *files, *path, "3", "--cpu"]) == 0


@pytest.mark.parametrize(
    "flag", one_in(3, ["--init-from", "--finetune-from-model", "--restore-file"])
)
def test_a_restart_that_cannot_begin_moves_nothing(flag, folder, tiny, stock, tmp_path):
    before = contents(folder)
    for start in (tmp_path / "no.pt", folder / "checkpoint_last.pt"):
        refusal(train(stock, tiny.data, folder, "--restart", flag, start, updates=1))
        assert contents(folder) == before


def test_a_run_does_not_go_on_from_an_average(folder, tiny, stock):
    """It has no optimizer state; what is resumed would be another run."""
    path = folder / "checkpoint_last.pt"
    assert main(["average", str(path), "--output", str(folder / "mean.pt")]) == 0
    shutil.move(folder / "mean.pt", path)
    line = refusal(train(stock, tiny.data, folder, updates=4))
    assert line.startswith(f"{path}: it has no state of the optimizer")


def test_folders_that_take_turns_are_prepared_alike(tiny, stock, tmp_path):
    other = shutil.copytree(tiny.data, tmp_path / "other")
    both = f"{tiny.data}:{other}"
    with open(other / "codes.bpe", "a", encoding="utf-8") as file:
        file.write("q q\n")
    binarised_again(other)
    line = refusal(train(stock, both, tmp_path / "run", updates=1))
    assert line.startswith(f"{other}: it does not fit {tiny.data}, it has other codes.bpe;")
    path = other / "dict.en.txt"
    path.write_text("".join(reversed(path.read_text("utf-8").splitlines(True))), "utf-8")
    assert "dict.en.txt" in refusal(train(stock, both, tmp_path / "run", updates=1))


# ---- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["torn", pytest.param("missing", marks=pytest.mark.long)])
def test_a_torn_checkpoint_is_replaced_by_the_newest_whole_one(damage, tiny, stock, tmp_path):
    saved = ("--save-interval-updates", "1", "--keep-interval-updates", "2")
    log_of(train(stock, tiny.data, tmp_path, *saved, updates=3))
    path = tmp_path / "checkpoint_last.pt"
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:-999])
    else:
        path.unlink()
    (tmp_path / "checkpoint_1_3.pt").write_bytes(b"")
    log = log_of(train(stock, tiny.data, tmp_path, *saved, updates=4))
    kind = {"torn": "is not whole", "missing": "is missing"}[damage]
    assert f"checkpoint_last.pt {kind}; the run goes on from checkpoint_1_2.pt (2 updates)" in log
    assert "(epoch 1 @ 2 updates)" in log and updates(tmp_path) == 4


def test_nothing_whole_is_refused(folder, tiny, stock):
    (folder / "checkpoint_last.pt").write_bytes(b"PK")
    assert refusal(train(stock, tiny.data, folder, updates=4)) == (
        f"--save-dir {folder}: none of its checkpoints is whole (checkpoint_last.pt); --restart "
        "starts anew and keeps them."
    )
    log_of(train(stock, tiny.data, folder, "--restart", updates=1))
    assert updates(folder) == 1


def test_two_trainings_in_one_folder(folder, tiny, stock):
    before = contents(folder)
    with locked(folder):
        line = refusal(train(stock, tiny.data, folder, updates=4))
    assert line.startswith(f"{folder}: another process is writing it")
    assert contents(folder) == before


def test_an_older_run_goes_on(folder, tiny, stock):
    """A checkpoint that does not say what it was made from."""
    path = folder / "checkpoint_last.pt"
    state = read_checkpoint(path)
    state["task_state"].clear()
    del state["extra_state"]["run_state"]
    write_checkpoint(state, path)
    assert "--seed 1 -> 2;" in refusal(train(stock, tiny.data, folder, "--seed", "2", updates=3))
    assert f"{path}: no fingerprint" in log_of(train(stock, tiny.data, folder, updates=3))
    assert "no fingerprint" not in log_of(train(stock, tiny.data, folder, updates=4))
