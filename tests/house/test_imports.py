"""Imports between the modules of the package: no circles, and arrows that point one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "gtrans"

# Layer -> the other layers that its modules may import. A layer is a package or a module; its
# modules may import one another. A layer that is not named here is only tested for circles.
MAY_IMPORT = {
    "errors": {"messages"},
    "messages": set(),
    "files": {"errors"},
    "languages": {"errors"},
    "lab.experiments": {"errors", "lab.corpora", "shipped"},
    "checkpoints.reading": {"errors", "files"},
    "libraries": {"errors", "shipped"},
    "modules": {"checkpoints.reading", "errors", "files", "libraries"},
    "data": {"errors", "files", "languages", "messages", "modules"},
    "text": {
        *("errors", "files", "languages", "libraries", "messages", "option_types"),
        *("data.binarised", "data.documents", "modules.bert"),
    },
    "train": {
        *("checkpoints.identity", "checkpoints.reading", "data.unit_options", "data.vocabulary"),
        *("environment", "errors", "files", "messages", "optim.amp", "option_types", "text"),
    },
    "formats": {
        *("errors", "languages", "libraries", "messages", "data.documents", "text.reader"),
    },
    "evaluation": {
        *("errors", "files", "languages", "messages", "data.documents", "text.reader"),
    },
}


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


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_arrows_point_one_way(repo: Path, layer: str) -> None:
    def belongs(module: str, place: str) -> bool:
        return f"{module}.".startswith(f"{PACKAGE}.{place}.")

    allowed = {layer, *MAY_IMPORT[layer]}
    edges = graph(modules(repo), types=True)
    layered = {module: found for module, found in edges.items() if belongs(module, layer)}
    if layer.startswith("lab.") and "gtrans.lab" not in edges:
        pytest.skip("gtrans.lab is not installed")
    assert layered, "there is no such layer"
    wrong = [
        f"{module} imports {other}"
        for module, found in layered.items()
        for other in sorted(found)
        if other not in (PACKAGE, f"{PACKAGE}.version")  # its place and its version
        and not any(belongs(other, place) for place in allowed)
    ]
    assert wrong == []


def test_nothing_outside_the_lab_imports_it(repo: Path) -> None:
    """What :mod:`gtrans.lab` registers is found by one look-up, not by an import."""
    edges = graph(modules(repo), types=True)
    if "gtrans.lab" not in edges:
        pytest.skip("gtrans.lab is not installed")
    wrong = [
        f"{module} imports {other}"
        for module, found in edges.items()
        if not module.startswith("gtrans.lab")
        for other in found
        if other.startswith("gtrans.lab")
    ]
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
