"""The numbers of the README and of the results page are those of `results/`."""

from __future__ import annotations

import csv
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import results
from gtrans.lab.experiments import read_catalogue
from results import BATCHES, Row

BIAS_3, MEMORY = "G-Transformer (gate bias 3)", "G-Transformer + memory"
D, CHAT, TV = "Debian", "chats+Bible", "TV subtitles"
FAR, CHANGE = "1300+1200", "change of d-BLEU"
TRUE_ABOVE = "log-probability, true above shuffled (nats, mean over sentences)"
MARGIN = "ContraPro margin, sentence before (nats)"
# A number of the page, the column, and its place: corpus, updates, system, metric, seed, context.
CLAIMS: list[tuple[str, str, tuple[str, ...]]] = [
    *((x, "value", (D, n, "sentence", "s-BLEU", "1")) for x, n in
      (("19.7", "1300"), ("31.7", "4000"), ("35.0", "8000"))),
    *((x, "value", (D, n, "sentence", "d-BLEU", "1")) for x, n in
      (("23.7", "1300"), ("35.4", "4000"), ("38.6", "8000"))),
    ("11.0", "value", (CHAT, "1300", "sentence", "s-BLEU", "1")),
    ("15.2", "value", (CHAT, "1300", "sentence", "d-BLEU", "1")),
    ("10.6", "value", (TV, "1300", "sentence", "s-BLEU", "1")),
    ("20.1", "value", (TV, "1300", "sentence", "d-BLEU", "1")),
    ("−0.42", "value", (D, "8000+400", BIAS_3, CHANGE, "pooled")),
    ("−0.96", "low", (D, "8000+400", BIAS_3, CHANGE, "pooled")),
    ("+0.13", "high", (D, "8000+400", BIAS_3, CHANGE, "pooled")),
    ("0.15", "p", (D, "8000+400", BIAS_3, CHANGE, "pooled")),
    ("−0.50", "value", (D, "8000+400", BATCHES, CHANGE, "pooled")),
    ("0.08", "p", (D, "8000+400", BATCHES, CHANGE, "pooled")),
    ("1.00", "value", (CHAT, FAR, BIAS_3, CHANGE, "1")),
    ("0.65", "value", (CHAT, FAR, BATCHES, CHANGE, "1")),
    ("10.0", "value", (CHAT, FAR, BIAS_3, "parameters in millions", "1")),
    ("7.6", "value", (CHAT, FAR, BATCHES, "parameters in millions", "1")),
    ("+1.27", "value", (CHAT, FAR, BIAS_3, "change of chrF2", "1")),
    ("+1.33", "value", (CHAT, FAR, BIAS_3, "change of chrF2", "1", "none")),
    ("+0.77", "value", (CHAT, FAR, BIAS_3, "change of chrF2", "1", "shuffled")),
    ("0.63", "value", (TV, "1300+400", BIAS_3, CHANGE, "1")),
    ("0.63", "value", (TV, "1300+400", BIAS_3, CHANGE, "1", "shuffled")),
    ("-4.4", "value", (D, "1300+400", "Flat-Transformer", CHANGE, "1")),
    ("-8.1", "value", (D, "1300+400", "concatenation 2-to-2", CHANGE, "1")),
    ("-10.8", "value", (D, "1300+400", "G-Transformer (paper's start)", CHANGE, "1")),
    ("1.34", "value", (D, "1300+400", "BERT context, whitened, multiplier 1", CHANGE, "1")),
    ("1.10", "value", (D, "1300+400", f"{BIAS_3}, multiplier 1", CHANGE, "1")),
    ("0.07", "p_holm", (D, "1300+400", f"{BIAS_3}, multiplier 1", CHANGE, "1")),
    ("1.19", "value", (D, "1300+400", f"{BIAS_3}, multiplier 1", CHANGE, "1", "none")),
    ("1.27", "value", (D, "1300+400", f"{BIAS_3}, multiplier 1", CHANGE, "1", "shuffled")),
    ("0.97", "value", (D, "1300+400", f"{BATCHES}, multiplier 1", CHANGE, "1")),
    ("0.67", "value", (D, "1300+400", MEMORY, CHANGE, "pooled")),
    ("+0.37", "value", (D, "1300+400", MEMORY, CHANGE, "1")),
    ("+0.97", "value", (D, "1300+400", MEMORY, CHANGE, "2")),
    ("0.27", "p_holm", (D, "1300+400", MEMORY, CHANGE, "pooled")),
    ("0.30", "value", (CHAT, "1300+400", BIAS_3, TRUE_ABOVE, "1")),
    ("0.72", "value", (CHAT, FAR, BIAS_3, TRUE_ABOVE, "1")),
    ("0.064", "value", (CHAT, FAR, BIAS_3, MARGIN, "1")),
    ("0.066", "value", (D, FAR, BIAS_3, MARGIN, "1")),
    ("0.070", "value", (CHAT, "1300+400", "concatenation 2-to-2", MARGIN, "1")),
    ("-6.8", "value", (CHAT, "1300+400", "concatenation 2-to-2", CHANGE, "1")),
]  # fmt: skip
# Decimals of the page that are no results: settings.
SETTINGS = {"0.2", "0.05", "0.02"}
DECIMAL = re.compile(r"[−+-]?\d+\.\d+")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return results.read()


