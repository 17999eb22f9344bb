"""Models that translate in several directions: their corpora, jobs, scores, and tables."""

from __future__ import annotations

import json
from math import isclose
from pathlib import Path
from random import Random

import numpy as np
import pytest

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Options
from gtrans.evaluation.scores import Corpus as Texts
from gtrans.evaluation.scores import Measurement, measure
from gtrans.evaluation.several_sets import mean_of, on_set
from gtrans.evaluation.significance import resample
from gtrans.experiments.catalogue import find, read_catalogue
from gtrans.experiments.corpora import Corpora
from gtrans.experiments.directions import main as score
from gtrans.experiments.jobs import Jobs, Plan
from gtrans.experiments.measures import Column, of_directions
from gtrans.experiments.plan import plan
from gtrans.experiments.planned import Planned, Wish
from gtrans.experiments.scales import read_scale

OUT = Path("/out")
WORDS = ("the", "a", "house", "tree", "dog", "red", "sees", "has", "big", "small", "old", "now")


def corpus(folder: Path, pairs: dict[str, int]) -> Path:
    """Text of pairs with English; the other language has the words backwards, and its own mark."""
    folder.mkdir(parents=True)
    random = Random(1)
    for other, train in pairs.items():
        for split, count in (("train", train), ("dev", 8), ("test", 8)):
            english, foreign = [], []
            for number in range(count):
                words = random.choices(WORDS, k=random.randint(3, 7))
                english.append(" ".join(words) + ".")
                foreign.append(" ".join(word[::-1] + other for word in words) + ".")
                if number % 4 == 3:  # the end of a document
                    english.append("")
                    foreign.append("")
            for lang, lines in (("en", english), (other, foreign)):
                path = folder / f"{split}.{other}-en.{lang}"
                path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return folder


# --- plans ------------------------------------------------------------------------------


def planned(name: str, data: Path, scale: str = "paper", **more: object) -> tuple[Plan, Planned]:
    wish = Wish(read_scale(scale), OUT, data, seeds=(1,), **{"corpora": (), **more})  # type: ignore[arg-type]
    jobs, (table,) = plan(find(read_catalogue(), [name]), wish)
    return jobs, table


def test_every_direction_has_its_translation_and_its_column(tmp_path: Path) -> None:
    corpus(tmp_path / "iwslt17-multi", dict.fromkeys(("de", "it", "nl", "ro"), 4))
    jobs, table = planned("002-T4", tmp_path)
    kinds = [job.name.rpartition(".")[2] for job in jobs.jobs]
    assert kinds.count("document") == 7 and kinds.count("translate") == 7 * 8
    (prepare,) = [job for job in jobs.jobs if job.name.endswith("/prepare")]
    assert prepare.argv[prepare.argv.index("--langs") + 1] == "en,de,it,nl,ro"
    assert len(prepare.reads) == 3 * 4 * 2 and all(Path(file).is_file() for file in prepare.reads)
    ways = [it for other in ("de", "it", "nl", "ro") for it in (f"en-{other}", f"{other}-en")]
    titles = [f"s-BLEU {it}" for it in ways]
    assert list(table.columns) == [*titles, "mean s-BLEU", "validation loss"]
    run = table.rows[-1].runs[0]
    assert run.checkpoint.endswith("/multilingual/average5.pt")
    assert [job.makes[0] for job in run.translated][:2] == [
        f"{run.hypothesis}.en-de.de", f"{run.hypothesis}.de-en.en",
    ]  # fmt: skip
    assert run.translated[1].argv[-2:] == ("--directions", "de-en")
    # A row is scored when all of its translations are there, and those of its baseline.
    (scored,) = [job for job in jobs.jobs if "multilingual.directions.against" in job.name]
    assert len(scored.after) == 16 and {job.name for job in run.translated} < {*scored.after}


def test_opus_is_prepared_in_the_pieces_of_xlmr_for_all_rows(tmp_path: Path) -> None:
    corpus(tmp_path / "opus-100", {"af": 4, "de": 4})
    jobs, table = planned("002-T5", tmp_path)
    (prepare,) = [job for job in jobs.jobs if job.name.endswith("/prepare")]
    assert prepare.argv[prepare.argv.index("--xlmr") + 1] == f"{tmp_path}/xlmr.base"
    trained = {row.variant.label: row.runs[0].trained[0].argv for row in table.rows if row.runs}
    starts = {label: argv[argv.index("--xlmr") + 1] for label, argv in trained.items()}
    assert starts == {
        "MNMT": "none", "XLM-R": f"{tmp_path}/xlmr.base", "GTRANS": f"{tmp_path}/xlmr.base",
    }  # fmt: skip
    (scored,) = [job for job in jobs.jobs if job.name.endswith("post-norm.xlmr-none.resources")]
    assert scored.argv[-4:] == ("--classes", "high=900000", "medium=100000", "low=0")
    small = planned("002-T5", tmp_path, "small", corpora=("opus-100",))[1]
    assert [row.variant.label for row in small.rows if row.runs] == ["MNMT", "GTRANS"]


