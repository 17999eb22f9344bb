"""What ``gtrans train`` says of its words before torch is loaded, and how much it logs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fairseq import options as fairseq_options
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from support.folders import REPO
from support.runs import G_TRANSFORMER, TRAINING
from support.tiny_models import TinyWorld

from gtrans.cli.shared import declared as sources
from gtrans.cli.shared.declared import options
from gtrans.cli.shared.early_checks import TASK
from gtrans.cli.shared.fairseq_commands import architectures

WHOLE = "DATA --arch gtransformer_base --optimizer adam --lr 5e-4 --max-tokens 4096"
# Words, and what is said of them.
CASES = {
    "--arch gtransformer_base": "DATA is missing: the folder that `gtrans prepare` wrote",
    "nowhere": "nowhere: there is no such data folder",
    "TEXT/train.en --lr 1": "TEXT/train.en: this is a file and no data folder; prepare it first",
    "TEXT/train --lr 1": "TEXT/train: this is text (train.de, train.en); prepare it first",
    "TEXT": "TEXT: this is no data folder (it has train.de, train.en); prepare it first",
    "DATA": "`--arch` is missing, or `--config NAME`",
    "DATA --arch gtransformer_bse": "did you mean gtransformer_base?",
    "DATA --arch gtransformer_base": "`--optimizer` is missing, such as `--optimizer adam`",
    "DATA --arch gtransformer_base --optimizer adam": "`--lr` is missing",
    "DATA --arch gtransformer_base --optimizer adam --lr 1": "`--max-tokens` is missing",
    f"{WHOLE} --optimizr adam": "there is no option --optimizr; did you mean --optimizer?",
    f"{WHOLE} --unit documnt": "did you mean document?",
    f"{WHOLE} --optimizer adm": "did you mean adam?",
    f"{WHOLE} --criterion chunked_crossentropy": "did you mean chunked_cross_entropy?",
    **{
        f"{WHOLE} --{name} {value}": f"argument --{name}: {says}"
        for name, value, says in (
            ("seed", "-1", "must be at least 0, but is -1"),
            ("update-freq", "0", "must be at least 1, but is 0"),
            ("num-workers", "-1", "must be at least 0, but is -1"),
            ("warmup-updates", "-1", "must be at least 0, but is -1"),
            ("lr", "-1", "must be above 0, but is -1.0"),
            ("max-update", "many", "'many' is no whole number"),
            ("clip-norm", "nan", "'nan' is no finite number"),
            ("dropout", "inf", "'inf' is no finite number"),
            ("adam-betas", "print(1)", "must be 2 numbers, such as 0.9,0.98, but is print(1)"),
            ("adam-betas", "0.9,1.5", "must be below 1, but is 1.5"),
            ("lr", "exit()", "must be numbers with commas between them"),
        )
    },
    f"{WHOLE} --conf tiny": "there is no option --conf; did you mean --config?",
    f"{WHOLE} --lr-scheduler triangular": "`--lr-scheduler triangular` needs `--max-lr`",
    f"{WHOLE} --lr-scheduler polynomial_decay": "needs `--total-num-update`",
    f"{WHOLE} --max-update {10**20}": "must be at most 9223372036854775807",
    f"{WHOLE} --max-tokens 0": "argument --max-tokens: must be at least 1, but is 0",
}
SCRIPT = """
import contextlib, io, json, sys
from gtrans.cli import main
lines = []
for words in json.load(sys.stdin):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            status = main(["train", *words.split()])
        except SystemExit as end:
            status = end.code
    lines.append((status, said.getvalue(), "torch" in sys.modules))
print(json.dumps(lines))
"""


@pytest.fixture(scope="module")
def said(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """Status and message of each of the cases, and whether torch was loaded."""
    text = tmp_path_factory.mktemp("text")
    for lang in ("en", "de"):
        (text / f"train.{lang}").write_text("A sentence.\n", encoding="utf-8")
    places = {"DATA": str(tiny.data), "TEXT": str(text)}
    words = [" ".join(places.get(w, w).replace("TEXT/", f"{text}/") for w in case.split())
             for case in CASES]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=REPO, input=json.dumps(words), capture_output=True,
        text=True, timeout=100, check=True,
    )  # fmt: skip
    return dict(zip(CASES, json.loads(done.stdout.replace(str(text), "TEXT")), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_mistakes_are_one_line_before_torch_is_loaded(case, said):
    status, message, torch = said[case]
    assert status in (1, 2) and not torch
    assert message.startswith("gtrans: error: ") and message.count("\n") == 1
    assert CASES[case] in message


def test_the_sources_say_of_options_what_the_parsers_say():
    """Of every option of a training: whether it takes a word, and which ones."""
    known = options()
    names = architectures()
    parsers = [fairseq_options.get_training_parser(default_task=TASK)]
    owners = [TASK_REGISTRY[TASK], *names.values()]
    for kind in ("criterion", "optimizer", "lr_scheduler"):
        owners += [
            owner for owner in REGISTRIES[kind]["registry"].values() if hasattr(owner, "add_args")
        ]
    for owner in owners:
        parsers.append(argparse.ArgumentParser(add_help=False, conflict_handler="resolve"))
        owner.add_args(parsers[-1])
    seen = set()
    for action in (action for parser in parsers for action in parser._actions):
        for flag in set(action.option_strings) - {"-h", "--help"}:
            option = known[flag]
            seen.add(flag)
            assert (option.kind in ("flag", "off")) == (action.nargs == 0), flag
            assert (option.kind == "off") == (action.nargs == 0 and action.const is False), flag
            if option.choices and action.choices and flag != "--criterion":
                assert set(option.choices) == set(map(str, action.choices)), flag
    assert len(seen) > 350
    assert set(sources.architectures()) >= set(names)


def train(tiny: TinyWorld, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = (tiny.data, *TRAINING, *G_TRANSFORMER, "--save-dir", folder, "--max-update", "2", *more)
    return subprocess.run(
        [sys.executable, "-m", "gtrans", "train", *map(str, words)], capture_output=True, text=True,
        cwd=REPO, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, timeout=200, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--no-last-checkpoints --disable-validation", "the last 2 are in no checkpoint"),
        ("--no-save --lr 1e30 --disable-validation", "is not finite"),
    ],
)
def test_a_training_that_leaves_nothing_has_failed(options, message, tiny, tmp_path):
    done = train(tiny, tmp_path, *options.split())
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]
