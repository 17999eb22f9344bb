"""Contrastive sets that every install reads: JSON lines and ContraPro, and mistakes in them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.contrast_items import as_line, small_item

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import Item, ReadOptions, read_items
from gtrans.evaluation.contrastive.accuracy import by_group

# --- JSON lines -----------------------------------------------------------------------------------

ITEM = {
    "id": "1", "phenomenon": "p", "distance": 1, "cue": "source", "source": ["a", "b"],
    "target": ["c", "d"], "contrastive": [["c", "e"]],
}  # fmt: skip


def written(folder: Path, *items: dict[str, Any]) -> Path:
    path = folder / "set.jsonl"
    path.write_text("\n".join(json.dumps({**ITEM, **item}) for item in items), encoding="utf-8")
    return path


def test_groups(tmp_path: Path) -> None:
    genders = [{"id": str(n), "groups": {"gender": of}} for n, of in enumerate("fmmm")]
    found = by_group(read_items(written(tmp_path, *genders)), [True, True, True, False])
    counts = {value: (sum(cell.values), cell.items) for value, cell in found["gender"].items()}
    assert counts == {"f": (1, 1), "m": (2, 3)}


def test_models_read_plain_text(tmp_path: Path) -> None:
    (item,) = read_items(written(tmp_path, {
        "form": "tokenised", "source": ["You came .", "You left ."],
        "target": ["Ты пришла .", "Ты ушла ."],
        "contrastive": [["Ты пришла .", "Вы ушли ."], ["Вы .", "Ты ушла ."]],
    }))  # fmt: skip
    assert item.form == "tokenised"
    found = item.as_text(lambda text: text.replace(" .", "."), lambda text: text.upper())
    assert (found.form, found.source) == ("text", ("You came.", "You left."))
    assert found.target == ("ТЫ ПРИШЛА .", "ТЫ УШЛА .")
    assert found.contrastive[1] == ("ВЫ .", "ТЫ УШЛА .")
    assert found.as_text(str.lower, str.lower) == found


BAD_LINES = [
    ("{", "not JSON"),
    ("[]", "an item must be a JSON object"),
    (as_line(small_item("two"), id=""), "'id' must be a text"),
    (as_line(small_item("two"), cue=3), "'cue' must be a text that is not empty, but is 3"),
    (as_line(small_item("two"), distance=None), "'distance' must be a number from 0, but is null"),
    (as_line(small_item("two"), distance=-1), "'distance' must be a number from 0, but is -1"),
    (as_line(small_item("two"), source=["A.", " "]), "'source' must be a list of sentences that"),
    (as_line(small_item("two"), target=["a."]), "have different numbers of sentences"),
    (as_line(small_item("two"), contrastive=[]), "'contrastive' must be a list of at least one"),
    (as_line(small_item("two"), contrastive=[["a."]]), "have different numbers of sentences"),
    (as_line(small_item("two"), contrastive=[["a.", "b."]]), "equals 'target'"),
    (as_line(small_item("two"), contrastive=[["a. ", " b."]]), "equals 'target'"),
    (as_line(small_item("two"), groups={"gender": 1}), "'groups' must be a JSON object whose"),
    (as_line(small_item("two"), block=["1"]), "'block' must be a text, but is [\"1\"]"),
    (as_line(small_item("two"), form="loud"), "'form' must be one of text, tokenised, truecased"),
    (as_line(small_item("one")), "the id 'one' is also that of another line"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_a_bad_line_is_named(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "set.jsonl"
    path.write_text(f"{as_line(small_item('one'))}\n{line}\n", encoding="utf-8")
    # The set is read before anything else is looked at.
    assert main(["contrast", "--path", "no.pt", "--data", "no", "--set", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"gtrans: error: {path}:2: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file '{}'"),
        (b"\n", "'{}' holds no contrastive item"),
        (b'\n{"id": "\xff"}\n', "{}:2: not UTF-8"),
        # It would take the place of the totals.
        (as_line(small_item("two"), phenomenon="all").encode(), "which names a line of the tables"),
    ],
)
def test_a_bad_file_is_named(content: bytes | None, message: str, tmp_path: Path):
    path = tmp_path / "set.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GtransError) as error:
        read_items(path)
    assert message.format(path) in str(error.value)


# --- ContraPro ------------------------------------------------------------------------------------


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
        document="1999_7_8.de",
    )
    assert (beginning.source, beginning.distance) == (("The dog!",), 0)
    deep = read_items(path, "contrapro", ReadOptions(options.documents, 5))[0]
    assert deep.source == ("The dog!", "A cat.", "It sleeps.")
    with pytest.raises(GtransError, match=r"`--documents`\), or `--context 0`"):
        read_items(path, "contrapro")
    bare = read_items(path, "contrapro", ReadOptions(None, 0))[0]
    assert (bare.source, bare.target) == (("It sleeps .",), ("Sie schläft .",))


@pytest.mark.parametrize("distance", [None, -1])
def test_an_antecedent_that_is_not_known(distance: int | None, tmp_path: Path) -> None:
    path, options = pronoun_set(tmp_path, **{"ante distance": distance})
    assert read_items(path, "contrapro", options)[0].distance is None


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
    )
    assert (second.source, second.phenomenon, second.distance) == (("it runs.",), "it:er", None)
    assert read_items(path / "en.txt.gz", "contrapro") == [first, second]
    assert read_items(path, "contrapro", ReadOptions(None, 0))[0].source == ("it sleeps.",)
    # Truecased sentences begin with a capital again.
    assert first.as_text(str.lower, str.lower).target == ("Eine Katze.", "Sie schläft.")


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
    # A table of the examples shows it by itself; a possessive stands for its pronoun.
    path = separated(tmp_path, "1\t3\tihre\t1\n4\t2\tseinen\t\n")
    assert [item.phenomenon for item in read_items(path, "contrapro")] == ["it:sie", "it:er"]


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
    assert read_items(tmp_path, "contrapro", ReadOptions(None, 0))[0].source == ("it is it.",)
    for path, context, message in (
        ("contrapro.text.de", 1, "has the translations; give the source next to it"),
        ("contrapro.text.en", 5, "`--context` 5 needs as many lines for each of them"),
    ):
        with pytest.raises(GtransError, match=message):
            read_items(tmp_path / path, "contrapro", ReadOptions(None, context))


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
        ({"ref segment": "Ganz andere Worte"}, "is 'Sie schläft.', not 'Ganz andere Worte'; give"),
    ],
)
def test_a_bad_example_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path, options = pronoun_set(tmp_path, **changes)
    with pytest.raises(GtransError) as error:
        read_items(path, "contrapro", options)
    assert str(error.value).startswith(f"{path}: item 1: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("lines", "groups", "message"),
    [
        ({"en": "a. b.\n" * 5}, None, "en.txt:1: has no <SEP> between context and sentence."),
        ({"en": "a. <SEP> b.\n"}, None, "en.txt.gz has 1 lines, but de.txt.gz has 5."),
        ({}, "2\t3\tsie\t1\n", "an example must begin at line 1 and have a number"),
        ({}, "1\tx\tsie\t1\n", "groups.tsv:2: after the heading first_line, "),
        ({}, "1\t3\tsie\t1\n", "groups.tsv: ends at line 3 of the texts, which have 5."),
        ({}, "1\t2\tsie\t1\n3\t3\ter\t\n", "de.txt:3: the lines of an example must have"),
        # Examples that cannot be told apart.
        *(
            (separated_lines(*SAME_SOURCE[:removed], *SAME_SOURCE[removed + 1 :]), None, message)
            for removed in (1, 2, 7)
            for message in ("are no example of ContraPro", "groups.tsv in the same folder, or give")
        ),
    ],
)  # fmt: skip
def test_mistakes_of_the_separated_text(
    lines: dict[str, str], groups: str | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(GtransError) as error:
        read_items(separated(tmp_path, groups, **lines), "contrapro")
    assert message in str(error.value)


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "de.txt.gz").write_bytes(b"")
    with pytest.raises(GtransError, match="has the translations; give the source next to it"):
        read_items(tmp_path / "de.txt.gz", "contrapro")
    folder = separated(tmp_path)
    (folder / "genders.txt").write_text("f\n" * 6, encoding="utf-8")
    for path in (folder, folder / "en.txt.gz"):
        with pytest.raises(GtransError, match="is a template of ContraCAT.*`--format contracat`"):
            read_items(path, "contrapro")


def test_an_item_that_is_given_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would count twice; neither its id, the name of the set, nor gzip makes it another one."""
    other = {**ITEM, "id": "2", "source": ["d", "d"]}
    first, packed, longer = (tmp_path / name for name in ("a.jsonl", "c.jsonl.gz", "d.jsonl"))
    first.write_text(json.dumps(ITEM), encoding="utf-8")
    packed.write_bytes(gzip.compress(first.read_bytes()))
    longer.write_text(f"{json.dumps(other)}\n{json.dumps({**ITEM, 'id': '9'})}", encoding="utf-8")
    for again, name in ((first, "1"), (packed, "1"), (longer, "9")):
        assert main(["contrast", "--path", "no.pt", "--set", str(first), str(again)]) == 1
        assert capsys.readouterr().err == (
            f"gtrans: error: `--set`: item '{name}' of {again} is also in {first} and would "
            "count twice; give each item once.\n"
        )


def test_a_folder_says_what_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contrast", "--path", "no.pt", "--set", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said == (
        f"gtrans: error: '{tmp_path}' is a folder; name its files (`--set {tmp_path}/*.jsonl`), or "
        "the `--format` of a published set that is a folder.\n"
    )