def test_a_corpus_of_one_pair_has_both_directions(tmp_path: Path) -> None:
    jobs, table = planned("002-T4", tmp_path, "tiny")
    assert [title for title in table.columns if "-de" in title or "de-" in title] == [
        "s-BLEU en-de", "s-BLEU de-en",
    ]  # fmt: skip
    # Its text is that of the other experiments.
    both, _ = plan(
        find(read_catalogue(), ["002-T2", "002-T4"]), Wish(read_scale("tiny"), OUT, None, (), (1,))
    )
    assert sum(job.name == "corpora/embedded.made" for job in both.jobs) == 1
    assert "corpora/embedded.made" in jobs.by_name["runs/embedded/multilingual/jobs/prepare"].after


def test_text_of_several_pairs_is_watched_beside_that_of_one(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "mine", {"de": 4, "it": 4})
    for lang in ("de", "en"):
        (folder / f"train.{lang}").touch()
    found = Corpora(OUT, read_scale("paper"), Jobs(), tmp_path).find("mine", all_directions=True)
    assert f"{folder}/train.de-en.de" in found.texts and f"{folder}/train.de" not in found.texts


def test_the_command_of_a_table_names_its_corpora(tmp_path: Path) -> None:
    corpus(tmp_path / "mine", {"de": 4})
    for corpora, words in (((), []), (("mine",), ["--corpus", "mine"])):
        scale = "small" if corpora else "tiny"
        table = planned("002-T4", tmp_path, scale, corpora=corpora)[1]
        assert table.command == ["gtrans", "reproduce", "002-T4", "--scale", scale, *words]


def test_corpora_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    found = Corpora(OUT, read_scale("paper"), Jobs(), tmp_path).find
    folder = corpus(tmp_path / "mine", {"de": 4})
    assert found("mine", all_directions=True).directions == ("en-de", "de-en")
    with pytest.raises(GtransError, match="its languages are not clear"):
        found("mine")
    (folder / "dev.de-en.en").unlink()
    with pytest.raises(GtransError, match="dev.de-en.en: there is no such file"):
        found("mine", all_directions=True)
    (folder / "train.de-it.it").touch()
    with pytest.raises(GtransError, match="no language in common that stands last"):
        found("mine", all_directions=True)


def test_a_column_of_directions_is_one_of_each() -> None:
    columns = {"BLEU {direction}": Column("m", ("a", "{direction}")), "mean": Column("m", ("b",))}
    assert of_directions(columns, ["en-de", "de-en"]) == {
        "BLEU en-de": Column("m", ("a", "en-de")),
        "BLEU de-en": Column("m", ("a", "de-en")),
        "mean": Column("m", ("b",)),
    }


# --- scores -----------------------------------------------------------------------------


def bleu(references: list[str], **systems: list[str]) -> Measurement:
    return measure(
        Texts([references], [[range(len(references))]]),
        {name: [lines] for name, lines in systems.items()}, ["s_bleu"], Options(),
    )["s_bleu"]  # fmt: skip


def texts(count: int, wrong: int, seed: int) -> tuple[list[str], list[str]]:
    """References, and translations of which every ``wrong``-th word is another one."""
    random = Random(seed)
    references = [" ".join(random.choices(WORDS, k=8)) for _ in range(count)]
    translations = [
        " ".join("x" if n % wrong == 0 else word for n, word in enumerate(line.split(), seed))
        for line in references
    ]
    return references, translations


def test_one_set_has_the_interval_and_the_test_of_gtrans_score() -> None:
    references, worse = texts(60, 4, 1)
    # Better in some sentences only, so that p is neither the smallest nor 1.
    better = [
        r if n % 20 == 0 else w for n, (r, w) in enumerate(zip(references, worse, strict=True))
    ]
    found = bleu(references, baseline=worse, row=better)
    mean = mean_of([on_set(found, "row", "baseline", references)])
    known = resample(found, "sentence")
    assert mean.score == found.score("row")
    low, high = known.confidence["row"].interval
    assert isclose(mean.interval[0], low, abs_tol=1) and isclose(mean.interval[1], high, abs_tol=1)
    randomisation = known.comparisons["row"].randomisation
    assert randomisation is not None and mean.p is not None
    assert 0.01 < mean.p < 1 and isclose(mean.p, randomisation.p, abs_tol=0.03)


