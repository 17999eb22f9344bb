"""fairseq's own commands with document units: every sentence comes out, once."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from support.runs import refusal
from support.suites import others_long

from gtrans.errors import GtransError
from gtrans.search.generator import refuse_unsupported

if TYPE_CHECKING:
    from support.tiny_models import Finished, TinyWorld


PLUGIN = ("--user-dir", "gtrans", "--task", "document_translation", "--cpu")
SHORT = ("--beam", "2", "--max-len-b", "8")


def generate(
    tiny: TinyWorld, *options: str, model: str = "document", data: Path | None = None
) -> Finished:
    path = ":".join(str(tiny.checkpoints[name]) for name in model.split(":"))
    return tiny.run("generate", data or tiny.data, *PLUGIN, "--path", path, *options)


def once_each(done: Finished, kind: str, count: int) -> list[str]:
    """The texts of lines of one kind by id, each of which must be there exactly once."""
    assert done.status == 0, done.stderr
    found = done.lines(kind)
    assert sorted(number for number, _ in found) == list(range(count)), kind
    return [text for _, text in sorted(found)]


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("document", SHORT),
        ("sentence", SHORT),
        pytest.param("document:other", SHORT, marks=pytest.mark.long),
        pytest.param(
            "document",
            ("--beam", "2", "--max-len-a", "0", "--max-len-b", "1"),
            marks=pytest.mark.long,
        ),
        pytest.param("document", (*SHORT, "--max-tokens", "16"), marks=pytest.mark.long),
        ("document", (*SHORT, "--batch-size", "2", "--lenpen", "0.5", "--min-len", "3")),
        ("sentence", ("--beam", "40", "--max-len-b", "2", "--sacrebleu")),
    ],
)
def test_one_set_of_lines_per_sentence(tiny: TinyWorld, model: str, options: tuple[str, ...]):
    source, target = tiny.subwords("en"), tiny.subwords("de")
    done = generate(tiny, *options, model=model)
    assert once_each(done, "S", len(source)) == source
    # Training may not know a subword of the test set.
    for found, expected in zip(once_each(done, "T", len(target)), target, strict=True):
        assert len(found.split()) == len(expected.split())
    translations = once_each(done, "H", len(source))
    assert once_each(done, "D", len(source)) == translations
    once_each(done, "P", len(source))
    limit = int(options[options.index("--max-len-b") + 1])
    least = 3 if "--min-len" in options else 1
    assert all(least <= len(text.split()) <= limit for text in translations)
    assert not any(mark in text for text in translations for mark in ("<s>", "</s>", "<mask>"))
    assert "nan" not in done.stdout.lower().split()


def test_the_unit_comes_from_the_checkpoint(tiny: TinyWorld):
    documents, sentences = len(tiny.source()), len(tiny.subwords("en"))
    for model, units in (("document", documents), ("sentence", sentences)):
        # The flag of the command line does not count.
        done = generate(tiny, *SHORT, "--unit", "sentence", model=model)
        assert f"test en-de: {units} units, {sentences} sentences" in done.stdout + done.stderr


def test_n_best(tiny: TinyWorld):
    count = len(tiny.subwords("en"))
    done = generate(tiny, "--beam", "3", "--nbest", "2", "--max-len-b", "6")
    once_each(done, "S", count)
    for kind in "HDP":
        numbers = [number for number, _ in done.lines(kind)]
        assert sorted(numbers) == sorted([*range(count), *range(count)])


def test_without_target(tiny: TinyWorld, tmp_path: Path):
    data = tmp_path / "data"
    prefix = tiny.data / "text" / "test.bpe"
    tiny.run.succeed(
        "preprocess", "--user-dir", "gtrans", "--only-source", "--source-lang", "en",
        "--target-lang", "de", "--testpref", prefix, "--srcdict",
        tiny.data / "dict.en.txt", "--destdir", data,
    )  # fmt: skip
    shutil.copy(tiny.data / "dict.de.txt", data)
    done = generate(tiny, *SHORT, "--source-lang", "en", "--target-lang", "de", data=data)
    assert once_each(done, "S", len(tiny.subwords("en"))) == tiny.subwords("en")
    once_each(done, "D", len(tiny.subwords("en")))
    assert done.lines("T") == []


def test_what_documents_cannot_follow_is_refused(tiny: TinyWorld):
    for name, value in (
        ("constraints", "ordered"), ("prefix_size", 1), ("print_alignment", "hard"),
        ("lm_path", "x"), ("diverse_beam_groups", 2), ("match_source_len", True),
        ("score_reference", True), ("print_step", True), ("retain_dropout", True),
    ):  # fmt: skip
        flag = name.replace("_", "-")
        with pytest.raises(GtransError, match=f"`--{flag}` is not supported"):
            refuse_unsupported(SimpleNamespace(**{name: value}))
    done = generate(tiny, *["--sampling", "--beam", "2", "--nbest", "2"])
    assert done.status == 1
    assert refusal(done).startswith("`--sampling` is not supported")
    assert done.lines("H") == []


def interactive(tiny: TinyWorld, text: str, *options: str, model: str = "document") -> Finished:
    return tiny.run.succeed(
        "interactive", tiny.data, *PLUGIN, "--path", tiny.checkpoints[model], *SHORT, *options,
        stdin=text,
    )  # fmt: skip


@pytest.mark.parametrize("model", others_long(["document", "sentence"], {"document"}))
def test_interactive(tiny: TinyWorld, model: str):
    # Line numbers are those of the input, empty lines counted: 0 1 - 3 - - 6 7
    lines = ["du bist da", "er auch", "", "sie", "", "", "wo", "da ist es"]
    expected = [(number, line) for number, line in enumerate(lines) if line]
    done = interactive(tiny, "\n".join(lines), model=model)
    numbers = [number for number, _ in expected]
    for kind in "SHDP":
        assert [number for number, _ in done.lines(kind)] == numbers, kind
    assert "of the tokens of the input are not in the vocabulary" in done.stderr  # no BPE
    hypotheses = done.lines("H")
    assert all(1 <= len(text.split()) <= 8 for _, text in hypotheses)
    for ending in ("\n", "\n\n", "\n\n\n"):
        assert interactive(tiny, "\n".join(lines) + ending, model=model).lines("H") == hypotheses


def test_interactive_gives_what_generate_gives(tiny: TinyWorld):
    bpe = (tiny.data / "text" / "test.bpe.en").read_text(encoding="utf-8")
    count = len(tiny.subwords("en"))
    # One document at a time in both: sums of other batches differ in their last bits.
    expected = once_each(generate(tiny, *SHORT, "--batch-size", "1"), "H", count)
    done = interactive(tiny, bpe)
    assert [text for _, text in done.lines("H")] == expected
    assert "not in the vocabulary" not in done.stderr


def test_validate(tiny: TinyWorld):
    for model in ("document", "sentence"):
        done = tiny.run.succeed(
            "validate", tiny.data, *PLUGIN, "--path", tiny.checkpoints[model],
            "--valid-subset", "test", "--max-tokens", "512",
        )  # fmt: skip
        assert "loss" in done.stdout + done.stderr
