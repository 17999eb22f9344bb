"""Mistakes in the words of ``gtrans train``, and what it finds before it loads anything.

And what it and ``fairseq-train`` say of a training that is not as its user means.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.folders import REPO
from support.runs import PLUGIN, log_of, refusal, train

from gtrans.cli import main

BIN = Path(sys.executable).parent
OPTIONS = ("--optimizer", "adam", "--lr", "0.003", "--max-tokens", "512", "--cpu")
ARCH = ("--arch", "gtransformer_tiny")

OPTIONS_OF_ALL = "--arch gtransformer_base --optimizer adam --lr 5e-4 --max-tokens 4096"
WHOLE = f"DATA {OPTIONS_OF_ALL}"
# Words, and what is said of them.
CASES = {
    OPTIONS_OF_ALL: "required: data",
    f"nowhere {OPTIONS_OF_ALL}": "nowhere: there is no such data folder",
    f"TEXT/train.en {OPTIONS_OF_ALL}": "TEXT/train.en: this is a file and no data folder; prepare",
    f"TEXT/train {OPTIONS_OF_ALL}": "TEXT/train: this is text (train.de, train.en); prepare it",
    f"TEXT {OPTIONS_OF_ALL}": "TEXT: this is no data folder (it has train.de, train.en); prepare",
    "DATA": "`--arch` is missing, or `--config NAME`",
    "DATA --arch gtransformer_bse": "did you mean gtransformer_base?",
    "DATA --arch gtransformer_base": "`--optimizer` is missing, such as `--optimizer adam`",
    "DATA --arch gtransformer_base --optimizer adam": "`--lr` is missing",
    "DATA --arch gtransformer_base --optimizer adam --lr 1": "`--max-tokens` is missing",
    f"{WHOLE} --optimizr adam": "there is no option --optimizr; did you mean --optimizer?",
    f"{WHOLE} --unit documnt": "did you mean document?",
    f"{WHOLE} --optimizer adm": "did you mean adam?",
    f"{WHOLE} --criterion chunked_crossentropy": "did you mean chunked_cross_entropy?",
    f"{WHOLE} --conf tiny": "did you mean --config?",
    f"{WHOLE} --lr-scheduler polynomial_decay": "needs `--total-num-update`",
    **{
        f"{WHOLE} --{name} {value}": f"--{name}{says}"
        for name, value, says in (
            ("seed", "-1", ": must be at least 0, but is -1"),
            ("update-freq", "0", ": must be at least 1, but is 0"),
            ("warmup-updates", "-1", "`: must be at least 0, but is -1"),
            ("lr", "-1", ": must be above 0, but is -1.0"),
            ("lr", "exit()", ": must be numbers with commas between them"),
            ("max-update", "many", ": 'many' is no whole number"),
            ("max-update", str(10**20), ": must be at most 9223372036854775807"),
            ("clip-norm", "nan", ": 'nan' is no finite number"),
            ("dropout", "inf", "` must be at least 0 and below 1, but is inf"),
            ("adam-betas", "print(1)", "`: must be 2 numbers, such as 0.9,0.98, but is print(1)"),
            ("adam-betas", "0.9,1.5", "`: must be below 1, but is 1.5"),
        )
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_one_line(case, tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}").write_text("A sentence.\n", encoding="utf-8")
    places = {"DATA": str(tiny.data), "TEXT": str(tmp_path)}
    words = [places.get(w, w).replace("TEXT/", f"{tmp_path}/") for w in case.split()]
    try:
        status = main(["train", *words])
    except SystemExit as end:
        status = int(end.code or 0)
    assert status in (1, 2)
    errors = capsys.readouterr().err.replace(str(tmp_path), "TEXT").splitlines()
    (line,) = (line for line in errors if line.startswith("gtrans: error: "))
    assert line == errors[-1] and CASES[case] in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*ARCH, "--init-from", "{}/no.pt"), "--init-from {}/no.pt: there is no such checkpoint."),
        ((*ARCH, "--init-from", "{}"), "--init-from {}: there is no such checkpoint."),
        ((*ARCH, "--restore-file", "{}/no.pt"), "--restore-file {}/no.pt: there is no such check"),
        ((*ARCH, "--finetune-from-model", "{}/no.pt"), "--finetune-from-model {}/no.pt: there is "),
        ((*ARCH, "--save-dir", "{}/file"), "`--save-dir` must be a folder, but '{}/file' is a"),
        ((*ARCH, "--save-dir", "/proc/runs"), "`--save-dir` '/proc/runs': cannot be written ("),
        (
            ("--arch", "gtrans_fusion_tiny", "--criterion", "chunked_cross_entropy"),
            "`--criterion chunked_cross_entropy` is for one prediction of every word, but the dec",
        ),
        (
            (*ARCH, "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "0"),
            "`--lr-scheduler inverse_sqrt` needs `--warmup-updates` of at least 1, but it is 0",
        ),
        (
            ("--arch", "gtrans_fusion_tiny", "--init-xlmr", "{}/file"),
            "--init-xlmr {}/file: this is a file; give the folder with XLM-R's config.json",
        ),
        (
            ("--arch", "gtrans_fusion_tiny", "--init-xlmr", "{}"),
            "--init-xlmr {}: XLM-R has one table of embeddings; give `--share-all-embeddings`",
        ),
        (
            ("--arch", "memory_transformer_tiny", "--memory-layers", "7"),
            "`--memory-layers` must be top, all, or layers between 0 and 5",
        ),
        ((*ARCH, "--lr", "0.25"), "`--lr` is missing: the highest learning rate, such as `--lr"),
    ],
)
def test_both_doors_refuse_alike_and_load_nothing(options, message, tiny, tmp_path, capsys):
    (tmp_path / "file").touch()
    chosen = [part.format(tmp_path) for part in options]
    if "--save-dir" not in chosen:
        chosen += ["--save-dir", str(tmp_path / "saved")]
    stock = tiny.run("train", tiny.data, *PLUGIN, *OPTIONS, *chosen)
    assert main(["train", str(tiny.data), *OPTIONS, *chosen]) == 1
    here = capsys.readouterr()
    (line,) = (x for x in here.err.splitlines() if x.startswith("gtrans: error: "))
    assert line.startswith(f"gtrans: error: {message.format(tmp_path)}")
    assert "Traceback" not in here.out + here.err
    if "--save-dir" not in options:  # fairseq looks at it before any plugin
        assert line == f"gtrans: error: {refusal(stock)}"
    for log in (stock.stdout, stock.stderr, here.out, here.err):
        assert "loaded" not in log


@pytest.mark.parametrize(
    ("options", "message"),
    [("--no-last-checkpoints", "the last 2 are in no"), ("--no-save --lr 1e30", "is not finite")],
)
def test_a_training_that_leaves_nothing_has_failed(options, message, stock, tiny, tmp_path):
    done = train(stock, tiny.data, tmp_path, *options.split(), updates=2)
    assert message in refusal(done)


@pytest.mark.parametrize("removed", [("train", "valid"), ("valid",)])
def test_a_missing_split_is_named_before_the_model_is_built(removed, tiny, tmp_path, capsys):
    data = shutil.copytree(tiny.data, tmp_path / "data")
    for split in removed:
        for path in data.glob(f"{split}.*"):
            path.unlink()
    files = [str(data), "--save-dir", str(tmp_path / "saved")]
    assert main(["train", *files, *OPTIONS, *ARCH]) == 1
    log = capsys.readouterr()
    assert f"{data}: there is no split '{removed[0]}'" in log.err
    assert "num. shared model params" not in log.out + log.err


def test_units_longer_than_a_batch_are_reported_and_read(stock, tiny, tmp_path):
    done = train(stock, tiny.data, tmp_path, "--max-tokens", "20", updates=1)
    assert "--max-tokens 20: 97 of 100 units of 'train' are longer, the longest has 88" in log_of(
        done
    )
    roomy = train(stock, tiny.data, tmp_path / "roomy", "--max-tokens", "88", updates=1)
    assert "are longer" not in log_of(roomy)


@pytest.mark.parametrize("options", [("--lr", "1e12"), ("--lr", "1e38", "--clip-norm", "1")])
def test_a_loss_that_is_not_finite_ends_the_run(options, stock, tiny, tmp_path):
    done = train(stock, tiny.data, tmp_path, *options, updates=5)
    message = refusal(done)
    assert "is not finite (NaN or infinity) after " in message and "lower --lr" in message
    assert not list(tmp_path.glob("*.pt"))


def test_a_checkpoint_with_nan_is_not_written(stock, tiny, tmp_path):
    """The last update breaks the model, which the training itself does not see any more."""
    done = train(
        stock, tiny.data, tmp_path, "--lr", "1e38", "--patience", "1", "--valid-subset", "test",
        updates=1,
    )  # fmt: skip
    assert "the loss of the validation is not finite" in refusal(done)
    assert not list(tmp_path.glob("*.pt"))


# ---- several processes ---------------------------------------------------------------------------


@pytest.mark.long
def test_a_mistake_of_one_rank_ends_all(tiny, tmp_path):
    """Only the first rank writes in ``--save-dir``; the other one would wait for it."""
    (tmp_path / "file").touch()
    command = (
        'gtrans train "$@" --distributed-world-size 2 --distributed-init-method env:// '
        "--distributed-no-spawn --distributed-backend gloo --ddp-backend legacy_ddp "
        "--distributed-rank $RANK --device-id 0"
    )
    done = subprocess.run(
        [
            BIN / "torchrun", "--no-python", "--standalone", "--nproc_per_node", "2",
            "bash", "-c", command, "bash", tiny.data, *PLUGIN, *ARCH, *OPTIONS,
            "--save-dir", tmp_path / "file",
        ],
        cwd=REPO,
        env={
            **os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    # torch writes the number of the process before it
    (line,) = (line for line in done.stderr.splitlines() if "gtrans: error: " in line)
    assert f"gtrans: error: `--save-dir` must be a folder, but '{tmp_path / 'file'}' is a" in line


# ---- warnings ------------------------------------------------------------------------------------


def test_a_training_shows_no_known_warning(stock, tiny, tmp_path):
    done = train(stock, tiny.data, tmp_path, updates=1)
    assert "Warning" not in log_of(done)