def test_the_mean_over_sets() -> None:
    sets = []
    for number in range(3):
        references, worse = texts(20 * (number + 1), 3, number)
        better = [*references[:4], *worse[4:]]
        found = bleu(references, baseline=worse, row=better)
        sets.append((found, on_set(found, "row", "baseline", references)))
    mean = mean_of([it for _, it in sets])
    # A set counts as much as another, whatever its length.
    assert isclose(mean.score, np.mean([found.score("row") for found, _ in sets]))
    assert mean.interval[0] < mean.score < mean.interval[1]
    # Together they say more than the longest alone.
    alone = mean_of([sets[2][1]])
    assert mean.p is not None and alone.p is not None and mean.p < alone.p
    first = sets[0][0]
    units = [str(number) for number in range(len(first.statistics["row"]))]
    assert mean_of([on_set(first, "baseline", "baseline", units)]).p == 1
    assert mean_of([on_set(first, "row", None, units)]).p is None


def test_a_set_that_is_there_twice_says_no_more_than_once() -> None:
    """Both directions of a pair have the same sentences."""
    references, worse = texts(60, 4, 1)
    better = [
        r if n % 20 == 0 else w for n, (r, w) in enumerate(zip(references, worse, strict=True))
    ]
    found = bleu(references, baseline=worse, row=better)
    once = on_set(found, "row", "baseline", references)
    assert mean_of([once]) == mean_of([once, on_set(found, "row", "baseline", references)])
    others = [f"{line}." for line in references]
    independent = mean_of([once, on_set(found, "row", "baseline", others)])
    alone = mean_of([once])
    assert independent.p is not None and alone.p is not None and independent.p < alone.p
    assert np.diff(independent.interval) < np.diff(alone.interval)


def test_a_sentence_that_is_there_twice_is_one() -> None:
    references, worse = texts(10, 4, 1)
    double = bleu(references * 2, baseline=worse * 2, row=references * 2)
    single = bleu(references, baseline=worse, row=references)
    both, one = (
        mean_of([on_set(it, "row", "baseline", lines)])
        for it, lines in ((double, references * 2), (single, references))
    )
    assert both.p == one.p and np.allclose(both.interval, one.interval)


def test_the_seed_is_that_of_sacrebleu(monkeypatch: pytest.MonkeyPatch) -> None:
    references, worse = texts(20, 4, 1)
    found = bleu(references, row=worse)
    drawn = {}
    for seed in ("1", "2", "none"):
        monkeypatch.setenv("SACREBLEU_SEED", seed)
        drawn[seed] = [tuple(on_set(found, "row", None, references).drawn) for _ in range(2)]
        # Also without a seed the lots of a sentence are the same in all sets.
        assert len(set(drawn[seed])) == 1
    assert len({one for one, _ in drawn.values()}) == 3
    monkeypatch.setenv("SACREBLEU_SEED", "abc")
    with pytest.raises(GtransError, match="`SACREBLEU_SEED` must be a number or none"):
        on_set(found, "row", None, references)


@pytest.fixture
def translated(tmp_path: Path) -> Path:
    """Translations of three pairs, each the same both ways; the row is better in de, not in it."""
    (tmp_path / "ref").mkdir()
    for seed, other in enumerate(("de", "it", "ro")):
        references, worse = texts(12, 3, seed)
        systems = {"row": worse, "base": worse}
        if other == "de":
            systems["row"] = references
        if other == "it":
            systems["base"] = references
        for lang in (other, "en"):
            pair = f"{other}-en" if lang == "en" else f"en-{other}"
            (tmp_path / "ref" / f"test.{other}-en.{lang}").write_text("\n".join(references) + "\n")
            for name, lines in systems.items():
                (tmp_path / f"{name}.{pair}.{lang}").write_text("\n".join(lines) + "\n")
    (tmp_path / "pairs.json").write_text('{"de-en": 30, "it-en": 20, "ro-en": 25}')
    return tmp_path


def words_of(folder: Path, *more: str) -> list[str]:
    return ["--hyp", f"row={folder}/row", "--ref", str(folder / "ref"), "--directions",
            "en-de,de-en,en-it,it-en,en-ro,ro-en", *more]  # fmt: skip