@pytest.fixture(scope="module")
def page(repo: Path) -> str:
    return (repo / "docs" / "results.md").read_text(encoding="utf-8")


def matches(printed: str, value: float | None) -> bool:
    """Whether a printed number is the value, rounded; losses may be printed without their sign."""
    if value is None:
        return False
    digits = len(printed.partition(".")[2])
    number = float(printed.replace("−", "-"))
    least = 0.5000001 * 10**-digits
    return abs(number - value) <= least or ("+" not in printed and abs(number + value) <= least)


def at(rows: list[Row], place: tuple[str, ...]) -> Row:
    corpus, updates, system, metric, seed, *context = place
    wanted = corpus, updates, system, seed, (context or ["true"])[0], metric
    (row,) = [row for row in rows if row.place == wanted]
    return row


@pytest.mark.parametrize(("printed", "column", "place"), CLAIMS, ids=lambda it: str(it)[:40])
def test_a_number_of_the_page_is_in_the_table(
    rows: list[Row], page: str, printed: str, column: str, place: tuple[str, ...]
) -> None:
    assert matches(printed, getattr(at(rows, place), column))
    assert printed.lstrip("+-−") in page


def adapt_claims() -> list[str]:
    """What the page says of `gtrans adapt`: d-BLEU of the test sets, then what chose the last."""
    found = json.loads((results.FOLDER / "adapt.json").read_text(encoding="utf-8"))
    claims = []
    for name in ("synthetic", "customer chats"):
        splits = found[name]
        rows = {row["system"]: row for row in splits["test"] if row["metric"] == "d_bleu"}
        for system in ("document", "continued"):
            change, low, high = (
                f"{rows[system][key]:.2f}" for key in ("change", "change_low", "change_high")
            )
            claims.append(f"{change} ({low} to {high})".replace("-", "−"))
    chosen = {row["system"]: row for row in splits["valid"] if row["metric"] == "d_bleu"}
    return [*claims, f"{chosen['document']['change']:.2f}"]


def test_what_adapt_changes(page: str) -> None:
    section = " ".join(page.partition("## gtrans adapt")[2].split())
    assert all(claim in section for claim in adapt_claims())


def test_every_number_of_the_page_is_claimed(rows: list[Row], page: str) -> None:
    head, _, rest = page.partition("These gains remain")
    table, _, after = rest.partition("\n\nTen losses")
    claimed = {printed.lstrip("+-−") for printed, _, _ in CLAIMS} | SETTINGS
    claimed |= {number.lstrip("−") for number in DECIMAL.findall(" ".join(adapt_claims()))}
    said = {number.lstrip("+-−") for number in DECIMAL.findall(head + after)}
    assert said - {"1.4", "0.004"} <= claimed
    gains = [row for row in rows if (row.p_holm or 1) < 0.05 and (row.value or 0) > 0]
    lines = [line for line in table.splitlines() if line.startswith("| ") and DECIMAL.search(line)]
    assert len(lines) == len(gains)
    for line in lines:
        change, p = DECIMAL.findall(line)
        assert any(matches(change, row.value) and matches_p(p, row.p_holm) for row in gains), line


def matches_p(printed: str, value: float | None) -> bool:
    """As `matches`; 0.0001 stands for all that is smaller."""
    return matches(printed, max(value or 0, 1e-4))


