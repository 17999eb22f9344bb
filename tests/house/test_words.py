"""The field's terms in pages, help, messages and code; links; names that can be installed."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
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
    r"(?<!quotation )(?<!order )(?<!-)\bmarks\b(?!\s+of\s+direction)": "special tokens",
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


# Terms of pages that comments and docstrings may have: a function reads a file.
ONLY_IN_PAGES = {"attends to, sees", "(one clause at a time)", "nats per token",
                 "pretrained parameters; multiplier", "no significant difference; +x; -x",
                 "is rejected with an error", "(leave it out)"}  # fmt: skip
# Words of identifiers, and the names that have one rightly: of libraries, of options that users
# type, of pretrained parameters, of lines in a plot. Formats have marks, Moses has symbols.
WORDS = {"identity", "identities", "piece", "pieces", "mark", "marks", "symbol", "symbols",
         "instance", "instances", "shipped", "recipe", "recipes"}  # fmt: skip
RIGHTLY = {
    *("Identity", "instance", "mark_non_differentiable", "symbols", "add_symbol", "total_symbols"),
    *("extra_symbols_to_ignore", "symbols_to_strip_from_output", "SentencePieceProcessor"),
    *("SentencePieceTrainer", "SentencePiecePipeline", "BertWordPieceTokenizer"),
    *("piece_to_id", "id_to_piece", "get_piece_size"),
    *("sentence_marks", "sample_instances", "bpe_symbols", "copy_symbols", "copies_symbols"),
    *("mark_pretrained", "_BYTE_ORDER_MARK"),
}
OF_PUNCTUATION = {
    *("text/moses.py", "translating/unknown_words.py", "translating/translator.py"),
    *("evaluation/boundaries.py", "evaluation/table.py", "evaluation/characters.py"),
}


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def private(text: str) -> set[str]:
    """The private terms of a text, each with what to write instead."""
    hits = ((re.search(term, text), instead) for term, instead in TERMS.items())
    return {f"{hit[0]!r}: write {instead}" for hit, instead in hits if hit}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_page_has_the_terms_of_the_field(page: Path) -> None:
    text = re.sub(r"^( *)```.*?^\1```$|`[^`]*`", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    assert not private(re.sub(r"\]\([^)]*\)", "]", text))


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


def comments(text: str) -> Iterator[str]:
    """The comments and docstrings of a module, without the code in them."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""'))
        if is_docstring or token.type == tokenize.COMMENT:
            yield re.sub(r"``[^`]*``|:\w+:`[^`]*`|`[^`]*`", "", token.string)


def identifiers(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.string


def modules() -> list[Path]:
    """The package and the scripts, but for files about punctuation and markup."""
    package = REPO / "gtrans"
    paths = list((REPO / "scripts").glob("*.py"))
    for path in package.rglob("*.py"):
        name = str(path.relative_to(package))
        if name not in OF_PUNCTUATION and not name.startswith("formats/"):
            paths.append(path)
    return paths


def test_comments_and_docstrings_have_the_terms_of_the_field() -> None:
    found = {}
    for path in modules():
        hits = set()
        for comment in comments(text_of(path)):
            hits |= {
                hit for hit in private(comment) if hit.split(": write ")[1] not in ONLY_IN_PAGES
            }
        if hits:
            found[str(path.relative_to(REPO))] = hits
    assert not found


def test_names_have_the_terms_of_the_field() -> None:
    found = {}
    for path in modules():
        for name in set(identifiers(text_of(path))) - RIGHTLY:
            words = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_")
            if WORDS & set(words) or name == "made_from":
                found[name] = str(path.relative_to(REPO))
    assert not found


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