def test_means_by_resource_and_how_many_are_won(
    translated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = words_of(translated, "--pairs", str(translated / "pairs.json"))
    words += ["--classes", "high=30", "medium=25", "low=0"]
    words[1:2] = [f"baseline={translated}/base", words[1]]
    assert score(words) == 0
    row = json.loads(capsys.readouterr().out)["systems"]["row"]
    assert isclose(row["en-de"]["score"], 100) and row["en-de"]["score"] > row["en-it"]["score"]
    each = [row[it]["score"] for it in ("de-en", "it-en", "ro-en")]
    assert isclose(row["mean"]["score"], sum(each) / 3)
    assert row["mean"]["signature"].startswith("mean over 6 directions; nrefs:1|case:mixed")
    into = row["into"]
    assert [into[it]["directions"] for it in ("high", "medium", "low", "all")] == [
        ["de-en"], ["ro-en"], ["it-en"], ["de-en", "it-en", "ro-en"],
    ]  # fmt: skip
    assert isclose(into["all"]["score"], sum(each) / 3)
    won = row["out of"]["win ratio"]
    # One of three; of the two that differ it wins one, so p is 1.
    assert isclose(won["score"], 100 / 3) and (won["better"], won["of"]) == (1, 3)
    assert won["comparison"]["sign_test_over_directions"]["p"] == 1
    assert row["en-ro"]["comparison"]["paired_randomisation"]["p"] == 1
    assert row["en-de"]["comparison"]["paired_randomisation"]["p"] < 0.01


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--pairs", "none"), "none: no counts of training pairs"),
        (("--pairs", "pairs.json", "--classes", "high=26"), "`--classes`: it-en has 20 training"),
        (("--pairs", "pairs.json", "--classes", "high=x"), "`--classes` high=x: give NAME=N"),
        (("--directions", "en-nl"), "test.en-nl.nl"),
        (("--hyp", "other=x"), "`--hyp` names other"),
    ],
)
def test_a_mistake_is_one_line(
    more: tuple[str, ...], message: str, translated: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(translated)
    assert score(words_of(translated, *more)) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error


def test_a_translation_with_missing_lines_is_refused(
    translated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (translated / "row.en-it.it").write_text("one\n")
    assert score(words_of(translated)) == 1
    assert "row.en-it.it: it has 1 lines, but" in capsys.readouterr().err


def test_a_last_line_needs_no_line_feed(
    translated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (translated / "ref" / "test.de-en.de", translated / "row.en-de.de"):
        lines = file.read_text().split("\n")[:-2]
        file.write_text("\n".join([*lines, "right" if "ref" in str(file) else "wrong"]))
    assert score(words_of(translated)) == 0
    row = json.loads(capsys.readouterr().out)["systems"]["row"]
    assert row["en-de"]["score"] < 100


# --- whole tables -----------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "scale", "pairs"),
    [("002-T4", "tiny", {"de": 60}), ("002-T5", "small", {"de": 60, "it": 40})],
)
def test_a_table_from_text(name: str, scale: str, pairs: dict[str, int], tmp_path: Path) -> None:
    """From text to the table, with a few updates; and again, when all is there."""
    pytest.importorskip("snakemake")
    corpus(tmp_path / "data" / "mine", pairs)
    words = ["reproduce", name, "--scale", scale, "--seeds", "1", "--out", str(tmp_path / "out")]
    words += ["--data", str(tmp_path / "data"), "--corpus", "mine", "--rows", "GTRANS"]
    changes = ["updates=3", "bpe-merges=60", "beam=1"]
    if name == "002-T5":
        changes += ["high-pairs=50", "medium-pairs=45"]
    words += [word for change in changes for word in ("--set", change)]
    assert main(words) == 0
    (file,) = (tmp_path / "out").glob(f"{scale}.*/{name}.so-far.json")
    table = json.loads(file.read_text())
    rows = {row["label"]: row for row in table["rows"]}
    cells = rows["GTRANS"]["cells"]
    title = "mean s-BLEU" if name == "002-T4" else "X-En s-BLEU all"
    seed = cells[title]["seeds"][0]
    assert seed["signature"].startswith("mean over ") and 0 <= seed["p"] <= 1
    if name == "002-T4":
        each = [cells[f"s-BLEU {it}"]["mean"] for it in ("en-de", "de-en")]
        assert isclose(cells[title]["mean"], sum(each) / 2)
    else:
        assert "X-En s-BLEU medium" not in cells and "test" in cells["En-X win ratio"]["seeds"][0]
        assert cells["X-En s-BLEU high"]["seeds"][0]["p"] <= 1
    before = file.read_bytes()
    assert main(words) == 0 and file.read_bytes() == before
