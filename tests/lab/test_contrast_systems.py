"""``gtrans contrast`` on files of scores and translations, its output, and its paired tests."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gtrans.cli import main
from gtrans.evaluation.contrastive import Item
from gtrans.evaluation.contrastive.accuracy import Accuracy, Change, Gain, changes, tabulate
from gtrans.evaluation.significance import holm
from gtrans.lab import add_readers

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

add_readers()

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*argv: object) -> tuple[int, str, str]:
        status = main(["contrast", *map(str, argv)])
        return status, *capsys.readouterr()

    return run


def entry_of(source: str, right: int, *targets: str, distance: int = 1) -> dict[str, Any]:
    return {"src": source, "dst": list(targets), "true_ind": right, "ctx_dist": distance}


ENTRIES = [
    entry_of(
        "The lamp . _eos It fell .",
        1,
        "Die Lampe . _eos Er fiel .",
        "Die Lampe . _eos Sie fiel .",
        "Die Lampe . _eos Es fiel .",
    ),
    entry_of(
        "The table . _eos It fell .",
        2,
        "Der Tisch . _eos Sie fiel .",
        "Der Tisch . _eos Es fiel .",
        "Der Tisch . _eos Er fiel .",
    ),
    entry_of(
        "The book . _eos It fell .",
        0,
        "Das Buch . _eos Es fiel .",
        "Das Buch . _eos Sie fiel .",
        distance=2,
    ),
]
# In the order of the file, so the right ones are the second, the sixth and the seventh.
ALL_RIGHT = [-2, -1, -3, -9, -8, -1, -0.5, -4]
FIRST_WRONG = [-1, -2, -3, -9, -8, -1, -0.5, -4]


@pytest.fixture
def entries(tmp_path: Path) -> Path:
    path = tmp_path / "deixis_test.json"
    path.write_text(json.dumps(ENTRIES), encoding="utf-8")
    return path


def written(folder: Path, name: str, values: list[Any]) -> Path:
    path = folder / name
    path.write_text("".join(f"{value}\n" for value in values), encoding="utf-8")
    return path


# --- scores of other systems --------------------------------------------------------------------


def test_scores_in_the_order_of_the_published_file(
    call: Call, entries: Path, tmp_path: Path
) -> None:
    files = [written(tmp_path, "a", ALL_RIGHT), written(tmp_path, "b", FIRST_WRONG)]
    sets = ("--set", entries, "--format", "consistency", "--json")
    status, out, _ = call(*sets, "--scores", f"good={files[0]}", files[1])
    assert status == 0
    found = json.loads(out)
    assert (found["system"], found["all"]["accuracy"], found["all"]["items"]) == ("good", 1.0, 3)
    assert found["contrastive"] == {"deixis_test": {"1": 1.0, "2": 1.0}}
    assert found["all"]["chance"] == pytest.approx((1 / 3 + 1 / 3 + 1 / 2) / 3)
    ((name, other),) = found["others"].items()
    assert (name, other["contrastive"]) == ("b", {"deixis_test": {"1": 0.5, "2": 1.0}})
    test = {"items": 3, "only_first": 1, "only_other": 0, "p": 1.0}
    assert other["mcnemar"] == {"deixis_test": test}
    at_distance = other["mcnemar_by_distance"]
    assert at_distance["1"] == {"items": 2, "only_first": 1, "only_other": 0, "p": 1.0}
    assert at_distance["2"] == {"items": 1, "only_first": 0, "only_other": 0, "p": 1.0}
    assert other["difference_by_distance"]["1"]["value"] == -0.5
    difference = other["difference"]["deixis_test"]
    assert difference["value"] == pytest.approx(-1 / 3)
    assert difference["interval"] == pytest.approx(list(compared(3, 1, 0).interval))
    status, out, _ = call(*sets[:-1], "--scores", *files)
    assert status == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["a:"] and ["b:"] in rows
    assert rows[-1] == ["b", "deixis_test", "3", "1", "0", "-33.3", "-85.6", "to", "+45.6", "1"]


def test_the_output_of_the_first_system(call: Call, tmp_path: Path) -> None:
    """What it chose among different candidates; the right one may be listed twice."""
    path = tmp_path / "ellipsis_infl.json"
    right = "Die Lampe . _eos Sie fiel ."
    twice = entry_of("The lamp . _eos It fell .", 1, "Die Lampe . _eos Er fiel .", right, right)
    path.write_text(json.dumps([twice, ENTRIES[2]]), encoding="utf-8")
    scores, output = written(tmp_path, "scores", [-3, -1, -1, -2, -2]), tmp_path / "out.jsonl"
    others = ("--scores", scores, written(tmp_path, "other", [-1] * 5))
    status, *_ = call("--set", path, "--format", "consistency", *others, "--output", output)
    assert status == 0
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [(line["scores"], line["right"], line["correct"]) for line in lines] == [
        ([-3, -1, -1], 1, True),
        ([-2, -2], 0, False),
    ]
    status, _, err = call("--set", path, "--format", "consistency", *others, "--output", scores)
    assert status == 1 and "`--output`" in err
    arguments = ("--set", path, "--format", "consistency", *others, "--output", output)
    assert call(*arguments)[0] == 0, "its own file is replaced"
    output.write_text("of the user")
    status, _, err = call(*arguments)
    assert status == 1 and "exists, and this command did not write it" in err
    assert call(*arguments, "--force")[0] == 0


def test_losses_are_turned_round(call: Call, entries: Path, tmp_path: Path) -> None:
    sets = ("--set", entries, "--format", "consistency", "--json")
    losses = written(tmp_path, "losses", [-score for score in ALL_RIGHT])
    status, out, _ = call(*sets, "--scores", losses, "--lower-is-better")
    assert (status, json.loads(out)["all"]["accuracy"]) == (0, 1.0)
    status, out, _ = call(*sets, "--scores", losses, "--higher-is-better")
    assert (status, json.loads(out)["all"]["accuracy"]) == (0, 0.0)
    # Probabilities are above 0, too.
    shares = written(tmp_path, "shares", [1 / (1 - score) for score in ALL_RIGHT])
    status, out, _ = call(*sets, "--scores", shares, "--higher-is-better", "shares")
    assert (status, json.loads(out)["all"]["accuracy"]) == (0, 1.0)
    status, out, err = call(*sets, "--scores", shares)
    assert (status, out) == (1, "") and "say `--lower-is-better`" in err
    assert "or `--higher-is-better`" in err
    # With a file of log-probabilities beside it, the flag says whose scores are losses.
    both = (*sets, "--scores", losses, written(tmp_path, "good", ALL_RIGHT))
    status, out, _ = call(*both, "--lower-is-better", "losses")
    assert json.loads(out)["others"]["good"]["all"]["accuracy"] == 1.0
    status, out, err = call(*both, "--lower-is-better")
    assert (status, out) == (1, "")
    assert "good: has no score above 0, so they are log-probabilities and no losses; name" in err
    status, out, _ = call(*both, "--lower-is-better", "good", "--higher-is-better")
    found = json.loads(out)
    assert (found["all"]["accuracy"], found["others"]["good"]["all"]["accuracy"]) == (0.0, 0.0)
    for flags, message in (
        (("--lower-is-better", "x"), "`--lower-is-better` x: no file of `--scores` has this name"),
        (("--higher-is-better", "x"), "`--higher-is-better` x: no file of `--scores` has"),
        (("--lower-is-better", "--higher-is-better"), "are both given for losses; name the sys"),
    ):
        status, out, err = call(*both, *flags)
        assert (status, out, err.count("\n")) == (1, "", 1) and message in err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (ALL_RIGHT[:-1], "has 7 scores, but the sets have 8 candidates (3 items); give one score"),
        ([*ALL_RIGHT[:-1], "nan"], ":8: 'nan' is not a finite number."),
        ([*ALL_RIGHT[:-1], "a b"], ":8: 'a b' is not a finite number."),
        (
            [*ALL_RIGHT[:-1], 0.5],
            "has scores above 0, so they are no log-probabilities; say",
        ),
        (['{"id": "x", "scores": [1]}'], ":1: 'id' is \"x\", but item 1 of the sets is 'deixis"),
        (['{"id": "deixis_test-1", "scores": [-1, true]}'], "'scores' must be a list of numbers"),
        (['{"id": "deixis_test-1", "scores": [-1]}'], "'scores' has 1 numbers, but the item has"),
        (['{"id": "deixis_test-1", "scores": [-1, -2, -3]}'], "has 1 items, but the sets have 3."),
        (["{", "x"], "not JSON"),
    ],
)
def test_a_file_that_does_not_fit_is_one_line(
    values: list[Any], message: str, call: Call, entries: Path, tmp_path: Path
) -> None:
    path = written(tmp_path, "scores", values)
    status, out, err = call("--set", entries, "--format", "consistency", "--scores", path)
    assert (status, out) == (1, "")
    assert err.startswith("gtrans: error: ") and err.count("\n") == 1
    assert str(path) in err and message in err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "give a model, `--path` CKPT, or `--scores` FILE."),
        (
            ("--scores", "x", "--shuffled-context"),
            "`--shuffled-context` needs a model, `--path` CKPT.",
        ),
        (("--scores", "x", "a/x"), "--scores x and a/x have the same name 'x'"),
        (("--path", "m.pt", "--higher-is-better"), "`--higher-is-better` is about `--scores`"),
        (("--path", "m.pt", "--scores", "model=x"), "'model' is the system of `--path`"),
    ],
)
def test_options_that_contradict_each_other(
    more: tuple[str, ...], message: str, call: Call, entries: Path
) -> None:
    status, out, err = call("--set", entries, "--format", "consistency", *more)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert message in err


# --- what a model's scores are written as -------------------------------------------------------


def test_the_output_is_read_again(
    call: Call, entries: Path, tiny: TinyWorld, tmp_path: Path
) -> None:
    output = tmp_path / "scores.jsonl"
    sets = ("--set", entries, "--format", "consistency", "--json", "--cpu")
    model = ("--path", tiny.checkpoints["document"], "--data", tiny.data)
    status, out, _ = call(*sets, *model, "--output", output)
    assert status == 0
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["deixis_test-1", "deixis_test-2", "deixis_test-3"]
    for line, entry in zip(lines, ENTRIES, strict=True):
        assert (line["right"], len(line["scores"])) == (entry["true_ind"], len(entry["dst"]))
        assert line["correct"] == (line["scores"].index(max(line["scores"])) == line["right"])
    again = json.loads(call(*sets[:-1], "--scores", output)[1])
    assert again["contrastive"] == json.loads(out)["contrastive"]
    plain = written(tmp_path, "plain", [score for line in lines for score in line["scores"]])
    both = json.loads(call(*sets, *model, "--scores", plain)[1])
    assert both["others"]["plain"]["mcnemar"]["deixis_test"]["p"] == 1.0
    assert both["others"]["plain"]["contrastive"] == both["contrastive"]
    status, _, err = call(*sets, *model, "--output", entries)
    assert status == 1 and "`--output`" in err and json.loads(entries.read_text()) == ENTRIES


# --- McNemar ------------------------------------------------------------------------------------


def compared(items: int, first: int, other: int, documents: tuple[str, ...] = ()) -> Change:
    """Two systems, of which the first or the other one alone gets so many of the items right."""
    differences = (*[-1] * first, *[1] * other, *[0] * (items - first - other))
    return Change(differences, documents or ("",) * items)


def exact(first: int, other: int) -> float:
    """From the definition: all outcomes of n coin tosses at most as probable as this one."""
    n = first + other
    masses = [math.comb(n, won) for won in range(n + 1)]
    return sum(mass for mass in masses if mass <= masses[first]) / 2**n


def test_the_p_value_is_exact() -> None:
    for first in range(12):
        for other in range(12):
            assert compared(99, first, other).p_value == pytest.approx(exact(first, other))
    assert compared(12000, 4000, 4000).p_value == 1.0
    assert 0 < compared(12000, 500, 700).p_value < 1e-7


def test_the_interval_of_a_difference() -> None:
    # By hand: shares (1 + 1) / 12 and (4 + 1) / 12, so 0.25 and its deviation
    # sqrt((7/12 - 1/16) / 12), times 1.95996.
    low, high = compared(10, 1, 4).interval
    assert compared(10, 1, 4).mean == pytest.approx(0.3)
    assert (low, high) == pytest.approx((-0.158326, 0.658326), abs=1e-6)
    assert compared(10, 4, 1).interval == pytest.approx((-high, -low))
    # Of two systems that differ nowhere: around 0; of one that wins everything: no more than 1.
    low, high = compared(100, 0, 0).interval
    assert low == pytest.approx(-high) and 0 < high < 0.03
    assert compared(1, 0, 1).interval[1] == 1


def test_tests_by_phenomenon_and_in_all() -> None:
    item = Item("1", "p", 1, "source", ("a",), ("b",), (("c",),))
    items = [item, item, replace(item, phenomenon="q"), replace(item, phenomenon="q")]
    values = changes([True, True, False, None], [True, False, True, None])
    found = tabulate(items, values, Change)
    counts = {
        key: (it.items, it.only_first, it.only_other)
        for (key, of), it in found.items()
        if of == "all"
    }
    assert counts == {"p": (2, 1, 0), "q": (1, 0, 1), "all": (3, 1, 1)}


def test_items_of_one_document_count_once() -> None:
    """A film says Sie or du throughout: twenty items of ten films are ten coin tosses."""
    films = tuple(f"film {n // 2}" for n in range(20))
    test = compared(20, 2, 18, films)
    assert (test.items, test.document_count) == (20, 10)
    assert test.p_value == pytest.approx(exact(1, 9))
    assert compared(20, 2, 18).p_value == pytest.approx(exact(2, 18))
    low, high = test.interval
    assert low < 0.8 < high and high - low > 0.5
    # Flips of 2, 1 and -1: of eight sums, two are at least 2 above 0, and two below.
    uneven = Change((1, 1, 1, -1), ("a", "a", "b", "c"))
    assert uneven.p_value == pytest.approx(0.75)
    # As many items are right in every film: no more is known than of as many single items.
    items = [
        Item(str(n), "p", 1, "source", ("a",), ("b",), (("c",),), document=films[n])
        for n in range(20)
    ]
    alike, whole = (
        tabulate(items, right, Accuracy)["p", "1"]
        for right in ([n % 2 == 0 for n in range(20)], [n % 4 < 2 for n in range(20)])
    )
    assert alike.document_count == whole.document_count == 10
    assert alike.interval[0] > whole.interval[0] and alike.interval[1] < whole.interval[1]
    assert Gain((1.0, 1.0, 0.0, 0.0), ("a", "a", "b", "b")).interval == pytest.approx(
        (0.5 - 12.7062 * 0.5, 0.5 + 12.7062 * 0.5), rel=1e-4
    )


@pytest.mark.parametrize(("films", "first"), [(8, 8), (8, 60), (21, 8), (21, 160)])
def test_the_interval_of_a_difference_is_that_of_its_test(films: int, first: int) -> None:
    """It leaves 0 out where flips reject it, also where one film has most of the items."""
    rng = random.Random(4)
    names = tuple(f"{n}" for n in range(films) for _ in range(8 if n else first))
    differ = 0
    for _ in range(100):
        values = {f"{n}": rng.choice((-1, 0, 1)) for n in range(films)}
        change = Change(tuple(values[name] for name in names), names)
        low, high = change.interval
        assert low <= change.mean <= high
        differ += (low > 0 or high < 0) != (change.p_value <= 0.05)
    assert differ <= 3  # p is exact, the interval is not


def test_several_systems_are_corrected_for_their_number(
    call: Call, entries: Path, tmp_path: Path
) -> None:
    files = [written(tmp_path, name, ALL_RIGHT) for name in "abc"]
    written(tmp_path, "a", FIRST_WRONG)
    sets = ("--set", entries, "--format", "consistency", "--scores", *files)
    others = json.loads(call(*sets, "--json")[1])["others"]
    for other in others.values():
        test = other["mcnemar"]["deixis_test"]
        assert test["p_holm"] == min(1, 2 * test["p"])
    assert call(*sets)[1].splitlines()[-3].endswith("p (McNemar)  p Holm")


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])


def test_equal_systems_that_choose_once_a_film_are_seldom_told_apart() -> None:
    rng = random.Random(3)
    films = tuple(f"{n // 20}" for n in range(400))
    found = []
    for _ in range(200):
        one, two = ([rng.random() < 0.5 for _ in range(20)] for _ in range(2))
        pairs = zip(one, two, strict=True)
        differences = tuple(int(b) - int(a) for a, b in pairs for _ in range(20))
        found.append(Change(differences, films).p_value)
        assert Change(differences, ("",) * 400).p_value <= found[-1]
    assert sum(p <= 0.05 for p in found) <= 20