def test_the_counts_of_comparisons(rows: list[Row], page: str) -> None:
    count = results.counts(rows)
    sound, below = count["sound"], count["sound, below 0.05"]
    intervals = count["intervals"]
    disagreeing = count["intervals that exclude 0 with p of 0.05 or more"]
    text = " ".join(page.split())
    for said in (
        f"The table has {count['p-values']:,} p-values. {sound} of them",
        f"have no documents ({count['by item of contrastive sets']})",
        f"another baseline ({count['with another baseline']})",
        f"seeds pooled ({count['pooled over seeds']})",
        f"{below} of the {sound} are below 0.05, where chance alone gives {sound * 0.05:.0f}",
        f"{disagreeing} of {intervals} intervals exclude 0",
        f"There are {count['primary']}, corrected",
    ):
        assert said in text, said
    after_4000 = [
        row for row in rows if row.updates[:4] in ("4000", "8000") and row.p_holm is not None
    ]
    assert len(after_4000) == 6 and all(row.p_holm > 0.05 for row in after_4000)
    largest = max(
        row.value for row in rows if row.p_holm is not None and row.updates.endswith("+400")
    )
    assert largest < 1.4
    losses = [row for row in rows if (row.p_holm or 1) < 0.05 and (row.value or 0) < 0]
    assert len(losses) == 10 and all(matches("0.004", row.p_holm) for row in losses)
    assert {row.updates for row in losses} == {"1300+400"}
    others = [row for row in rows if (row.p_holm or 0) >= 0.05]
    assert f"other {len(others)} changes show no significant" in text
    margins = {
        row.system: max(abs(row.value or 0), 0)
        for row in rows
        if row.metric == MARGIN and row.system not in (BIAS_3, "concatenation 2-to-2")
    }
    assert max(margins.values()) < 0.02


def test_the_table_is_made_from_the_files(rows: list[Row]) -> None:
    assert results.as_csv(results.table()) == results.TABLE.read_text(encoding="utf-8")


def test_a_control_that_copies_its_treatment_is_rejected(rows: list[Row]) -> None:
    real = [row for row in rows if row.place[:5] == (CHAT, FAR, BIAS_3, "1", "true")]
    results.refuse_copies([*real, *(replace(row, context="shuffled", value=row.value + 0.1)
                                    for row in real if row.value is not None)])  # fmt: skip
    with pytest.raises(ValueError, match="every score is that of the true context"):
        results.refuse_copies([*real, *(replace(row, context="shuffled") for row in real)])


def test_holm_and_pooling(rows: list[Row]) -> None:
    def change(system: str, seed: str, p: float, **other: Any) -> Row:
        base = next(row for row in rows if row.p_holm is not None)
        return replace(base, system=system, seed=seed, p=p, p_holm=None, **other)

    one = [
        change("A", "1", 0.01, value=1.0),
        change("B", "1", 0.04, value=1.0),
        change("C", "1", 0.03, value=-1.0),
    ]
    assert [row.p_holm for row in results.corrected(one)] == pytest.approx([0.03, 0.06, 0.06])
    two = [
        change("A", "1", 0.05, value=1.0, low=0.0, high=2.0),
        change("A", "2", 0.05, value=-1.0, low=-2.0, high=0.0),
    ]
    (both,) = results.pooled(two)
    assert both.value == 0 and both.p == pytest.approx(1) and both.low == pytest.approx(-1)


def test_readme_counts_what_there_is(repo: Path) -> None:
    text = " ".join((repo / "README.md").read_text(encoding="utf-8").split())
    files = (repo / "exp_gtransformer" / "fidelity").glob("*.yaml")
    same = [row["same"] for path in files for row in yaml.safe_load(path.read_text())["settings"]]
    differ = sum(one != "yes" for one in same)
    assert f"{len(same)} settings are" in text and f"{differ} differ or are open" in text
    tables = [it for it in read_catalogue().values() if it.paper["name"] != "results"]
    assert f"status of all {len(tables)}" in text
    trials = json.loads((repo / "results" / "reliability.json").read_text())["kills"]
    assert all(case["identical"] == case["trials"] for case in trials)
    count = sum(case["trials"] for case in trials)
    assert f"{count} of {count} trials" in text


