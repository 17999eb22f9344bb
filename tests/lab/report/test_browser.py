"""The document reader in a browser: headless Chromium, if there is one."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import NAMES, Browser, chromium
from support.run_folders import HOSTILE, contrastive_set, finished_run
from support.score_corpus import text, write

from gtrans.cli import main

program = chromium()
pytestmark = pytest.mark.skipif(
    program is None, reason=f"no browser on PATH: {', '.join(NAMES)} (Debian: chromium)"
)
CURRENT = "document.querySelector('#reader-sentences [aria-current]')"
FOCUSED = "document.activeElement"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert program is not None
    profile = tempfile.mkdtemp()
    with Browser(program, Path(profile)) as started:
        yield started
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    sets, a, b = contrastive_set(folder)
    run = finished_run(folder / "out")
    words = ["--items", f"a={a}", f"b={b}", "--set", sets, "--output", str(folder / "page.html")]
    assert main(["report", str(run), *words]) == 0
    return (folder / "page.html").as_uri()


def settle(browser: Browser, expression: str) -> None:
    """Wait until something is so, which follows a moment after a key."""
    end = time.monotonic() + 20
    while not browser.value(f"Boolean({expression})"):
        assert time.monotonic() < end, expression
        time.sleep(0.05)


def cells(browser: Browser) -> list[str]:
    """The texts of the selected sentence."""
    return list(browser.value(f"[...{CURRENT}.querySelectorAll('p')].map((one) => one.innerText)"))


def document(browser: Browser) -> str:
    return str(browser.value("document.getElementById('reader-doc').value"))


def test_it_opens_without_errors_and_without_network(browser: Browser, page: str) -> None:
    browser.open(page)
    assert HOSTILE in cells(browser)[0]
    assert browser.value("document.querySelectorAll('script').length") == 2
    problems = [
        event
        for event in browser.events
        if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown",
                               "Page.javascriptDialogOpening")
    ]  # fmt: skip
    assert problems == []
    loaded = {
        event["params"]["request"]["url"].split("#")[0]
        for event in browser.events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert loaded == {page}


def test_keys(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.press("j")
    assert cells(browser)[1] == "It was black."
    assert browser.value(f"{FOCUSED} === {CURRENT}")
    assert cells(browser)[2] == "(empty)"
    browser.press("ArrowDown", "j")  # over the end of the document
    assert document(browser) == "1"
    browser.press("k")
    assert document(browser) == "0" and cells(browser)[1].startswith("Then it ran")
    browser.press("Home")
    assert cells(browser)[1].startswith("The cat sat")
    browser.press("l")
    assert document(browser) == "1"
    direction = f"getComputedStyle({CURRENT}.querySelectorAll('p')[2]).direction"
    assert browser.value(direction) == "rtl"
    browser.press("h")
    assert document(browser) == "0"
    browser.press("?")
    assert browser.value("document.getElementById('reader-keys').open")


def test_marks(browser: Browser, page: str) -> None:
    browser.open(page)
    marks = f"[...{CURRENT}.querySelectorAll('mark')].map((one) => one.innerText)"
    assert browser.value(marks) == ["🐈", "a"]
    browser.press("m")
    assert browser.value(marks) == ["a", "cat"] or browser.value(marks) == ["cat", "a"]
    browser.press("m")
    assert browser.value(marks) == []
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    browser.press("j")
    assert browser.value(outline) == "solid"  # the focus is seen


def test_search_and_loss_of_chrf(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.press("/", *"GARDEN")
    settle(browser, "document.getElementById('reader-status').innerText.startsWith('2 sentences')")
    assert cells(browser)[1] == "Then it ran into the old garden."
    browser.press("Enter", "n")
    assert document(browser) == "1"
    browser.press("p")
    assert document(browser) == "0"
    browser.value("document.getElementById('reader-clear').click()")
    browser.value("document.getElementById('reader-drop').focus()")
    browser.press("1", "0", "0", "1")
    settle(browser, "document.getElementById('reader-status').innerText.startsWith('No sentence')")


def test_contrastive_items_that_a_system_gets_wrong(browser: Browser, page: str) -> None:
    browser.open("about:blank")
    browser.open(f"{page}#text=1&doc=2&wrong=1&right=0")
    status = str(browser.value("document.getElementById('reader-status').innerText"))
    assert status.startswith("1 item found in 1 document. Document 2 of 2")
    verdicts = str(browser.value("document.querySelector('.verdicts').innerText"))
    assert "✓ right" in verdicts and "✗ wrong" in verdicts
    assert cells(browser) == ["Ein Tisch.", "A table.", "A table."]
    browser.press("j")
    assert cells(browser) == ["Er ist 2.", "It is 2.", "He is 2."]


@pytest.mark.parametrize(
    "address",
    [
        *("text=length&doc=1", "text=1&doc=1&mark=baseline", "doc=1&mark=none&wrong=7&of=x"),
        *("text=-1&doc=x&sentence=y", "text=1&doc=99&drop=3&sentence=-5", "doc=1&sentence=9999"),
    ],
)
def test_an_address_that_is_not_of_this_page(browser: Browser, page: str, address: str) -> None:
    browser.open("about:blank")
    browser.events.clear()
    browser.open(f"{page}#{address}")
    assert len(cells(browser)) > 1
    mark = "document.getElementById('reader-mark').selectedOptions[0]"
    assert browser.value(f"{mark} !== undefined && !{mark}.disabled")
    assert not [one for one in browser.events if one["method"] == "Runtime.exceptionThrown"]
    browser.press("j", "m", "l", "h")
    assert not [one for one in browser.events if one["method"] == "Runtime.exceptionThrown"]


def test_every_control_has_a_name(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.call("Accessibility.enable")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    controls = {"button", "checkbox", "combobox", "link", "searchbox", "spinbutton", "image"}
    named = [node["name"]["value"] for node in nodes
             if not node["ignored"] and node["role"]["value"] in controls]  # fmt: skip
    assert len(named) > 10 and all(named)


@pytest.mark.parametrize("width", [320, 1400])
def test_the_page_is_never_wider_than_the_window(browser: Browser, page: str, width: int) -> None:
    browser.open(page)
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip
    assert browser.value("document.documentElement.scrollWidth") <= width
    browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.long
def test_a_large_test_set_opens_quickly(browser: Browser, tmp_path: Path) -> None:
    """3,000 sentences of five systems; a document at a time is in the page."""
    run = tmp_path / "out"
    documents = [[f"Sentence {n} of {d} says that it is here." for n in range(20)]
                 for d in range(150)]  # fmt: skip
    other = [[sentence.replace("that", "how") for sentence in one] for one in documents]
    finished_run(run, {f"system{n}": other for n in range(5)})
    write(tmp_path / "test.en", text(documents))
    write(tmp_path / "test.de", text(documents))
    page = tmp_path / "page.html"
    assert main(["report", str(run), "--output", str(page)]) == 0
    browser.open(page.as_uri())
    assert browser.value("document.querySelectorAll('#reader-sentences li').length") == 20
    assert browser.value("performance.timing.loadEventEnd - performance.timing.fetchStart") < 5000
    asked = "performance.now()"
    start = browser.value(asked)
    browser.press("l")
    assert document(browser) == "1"
    assert browser.value(asked) - start < 2000
