"""``compare/run.sh``: systems that start from one sentence model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.recipes import PLACE, commands


def trainings(script, *options: str) -> dict[str, str]:
    """The commands of `gtrans train` in a dry run, by model."""
    done = commands(script("run-compare", *PLACE, "--dry-run", *options))
    found = [command for command in done if command.startswith("gtrans train ")]
    return {re.findall(r"--save-dir out/(\S+)", command)[0]: command for command in found}


@pytest.mark.parametrize(
    ("given", "of_sentence", "whole", "half"),
    [
        ((), 400, 400, 200),
        (("--", "--warmup-updates", "200"), 200, 200, 100),
        (("--", "--warmup-updates=7", "sentence:", "--warmup-updates", "400"), 400, 7, 4),
    ],
)
def test_both_parts_of_han_have_half_of_the_warmup(
    script, given: tuple[str, ...], of_sentence: int, whole: int, half: int
) -> None:
    """Each has an optimizer of its own and half of the updates; with all of it none would decay."""
    found = trainings(script, "--system", "han", "--document-updates", "400", *given)
    found |= trainings(script, "--system", "aware", *given)
    last = {name: re.findall(r"--warmup-updates[ =](\d+)", it)[-1] for name, it in found.items()}
    expected = {"sentence": of_sentence, "han-encoder": half, "han": half, "aware": whole}
    assert {name: int(it) for name, it in last.items()} == expected
    assert "--max-update 200 " in found["han-encoder"] and "--max-update 200 " in found["han"]
    # Without a number of updates there is nothing to halve.
    (_, *parts) = trainings(script, "--system", "han", "--document-updates", "0", *given).values()
    assert [int(re.findall(r"--warmup-updates[ =](\d+)", it)[-1]) for it in parts] == [whole] * 2


def test_both_parts_of_han_read_the_pairs(script) -> None:
    pairs = ("--pairs", "P", "--pairs-weight", "2")
    sentence, *parts = trainings(script, "--system", "han", *pairs).items()
    assert sentence[1].startswith("gtrans train out/data --") and "--mix" not in sentence[1]
    assert [name for name, _ in parts] == ["han-encoder", "han"]
    for _, command in parts:
        assert command.startswith("gtrans train out/data:out/data-pairs.han --")
        assert " --mix 1:2 " in command


def test_both_sides_of_the_pairs_are_read_together(stand_ins, tmp_path: Path) -> None:
    """They are prepared for the first part of a model that is made here."""
    for lang in ("en", "de"):
        (tmp_path / f"P.{lang}").write_text("x\n", encoding="utf-8")
    reading = (
        "python -m gtrans.text.sentence_pairs --documents P.en P.de "
        "out/data-pairs.han.text.en out/data-pairs.han.text.de"
    )
    for only in ((), ("--only", "han-encoder"), ("--only", "han")):
        stage = ("--stage", "document", *only) if only else ()
        done, calls = stand_ins(
            "run-compare", "--system", "han", "--pairs", "P", *stage, FINISH="1"
        )
        assert done.returncode == 0, done.stderr
        log = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
        assert log.count(reading) == 1
        prepared = [call for call in calls if "--train out/data-pairs.han.text " in call]
        assert len(prepared) == 1 and prepared[0].startswith("gtrans prepare ")
        assert log.index(reading) < log.index(prepared[0])


def test_a_missing_side_of_the_pairs_is_one_line(stand_ins, tmp_path: Path) -> None:
    (tmp_path / "P.en").write_text("x\n", encoding="utf-8")
    done, calls = stand_ins("run-compare", "--pairs", "P", FINISH="1")
    assert done.returncode == 1
    assert "P.de: there is no such file (nor P.de.gz)" in done.stderr.splitlines()[-1]
    assert calls == []


@pytest.mark.parametrize("weight", ["abc", "-1", "0", "0.0", "1e3", ""])
def test_a_weight_of_the_pairs_that_is_none_is_one_line(script, weight: str) -> None:
    done = script("run-compare", *PLACE, "--dry-run", "--pairs", "P", "--pairs-weight", weight)
    assert done.returncode == 1
    assert "`--pairs-weight` must be a number above 0" in done.stderr.splitlines()[-1]


def test_instances_of_a_memory_have_the_length_that_is_asked_for(script) -> None:
    instances = ("--system", "memory-instances")
    assert " --max-doc-tokens 128 " in trainings(script, *instances)["memory-instances"]
    command = trainings(script, *instances, "--max-doc-tokens", "300")["memory-instances"]
    assert re.findall(r"--max-doc-tokens (\d+)", command) == ["300"]


def test_an_update_has_as_many_sentences_whatever_a_window_has_beside_its_own(script) -> None:
    """A window counts with its context: 135 sentences of debian-web-ende, 54 windows of three."""
    windows = {"concat": 7600, "flat": 10000, "aware": 6400, "han": 15200, "lossless": 4000}
    for system, tokens in windows.items():
        found = trainings(script, "--system", system, "--max-tokens", "4000")
        assert " --max-tokens 4000 " in found["sentence"]
        assert f" --max-tokens {tokens} " in found[system]


def test_the_baseline_of_document_batches_is_the_g_transformer_without_global_attention(
    script,
) -> None:
    lossless = trainings(script, "--system", "lossless")["lossless"]
    without = trainings(script, "--system", "groups")["groups"]
    layers = " ".join(f"--{part}-global-layers 0" for part in ("encoder", "decoder", "cross"))
    assert f" {layers} " in without
    assert without.replace(f" {layers}", "").replace("out/groups", "out/lossless") == lossless
