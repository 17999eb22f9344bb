"""The context words that decided a word: gradients, replacements, and every model and unit."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from support.contract import Case, build, cases, first_cases
from support.suites import others_long
from support.tiny_models import TinyWorld
from support.untrained import task_for, untrained

from gtrans.cli import main
from gtrans.decoding.force_decode import Rows, Side, Text, alone, score_tokens, token_scores
from gtrans.lab.deciders import Question, Substitutes, Vocabulary, word_gradients
from gtrans.lab.deciding_words import gains, words_with_scores
from gtrans.text.prepared_folder import load_pipeline
from gtrans.text.reader import read_documents
from gtrans.text.words import words_of


@pytest.mark.parametrize("marks", ["both", "end"])
@pytest.mark.parametrize("rival", [None, 4])
def test_the_gradient_is_that_of_finite_differences(marks: str, rival: int | None) -> None:
    task = task_for("document", marks)
    model = untrained(task).double().eval()
    assert model.encoder.embed_tokens is not model.decoder.embed_tokens
    rows = Rows(task, True)
    # every word of the source occurs once, so the row of the table is that of its place
    ((row, _, _),) = rows.rows_of(["a b", "c", "d e"], ["a", "b c", "d"], 0)
    question = Question(sentence=1, tokens=range(2), decisive=1, rival=rival)
    ((_, _, found),) = word_gradients([model], rows, [row], [[question]])
    table = model.encoder.embed_tokens.weight
    example = row.example

    def value() -> float:
        with torch.no_grad():
            logits = model(example["source"][None], None, example["prev_output_tokens"][None])[0]
        log_probs = logits[0].log_softmax(1)
        ends = example["target"].eq(2).long()
        places = (ends.cumsum(0) - ends).eq(1) & example["target"].ne(1)
        first, second = places.nonzero().squeeze(1).tolist()[:2]
        total = log_probs[first, example["target"][first]]
        total = total + log_probs[second, example["target"][second]]
        return float(total - (0 if rival is None else log_probs[second, rival]))

    assert found.value == pytest.approx(value(), abs=1e-5)
    direction = torch.randn(table.size(1), generator=torch.Generator().manual_seed(1)).double()
    step = 1e-3
    for place, token in enumerate(example["source"].tolist()):
        if token < 4:  # a mark
            continue
        ends_of_step = []
        for sign in (1, -1):
            with torch.no_grad():
                table[token] += sign * step * direction
                ends_of_step.append(value())
                table[token] -= sign * step * direction
        slope = (ends_of_step[0] - ends_of_step[1]) / (2 * step)
        expected = float(found.vectors[0]["source"][place].double() @ direction)
        assert slope == pytest.approx(expected, abs=1e-4)
    # a word of the reference depends on no later word
    later = found.vectors[0]["target"][-1]
    assert float(later.abs().max()) == 0


def few_documents(prepared: Path, text: Path, source: object, context: int | None = None) -> Text:
    target = load_pipeline(prepared, "de")
    english, german = (read_documents(text / f"test.{lang}")[::4] for lang in ("en", "de"))
    return Text(Side(source, english), Side(target, german), context)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", others_long(cases(), first_cases()[::3]))
def test_every_model_and_unit(case: Case, prepared_with_bert: Path, tiny: TinyWorld) -> None:
    """Words add up to sentences; what is named is context; losses are those of another pass."""
    options = {field.name for field in dataclasses.fields(case.model.options)}
    whole = {"memory_bptt": -1} if "memory_bptt" in options else {}
    built = build(case, prepared_with_bert, **whole)
    task, models = built.task, [built.model.eval()]
    text = few_documents(prepared_with_bert, tiny.text, task.source_encoder())
    found = token_scores(models, task, text, 400, rivals=True)
    bare = alone(models, task, text, 400, rivals=True)
    of_words = words_with_scores(text, found, bare)
    for document, scores in zip(of_words, found, strict=True):
        for words, of_sentence in zip(document, scores, strict=True):
            total = sum(word.with_context for word in words)
            assert total == pytest.approx(float(of_sentence[:, 0].sum()), abs=1e-9)
    every = sorted((word.cxmi for d in of_words for s in d for word in s), reverse=True)
    if case.unit == "sentence":
        assert every[0] == pytest.approx(0, abs=1e-5)
        return
    of_gains = gains(models, task, text, (found, bare), every[6], 400, suspects=3)
    looked_at = [gain for gain in of_gains if gain.decision is not None]
    assert looked_at
    for gain in looked_at:
        number, sentence = gain.word.document - 1, gain.word.sentence - 1
        decision = gain.decision
        assert decision is not None
        assert decision.changes
        source, target = (list(side.encoded[number]) for side in (text.source, text.target))
        plain = list(text.source.documents[number])
        for change in decision.changes:
            word = change.suspect.word
            assert word.sentence != sentence
            assert word.side == "source" or word.sentence < sentence
            is_blind = (
                word.side == "source"
                and case.model.bert_use(
                    OmegaConf.merge(OmegaConf.structured(case.model.options), {"_name": case.arch})
                )
                == "features"
            )
            assert (change.suspect.bound is None) == is_blind
        if len(decision.changes) > 1:
            continue
        line = text.sides[word.side].words[number][word.sentence]
        begin, end = line.spans[word.word]
        changed = line.sentence[:begin] + change.by + line.sentence[end:]
        lines = source if word.side == "source" else target
        lines[word.sentence] = text.sides[word.side].pipeline.encode(changed)
        if word.side == "source":
            plain[word.sentence] = changed
        again = score_tokens(models, task, [(source, target)], plain=[plain], whole=False)
        pieces = text.target.words[number][sentence].pieces[gain.word.word - 1]
        value = float(again[0][sentence][pieces.start : pieces.stop, 0].sum())
        assert decision.loss == pytest.approx(gain.word.with_context - value, abs=1e-4)


def test_substitutes_stand_at_the_same_places() -> None:
    text = ["the dog ran .", "the cat ran .", "a cat sat .", "a dog sat .", "The end is near ."]
    substitutes = Substitutes(line.split() for line in text)
    assert substitutes.of("dog", 1) == ["cat"]
    assert substitutes.of("ran", 1) == ["sat"]
    assert "The" not in substitutes.of("the", 9)
    assert substitutes.of(".", 3) == []


def test_a_word_of_the_translation_is_replaced_by_its_rival(
    prepared_with_bert: Path,
) -> None:
    task = task_for("document", "both")
    lines = [["a b", "B c", "b d", "A e", "c d"]]
    side = Side(load_pipeline(prepared_with_bert, "de"), lines)
    dictionary = task.target_dictionary
    table = torch.randn(len(dictionary), 4, generator=torch.Generator().manual_seed(1))
    vocabulary = Vocabulary(side, dictionary, [table])
    words = side.words[0][0]
    symbols = side.encoded[0][0].split()
    rival = [dictionary.index(symbols[piece]) for piece in words.pieces[1]]
    gradient = [torch.ones(4)]
    assert vocabulary.replacements("c", gradient, rival)[0].lower() == "b"
    assert "b" not in map(str.lower, vocabulary.replacements("b", gradient, rival))


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
    assert [piece for pieces in words.pieces for piece in pieces] == list(
        range(len(encoded.split()))
    )
    assert words.with_other({0: "X", len(expected) - 1: "Y"}).strip()[0] == "X"


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
    assert "".join(word["text"] for word in words if word["text"] != "</s>") == "".join(texts)
    looked_at = [word for word in words if word["cxmi"] >= 0.0002 and word["text"] != "</s>"]
    assert looked_at
    assert [word for word in words if word["decided_by"] is not None] == looked_at
    for word in looked_at:
        for decider in word["decided_by"]:
            assert decider["sentence"] != word["sentence"]
            assert decider["replaced_by"] != decider["text"]
    found = json.loads(call("deciding-words", "words.tsv", *flags, "--json"))
    assert (found["words"], found["gain"]) == (len(words), len(looked_at))
    best = found["forms"][0]
    of_best = [word["cxmi"] for word in words if word["text"] == best["text"]]
    assert (best["count"], best["cxmi"]) == (len(of_best), pytest.approx(sum(of_best)))
    gained = [form["cxmi"] for form in found["forms"]]
    assert gained == sorted(gained, reverse=True) and len(gained) == 20
    head, *rows = (tmp_path / "words.tsv").read_text().splitlines()
    assert head.split("\t")[-1] == "decided_by"
    assert len(rows) == len(words)
