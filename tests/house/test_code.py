"""How the code of the package is written: one thought in a line, one name for one class."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
MODULES = sorted((REPO / "gtrans").rglob("*.py"))
IDS = [str(path.relative_to(REPO)) for path in MODULES]
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Phrases that circle around a noun: say who does what.
AROUND = re.compile(
    r"\b(?:that|those) of\b|\bwhat (?:is|it|has|they|are)\b|\bof which\b|\bsuch (?:a|an) one\b"
)
AROUND_MOST = 0.5  # in 1,000 words of docstrings


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
        if text:
            yield text


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_one_thought_in_a_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"# fmt: (?:skip|off)", text), "let the formatter break the line"
    for node in ast.walk(ast.parse(text)):
        where = f"line {getattr(node, 'lineno', 0)}"
        assert not isinstance(node, ast.NamedExpr), f"{where}: assign, then test"
        for part in ast.iter_child_nodes(node):
            literal = isinstance(part, ast.Starred) and isinstance(part.value, ast.Tuple | ast.List)
            assert not literal, f"{where}: write the items without the star"


def test_a_class_name_is_taken_once() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(REPO)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_docstrings_say_who_does_what() -> None:
    words, around = 0, []
    for path in MODULES:
        for text in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
            words += len(text.split())
            around += [f"{path.name}: {hit}" for hit in AROUND.findall(text)]
    assert len(around) <= AROUND_MOST * words / 1000, around
