"""The published contrastive sets themselves, parsed whole."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from gtrans.evaluation.contrastive import ReadOptions, random_contexts, read_items


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
    controlled = random_contexts(items)
    changed = [item.source != new.source for item, new in zip(items, controlled, strict=True)]
    assert sum(changed) > 0.9 * sum(item.context > 0 for item in items)


def test_contrapro_with_separators(published_sets: Path) -> None:
    items = read_items(published_sets / "contrapro-ende", "contrapro")
    assert (len(items), sum(len(item.candidates) for item in items)) == (12000, 36031)
    counts = Counter(item.phenomenon for item in items)
    assert (counts["it:er"], counts["it:sie"], counts["it:es"]) == (4008, 3988, 3979)
    assert Counter(item.distance for item in items) == {None: 7597, 1: 3341, 0: 1062}


@pytest.mark.parametrize("context", [0, 1, 2, 3])
def test_the_large_pronoun_set(context: int, published_sets: Path) -> None:
    folder = published_sets / "large-pronoun-enfr"
    items = read_items(folder, "large-pronoun", ReadOptions(None, context))
    assert Counter(item.phenomenon for item in items) == dict.fromkeys(
        ("it:il", "it:elle", "they:ils", "they:elles"), 3500
    )
    assert {len(item.source) for item in items} <= {1, context + 1}
