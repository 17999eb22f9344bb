"""ContraPro: small files by hand, and mistakes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import Item, ReadOptions, read_items


def pronoun_set(folder: Path, **changes: Any) -> tuple[Path, ReadOptions]:
    """A set of two examples and its document of three sentences."""
    document = folder / "documents" / "1999" / "1999_7_8"
    document.parent.mkdir(parents=True)
    document.with_suffix(".en").write_text("The dog!\nA cat.\nIt sleeps.\n", encoding="utf-8")
    text = "Der Hund!\nEine Katze.\nSie schläft.\n"
    document.with_suffix(".de").write_text(text, encoding="utf-8")
    example = {
        "document id": "1999_7_8.de",
        "segment id": 3,
        "src segment": "It sleeps .",
        "ref segment": "Sie schläft .",
        "src pronoun": "It",
        "ref pronoun": "Sie",
        "ante distance": 1,
        "intrasegmental": False,
        "errors": [{"contrastive": "Er schläft."}, {"contrastive": "Es schläft."}],
    }
    beginning = {
        **{**example, "segment id": 1, "ante distance": 0, "intrasegmental": None},
        **{"src segment": "The dog!", "ref segment": "Der Hund!"},
    }
    path = folder / "contrapro.json"
    path.write_text(json.dumps([{**example, **changes}, beginning], indent=2), encoding="utf-8")
    return path, ReadOptions(folder / "documents", 1)


def test_json_with_documents(tmp_path: Path) -> None:
    path, options = pronoun_set(tmp_path)
    item, beginning = read_items(path, "contrapro", options)
    assert item == Item(
        id="1",
        phenomenon="it:sie",
        distance=1,
        cue="target",
        source=("A cat.", "It sleeps."),
        target=("Eine Katze.", "Sie schläft."),
        contrastive=(("Eine Katze.", "Er schläft."), ("Eine Katze.", "Es schläft.")),
        groups={"antecedent": "intersentential", "antecedent distance": "1"},
    )
    assert (beginning.source, beginning.distance) == (("The dog!",), 0)
    deep = read_items(path, "contrapro", ReadOptions(options.documents, 5))[0]
    assert deep.source == ("The dog!", "A cat.", "It sleeps.")
    bare = read_items(path, "contrapro", ReadOptions(None, 0))[0]
    assert (bare.source, bare.target) == (("It sleeps .",), ("Sie schläft .",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segment id": 9}, "'segment id' is 9, but the document 1999_7_8.de has 3 lines."),
        ({"document id": "2001_1.de"}, "there is no file "),
        ({"document id": "../x.de"}, "'document id' must be the name of a document"),
        ({"src segment": "Completely other words"}, "give the documents of the set."),
        ({"errors": []}, "'errors' must be a list of at least one wrong translation."),
        ({"errors": [{"contrastive": ""}]}, "'contrastive' must be a text that is not empty"),
        ({"ante distance": "1"}, "'ante distance' must be a whole number, but is \"1\"."),
        ({"intrasegmental": "no"}, "'intrasegmental' must be true, false or null."),
        ({"ref segment": "Ganz andere Worte"}, "is 'Sie schläft.', not 'Ganz andere Worte'; give"),
    ],
)
def test_a_bad_example_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path, options = pronoun_set(tmp_path, **changes)
    with pytest.raises(GtransError) as error:
        read_items(path, "contrapro", options)
    assert str(error.value).startswith(f"{path}: instance 1: ")
    assert message in str(error.value)


def test_an_example_that_occurs_twice(tmp_path: Path) -> None:
    path, options = pronoun_set(tmp_path)
    first, second = json.loads(path.read_text())
    path.write_text(json.dumps([first, second, {**first, "ante distance": 2}]), encoding="utf-8")
    with pytest.raises(GtransError, match="instance 3: is the same example as instance 1; remove"):
        read_items(path, "contrapro", options)
    other = {**first, "errors": first["errors"][:1]}
    path.write_text(json.dumps([first, second, other]), encoding="utf-8")
    assert len(read_items(path, "contrapro", options)) == 3


@pytest.mark.parametrize(
    ("distance", "within", "groups"),
    [
        (1, True, {"antecedent": "intrasentential", "antecedent distance": "1"}),
        (None, False, {"antecedent": "intersentential"}),
        (0, None, {"antecedent": "intrasentential", "antecedent distance": "0"}),
        (-1, None, {}),
        (None, None, {}),
    ],
)
def test_the_antecedent_is_where_the_set_says(
    distance: int | None, within: bool | None, groups: dict[str, str], tmp_path: Path
) -> None:
    """Its own mark first, then the distance; without both it is unknown."""
    changes = {"ante distance": distance, "intrasegmental": within}
    path, options = pronoun_set(tmp_path, **changes)
    item = read_items(path, "contrapro", options)[0]
    assert item.groups == groups
    assert item.distance == (None if distance in (None, -1) else distance)


def test_json_without_its_documents_is_refused(tmp_path: Path) -> None:
    path, _ = pronoun_set(tmp_path)
    with pytest.raises(GtransError, match=r"`--documents`\), or `--context 0`"):
        read_items(path, "contrapro")


def separated(folder: Path, groups: str | None = None, **lines: str) -> Path:
    sides = {
        "en": "a cat. <SEP> it sleeps.\n" * 3 + " <SEP> it runs.\n" * 2,
        "de": "eine Katze. <SEP> sie schläft.\neine Katze. <SEP> er schläft.\n"
        "eine Katze. <SEP> es schläft.\n <SEP> er läuft.\n <SEP> sie läuft.\n",
        **lines,
    }
    for lang, text in sides.items():
        (folder / f"{lang}.txt.gz").write_bytes(gzip.compress(text.encode()))
    if groups is not None:
        head = "first_line\tvariants\treference_pronoun\tantecedent_distance\n"
        (folder / "groups.tsv").write_text(head + groups, encoding="utf-8")
    return folder


def test_the_separated_text(tmp_path: Path) -> None:
    path = separated(tmp_path, "1\t3\tsie\t1\n4\t2\ter\t\n")
    first, second = read_items(path, "contrapro")
    assert first == Item(
        id="1",
        phenomenon="it:sie",
        distance=1,
        cue="target",
        source=("a cat.", "it sleeps."),
        target=("eine Katze.", "sie schläft."),
        contrastive=(("eine Katze.", "er schläft."), ("eine Katze.", "es schläft.")),
        form="truecased",
        groups={"antecedent": "intersentential", "antecedent distance": "1"},
    )
    assert (second.source, second.phenomenon, second.distance) == (("it runs.",), "it:er", None)
    assert read_items(path / "en.txt.gz", "contrapro") == [first, second]
    assert read_items(path, "contrapro", ReadOptions(None, 0))[0].source == ("it sleeps.",)


def separated_lines(*lines: tuple[str, str]) -> dict[str, str]:
    source, target = zip(*lines, strict=True)
    return {"en": "".join(f"{s}\n" for s in source), "de": "".join(f"{t}\n" for t in target)}


# Two pronouns of a sentence are two examples with the same right translation; the same source
# occurs in two films with translations that differ in more than a pronoun.
SAME_SOURCE = [
    *(("a. <SEP> it is it.", f"A. <SEP> {text}.")
      for text in ("Es ist es", "Sie ist sie", "Er ist es", "Es ist es", "Sie ist sie", "Es ist er",
                   "Es ist ihn")),
    *((" <SEP> it runs.", f" <SEP> {text}.")
      for text in ("sie läuft", "er läuft", "es läuft", "er rennt", "sie rennt", "es rennt")),
]  # fmt: skip


def test_the_separated_text_without_groups(tmp_path: Path) -> None:
    """Examples with the same source and context are told apart."""
    items = read_items(separated(tmp_path, **separated_lines(*SAME_SOURCE)), "contrapro")
    assert [(item.id, len(item.candidates), item.phenomenon, item.distance) for item in items] == [
        ("1", 3, "it:es", None),
        ("4", 4, "it:es", None),
        ("8", 3, "it:sie", None),
        ("11", 3, "it:er", None),
    ]
    assert [item.target[-1] for item in items] == ["Es ist es.", "Es ist es.", "sie läuft.",
                                                   "er rennt."]  # fmt: skip


def test_the_text_and_context_files_of_the_script(tmp_path: Path) -> None:
    texts = separated_lines(*((s.split("> ")[1], t.split("> ")[1]) for s, t in SAME_SOURCE))
    contexts = {"en": "\n\nb.\na.\n" * 13, "de": "\n\nB.\nA.\n" * 13}
    for lang, text in texts.items():
        (tmp_path / f"contrapro.text.{lang}").write_text(text, encoding="utf-8")
        (tmp_path / f"contrapro.context.{lang}").write_text(contexts[lang], encoding="utf-8")
    items = read_items(tmp_path / "contrapro.text.en", "contrapro", ReadOptions(None, 3))
    assert [item.id for item in items] == ["1", "4", "8", "11"]
    assert items[0].source == ("b.", "a.", "it is it.")
    assert items[0].target == ("B.", "A.", "Es ist es.")
    assert items[3].contrastive[0] == ("B.", "A.", "sie rennt.")
    alone = read_items(tmp_path, "contrapro", ReadOptions(None, 1))
    assert alone[0].source == ("a.", "it is it.")
    with pytest.raises(GtransError, match="has 52 lines for the 13 of the set; `--context` 5 need"):
        read_items(tmp_path, "contrapro", ReadOptions(None, 5))


def test_the_translations_are_not_the_set(tmp_path: Path) -> None:
    for name in ("de.txt.gz", "contrapro.text.de"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(GtransError, match="has the translations; give the source next to it"):
            read_items(tmp_path / name, "contrapro")


def test_a_table_that_contradicts_the_text(tmp_path: Path) -> None:
    """The right candidate is the first; a possessive stands for its pronoun."""
    path = separated(tmp_path, "1\t3\tihre\t1\n4\t2\tseinen\t\n")
    assert [item.phenomenon for item in read_items(path, "contrapro")] == ["it:sie", "it:er"]
    separated(tmp_path, "1\t3\tsie\t1\n4\t2\tihr\t\n")
    with pytest.raises(GtransError) as error:
        read_items(path, "contrapro")
    assert "de.txt:4: the right candidate has 'er', but groups.tsv says 'ihr', and 1 of 2" in str(
        error.value
    )


def test_a_part_of_the_set_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else shows that lines are missing; a table of the examples would."""
    read_items(separated(tmp_path, **separated_lines(*SAME_SOURCE)), "contrapro")
    assert capsys.readouterr().err == (
        f"{tmp_path / 'de.txt'}: 4 examples (1 it:er, 2 it:es, 1 it:sie); the whole set has "
        "12,000, 4,000 of each\n"
    )
    read_items(separated(tmp_path, "1\t3\tsie\t1\n4\t2\ter\t\n"), "contrapro")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("removed", [1, 2, 7])
