"""Imports between modules and folders of the package: no circles, arrows that point one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "gtrans"

# Folder -> the other folders that its modules may import, from the lowest to the highest.
MAY_IMPORT: dict[str, set[str]] = {
    "modules": set(),
    "optim": set(),
    "data": {"modules"},
    "text": {"data", "modules"},
    "checkpoints": {"data", "modules", "text"},
    "evaluation": {"data", "text"},
    "train": {"checkpoints", "data", "modules", "optim", "text"},
    "models": {"checkpoints", "data", "modules", "optim"},
    "criterions": {"data", "models", "modules"},
    "search": {"data", "models", "modules", "text"},
    "translating": {"checkpoints", "data", "evaluation", "models", "modules", "search", "text"},
    "tasks": {
        "checkpoints",
        "criterions",
        "data",
        "evaluation",
        "models",
        "modules",
        "optim",
        "search",
        "text",
        "train",
        "translating",
    },
    "conversion": {
        "checkpoints",
        "data",
        "models",
        "modules",
        "tasks",
        "text",
        "train",
        "translating",
    },
    "cli": {
        "checkpoints",
        "conversion",
        "data",
        "evaluation",
        "models",
        "search",
        "tasks",
        "text",
        "train",
        "translating",
    },
    "lab": {
        "checkpoints",
        "cli",
        "data",
        "evaluation",
        "modules",
        "search",
        "text",
        "train",
        "translating",
    },
    "formats": {"data", "text"},
}

# Files beside the folders: all folders may import them, they import only one another, but for the
# two by which the package begins.
ENTRANCES = {"": {"translating"}, "__main__": {"cli"}}
ANNEXES = ("lab", "formats")


def modules(repo: Path) -> dict[str, Path]:
    """Name of every module to its file."""
    found = {}
    for path in sorted((repo / PACKAGE).rglob("*.py")):
        parts = path.relative_to(repo).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(node: ast.AST, types: bool) -> Iterator[str]:
    """What is imported anywhere below ``node``: at the top, in functions, for ``types`` only."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not types:
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: write the import with its full name"
        for alias in node.names:
            yield f"{node.module}.{alias.name}"
    for child in ast.iter_child_nodes(node):
        yield from imported(child, types)


@cache
def imports_of(code: str, types: bool) -> frozenset[str]:
    """The names that a module imports."""
    return frozenset(imported(ast.parse(code), types))


def graph(known: dict[str, Path], types: bool) -> dict[str, set[str]]:
    """Every module and the modules of the package that it imports."""
    edges: dict[str, set[str]] = {}
    for module, path in known.items():
        names = imports_of(path.read_text(encoding="utf-8"), types)
        # Of "from a.b import c", c is a module or stands in the module a.b.
        found = {name if name in known else name.rpartition(".")[0] for name in names}
        edges[module] = (found & known.keys()) - {module}
    return edges


@pytest.mark.parametrize("types", [False, True], ids=["at run time", "with those for types"])
def test_no_circle(repo: Path, types: bool) -> None:
    TopologicalSorter(graph(modules(repo), types)).prepare()  # a CycleError names the circle


def room(module: str) -> str:
    """The folder of a module, or the module itself where it is in none; "" for the package."""
    return module.removeprefix(PACKAGE).lstrip(".").split(".")[0]


def folders(repo: Path) -> set[str]:
    """The folders of the package that hold code."""
    return {path.parent.name for path in (repo / PACKAGE).glob("*/*.py")}


def arrows(repo: Path) -> dict[tuple[str, str], list[str]]:
    """From one room to another: the imports between them."""
    found: dict[tuple[str, str], list[str]] = {}
    for module, others in graph(modules(repo), types=True).items():
        for other in others:
            if room(module) != room(other):
                text = f"{module} imports {other}"
                found.setdefault((room(module), room(other)), []).append(text)
    return found


def test_every_folder_has_a_row(repo: Path) -> None:
    assert folders(repo) == MAY_IMPORT.keys()


def test_table_has_no_circle() -> None:
    TopologicalSorter(MAY_IMPORT).prepare()
    assert not any(set(ANNEXES) & allowed for allowed in MAY_IMPORT.values())


def test_arrows_are_those_of_the_table(repo: Path) -> None:
    rooms = folders(repo)
    wrong = []
    for (start, end), imports in arrows(repo).items():
        allowed = MAY_IMPORT[start] if start in rooms else ENTRANCES.get(start, set())
        if end in rooms and end not in allowed:
            wrong += imports
    assert wrong == []


def test_no_test_imports_from_another(repo: Path) -> None:
    """What several tests share stands in ``tests/support``."""
    files = sorted((repo / "tests").rglob("*.py"))
    assert len(files) > 50
    for path in files:
        for name in imported(ast.parse(path.read_text("utf-8")), types=True):
            parts = name.split(".")
            a_test = any(part == "conftest" or part.startswith("test_") for part in parts[:-1])
            assert parts[0] != "tests" and not a_test, f"{path}: {name}"
