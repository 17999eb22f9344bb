"""The house rules for tests: what several share stands in ``tests/support/``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def imported_modules(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever it does so; ``from a import b`` gives ``a.b``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imports_a_test(module: str) -> bool:
    parts = module.split(".")
    return parts[0] in ("", "tests") or any(
        part == "conftest" or part.startswith("test_") for part in parts
    )


def test_no_test_imports_from_another(repo: Path) -> None:
    files = sorted((repo / "tests").rglob("*.py"))
    assert len(files) > 50
    found = {
        str(path.relative_to(repo)): bad
        for path in files
        if (bad := [module for module in imported_modules(path) if imports_a_test(module)])
    }
    assert not found


def test_only_support_and_conftests_stand_beside_tests(repo: Path) -> None:
    tests = repo / "tests"
    beside = {
        str(path.relative_to(tests))
        for path in tests.rglob("*.py")
        if not path.name.startswith("test_") and path.name != "conftest.py"
    }
    # The frozen checkpoints lie next to the script that made them.
    assert {Path(name).parts[0] for name in beside} == {"frozen", "support"}
    assert not list(tests.glob("test_*.py")), "a test stands in the folder of its subject"
