"""How pages are written: the field's terms, links, names that can be installed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from gtrans.cli import main
from gtrans.cli.shared.dispatch import all_commands
from gtrans.lab import analyse

REPO = Path(__file__).parents[2]
PAGES = sorted(
    [*REPO.glob("*.md"), *(REPO / "docs").rglob("*.md"), REPO / "exp_gtransformer/README.md"]
)
IDS = [str(page.relative_to(REPO)) for page in PAGES]
# The left column of the terms: what pages, help and messages say otherwise.
TERMS = {
    r"trained on (for|in) |, trained on,": "continued training; document batches",
    r"lossless start|(closed|open) gates|gates closed|gates? a little": "gate bias 10, gate bias 3",
    r"what is loaded|loaded parameters|whole rate|of the rate": "pretrained parameters; multiplier",
    r"authors' program|the program's": "the authors' code",
    r"(?<!quotation )(?<!-)\bmarks\b(?! of direction)": "special tokens",
    r"(?<![-_])\b(pieces?|symbols)\b(?! and emoji)": "subwords; vocabulary entries",
    r"embedded corpus|generated corpus": "synthetic corpus",
    r"(?<![\d.,])00[0-4]\b(?![.,]?\d)": "the paper's name",
    r"\blevel (with|or)\b|\bahead\b|\b(is|are) behind\b": "no significant difference; +x; -x",
    r"not 0\.2 chrF2 worse": "non-inferiority (margin 0.2 chrF2)",
    r"(false|random) context\b|in other ways": "shuffled context",
    r"(forced|free) (document|decod)|decoded freely": "sentence-constrained, unconstrained",
    r"\b([Mm]odels?|[Ee]ncoder|[Dd]ecoder|[Uu]pdates?|attention|BERT|Transformer|chunk) reads?\b"
    r"|\blooks? at\b": "attends to, sees",
    r"\b(is|are) refused\b|\brefuses\b|\b(is|are) one line\b": "is rejected with an error",
    r"(?<![-/_.\w])dev\b(?![/_.])": "development set",
    r"\brecipes?\b": "run script, or config",
    r"identity (of|unknown)|\b(it|that|checkpoint|model) carries\b": "fingerprint; stores",
    r"\b(remarks?|glance|house|contract)\b|read again": "note; summary; checks; interface; review",
    r"nats (a|per) sentence": "nats per token",
    r"\bweb pages\b|\bstory\b": "Debian, chats+Bible",
    r"(?<!for )(?<![-*])\binstances?\b(?!,? which| ?\}|: chunks| or )": "chunk",
    r"not (yet )?tried|was not measured|with an earlier version": "(leave it out)",
    r"so many|that of which|\bOf [A-Z]\w+, ": "(one clause at a time)",
}  # fmt: skip


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(text: str) -> str:
    """A page without code, tables, figures, generated parts and addresses."""
    text = re.sub(r"<!-- generated:.*?<!-- end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\|.*$|^!\[.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", text)


def private(text: str) -> set[str]:
    """The private terms of a text, each with what to write instead."""
    hits = ((re.search(term, text), instead) for term, instead in TERMS.items())
    return {f"{hit[0]!r}: write {instead}" for hit, instead in hits if hit}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_page_has_the_terms_of_the_field(page: Path) -> None:
    text = re.sub(r"^( *)```.*?^\1```$|`[^`]*`", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    assert not private(re.sub(r"\]\([^)]*\)", "]", text))


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_p_values_stand_on_the_pages_of_results(page: Path) -> None:
    if str(page.relative_to(REPO)) not in {"docs/results.md", "docs/evaluation.md"}:
        assert not re.search(r"\bp [=<] 0", prose(text_of(page)))


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^( *)```.*?^\1```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", "#")):
            continue
        path, _, anchor = target.partition("#")
        assert (page.parent / path).exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", text_of(page.parent / path), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
            }, target


def strings(path: Path) -> str:
    """The texts of a module: help, messages, warnings, labels; of docstrings its own alone."""
    tree = ast.parse(text_of(path))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node.value for node in ast.walk(tree)
             if isinstance(node, ast.Constant) and id(node) not in docs]  # fmt: skip
    own = ast.get_docstring(tree) if path.is_relative_to(REPO / "scripts") else ""
    return "\n".join(text for text in (own, *map(str, texts)) if text and " " in text.strip())


def values(node: object) -> list[str]:
    """The texts of a YAML file: what --list and generated tables print."""
    if isinstance(node, dict | list):
        inner = node.values() if isinstance(node, dict) else node
        return [text for part in inner for text in values(part)]
    return [node] if isinstance(node, str) and " " in node else []


@pytest.mark.parametrize(
    "path", sorted((REPO / "exp_gtransformer").rglob("*.yaml")), ids=lambda path: path.stem
)
def test_catalogues_have_the_terms_of_the_field(path: Path) -> None:
    assert not private("\n".join(values(yaml.safe_load(text_of(path)))))


def test_messages_and_scripts_have_the_terms_of_the_field() -> None:
    """Strings of modules; of run scripts, configurations and the Makefile the comments."""
    folders = "gtrans/**/*.py", "scripts/*.py", "scripts/*.sh", "exp_gtransformer/*.*", "configs/*"
    found = {}
    for path in [REPO / "Makefile", *(path for folder in folders for path in REPO.glob(folder))]:
        text = text_of(path)
        lines = re.findall(r"(?:^|\s)#+ ?(.*)", text) or [text]
        if wrong := private(strings(path) if path.suffix == ".py" else "\n".join(lines)):
            found[str(path)] = wrong
    assert not found


def test_help_has_the_terms_of_the_field(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of all commands and of the parts of analyse, as printed."""
    monkeypatch.setenv("COLUMNS", "1000")
    calls = [["--help"], ["train", "--help-all"], *([name, "--help"] for name in all_commands())]
    for call in [*calls, *(["analyse", part, "--help"] for part in analyse.PARTS)]:
        with pytest.raises(SystemExit):
            main(call)
        shown = capsys.readouterr().out.partition("\nOptions of fairseq\n")[0]
        assert len(shown) > 500 and not private(shown), call


def test_troubleshooting_quotes_what_commands_say() -> None:
    source = " ".join(text_of(path) for path in (REPO / "gtrans").rglob("*.py"))
    heads = re.findall(
        r"^\*\*\d+\. .*?\*\*", text_of(REPO / "docs/troubleshooting.md"), re.MULTILINE
    )
    quotes = re.findall(r'"([^"]+)"', " ".join(heads))
    assert len(quotes) >= 5
    for quote in quotes:
        for part in re.split(r"^train |[\d,]+|\.\.\.", quote):
            assert part.strip(" )") in source, quote


def sources() -> list[Path]:
    folders = ("gtrans", "scripts", "exp_gtransformer", "configs", "tests")
    kinds = {".py", ".sh", ".yaml", ".txt", ".json", ".html"}
    return [
        path
        for folder in folders
        for path in (REPO / folder).rglob("*")
        if path.suffix in kinds and path != Path(__file__)
    ]


def test_nothing_tells_to_install_the_stranger_s_package() -> None:
    """`gtrans` on PyPI is a client of a web service; ours is installed from its files."""
    wrong = re.compile(r"pip install (-U )?['\"]?gtrans(\[|['\"]?\s|['\"`]?$)", re.MULTILINE)
    for path in [*PAGES, *sources(), REPO / "Makefile"]:
        text = path.read_text(encoding="utf-8", errors="ignore").replace(
            "`pip install gtrans` brought", ""
        )
        found = wrong.search(text)
        assert not found, f"{path}: {found[0] if found else ''}"
