"""Validation by translations: the scores of ``gtrans translate`` and ``gtrans score``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.running import in_two
from support.runs import differing, last, log_of, outcome, refusal, train, updates
from support.tiny_models import TinyWorld
from support.translating import FAST

from gtrans.cli import main

DOCUMENTS = 6
# The same search as FAST.
SEARCH = {"beam": 2, "max_len_a": 0.0, "max-len-b": 8}
CHRF = ("--best-checkpoint-metric", "chrf", "--maximize-best-checkpoint-metric")
STARTED = ("--init-from", "{sentence}", "--lr-scale-pretrained", "1")


def scored(search: dict[str, Any] = SEARCH, documents: int = DOCUMENTS) -> tuple[str, ...]:
    """Options of training."""
    return (
        *("--eval-bleu", "--eval-bleu-args", json.dumps(search), "--log-format", "json"),
        *("--eval-bleu-documents", str(documents), "--patience", "99", "--valid-subset", "valid"),
    )


def logged(log: str, key: str = "valid_d_bleu") -> dict[str, float]:
    """The scores of the last validation."""
    entry = re.findall(rf'\{{.*"{key}".*\}}', log)[-1]
    return {
        name.removeprefix("valid_"): float(value) for name, value in json.loads(entry).items()
        if re.fullmatch(r"valid_(s_bleu|d_bleu|chrf)", name)
    }  # fmt: skip


@pytest.fixture
def by_commands(tiny: TinyWorld, tmp_path: Path, capsys) -> Callable[..., dict[str, float]]:
    """The scores of a checkpoint by the commands, of the first validation documents."""

    def score(checkpoint: Path, *options: str, keys: tuple[str, ...]) -> dict[str, float]:
        for lang in ("en", "de"):
            whole = (tiny.text / f"valid.{lang}").read_text(encoding="utf-8").split("\n\n")
            text = "\n\n".join(whole[:DOCUMENTS]).strip()
            (tmp_path / f"head.{lang}").write_text(f"{text}\n", encoding="utf-8")
        output, data = str(tmp_path / "head.hyp"), str(tiny.data)
        words = ["--input", str(tmp_path / "head.en"), "--output", output, *FAST, *options]
        assert main(["translate", "--path", str(checkpoint), "--data", data, *words]) == 0
        capsys.readouterr()
        files = ["--hyp", output, "--ref", str(tmp_path / "head.de"), "--target-lang", "de"]
        assert main(["score", *files, "--metrics", *keys, "--resample", "none", "--json"]) == 0
        (system,) = json.loads(capsys.readouterr().out)["systems"].values()
        return {key: system[key]["score"] for key in keys}

    return score


@pytest.mark.parametrize(
    "options",
    [
        ("--unit", "document", *STARTED),
        *(
            pytest.param(options, marks=pytest.mark.long)
            for options in (
                ("--unit", "sentence"),
                ("--arch", "concat_transformer_tiny"),
                ("--arch", "flat_transformer_tiny", "--context-kind", "random"),
                ("--arch", "han_transformer_tiny"),
                ("--arch", "memory_transformer_tiny", "--max-tokens", "200"),
                ("--arch", "gtransformer_tiny", "--doc-mode", "full", *STARTED),
            )
        ),
    ],
    ids=lambda options: options[1],
)
def test_the_scores_of_the_commands(options, tiny, tmp_path, by_commands):
    named = [option.format(sentence=tiny.checkpoints["sentence"]) for option in options]
    log = log_of(train(tiny.run, tiny.data, tmp_path, *named, *scored(), *CHRF, updates=3))
    found = by_commands(tmp_path / "checkpoint_best.pt", keys=("s_bleu", "d_bleu", "chrf"))
    assert 0 < found["chrf"] == last(tmp_path)["extra_state"]["best"]
    assert logged(log) == {key: float(f"{score:g}") for key, score in found.items()}
    assert f"valid: {DOCUMENTS} documents with " in log


@pytest.mark.long
def test_stopping_by_a_score_is_exact_when_it_goes_on(tiny, tmp_path):
    """The translations change nothing of the training, either."""
    options = (
        *("--validate-interval-updates", "1", "--save-interval-updates", "1", *CHRF),
        *("--keep-interval-updates", "1", "--patience", "2", "--eval-bleu-print-samples"),
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    log = log_of(train(tiny.run, tiny.data, whole, *scored(documents=1), *options, updates=4))
    assert "translation of the first document of valid: " in log
    assert "reference of the first document of valid: " in log
    for goal in (2, 4):
        log_of(train(tiny.run, tiny.data, parts, *scored(documents=1), *options, updates=goal))
    assert differing(outcome(whole), outcome(parts)) == []
    stop = last(whole)["extra_state"]["run_state"]["early_stop"]
    assert stop["best"] == last(whole)["extra_state"]["best"] > 0
    log_of(train(tiny.run, tiny.data, tmp_path / "off", updates=updates(whole)))
    assert differing(last(whole)["model"], last(tmp_path / "off")["model"]) == []


@pytest.mark.long
def test_two_processes_have_the_scores_of_one(tiny, tmp_path, by_commands):
    # Batches so small that there are several, as in `gtrans translate`.
    small = scored({**SEARCH, "max_tokens": 60})
    both = in_two(tiny.run, tiny.data, tmp_path, *small, *CHRF, updates=2)
    logs = [log_of(done) for done in both]
    found = by_commands(
        tmp_path / "checkpoint_best.pt", "--max-tokens", "60", keys=("s_bleu", "d_bleu", "chrf")
    )
    assert found["chrf"] == last(tmp_path)["extra_state"]["best"]
    shown = {key: float(f"{score:g}") for key, score in found.items()}
    assert next(logged(log) for log in logs if "valid_d_bleu" in log) == shown


def test_a_folder_without_plain_text(tiny, tmp_path):
    """One of an earlier version, or made by fairseq-preprocess: the reference is given."""
    data = tmp_path / "data"
    data.mkdir()
    for path in tiny.data.iterdir():
        if path.name != "text":
            (data / path.name).symlink_to(path)
    line = refusal(train(tiny.run, data, tmp_path / "run", *scored()))
    assert line == (
        f"{data}/text/valid.plain.de: '{data}' has no plain text of 'valid'; give it with "
        "`--eval-bleu-reference FILE`, or type the `gtrans prepare` of the folder again."
    )
    given = ("--eval-bleu-reference", str(tiny.text / "valid.de"))
    log = log_of(train(tiny.run, data, tmp_path / "run", *scored(documents=1), *given, updates=1))
    assert set(logged(log)) == {"s_bleu", "d_bleu", "chrf"}
