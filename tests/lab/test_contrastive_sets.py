"""Published contrastive sets: small files by hand, mistakes, and the sets themselves."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.suites import others_long

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import Item, ReadOptions, read_items
from gtrans.evaluation.contrastive.accuracy import is_right
from gtrans.evaluation.contrastive.control import shuffled_contexts
from gtrans.lab import add_readers

add_readers()

# --- consistency --------------------------------------------------------------------------------

CONSISTENT = {
    "src": "You came . _eos You left .",
    "dst": ["Ты пришла . _eos Вы ушли .", "Ты пришла . _eos Ты ушла .", "Вы . _eos Ты ушла ."],
    "true_ind": 1,
    "ctx_dist": 1,
}


def consistency(folder: Path, *entries: Any, name: str = "deixis_test.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(list(entries), indent=1), encoding="utf-8")
    return path


def test_consistency_as_published(tmp_path: Path) -> None:
    path = consistency(tmp_path, CONSISTENT, {**CONSISTENT, "ctx_dist": 3})
    first, second = read_items(path, "consistency")
    assert first == Item(
        id="deixis_test-1",
        phenomenon="deixis_test",
        distance=1,
        cue="target",
        source=("You came .", "You left ."),
        target=("Ты пришла .", "Ты ушла ."),
        contrastive=(("Ты пришла .", "Вы ушли ."), ("Вы .", "Ты ушла .")),
        form="tokenised",
        right_index=1,
    )
    assert (second.id, second.distance) == ("deixis_test-2", 3)
    infl = read_items(consistency(tmp_path, CONSISTENT, name="ellipsis_infl.json"), "consistency")
    assert (infl[0].phenomenon, infl[0].cue) == ("ellipsis_infl", "source")


# --- Bawden et al. -------------------------------------------------------------


def test_anaphora(tmp_path: Path) -> None:
    pair = {"incorrect": ["La maison.", "Il est neuf."], "type": "f.sg"}
    right = ["La maison.", "Elle est neuve."]
    block = {
        "inspired by": ["x", "y"],
        "src": ["The house.", "It is new."],
        "trg": [{"correct": right, **pair}, {"semi-correct": right, **pair}],
    }
    path = tmp_path / "anaphora.json"
    path.write_text(json.dumps({"7": block}, indent=2), encoding="utf-8")
    first, second = read_items(path, "discevalmt")
    assert first == Item(
        id="7.1",
        phenomenon="anaphora",
        distance=1,
        cue="target",
        source=("The house.", "It is new."),
        target=tuple(right),
        contrastive=(("La maison.", "Il est neuf."),),
        groups={"set": "anaphora", "form": "f.sg."},
        block="anaphora 7",
    )
    assert (second.id, second.phenomenon) == ("7.2", "anaphora, semi-correct")


def test_lexical_choice(tmp_path: Path) -> None:
    example = {
        "src": ["What's crazy?", "Is this crazy?"],
        "trg": {"correct": ["Dingue ?", "Ça dingue ?"], "incorrect": ["Dingue ?", "Ça fou ?"]},
    }
    blocks = {
        str(number): {"type": kind, "examples": [example]}
        for number, kind in enumerate(("repet", "disambig", "repet, disambig"), start=1)
    }
    path = tmp_path / "lexical-choice.json"
    path.write_text(json.dumps(blocks), encoding="utf-8")
    items = read_items(path, "discevalmt")
    assert [(item.id, item.phenomenon, item.cue) for item in items] == [
        ("1.1", "lexical choice, repet", "target"),
        ("2.1", "lexical choice, disambig", "source"),
        ("3.1", "lexical choice, repet, disambig", "source/target"),
    ]


# --- ContraCAT -----------------------------------------------------------------------------------

RAIN = (("The dog ate it.", "It rained."), ("Der Hund fraß es.", "{} regnete."), "n")
BIG = (("I saw a clock.", "It was big."), ("Ich sah eine Uhr.", "{} war groß."), "f")
ROLE = (("The dog ate the nut.", "It was big."), ("Der Hund fraß die Nuss.", "{} war groß."), "fm")
PRONOUNS = ("Er", "Sie", "Es")


def template(folder: Path, *examples: tuple[tuple[str, str], tuple[str, str], str]) -> Path:
    folder.mkdir(parents=True)
    lines: dict[str, list[str]] = {"en": [], "de": [], "genders": []}
    for source, target, gender in examples:
        for pronoun in PRONOUNS:
            word = pronoun if target[1].startswith("{}") else pronoun.lower().replace("er", "ihn")
            lines["en"].append(" <SEP> ".join(source))
            lines["de"].append(" <SEP> ".join(target).format(word))
            lines["genders"].append(gender)
    for name, of in lines.items():
        text = "".join(f"{line}\n" for line in of).encode()
        if name == "en":
            (folder / "en.txt.gz").write_bytes(gzip.compress(text))
        else:
            (folder / f"{name}.txt").write_bytes(text)
    return folder


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    folder = tmp_path / "templates"
    template(folder / "2_coreference_step" / "pleonastic" / "rain", RAIN)
    template(folder / "3_gender_step" / "big", BIG, BIG)
    template(folder / "0_priors" / "role", ROLE)
    return folder


def test_genders_say_which_candidate_is_right(templates: Path) -> None:
    (item,) = read_items(templates / "2_coreference_step" / "pleonastic" / "rain", "contracat")
    assert item == Item(
        id="2_coreference_step/pleonastic/rain-1",
        phenomenon="2_coreference_step/pleonastic/rain",
        distance=1,
        cue="target",
        source=RAIN[0],
        target=("Der Hund fraß es.", "Es regnete."),
        contrastive=(("Der Hund fraß es.", "Er regnete."), ("Der Hund fraß es.", "Sie regnete.")),
        right_index=2,
        groups={"step": "2_coreference_step", "gender": "n"},
    )
    assert item.in_file_order(["right", "first", "second"]) == ["first", "second", "right"]
    assert item.right_first(["first", "second", "right"]) == ["right", "first", "second"]
    big = read_items(templates / "3_gender_step" / "big", "contracat")[0]
    assert (big.target[-1], big.right_index) == ("Sie war groß.", 1)
    bare = read_items(templates / "3_gender_step", "contracat", ReadOptions(None, 0))[0]
    assert bare.source == ("It was big.",)
    genders = templates / "3_gender_step" / "big" / "genders.txt"
    genders.with_name("genders.txt.gz").write_bytes(gzip.compress(genders.read_bytes()))
    genders.unlink()
    assert read_items(templates / "3_gender_step" / "big", "contracat")[0] == big


def test_all_templates_of_a_folder(templates: Path) -> None:
    items = read_items(templates, "contracat")
    assert [item.phenomenon for item in items] == [
        "2_coreference_step/pleonastic/rain",
        "3_gender_step/big",
        "3_gender_step/big",
    ]


# --- Lopes et al. -------------------------------------------------------------------------------


def extracted(folder: Path, **changes: str) -> Path:
    files = {
        "current.src": "It runs.\nIt runs.\nThey go.\nThey go.\n",
        "current.trg": "Elle court.\nIl court.\nQu'ils aillent.\nQu'elles aillent.\n",
        "c2.context.src": "A.\nB.\n" * 2 + "\n\n" * 2,
        "c2.context.trg": "a.\nb.\n" * 2 + "\n\n" * 2,
        **changes,
    }
    for name, text in files.items():
        (folder / f"Set.{name}").write_text(text, encoding="utf-8")
    return folder / "Set.current.src"


def test_the_extracted_text(tmp_path: Path) -> None:
    path = extracted(tmp_path)
    first, second = read_items(path, "large-pronoun", ReadOptions(None, 2))
    assert first == Item(
        id="1",
        phenomenon="it:elle",
        distance=None,
        cue="target",
        source=("A.", "B.", "It runs."),
        target=("a.", "b.", "Elle court."),
        contrastive=(("a.", "b.", "Il court."),),
    )
    assert (second.phenomenon, second.source) == ("they:ils", ("They go.",))
    assert read_items(tmp_path, "large-pronoun", ReadOptions(None, 2)) == [first, second]
    alone = read_items(path, "large-pronoun", ReadOptions(None, 0))[0]
    assert alone.source == ("It runs.",)


def test_contexts_of_the_extracted_text_are_as_long_as_those_of_the_json(tmp_path: Path) -> None:
    """A file of longer contexts has nothing for the second sentence of a film."""
    shorter = {side: "\n\n" + f"{word}.\n" * 2 for side, word in (("src", "C"), ("trg", "c"))}
    path = extracted(tmp_path, **{f"c1.context.{side}": text for side, text in shorter.items()})
    first, second = read_items(path, "large-pronoun", ReadOptions(None, 2))
    assert (first.source, first.target) == (("A.", "B.", "It runs."), ("a.", "b.", "Elle court."))
    assert (second.source, second.target) == (("C.", "They go."), ("c.", "Qu'ils aillent."))


# --- mistakes ------------------------------------------------------------------------------------


def entry(**changes: Any) -> str:
    return json.dumps([CONSISTENT, {**CONSISTENT, **changes}])


def block(of_block: Any) -> str:
    return json.dumps({"5": of_block})


PAIR = {"correct": ["a", "b"], "incorrect": ["a", "c"]}
RAIN_FOLDER = "templates/2_coreference_step/pleonastic/rain"
# By format: what is read, and files that are not as they should be with the message about them.
MISTAKES: dict[str, tuple[str, list[tuple[dict[str, str | None], str]]]] = {
    "consistency": (
        "set.json",
        [
            ({"set.json": entry(src=None)}, "item 2: it does not have the form of this set"),
            ({"set.json": entry(dst=["a _eos b", "a"])}, "need equally many sentences"),
            ({"set.json": entry(true_ind=3)}, "item 2: it does not have the form of this set"),
            ({"set.json": entry(true_ind=-1)}, "numbers of at least 0, are needed"),
            ({"set.json": entry(ctx_dist=-1)}, "numbers of at least 0, are needed"),
            ({"set.json": entry(dst=["a _eos b"], true_ind=0)}, "two candidates, and numbers"),
            ({"set.json": "[\n{"}, "set.json: not JSON"),
        ],
    ),
    "discevalmt": (
        "set.json",
        [
            (
                {"set.json": block({"src": ["a", "b"]})},
                "item 5: it does not have the form of this set",
            ),
            ({"set.json": block({"src": ["a"], "trg": [PAIR]})}, "need equally many sentences"),
            (
                {"set.json": block({"examples": [{"src": ["a", "b"], "trg": []}]})},
                "item 5: it does",
            ),
        ],
    ),
    "contracat": (
        "templates",
        [
            (
                {f"{RAIN_FOLDER}/genders.txt": "n\nn\n"},
                "en.txt.gz has 3 lines, but genders.txt has 2.",
            ),
            ({f"{RAIN_FOLDER}/genders.txt": "n\nm\nn\n"}, "de.txt:1: an example must"),
            ({f"{RAIN_FOLDER}/de.txt": "a <SEP> Er.\n" * 3}, "that differ in er, sie"),
            (
                {
                    f"{RAIN_FOLDER}/de.txt": "".join(
                        f"a <SEP> b <SEP> {x}.\n" for x in ("Er", "Sie", "Es")
                    )
                },
                "and as many sentences",
            ),
            (
                {"templates/3_gender_step/big/genders.txt": "f\nf\nf\nfm\nfm\nfm\n"},
                "de.txt:4: an example must",
            ),
            (
                {
                    f"{RAIN_FOLDER}/genders.txt": None,
                    "templates/3_gender_step/big/genders.txt": None,
                },
                "must be a folder of templates with right candidates",
            ),
        ],
    ),
    "large-pronoun": (
        "extracted",
        [
            (
                {"extracted/Set.c2.context.src": "A.\n"},
                "has 1 lines, but Set.c2.context.trg has 8.",
            ),
            (
                {f"extracted/Set.c2.context.{side}": "A.\nB.\n" * 2 for side in ("src", "trg")},
                "4 lines for",
            ),
            (
                {"extracted/Set.c2.context.trg": "a.\nb.\na.\nx.\n" + "\n\n" * 2},
                ":1: has another context or source than",
            ),
            (
                {"extracted/Set.current.src": "It runs.\nIt.\nThey.\nThey.\n"},
                ":1: has another context or source than",
            ),
            ({"extracted/Set.c2.context.src": None}, "there is no file "),
        ],
    ),
}


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [(kind, *case) for kind, (_, cases) in MISTAKES.items() for case in cases],
)
def test_a_set_that_is_not_as_published_is_named(
    kind: str, changes: dict[str, str | None], message: str, templates: Path, tmp_path: Path
) -> None:
    (tmp_path / "extracted").mkdir()
    extracted(tmp_path / "extracted")
    for name, text in changes.items():
        if text is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(GtransError) as error:
        read_items(tmp_path / MISTAKES[kind][0], kind, ReadOptions(None, 2))
    assert str(tmp_path) in str(error.value) and message in str(error.value)


# --- the sets themselves -------------------------------------------------------------------------


@pytest.fixture(scope="session")
def published_sets(real_data: Path) -> Path:
    folder = real_data / "contrastive"
    if not folder.is_dir():
        pytest.skip(f"no published contrastive sets: {folder} does not exist")
    return folder


# By set: its format, the items of each phenomenon, and all candidates, by the papers.
PUBLISHED: dict[str, tuple[str, dict[str, int], int]] = {
    "deixis_dev": ("consistency", {"deixis_dev": 500}, 1000),
    "deixis_test": ("consistency", {"deixis_test": 2500}, 5000),
    "lex_cohesion_dev": ("consistency", {"lex_cohesion_dev": 500}, 1124),
    "lex_cohesion_test": ("consistency", {"lex_cohesion_test": 1500}, 3428),
    "ellipsis_infl": ("consistency", {"ellipsis_infl": 500}, 2520),
    "ellipsis_vp": ("consistency", {"ellipsis_vp": 500}, 5203),
    "discourse-zhen": (
        "discourse-zhen",
        dict.fromkeys(("pronoun", "connective", "ellipsis"), 400),
        1200,
    ),
    "large-pronoun-enfr": (
        "large-pronoun",
        dict.fromkeys(("it:il", "it:elle", "they:ils", "they:elles"), 3500),
        28000,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_sets(name: str, published_sets: Path) -> None:
    kind, counts, candidates = PUBLISHED[name]
    path = published_sets / name
    if kind == "consistency":
        path = published_sets / "consistency-enru" / f"{name}.json.gz"
    items = read_items(path, kind)
    assert Counter(item.phenomenon for item in items) == counts
    assert sum(len(item.candidates) for item in items) == candidates
    if kind == "discourse-zhen":
        assert Counter(len(item.source) for item in items) == {2: 1199, 1: 1}
    if kind != "consistency":
        return
    with gzip.open(path, "rt", encoding="utf-8") as file:
        published = json.load(file)
    for item, of_file in zip(items, published, strict=True):
        assert " _eos ".join(item.source) == of_file["src"].strip()
        assert " _eos ".join(item.target) == of_file["dst"][of_file["true_ind"]].strip()
        assert len(item.candidates) == len(of_file["dst"])
        assert item.distance == of_file["ctx_dist"]
    controlled = shuffled_contexts(items)[0]
    changed = [item.source != new.source for item, new in zip(items, controlled, strict=True)]
    assert sum(changed) > 0.9 * sum(item.context > 0 for item in items)


@pytest.mark.parametrize("context", [0, 1, 2, 3])
def test_contexts_of_the_large_pronoun_set(context: int, published_sets: Path) -> None:
    """11 examples begin a film, 23 are second, 44 third: they have what is there."""
    folder = published_sets / "large-pronoun-enfr"
    items = read_items(folder, "large-pronoun", ReadOptions(None, context))
    lengths = Counter(len(item.source) - 1 for item in items)
    beginnings = dict(zip(range(context), (11, 23, 44), strict=False))
    assert lengths == {**beginnings, context: 14000 - sum(beginnings.values())}


def test_the_templates_of_contracat(published_sets: Path) -> None:
    folder = published_sets / "contracat-templates-ende"
    items = read_items(folder, "contracat")
    counts = Counter(item.phenomenon for item in items)
    lines = {
        str(file.parent.relative_to(folder)): len(file.read_text().split("\n")) - 1
        for file in folder.rglob("genders.txt")
    }
    lines = {name: count for name, count in lines.items() if not name.startswith("0_priors")}
    assert {name: 3 * count for name, count in counts.items()} == lines
    assert len(items) == 33093
    rain = [item for item in items if item.phenomenon == "2_coreference_step/pleonastic/rain"]
    assert len(rain) == 375 and {item.target[-1] for item in rain} == {"Es regnete."}
    assert all(item.groups["gender"] == "n" for item in rain)
    big = next(item for item in items if item.source[0] == "I saw a carrot.")
    assert big.target == ("Ich sah eine Karotte.", "Sie war groß.")


# By format: the sets, and their items.
JUDGED: dict[str, tuple[str, int]] = {
    "contrapro": ("contrapro-ende", 12000),
    "contracat": ("contracat-templates-ende", 33093),
    "large-pronoun": ("large-pronoun-enfr", 14000),
    "consistency": ("consistency-enru/*", 6000),
}


@pytest.mark.parametrize("kind", others_long(JUDGED, {"consistency"}))
def test_an_oracle_is_right(kind: str, published_sets: Path) -> None:
    name, count = JUDGED[kind]
    items = [item for path in sorted(published_sets.glob(name)) for item in read_items(path, kind)]
    assert len(items) == count
    for item in items:
        assert is_right(item, [-1.0 - (text != item.target) for text in item.candidates])