def test_examples_that_cannot_be_told_apart_are_refused(removed: int, tmp_path: Path) -> None:
    lines = [line for place, line in enumerate(SAME_SOURCE) if place != removed]
    with pytest.raises(GtransError) as error:
        read_items(separated(tmp_path, **separated_lines(*lines)), "contrapro")
    assert "are no example of ContraPro" in str(error.value)
    assert "groups.tsv in the same folder, or give contrapro.json" in str(error.value)


@pytest.mark.parametrize(
    ("lines", "groups", "message"),
    [
        ({"en": "a. b.\n" * 5}, None, "en.txt:1: has no <SEP> between context and sentence."),
        ({"en": "a. <SEP> b.\n"}, None, "en.txt.gz has 1 lines, but de.txt.gz has 5."),
        ({}, "2\t3\tsie\t1\n", "groups.tsv:2: an example must begin at line 1"),
        ({}, "1\tx\tsie\t1\n", "groups.tsv:2: line, variants and distance must be numbers."),
        ({}, "1\t3\tsie\t1\n", "groups.tsv: ends at line 3 of the texts, which have 5."),
        ({}, "1\t2\tsie\t1\n3\t3\ter\t\n", "de.txt:3: the lines of an example must have"),
    ],
)
def test_mistakes_of_the_separated_text(
    lines: dict[str, str], groups: str | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(GtransError) as error:
        read_items(separated(tmp_path, groups, **lines), "contrapro")
    assert message in str(error.value)


def test_truecased_sentences_begin_with_a_capital_again(tmp_path: Path) -> None:
    item = read_items(separated(tmp_path, "1\t3\tsie\t1\n4\t2\ter\t\n"), "contrapro")[0]
    assert item.as_text((str.lower, str.lower)).target == ("Eine Katze.", "Sie schläft.")


def test_a_template_of_contracat_is_no_contrapro(tmp_path: Path) -> None:
    """Its first line is not the right one; the order of the pronouns gives it away, too."""
    lines = [("a. <SEP> it is big.", f"A. <SEP> {word} ist groß.") for word in ("Er", "Sie", "Es")]
    folder = separated(tmp_path, **separated_lines(*lines, *lines))
    with pytest.raises(GtransError, match="er, sie and es in this order.*genders.txt"):
        read_items(folder, "contrapro")
    (folder / "genders.txt").write_text("f\n" * 6, encoding="utf-8")
    for path in (folder, folder / "en.txt.gz"):
        with pytest.raises(GtransError, match="is a template of ContraCAT.*`--format contracat`"):
            read_items(path, "contrapro")
