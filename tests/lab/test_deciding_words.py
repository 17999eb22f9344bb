"""The context words that decided a word, for every model and unit, and the command."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.contract import Case, build, cases, first_cases
from support.suites import others_long
from support.tiny_models import TinyWorld

from gtrans.cli import main
from gtrans.lab.deciding_words import END, Substitutes, measure_words
from gtrans.lab.words import words_of, words_of_side
from gtrans.text.prepared_folder import load_pipeline
from gtrans.text.reader import read_documents
from gtrans.translating.force_decode import CorpusSide, ScoredCorpus, score_tokens


@pytest.mark.parametrize("case", others_long(cases(), first_cases()[::3]))
def test_every_model_and_unit(case: Case, prepared_with_bert: Path, tiny: TinyWorld) -> None:
    """What is named is context; losses are those of another pass."""
    options = {field.name for field in dataclasses.fields(case.model.options)}
    whole = {"memory_bptt": -1} if "memory_bptt" in options else {}
    built = build(case, prepared_with_bert, **whole)
    task, models = built.task, [built.model.eval()]
    target = load_pipeline(prepared_with_bert, "de")
    english, german = (read_documents(tiny.text / f"test.{it}")[::4] for it in ("en", "de"))
    text = ScoredCorpus(CorpusSide(task.source_encoder(), english), CorpusSide(target, german))
    values = sorted(
        (it.cxmi for it in measure_words(models, task, text, float("inf"), 400)), reverse=True
    )
    if case.unit == "sentence":
        assert values[0] == pytest.approx(0, abs=1e-5)
        return
    looked_at = [it for it in measure_words(models, task, text, values[6], 400) if it.decision]
    assert looked_at
    for gain in looked_at:
        number, sentence, decision = gain.document - 1, gain.sentence, gain.decision
        assert decision is not None
        change = decision.change
        assert change is not None and change.sentence != sentence
        assert change.side == "source" or change.sentence < sentence
        source, target = (list(side.encoded[number]) for side in (text.source, text.target))
        plain = list(text.source.documents[number])
        of_side, lines = text.sides[change.side], source if change.side == "source" else target
        line = words_of_side(of_side)[number][change.sentence - 1]
        assert line.texts[change.word - 1] == change.text
        changed = line.with_other(change.word - 1, change.replaced_by)
        lines[change.sentence - 1] = of_side.pipeline.encode(changed)
        if change.side == "source":
            plain[change.sentence - 1] = changed
        again = score_tokens(models, task, [(source, target)], plain=[plain], whole=False)
        at = words_of_side(text.target)[number][sentence - 1].subwords[gain.word - 1]
        value = float(again[0][sentence - 1][at.start : at.stop, 0].sum())
        assert decision.loss == pytest.approx(gain.with_context - value, abs=1e-4)


def substitutes(*lines: str) -> Substitutes:
    """Of a side whose subwords are words."""
    pipeline: Any = SimpleNamespace(encode=str, unsegment=str)
    return Substitutes(CorpusSide(pipeline, [list(lines)]))


def test_substitutes_stand_at_the_same_places() -> None:
    known = substitutes("the dog ran .", "the cat ran .", "a cat sat .", "a dog sat .", "The end .")
    assert known.replacements("dog")[0] == "cat" and known.replacements("ran")[0] == "sat"
    assert "The" not in known.replacements("the") and known.replacements(".") == []
    assert (
        known.replacements("dog", "sat")[:2] == ["sat", "cat"]
        and known.replacements("the", "The")[0] != "The"
    )


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Er sah sie.", ["Er", "sah", "sie", "."]),
        ("  „Ja“,  sagt's  &  ging!", ["„", "Ja", "“", ",", "sagt's", "&", "ging", "!"]),
        ("Paul-Otto (42)", ["Paul-Otto", "(", "42", ")"]),
    ],
)
def test_words_are_those_of_the_user(sentence: str, expected: list[str], tiny: TinyWorld) -> None:
    pipeline = load_pipeline(tiny.data, "de")
    encoded = pipeline.encode(sentence)
    words = words_of(pipeline, sentence, encoded)
    assert words.texts == expected
    assert [subword for subwords in words.subwords for subword in subwords] == list(
        range(len(encoded.split()))
    )
    assert words.with_other(0, "X").strip()[0] == "X"
    assert words.with_other(len(expected) - 1, "Y")[-1] == "Y"


def test_words_add_up_to_sentences_and_name_their_context(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for lang in ("en", "de"):
        text = (tiny.text / f"test.{lang}").read_text(encoding="utf-8")
        few = "\n\n".join(text.strip().split("\n\n")[:4])
        (tmp_path / f"few.{lang}").write_text(few + "\n", encoding="utf-8")

    def call(command: str, output: str, *more: str) -> str:
        files = ("--src", str(tmp_path / "few.en"), "--ref", str(tmp_path / "few.de"))
        path = ("--path", str(tiny.checkpoints["document"]), "--data", str(tiny.data))
        flags = ("--cpu", "--output", str(tmp_path / output), *more)
        assert main([command, *path, *files, *flags]) == 0
        return capsys.readouterr().out

    call("cxmi", "sentences.jsonl")
    flags = ("--threshold", "0.0002")
    assert "gain 0.0002 nats or more" in call("deciding-words", "words.jsonl", *flags)
    sentences, words = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("sentences", "words")
    )
    sums: dict[tuple[int, int], float] = {}
    for word in words:
        place = word["document"], word["sentence"]
        sums[place] = sums.get(place, 0.0) + word["cxmi"]
    assert list(sums.values()) == pytest.approx([one["cxmi"] for one in sentences], abs=1e-6)
    texts = (tmp_path / "few.de").read_text(encoding="utf-8").split()
    assert "".join(word["text"] for word in words if word["text"] != END) == "".join(texts)
    looked_at = [word for word in words if word["cxmi"] >= 0.0002 and word["text"] != END]
    assert looked_at
    assert [word for word in words if word["loss"] is not None] == looked_at
    for word in looked_at:
        decider = word["decided_by"]
        if decider:
            assert decider["sentence"] != word["sentence"]
            assert decider["replaced_by"] != decider["text"]
    found = json.loads(call("deciding-words", "again.jsonl", *flags, "--json"))
    assert (found["words"], found["gain"]) == (len(words), len(looked_at))
    best = found["forms"][0]
    of_best = [word["cxmi"] for word in words if word["text"] == best["text"]]
    assert (best["count"], best["cxmi"]) == (len(of_best), pytest.approx(sum(of_best)))
    gained = [form["cxmi"] for form in found["forms"]]
    assert gained == sorted(gained, reverse=True) and len(gained) == 20
