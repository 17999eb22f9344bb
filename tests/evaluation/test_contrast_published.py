"""The published contrastive sets themselves: counts, an oracle, random scores, references."""

from __future__ import annotations

import gzip
import json
import math
import random
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.suites import others_long

from gtrans.cli import main
from gtrans.evaluation.contrastive import Item, ReadOptions, random_contexts, read_items
from gtrans.evaluation.contrastive.generated import Outcome, has_own_words, outcome


@pytest.fixture(scope="session")
def published_sets(real_data: Path) -> Path:
    folder = real_data / "contrastive"
    if not folder.is_dir():
        pytest.skip(f"no published contrastive sets: {folder} does not exist")
    return folder


# Instances and candidates, of the authors' repository and paper (Voita et al. 2019).
PUBLISHED = {
    "deixis_dev": (500, 1000),
    "deixis_test": (2500, 5000),
    "lex_cohesion_dev": (500, 1124),
    "lex_cohesion_test": (1500, 3428),
    "ellipsis_infl": (500, 2520),
    "ellipsis_vp": (500, 5203),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_consistency_sets(name: str, published_sets: Path) -> None:
    path = published_sets / "consistency-enru" / f"{name}.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        published = json.load(file)
    items = read_items(path, "consistency")
    assert (len(items), sum(len(item.candidates) for item in items)) == PUBLISHED[name]
    for item, entry in zip(items, published, strict=True):
        assert " _eos ".join(item.source) == entry["src"].strip()
        assert " _eos ".join(item.target) == entry["dst"][entry["true_ind"]].strip()
        assert len(item.candidates) == len(entry["dst"])
        assert item.distance == entry["ctx_dist"]
    controlled = random_contexts(items).items
    changed = [item.source != new.source for item, new in zip(items, controlled, strict=True)]
    assert sum(changed) > 0.9 * sum(item.context > 0 for item in items)


@pytest.mark.long
def test_contrapro_with_separators(published_sets: Path, tmp_path: Path) -> None:
    folder = published_sets / "contrapro-ende"
    items = read_items(folder, "contrapro")
    assert (len(items), sum(len(item.candidates) for item in items)) == (12000, 36031)
    # 4,000 for each pronoun (Mueller et al. 2018, section 3). groups.tsv is not the authors'.
    counts = Counter(item.phenomenon for item in items)
    assert counts == {"it:er": 4000, "it:sie": 4000, "it:es": 4000}
    assert Counter(item.distance for item in items) == {None: 7597, 1: 3341, 0: 1062}
    for lang in ("en", "de"):
        shutil.copy(folder / f"{lang}.txt.gz", tmp_path)
    alone = read_items(tmp_path, "contrapro")
    for one, other in zip(items, alone, strict=True):
        assert (one.id, one.phenomenon, one.candidates) == (
            other.id, other.phenomenon, other.candidates
        )  # fmt: skip


def test_the_templates_of_contracat(published_sets: Path) -> None:
    folder = published_sets / "contracat-templates-ende"
    items = read_items(folder, "contracat")
    counts = Counter(item.phenomenon for item in items)
    lines = {
        str(file.parent.relative_to(folder)): len(file.read_text().split("\n")) - 1
        for file in folder.rglob("genders.txt")
    }
    assert len(lines) == 26 and {name: 3 * count for name, count in counts.items()} == lines
    assert (len(items), sum(item.has_right for item in items)) == (36449, 33093)
    rain = [item for item in items if item.phenomenon == "2_coreference_step/pleonastic/rain"]
    assert len(rain) == 375 and {item.target[-1] for item in rain} == {"Es regnete."}
    assert all(item.groups["gender"] == "n" for item in rain)
    big = next(item for item in items if item.source[0] == "I saw a carrot.")
    assert big.target == ("Ich sah eine Karotte.", "Sie war groß.")


def test_the_discourse_suite(published_sets: Path) -> None:
    items = read_items(published_sets / "discourse-zhen", "discourse-zhen")
    assert Counter(item.phenomenon for item in items) == dict.fromkeys(
        ("pronoun", "connective", "ellipsis"), 400
    )
    assert Counter(len(item.source) for item in items) == {2: 1199, 1: 1}


@pytest.mark.parametrize("context", [0, 1, 2, 3])
def test_the_large_pronoun_set(context: int, published_sets: Path) -> None:
    folder = published_sets / "large-pronoun-enfr"
    items = read_items(folder, "large-pronoun", ReadOptions(None, context))
    assert Counter(item.phenomenon for item in items) == dict.fromkeys(
        ("it:il", "it:elle", "they:ils", "they:elles"), 3500
    )
    # 11 examples begin a film, 23 are second, 44 third: they have what is there.
    lengths = Counter(len(item.source) - 1 for item in items)
    beginnings = dict(zip(range(context), (11, 23, 44), strict=False))
    assert lengths == {**beginnings, context: 14000 - sum(beginnings.values())}


# By format: the sets, their items with a right candidate, the accuracy that random scores have on
# average, and the items whose candidates do not differ in words (for translations).
JUDGED: dict[str, tuple[str, int, float, list[str]]] = {
    "contrapro": ("contrapro-ende", 12000, (11969 / 3 + 31 / 4) / 12000, []),
    "contracat": ("contracat-templates-ende", 33093, 1 / 3, []),
    "large-pronoun": ("large-pronoun-enfr", 14000, 1 / 2, []),
    "consistency": ("consistency-enru/*", 6000, 0.0, ["ellipsis_infl-402"]),
}


def chance(files: Iterable[Path]) -> float:
    """From the consistency sets themselves; copies of the right candidate are no rivals."""
    shares = []
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for entry in json.load(file):
                right = entry["dst"][entry["true_ind"]]
                shares.append(1 / (1 + sum(text != right for text in entry["dst"])))
    return math.fsum(shares) / len(shares)


def lines_to(path: Path, lines: Iterable[object]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def oracle(item: Item) -> list[float]:
    """Nothing but the texts counts: a copy of the right candidate has its score."""
    return item.in_file_order([-1.0 - (text != item.target) for text in item.candidates])


@pytest.mark.parametrize("kind", others_long(JUDGED, {"contrapro", "consistency"}))
def test_an_oracle_and_random_scores(
    kind: str, published_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, count, expected, _ = JUDGED[kind]
    paths = sorted(published_sets.glob(name))
    items = [item for path in paths for item in read_items(path, kind)]
    rng = random.Random(1)
    sets = ("contrast", "--format", kind, "--json", "--set", *map(str, paths))
    files = {
        "oracle": lines_to(tmp_path / "oracle", (s for item in items for s in oracle(item))),
        "random": lines_to(
            tmp_path / "random", (-rng.random() for item in items for _ in item.candidates)
        ),
    }
    assert main([*sets, "--scores", *map(str, files.values())]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["all"]["items"], found["all"]["accuracy"]) == (count, 1.0)
    assert found["all"]["chance"] == pytest.approx(expected or chance(paths))
    drawn = found["others"]["random"]
    check_random(drawn["all"])
    for of_phenomenon in drawn["by_phenomenon"].values():
        check_random(of_phenomenon)
    (test,) = [drawn["mcnemar"].get("all") or next(iter(drawn["mcnemar"].values()))]
    missed = round(count * (1 - drawn["all"]["accuracy"]))
    assert (test["only_first"], test["only_other"]) == (missed, 0)


@pytest.mark.parametrize("kind", others_long(JUDGED, {"consistency"}))
def test_the_candidates_as_translations(kind: str, published_sets: Path) -> None:
    """A reference is right, a wrong candidate is not; a tenth of the items."""
    paths = sorted(published_sets.glob(JUDGED[kind][0]))
    items = [item for path in paths for item in read_items(path, kind) if item.has_right]
    assert [i.id for i in items if not has_own_words(i)] == JUDGED[kind][3]
    for item in (item for item in items[::10] if item.rivals):
        assert outcome(item, item.target[-1]) is Outcome.RIGHT, item
        for rival in item.rivals:
            assert outcome(item, item.candidates[rival][-1]) is not Outcome.RIGHT, item


def check_random(whole: dict[str, Any]) -> None:
    share, items = whole["chance"], whole["items"]
    assert abs(whole["accuracy"] - share) < 4 * math.sqrt(share * (1 - share) / items)


def test_references_of_the_discourse_suite(
    published_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = published_sets / "discourse-zhen"
    items = read_items(folder, "discourse-zhen")
    file = lines_to(tmp_path / "reference", (item.target[-1] for item in items))
    sets = ("contrast", "--format", "discourse-zhen", "--set", str(folder), "--generate", "--json")
    assert main([*sets, "--translations", str(file)]) == 0
    quality = json.loads(capsys.readouterr().out)["quality"]
    assert {name: round(of["s_bleu"], 6) for name, of in quality.items()} == dict.fromkeys(
        ("pronoun", "connective", "ellipsis"), 100
    )
