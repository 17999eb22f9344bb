"""ContraCAT's templates and the Chinese-English discourse suite, in small folders by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import (
    Item,
    ReadOptions,
    by_group,
    outcomes_of,
    preferences,
    read_items,
    tabulate,
)

RAIN = (("The dog ate it.", "It rained."), ("Der Hund fraß es.", "{} regnete."), "n")
BIG = (("I saw a clock.", "It was big."), ("Ich sah eine Uhr.", "{} war groß."), "f")
ROLE = (("The dog ate the nut.", "It was big."), ("Der Hund fraß die Nuss.", "{} war groß."), "fm")
VERB = (("Wow!", "I said it."), ("Wow!", "Ich habe {} gesagt."), "")
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
    template(folder / "0_priors" / "verb", VERB)
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


def test_a_template_is_no_contrapro(templates: Path) -> None:
    """Its first line is not the right one."""
    folder = templates / "3_gender_step" / "big"
    for path in (folder, folder / "en.txt.gz"):
        with pytest.raises(GtransError, match="is a template of ContraCAT.*`--format contracat`"):
            read_items(path, "contrapro")


def test_all_templates_of_a_folder(templates: Path) -> None:
    items = read_items(templates, "contracat")
    assert [item.phenomenon for item in items] == [
        "0_priors/role",
        "0_priors/verb",
        "2_coreference_step/pleonastic/rain",
        "3_gender_step/big",
        "3_gender_step/big",
    ]
    scores = [[-1.0, -2.0, -3.0], [-1.0, -1.0, -2.0], *[[-1.0, -2.0, -3.0]] * 2, [-3.0, -2.0, -1.0]]
    table = tabulate(items, outcomes_of(items, scores))
    assert {name: cells[1].accuracy for name, cells in table.items()} == {
        "2_coreference_step/pleonastic/rain": 1.0,
        "3_gender_step/big": 0.5,
    }
    groups = by_group(items, outcomes_of(items, scores))
    assert {value: cell.items for value, cell in groups["gender"].items()} == {"f": 2, "n": 1}
    assert groups["step"]["3_gender_step"].right == 1


def test_priors_have_no_right_candidate(templates: Path) -> None:
    role, verb = read_items(templates / "0_priors", "contracat")
    assert not role.has_right and not verb.has_right
    assert role.labels == ("second antecedent", "first antecedent", "neither antecedent")
    assert verb.labels == ("m", "f", "n")
    assert preferences([role, verb], [[-2.0, -1.0, -3.0], [-1.0, -1.0, -2.0]]) == {
        "0_priors/role": {"second antecedent": 0, "first antecedent": 1, "neither antecedent": 0,
                          "tie": 0},
        "0_priors/verb": {"m": 0, "f": 0, "n": 0, "tie": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("genders.txt", "n\nn\n", "en.txt.gz has 3 lines, but genders.txt has 2."),
        ("genders.txt", "n\nm\nn\n", "de.txt:1: the lines of an example must have equal source"),
        ("genders.txt", "x\nx\nx\n", "de.txt:1: genders.txt has 'x', not m, f or n"),
        ("genders.txt", "mm\nmm\nmm\n", "de.txt:1: genders.txt has 'mm', not m, f or n"),
        ("de.txt", "a <SEP> Er.\n" * 3, "de.txt:1: the lines of an example must differ in er, sie"),
        ("de.txt", "a <SEP> Er.\n" * 2 + "a\n", "de.txt:3: has no <SEP>"),
        ("de.txt", "<SEP> Er.\n<SEP> Sie.\n<SEP> Es.\n", "de.txt:1: a sentence of the example is"),
    ],
)
def test_a_damaged_template_is_named(name: str, text: str, message: str, templates: Path) -> None:
    folder = templates / "2_coreference_step" / "pleonastic" / "rain"
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(GtransError) as error:
        read_items(templates, "contracat")
    assert message in str(error.value)


def test_a_template_has_genders_of_one_kind(tmp_path: Path) -> None:
    folder = template(tmp_path / "0_priors" / "mixed", VERB, ROLE)
    with pytest.raises(GtransError) as error:
        read_items(folder, "contracat")
    assert str(error.value).startswith(f"{folder}/genders.txt:4: has 'fm', but line 1 has '';")


def test_genders_may_be_gzipped_but_not_missing(templates: Path) -> None:
    """A template is never left out."""
    whole = read_items(templates, "contracat")
    folder = templates / "2_coreference_step" / "pleonastic" / "rain"
    genders = folder / "genders.txt"
    (folder / "genders.txt.gz").write_bytes(gzip.compress(genders.read_bytes()))
    genders.unlink()
    assert read_items(templates, "contracat") == whole
    with pytest.raises(GtransError, match="is a template of ContraCAT.*`--format contracat`"):
        read_items(folder, "contrapro")
    (folder / "genders.txt.gz").unlink()
    with pytest.raises(GtransError) as error:
        read_items(templates, "contracat")
    assert str(error.value).startswith(f"{folder}: has en.txt and de.txt but no genders.txt")


def test_a_template_without_genders_is_no_contrapro_either(tmp_path: Path) -> None:
    """The order of the pronouns in all of its examples gives it away."""
    folder = template(tmp_path / "big", BIG, BIG)
    (folder / "genders.txt").unlink()
    with pytest.raises(GtransError, match="er, sie and es in this order.*genders.txt"):
        read_items(folder, "contrapro")
    head = "first_line\tvariants\treference_pronoun\tantecedent_distance\n"
    (folder / "groups.tsv").write_text(f"{head}1\t3\ter\n4\t3\ter\n", encoding="utf-8")
    assert [item.phenomenon for item in read_items(folder, "contrapro")] == ["it:er"] * 2


def test_a_folder_without_templates(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(GtransError, match="must be a folder of templates, each with en.txt"):
            read_items(path, "contracat")


# --- Cai and Xiong ------------------------------------------------------------------------------


def discourse(folder: Path) -> Path:
    for name, word in (("pron", "他"), ("conj", "但"), ("ellip", "我")):
        (folder / f"{name}.zh").write_text(f"一。_eos {word}。\n二。\n", encoding="utf-8")
        (folder / f"{name}.en").write_text("One. _eos It.\nTwo. _eos Three.\n", encoding="utf-8")
    return folder


def test_the_discourse_suite(tmp_path: Path) -> None:
    items = read_items(discourse(tmp_path), "discourse-zhen")
    assert [item.id for item in items] == [
        "pronoun-1", "pronoun-2", "connective-1", "connective-2", "ellipsis-1", "ellipsis-2",
    ]  # fmt: skip
    assert (items[0].source, items[0].target) == (("一。", "他。"), ("One.", "It."))
    assert items[0].contrastive == ()
    # one side without the mark: the item is one sentence
    assert (items[1].source, items[1].target) == (("二。",), ("Two. Three.",))
    assert read_items(tmp_path / "conj.zh", "discourse-zhen") == items[2:4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("一。 _eos \n二。\n", "pron.zh:1: has a sentence that is empty."),
        ("一。 _eos 他。\n", "pron.zh has 1 lines, but pron.en has 2."),
    ],
)
def test_a_damaged_suite_is_named(text: str, message: str, tmp_path: Path) -> None:
    (discourse(tmp_path) / "pron.zh").write_text(text, encoding="utf-8")
    with pytest.raises(GtransError) as error:
        read_items(tmp_path, "discourse-zhen")
    assert message in str(error.value)
    with pytest.raises(GtransError, match="a file such as pron.zh next to pron.en"):
        read_items(tmp_path / "pron.tsv", "discourse-zhen")