def of_stock(rows: list[dict[str, Any]], system: str, speed: str) -> list[float]:
    """How many times as fast a system is on a GPU as stock fairseq, from the least."""

    def case(row: dict[str, Any]) -> tuple[Any, ...]:
        return row.get("words"), row["batch"]

    stock = {
        case(row): row[speed]
        for row in rows
        if row["system"] == "stock sentence Transformer" and speed in row
    }
    mine = [row for row in rows if row["system"] == system and speed in row]
    return sorted(row[speed] / stock[case(row)] for row in mine)


def of_ours(rows: list[dict[str, Any]]) -> list[float]:
    """How many times as fast a G-Transformer trains as the sentence model here, from the least."""
    speeds = {
        (row["system"], row["words"], row["batch"]): row["words_per_second"]
        for row in rows
        if row["part"] == "training"
    }
    return sorted(
        speed / speeds["gtrans sentence Transformer", words, batch]
        for (system, words, batch), speed in speeds.items()
        if system == "G-Transformer, varlen"
    )


def test_readme_has_the_speeds_of_the_benchmarks(repo: Path) -> None:
    text = " ".join((repo / "README.md").read_text(encoding="utf-8").split())
    found = json.loads(next(repo.glob("*/benchmarks.json")).read_text(encoding="utf-8"))
    rows = found["gpu"]["rows"]
    trains = of_stock(rows, "G-Transformer, varlen", "words_per_second")
    assert f"{trains[0]:.2f} to {trains[-1]:.2f} times as fast" in text
    ours = of_ours(rows)
    assert f"{ours[0]:.2f} to {ours[-1]:.2f} times as fast as the sentence model here" in text
    decodes = of_stock(rows, "G-Transformer", "seconds")
    (cpu,) = [it for it in found["test-set"]["rows"] if it["system"] == "gtrans, documents"]
    expected = f"{cpu['times_per_token']:.1f} times on a CPU, up to {decodes[-1]:.1f} on a GPU"
    assert expected in text


def test_readme_has_the_times_and_sizes_of_a_newcomer(repo: Path) -> None:
    text = " ".join((repo / "README.md").read_text(encoding="utf-8").split())
    found = json.loads((repo / "results" / "newcomer.json").read_text(encoding="utf-8"))
    minutes, seconds = divmod(found["install"]["seconds"], 60)
    assert f"{minutes}:{seconds:02} minutes on two CPU cores" in text
    assert f"{found['demo']['cpu_seconds']} seconds of one core" in text
    install = (repo / "scripts" / "install.sh").read_text(encoding="utf-8")
    cuda, cpu, rest = (
        float(re.findall(pattern, install)[0])
        for pattern in (r"([\d.]+) GB with CUDA", r"([\d.]+) GB where", r"libraries \(([\d.]+) GB")
    )
    assert f"{cpu + rest:.2f} GB with torch for the CPU, {cuda + rest:.2f} GB with CUDA" in text


def test_readme_has_the_table_of_the_demo(repo: Path) -> None:
    text = (repo / "README.md").read_text(encoding="utf-8")
    with (repo / "results" / "demo.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["seed"] == "1"]
    found = {(row["system"], row["phenomenon"], row["distance"]): row["accuracy"] for row in rows}
    lines = re.findall(r"^(\w+), distance (\d) +([\d.]+)% +([\d.]+)%$", text, re.MULTILINE)
    assert len(lines) >= 5
    for phenomenon, distance, *cells in lines:
        for system, cell in zip(("sentence", "gtransformer"), cells, strict=True):
            assert matches(cell, 100 * float(found[system, phenomenon, distance]))
    for metric, label in (("s_bleu", "s-BLEU"), ("d_bleu", "d-BLEU")):
        (cells,) = re.findall(rf"^{label} +([\d.]+) +([\d.]+)$", text, re.MULTILINE)
        for system, cell in zip(("sentence", "gtransformer"), cells, strict=True):
            assert matches(cell, float(found[system, metric, ""]))
    with (repo / "results" / "demo.csv").open(encoding="utf-8", newline="") as file:
        cells = [
            float(row["accuracy"])
            for row in csv.DictReader(file)
            if (row["system"], row["phenomenon"], row["distance"])
            == ("gtransformer", "pronoun", "1")
        ]
    assert len(cells) == 3
    assert f"gets {min(cells):.1%} to {max(cells):.1%}" in text
