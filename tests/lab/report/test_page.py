"""``gtrans report``: what the page is made of, and that no text gets out of its place."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.run_folders import BASELINE, HOSTILE, SOURCE, contrastive_set, finished_run
from support.score_corpus import HYPOTHESES, text, write

from gtrans.cli import main
from gtrans.lab.analysis.figures import Figure, Panel, Point, Series, to_json

VOID = {"wbr", "meta", "input", "br", "link", "img"}


class Page(HTMLParser):
    """The elements of a page, with the text in each; fails where one is not closed."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            self.found.append((tag, dict(attrs), ""))
        else:
            self.open.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        name, attributes, parts = self.open.pop()
        assert name == tag
        self.found.append((name, attributes, "".join(parts)))
        if self.open:
            self.open[-1][2].extend([*parts, " "] if tag in ("td", "th") else parts)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1][2].append(data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, words) for name, attributes, words in self.found if name == tag]

    def reader(self) -> list[dict[str, object]]:
        (data,) = (words for attributes, words in self.all("script") if attributes.get("id"))
        return list(json.loads(data))


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a run with hostile text in every place, and of a second run of the same text."""
    folder = tmp_path_factory.mktemp("report")
    first = finished_run(folder / "<b>a")
    second = finished_run(folder / "second", {"sentence": HYPOTHESES})
    sets, a, b = contrastive_set(folder)
    lines = (Series(HOSTILE, (Point(1, 1.5), Point(2, 0.25))),)
    figure = Figure("Entropy", (Panel("encoder", "layer", "bits", lines),))
    found = write(folder / "analysis.json", json.dumps(to_json(figure)))
    page = folder / "page.html"
    assert main([
        "report", f"first={first}", str(second), "--output", str(page), "--items", f"a={a}",
        f"b={b}", "--set", sets, "--analysis", found,
    ]) == 0  # fmt: skip
    return page.read_text(encoding="utf-8")


def test_scores_stand_side_by_side(content: str) -> None:
    page = Page(content)
    rows = [words.split() for _, words in page.all("tr")]
    (head,) = (row for row in rows if row[:1] == ["system"])
    assert head == ["system", "s-BLEU", "chrF2"]
    systems = [row[0] for row in rows]
    assert systems[1:4] == ["first/sentence", "finetune", "second/sentence"]
    (finetune,) = (words for _, words in page.all("tr") if words.startswith("finetune"))
    assert re.search(r"\d\d\.\d\d to \d\d\.\d\d", finetune.replace("\n", " "))
    assert re.search(r"\+\d+\.\d\d, p [0-9.]+", finetune)
    assert "pronoun" in content and "50.0" in content  # b gets one of two items


def test_settings_and_hardware(content: str) -> None:
    rows = [" ".join(words.split()) for _, words in Page(content).all("tr")]
    assert "trained on CPU CPU CPU" in rows
    assert "parameters 1,234 1,234 1,234" in rows
    assert "time 1 min 05 s 1 min 05 s 1 min 05 s" in rows
    assert "--arch finetune_tiny sentence_tiny sentence_tiny" in rows
    assert not any(row.startswith("--lr ") for row in rows)  # the same for all
    terms = [words for _, words in Page(content).all("dd")]
    assert "5e-4" in terms and "1e-3" not in terms  # the last one counts


def test_charts_are_drawings_with_words(content: str) -> None:
    page = Page(content)
    words = [attributes["aria-label"] for attributes, _ in page.all("div")
             if attributes.get("role") == "img"]  # fmt: skip
    assert any("training: loss" in str(one) and "finetune 5.9" in str(one) for one in words)
    assert any("weight_group_2 0.7" in str(one) for one in words)
    assert any(f"encoder (bits) at the end: {HOSTILE} 0.25" in str(one) for one in words)
    assert len(page.all("svg")) == len(words) == 4
    assert "DejaVu" not in content  # the fonts of the page


def test_nothing_is_loaded_from_elsewhere(content: str) -> None:
    page = Page(content)
    loaded = [
        value
        for _, attributes, _ in page.found
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href", "data", "action")
    ]
    assert loaded and all(str(value).startswith("#") for value in loaded)
    assert not re.search(r"@import|url\((?!#)", content)
    (policy,) = (attributes["content"] for attributes, _ in page.all("meta")
                 if attributes.get("http-equiv") == "Content-Security-Policy")  # fmt: skip
    assert str(policy).startswith("default-src 'none'")


def test_identifiers_are_unique_and_labels_name_something(content: str) -> None:
    page = Page(content)
    names = [attributes["id"] for _, attributes, _ in page.found if "id" in attributes]
    assert len(names) == len(set(names))
    for _, attributes, _ in page.found:
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in names
        if str(attributes.get("href", "")).startswith("#"):
            assert str(attributes["href"])[1:] in names
    scripted = set(re.findall(r'\$\("([\w-]+)"\)', content))
    assert scripted and scripted <= set(names)


def test_text_is_never_markup(content: str) -> None:
    page = Page(content)
    scripts = page.all("script")
    assert len(scripts) == 2  # the texts, and the program of the page
    assert "<b>a" not in content and "&lt;b&gt;a" in content
    assert "alert(1)" in content and "<script>alert" not in content
    texts, items = page.reader()
    assert [one["s"] for one in texts["documents"]] == SOURCE  # type: ignore[index,union-attr]
    assert texts["systems"] == ["first/sentence", "finetune", "second/sentence"]
    assert HOSTILE in texts["documents"][0]["h"][2][0]  # type: ignore[index]
    assert items["judged"] == ["a", "b"]


def test_differences_and_scores_of_sentences(content: str) -> None:
    texts = Page(content).reader()[0]
    document = texts["documents"][0]  # type: ignore[index]
    right, (baseline, ours, _) = document["r"][0], document["h"][0]
    assert (right, baseline) == ("The cat sat on the mat.", BASELINE[0][0])
    assert document["d"][0][0] == [4, 5, 4, 7]  # a cat of one character for one of three letters
    begin, end, *other = document["d"][0][1]
    assert (ours[begin:end], right[slice(*other)]) == ("a", "the")
    assert document["b"][0][0] == []  # the baseline itself
    assert document["c"][1][0] == 0.0 and document["c"][0][1] > 60


def test_the_same_page_again(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "out")
    pages = [tmp_path / "1.html", tmp_path / "2.html"]
    for page in pages:
        assert main(["report", str(run), "--output", str(page)]) == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_json_beside_a_table_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its scores are not computed again, but those of another translation are refused."""
    run, page = finished_run(tmp_path / "out"), tmp_path / "page.html"
    words = ["--hyp", *(f"{name}={run}/test.{name}.en" for name in ("sentence", "finetune"))]
    words += ["--ref", str(tmp_path / "test.en"), "--metrics", "s_bleu", "chrf", "--json"]
    assert main(["score", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    found["systems"]["finetune"]["s_bleu"]["score"] = 12.345
    for name, score in (("sentence", 71.5), ("finetune", 72.5)):  # a metric of others
        found["systems"][name]["edits"] = {"score": score, "higher_is_better": False}
    write(run / "scores.finetune.json", json.dumps(found))
    assert main(["report", str(run), "--output", str(page)]) == 0
    assert "are computed" not in capsys.readouterr().err
    assert "12.3" in page.read_text()
    assert re.search(r'edits <span title="lower is better">', page.read_text())
    assert re.search(r'class="best"><span class="score">71.50<', page.read_text())
    write(run / "test.finetune.en", text(BASELINE))
    page.unlink()
    assert main(["report", str(run), "--output", str(page)]) == 1
    assert "one of them is of another time" in capsys.readouterr().err
    assert not page.exists()
