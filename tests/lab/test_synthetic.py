"""The synthetic corpus: its bytes, its files, its links to context, its contrastive items."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from support import synthetic_corpus

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.lab.make_corpus import GRAMMAR_VERSION, write_corpus
from gtrans.lab.synthetic import (
    ACTS,
    CUES,
    DISTANCES,
    FREE_CHOICES,
    PHENOMENA,
    SPEECH,
    THINGS,
    VERBS,
)

Item = dict[str, Any]
GENDER = {thing.en: thing.gender for thing in THINGS}
VERB_DE = {verb.en: verb.de for verb in VERBS}
LEXICAL = {pair[0].en: {noun.nom for noun in pair} for pair in FREE_CHOICES}
# Everything that is not a form of `be`: possible antecedents of "did too".
DOING = {
    *VERB_DE,
    *(word.en for word in SPEECH),
    *(form for act in ACTS for form in (act.past, act.done)),
    *("did", "do", "know", "seen", "can", "help", "must", "wait"),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("corpus")
    write_corpus(out, seed=1, docs=200)
    return out


@pytest.fixture(scope="module")
def items(corpus: Path) -> list[Item]:
    return [
        json.loads(line)
        for phenomenon in PHENOMENA
        for line in (corpus / "contrastive" / f"{phenomenon}.jsonl").read_text("utf-8").splitlines()
    ]


def read_documents(path: Path) -> list[list[str]]:
    return [document.split("\n") for document in path.read_text("utf-8")[:-1].split("\n\n")]


def contents(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }


def words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence.lower())


def things(sentence: str) -> list[str]:
    return [thing for thing in GENDER if f"{thing} " in re.sub(r"\W", " ", sentence.lower())]


def cue(phenomenon: str, source: str) -> set[str]:
    """What in a source sentence competes for being the cue of ``phenomenon``."""
    found = set(words(source))
    if phenomenon == "pronoun":
        return {*things(source), *({"it"} & found)}
    if phenomenon == "formality":
        return {"you"} & found
    if phenomenon == "ellipsis":
        return DOING & found
    return {noun for noun in LEXICAL if noun.removeprefix("the ") in found}


def answer(phenomenon: str, source: str, target: str) -> str:
    """What the pair of sentences with the cue says about the right answer."""
    if phenomenon == "pronoun":
        (thing,) = things(source)
        return GENDER[thing]
    if phenomenon == "formality":
        return "du" if "du" in words(target) else "sie"
    if phenomenon == "ellipsis":
        (verb,) = DOING & set(words(source))
        return VERB_DE[verb]
    (noun,) = cue("lexical", source)
    (german,) = (nom for nom in LEXICAL[noun] if words(nom)[-1] in words(target))
    return german


def says(phenomenon: str, told: str, target: str) -> bool:
    """Whether a German last sentence goes with the answer that the cue told."""
    found = words(target)
    if phenomenon == "pronoun":
        pronouns = {"m": {"er", "ihn"}, "f": {"sie"}, "n": {"es"}}
        return bool(pronouns[told] & set(found))
    return words(told)[-1] in found


def test_grammar_version_guards_the_bytes(tmp_path: Path) -> None:
    """Other bytes for an old seed need a new `GRAMMAR_VERSION` (and its digest here)."""
    write_corpus(tmp_path, seed=1, docs=200, items=10)
    digest = hashlib.sha256()
    for name, data in sorted(contents(tmp_path).items()):
        digest.update(name.encode() + data)
    assert (GRAMMAR_VERSION, digest.hexdigest()[:16]) == (2, "453e317fcf40e682")
    stored, again = tmp_path / "stored", tmp_path / "again"
    stored.mkdir()
    synthetic_corpus.write_corpus(stored)
    write_corpus(again, seed=1, docs=200, items=2)
    assert contents(again) == contents(stored)


def test_cue_at_its_distance_and_not_nearer(items: list[Item]) -> None:
    for item in items:
        name, source, target = item["phenomenon"], item["source"], item["target"]
        last = len(source) - 1
        nearest = max(i for i in range(last) if cue(name, source[i]))
        assert last - nearest == item["distance"]
        told = answer(name, source[nearest], target[nearest])
        assert says(name, told, target[-1])
        assert not says(name, told, item["contrastive"][0][-1])
        if name == "formality":
            between = {word for sentence in target[nearest + 1 : -1] for word in words(sentence)}
            assert not between & {"du", "sie"}


def best_table(items: list[Item], sees: Callable[[Item], object]) -> float:
    """Accuracy of the best table from what a system sees to the candidate that it picks."""
    rights: dict[object, Counter[str]] = defaultdict(Counter)
    for item in items:
        candidates = tuple(sorted((item["target"][-1], item["contrastive"][0][-1])))
        rights[sees(item), candidates][item["target"][-1]] += 1
    return sum(max(counter.values()) for counter in rights.values()) / len(items)


def test_nothing_beats_chance_without_the_cue(items: list[Item]) -> None:
    for name in PHENOMENA:
        for distance in DISTANCES:
            chosen = [i for i in items if (i["phenomenon"], i["distance"]) == (name, distance)]
            assert best_table(chosen, lambda item: item["source"][-1]) == 0.5
            source_only = best_table(chosen, lambda item: tuple(item["source"]))
            assert source_only == (0.5 if CUES[name] == "target" else 1.0)
            assert best_table(chosen, lambda item: tuple(item["target"][:-1])) == 1.0


def test_an_odd_number_of_items_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["make-corpus", "--out", str(tmp_path / "new"), "--items", "7"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("gtrans: error: `--items` must be even and at least 2, but is 7;")
    assert error.count("\n") == 1 and not (tmp_path / "new").exists()


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seed", "5", "--docs", "200", "--items", "4"]
    assert main(["make-corpus", *arguments, "--out", str(tmp_path / "a" / "b")]) == 0
    printed = capsys.readouterr().out
    assert "train: 100 documents" in printed
    assert "contrastive/formality: 16 items, cue on the target side" in printed
    write_corpus(tmp_path / "c", seed=5, docs=200, items=4)
    assert contents(tmp_path / "a" / "b") == contents(tmp_path / "c")


def test_joined_documents_are_the_same_sentences(tmp_path: Path) -> None:
    write_corpus(tmp_path / "short", seed=1, docs=200, items=2)
    words = ["make-corpus", "--docs", "200", "--items", "2", "--join", "8"]
    assert main([*words, "--out", str(tmp_path / "long")]) == 0
    for name in ("train.en", "train.de", "test.en"):
        short, long = (read_documents(tmp_path / kind / name) for kind in ("short", "long"))
        assert long == [[*chain(*short[at : at + 8])] for at in range(0, len(short), 8)]
    counts = json.loads((tmp_path / "long" / "corpus.json").read_text())
    assert counts["join"] == 8
    assert [counts["splits"][split]["documents"] for split in ("train", "test")] == [13, 7]
    assert (tmp_path / "long" / "contrastive" / "pronoun.jsonl").read_bytes() == (
        tmp_path / "short" / "contrastive" / "pronoun.jsonl"
    ).read_bytes()


def test_files_of_others_stay(tmp_path: Path) -> None:
    own = tmp_path / "train.en"
    own.write_text("mine\n")
    with pytest.raises(GtransError, match="train.en: this file is not of `gtrans make-corpus`"):
        write_corpus(tmp_path, seed=1, docs=200, items=2)
    assert contents(tmp_path) == {"train.en": b"mine\n"}
    own.unlink()
    write_corpus(tmp_path, seed=1, docs=200, items=2)
    made = contents(tmp_path)
    # A call that was killed before it wrote its record is finished by the same one alone.
    (tmp_path / "corpus.json").unlink()
    (tmp_path / "test.de").unlink()
    with pytest.raises(GtransError, match="this file is not of"):
        write_corpus(tmp_path, seed=2, docs=200, items=2)
    write_corpus(tmp_path, seed=1, docs=200, items=2)
    assert contents(tmp_path) == made
    write_corpus(tmp_path, seed=2, docs=200, items=2)


def test_twins_differ_in_the_cue_only(items: list[Item]) -> None:
    for one, two in zip(items[::2], items[1::2], strict=True):
        assert one["source"][-1] == two["source"][-1]
        assert one["target"][-1] == two["contrastive"][0][-1]
        assert two["target"][-1] == one["contrastive"][0][-1]
        cue_at = len(one["source"]) - 1 - one["distance"]
        differ = {
            side: {i for i, text in enumerate(one[side]) if text != two[side][i]}
            for side in ("source", "target")
        }
        if one["cue"] == "target":
            assert not differ["source"]
            assert {cue_at, len(one["source"]) - 1} <= differ["target"]
        else:
            assert differ["source"] == {cue_at}
            assert differ["target"] == {cue_at, len(one["source"]) - 1}
