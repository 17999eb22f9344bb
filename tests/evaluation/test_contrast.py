"""``gtrans contrast``: items, accuracy, errors, the twin property, the control."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.untrained import task_for, untrained

from gtrans.cli import main
from gtrans.cli.shared.contrast_report import Result, lines, report
from gtrans.corpus.contrastive import generate_items
from gtrans.corpus.grammar import CUES, DISTANCES, PHENOMENA
from gtrans.decoding import force_decode
from gtrans.decoding.contrast import score_items
from gtrans.decoding.force_decode import score_documents
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import (
    Item,
    gained_margins,
    mean_gain,
    outcomes_of,
    random_contexts,
    read_items,
    tabulate,
    wilson_interval,
)

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld


class Split:
    """A pipeline that sets the full stop apart."""

    def encode(self, sentence: str) -> str:
        return sentence.replace(".", " .").replace("?", " ?")


SPLIT = (Split(), Split())


def generated(number: int, phenomena: Sequence[str] = PHENOMENA) -> list[Item]:
    """Items of the embedded corpus, as they are read back from its files."""
    rng = random.Random(1)
    return [
        Item(
            found.id, phenomenon, distance, CUES[phenomenon], found.source, found.target,
            ((*found.target[:-1], found.wrong),),
        )
        for phenomenon in phenomena
        for distance in DISTANCES
        for found in generate_items(rng, phenomenon, distance, number)
    ]  # fmt: skip


def vocabulary_of(items: Sequence[Item]) -> tuple[list[str], list[str]]:
    def words(sentences: Iterator[str]) -> list[str]:
        return sorted({word for s in sentences for word in Split().encode(s).split()})

    return (
        words(s for item in items for s in item.source),
        words(s for item in items for candidate in item.candidates for s in candidate),
    )


def small_item(name: str = "one", **changes: Any) -> Item:
    fields = {
        "phenomenon": "pronoun",
        "distance": 1,
        "cue": "source",
        "source": ("A.", "B."),
        "target": ("a.", "b."),
        "contrastive": (("a.", "c."),),
    }
    return Item(id=name, **{**fields, **changes})


def as_line(item: Item, **changes: Any) -> str:
    return json.dumps({**vars(item), **changes})


# --- items and accuracy -----------------------------------------------------------------------


def test_wilson_interval_by_hand():
    assert wilson_interval(8, 10) == pytest.approx((0.49016, 0.94332), abs=1e-5)
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.27753), abs=1e-5)
    assert wilson_interval(10, 10) == pytest.approx((0.72247, 1.0), abs=1e-5)


def test_right_means_strictly_the_highest():
    three = (("a.", "c."), ("a.", "d."))
    items = [
        small_item("win", distance=2),
        small_item("lose"),
        small_item("tie"),
        small_item("nan", cue="target"),
        small_item("beats both", contrastive=three),
        small_item("beats one", contrastive=three),
        small_item("other", phenomenon="ellipsis"),
    ]
    scores = [[-1, -2], [-2, -1], [-1, -1], [math.nan, -1], [-1, -2, -3], [-2, -3, -1], [-1, -2]]
    table = tabulate(items, outcomes_of(items, scores))
    assert list(table) == ["pronoun", "ellipsis"]
    assert list(table["pronoun"]) == [1, 2]
    cell = table["pronoun"][1]
    assert (cell.right, cell.items, cell.cue, cell.accuracy) == (1, 5, "source/target", 0.2)
    assert cell.interval == wilson_interval(1, 5)
    assert table["pronoun"][2].accuracy == table["ellipsis"][1].accuracy == 1.0
    with pytest.raises(ValueError, match="item win has 3 scores"):
        outcomes_of(items[:1], [[-1, -2, -3]])


def test_items_of_the_embedded_corpus_are_read_as_written(tmp_path: Path):
    path = tmp_path / "set.jsonl"
    written = list(generate_items(random.Random(1), "formality", 2, 4))
    text = "\n".join(json.dumps(item.as_json(), ensure_ascii=False) for item in written)
    path.write_text(f"{text}\n\n", encoding="utf-8")
    read = read_items(path)
    assert [(i.id, i.source, i.target) for i in read] == [
        (i.id, i.source, i.target) for i in written
    ]
    for item in read:
        assert (item.phenomenon, item.distance, item.cue) == ("formality", 2, "target")
        assert item.context == len(item.source) - 1
        assert item.candidates == (item.target, *item.contrastive)


BAD_LINES = [
    ("{", "not JSON"),
    ("[]", "an item must be a JSON object"),
    (as_line(small_item("two"), id=""), "'id' must be a text"),
    (as_line(small_item("two"), cue=3), "'cue' must be a text that is not empty, but is 3"),
    (as_line(small_item("two"), distance=None), "'distance' must be a number from 0, but is null"),
    (as_line(small_item("two"), distance=-1), "'distance' must be a number from 0, but is -1"),
    (as_line(small_item("two"), source="A."), "'source' must be a list of sentences"),
    (as_line(small_item("two"), source=["A.", " "]), "'source' has a sentence that is empty"),
    (as_line(small_item("two"), target=["a."]), "'target' has 1 sentences, but 'source' has 2"),
    (as_line(small_item("two"), contrastive=[]), "'contrastive' must be a list of at least one"),
    (as_line(small_item("two"), contrastive=[["a."]]), "'contrastive' has 1 sentences"),
    (as_line(small_item("two"), contrastive=[["a.", "b."]]), "equals 'target'"),
    (as_line(small_item("two"), groups={"gender": 1}), "'groups' must be a JSON object whose"),
    (as_line(small_item("two"), block=["1"]), "'block' must be a text, but is"),
    (as_line(small_item("one")), "the id 'one' is also that of line 1"),
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
    ],
)
def test_a_bad_file_is_named(content: bytes | None, message: str, tmp_path: Path):
    path = tmp_path / "set.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GtransError) as error:
        read_items(path)
    assert message.format(path) in str(error.value)


# --- models choose ---------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [50, 2000])
def test_without_context_exactly_half_is_right(limit: int):
    items = generated(10)
    task = task_for("sentence", words=vocabulary_of(items))
    scores = score_items([untrained(task)], task, SPLIT, items, max_tokens=limit)
    table = tabulate(items, outcomes_of(items, scores))
    assert set(table) == set(PHENOMENA)
    for cells in table.values():
        assert {distance: cell.accuracy for distance, cell in cells.items()} == dict.fromkeys(
            DISTANCES, 0.5
        )


def test_leaving_out_the_common_context_changes_no_difference():
    items = generated(2)
    task = task_for("document", words=vocabulary_of(items))
    model = untrained(task)
    scores = score_items([model], task, SPLIT, items)
    whole = iter(
        score_documents(
            [model],
            task,
            [
                tuple([Split().encode(s) for s in side] for side in (item.source, candidate))
                for item in items
                for candidate in item.candidates
            ],
        )
    )
    for right, wrong in scores:
        full = sum(next(whole)) - sum(next(whole))
        assert right - wrong == pytest.approx(full, abs=1e-4)
        assert full != 0


# --- the control -----------------------------------------------------------------------------


def test_random_contexts_come_from_other_items():
    items = generated(10, ["pronoun", "formality"])
    changed = random_contexts(items, seed=3)
    assert changed == random_contexts(items, seed=3)
    assert changed != random_contexts(items, seed=4)
    contexts = {
        (item.phenomenon, item.distance, item.source[: item.context], item.target[: item.context])
        for item in items
    }
    same_length = 0
    for position, (item, new) in enumerate(zip(items, changed, strict=True)):
        twin = items[position ^ 1]
        assert (new.id, new.distance) == (item.id, item.distance)
        context = new.source[:-1], new.target[:-1]
        assert (new.phenomenon, new.distance, *context) in contexts
        assert context not in [(i.source[:-1], i.target[:-1]) for i in (item, twin)]
        assert new.source[-1] == item.source[-1]
        assert [c[-1] for c in new.candidates] == [c[-1] for c in item.candidates]
        assert {c[:-1] for c in new.candidates} == {new.target[:-1]}
        same_length += len(new.source) == len(item.source)
        alternatives = {
            len(other.source)
            for other in items
            if (other.phenomenon, other.distance) == (item.phenomenon, item.distance)
            and other not in (item, twin)
        }
        assert (len(new.source) == len(item.source)) or len(item.source) not in alternatives
    assert same_length > len(items) / 2


def test_the_random_context_of_a_pronoun_does_not_tell_it():
    """What stands behind the colon is the answer, so donors have other answers, too."""
    items = [
        small_item(
            f"{pronoun} {number}", phenomenon=f"it:{pronoun}",
            source=(f"{pronoun} {number}.", f"It {number}."),
            target=(f"{pronoun} {number}.", f"{pronoun}."),
            contrastive=((f"{pronoun} {number}.", "x."),),
        )
        for number in range(200) for pronoun in ("er", "sie")
    ]  # fmt: skip
    same = [
        item.source[0].split()[0] == new.source[0].split()[0]
        for item, new in zip(items, random_contexts(items), strict=True)
    ]
    assert 0.4 < sum(same) / len(items) < 0.6


def test_a_twin_gives_no_context():
    twins = generated(2, ["pronoun"])[:2]
    with pytest.raises(GtransError, match="`--random-context`: there is no item of pronoun at"):
        random_contexts(twins)
    bare = small_item(source=("A.",), target=("a.",), contrastive=(("b.",),))
    assert random_contexts([bare]) == [bare]


# --- the command ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sets") / "both.jsonl"
    items = generated(6, ["pronoun", "lexical"])
    path.write_text("".join(f"{as_line(item)}\n" for item in items), encoding="utf-8")
    return path


@pytest.fixture
def contrast(
    tiny: TinyWorld, small_set: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    def call(model: str, *more: str) -> tuple[int, str, str]:
        path = ":".join(str(tiny.checkpoints[name]) for name in model.split(":"))
        files = ("--path", path, "--data", str(tiny.data), "--set", str(small_set))
        status = main(["contrast", *files, "--cpu", *more])
        return status, *capsys.readouterr()

    return call


def test_the_command_prints_a_table(contrast: Callable[..., tuple[int, str, str]]):
    status, out, _ = contrast("sentence")
    assert status == 0
    first, *rows = out.splitlines()
    assert " ".join(first.split()) == "phenomenon distance accuracy 95% interval items cue"
    few, twelve = ["50.0", "18.8-81.2", "6"], ["50.0", "25.4-74.6", "12"]
    assert [row.split() for row in rows] == [
        *[
            [phenomenon, *cells, CUES[phenomenon]]
            for phenomenon in ("pronoun", "lexical")
            for cells in (
                *([str(distance), *few] for distance in DISTANCES),
                ["all", "50.0", "31.4-68.6", "24"],
            )
        ],
        *(["all", str(distance), *twelve, "source/target"] for distance in DISTANCES),
        ["all", "all", "50.0", "36.4-63.6", "48", "source/target"],
    ]


def test_the_command_prints_json(contrast: Callable[..., tuple[int, str, str]]):
    # two models that see the document, and the control
    status, out, _ = contrast("document:other", "--json", "--random-context", "--seed", "5")
    assert status == 0
    found = json.loads(out)
    sums = {"by_phenomenon", "by_distance", "all"}
    accuracies = {"contrastive", "intervals", *sums}
    others = {"system", "by_group", "preferences", "outcomes", "quality", "cannot_be_lost"}
    control = {"random_context", "above_random_context"}
    assert set(found) == {"unit", "items", "cue", *control, *accuracies, *others, "others"}
    assert set(found["random_context"]) == accuracies
    above = found["above_random_context"]
    assert set(above) == {"contrastive", *sums}
    assert above["contrastive"]["pronoun"].keys() == found["items"]["pronoun"].keys()
    assert (above["all"]["items"], above["by_distance"]["1"]["items"]) == (48, 12)
    low, high = above["all"]["interval"]
    assert low < above["all"]["value"] < high
    assert (found["all"]["items"], found["by_distance"]["1"]["items"]) == (48, 12)
    assert found["unit"] == "document"
    assert found["items"]["pronoun"] == {str(distance): 6 for distance in DISTANCES}
    assert found["cue"]["lexical"] == dict.fromkeys(map(str, DISTANCES), "target")
    for part in (found, found["random_context"]):
        for phenomenon in ("pronoun", "lexical"):
            for distance, accuracy in part["contrastive"][phenomenon].items():
                interval = wilson_interval(round(6 * accuracy), 6)
                assert part["intervals"][phenomenon][distance] == pytest.approx(interval)
    assert contrast("document:other", "--json", "--random-context", "--seed", "5")[1] == out


def test_the_command_reads_published_sets(
    contrast: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    entry = {
        "src": "The table is new . _eos It is old .",
        "dst": ["Der Tisch ist neu . _eos Er ist alt .", "Der Tisch ist neu . _eos Sie ist alt ."],
        "true_ind": 0,
        "ctx_dist": 1,
    }
    second = {**entry, "src": "The lamp is old . _eos It is new ."}
    path = tmp_path / "deixis_test.json"
    path.write_text(json.dumps([entry, second]), encoding="utf-8")
    more = ("--format", "consistency", "--set", str(path), "--random-context", "--json")
    status, out, _ = contrast("document", *more)
    assert status == 0
    assert json.loads(out)["by_phenomenon"]["deixis_test"]["items"] == 2


def test_the_control_is_shown_next_to_the_true_context():
    table = tabulate([small_item()], outcomes_of([small_item()], [[-1, -2]]))
    control = tabulate([small_item()], outcomes_of([small_item()], [[-2, -1]]))
    first, row = lines(table, control)
    assert first.endswith("cue     random context")
    assert row.split() == ["pronoun", "1", "100.0", "20.7-100.0", "1", "source", "0.0"]
    found = report(Result(table, control=control))
    assert found["random_context"]["contrastive"] == {"pronoun": {"1": 0.0}}


def test_the_margin_by_context_is_shown_where_there_are_scores():
    items = [small_item(str(number)) for number in range(3)]
    true, other = [[-1, -2], [-3, -1], [-1, -4]], [[-1, -1.5], [-3, -2], [-2, -5]]
    # The margins are 1, -2, 3 and 0.5, -1, 3.
    gains = gained_margins(items, true, other)
    assert gains == {"pronoun": {1: [0.5, -1.0, 0.0]}}
    gain = mean_gain(gains["pronoun"][1])
    radius = 1.959964 * math.sqrt(7 / 36)  # the variance of the three values is 7 / 12
    assert gain.value == pytest.approx(-1 / 6)
    assert gain.items == 3
    table, control = (tabulate(items, outcomes_of(items, scores)) for scores in (true, other))
    first, row = lines(table, control, gains)
    assert first.split("random context")[1].strip() == "margin above it, nats"
    low, high = gain.interval
    assert row.endswith(f"-0.167 ({low:+.3f} to {high:+.3f})")
    assert (high - low) / 2 == pytest.approx(radius, abs=1e-5)


def test_items_that_no_context_can_move_have_no_margin():
    with_context = small_item("1")
    bare = small_item("2", source=("A.",), target=("a.",), contrastive=(("b.",),))
    lost = small_item("3")
    scores = [[-1.0, -2.0], [-1.0, -2.0], [float("nan"), -2.0]]
    items = [with_context, bare, lost]
    assert gained_margins(items, scores, scores) == {"pronoun": {1: [0.0]}}
    assert mean_gain([0.25]).interval is None
    table = tabulate(items[1:2], outcomes_of(items[1:2], scores[1:2]))
    assert lines(table, table, {})[1].endswith("-")


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        ("sentence", ("--max-tokens", "0"), "`--max-tokens` must be at least 1, but is 0."),
        ("sentence:document", (), "was trained with --unit document, not sentence"),
        ("sentence", ("--data", "nowhere"), "nowhere: there is no such data folder."),
        ("sentence", ("--context", "-1"), "`--context` must be at least 0, but is -1."),
        ("sentence", ("--documents", "nowhere"), "`--documents`: there is no folder 'nowhere'."),
        ("sentence", ("--format", "discevalmt"), ".jsonl:1: instance id: a block must be a JSON"),
    ],
)
def test_mistakes_are_one_line(
    model: str, more: tuple[str, ...], message: str, contrast: Callable[..., tuple[int, str, str]]
):
    status, out, err = contrast(model, *more)
    assert (status, out) == (1, "")
    assert err.splitlines()[-1].startswith("gtrans: error: ")
    assert message in err.splitlines()[-1]


def test_an_unknown_format_is_status_2(
    contrast: Callable[..., tuple[int, str, str]], capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as end:
        contrast("sentence", "--format", "xml")
    assert end.value.code == 2
    assert "jsonl" in capsys.readouterr().err


def test_help_tells_the_default_batch(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["contrast", "--help"])
    assert f"(default: {force_decode.MAX_TOKENS})" in capsys.readouterr().out


def test_sets_and_accuracy_need_no_torch(repo: Path):
    code = "import sys, gtrans.cli.contrast; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=repo, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "gtrans.evaluation.contrastive" in loaded
    assert not {"torch", "fairseq"} & set(loaded)
