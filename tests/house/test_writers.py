"""Every file is written by the one writer, ``gtrans/files.py``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

WRITERS = {"replacing", "atomic_writer", "binary_writer", "copy_file"}
# Calls that write, rename or copy files, as they are written in the code.
WRITING = {
    "os.replace", "os.rename", "shutil.copy", "shutil.copyfile", "shutil.copytree", "shutil.move",
    "torch.save", "np.save", "save_file",
}  # fmt: skip
METHODS = {"write_text", "write_bytes", "savefig", "symlink_to", "hardlink_to"}
# Module -> why it writes in another way.
EXCEPTIONS = {
    "files.py": "it is the writer",
    "translating/output.py": "a file that grows by a line with every batch",
}


def writes(tree: ast.AST) -> Iterator[int]:
    """The lines of calls that write a file, outside a function that calls the writer."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef):
            names = {node.id for node in ast.walk(child) if isinstance(node, ast.Name)}
            if names & WRITERS:
                continue
        if isinstance(child, ast.Call) and _writes(child):
            yield child.lineno
        yield from writes(child)


def _writes(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name in WRITING or name.rpartition(".")[2] in METHODS:
        return True
    if name.rpartition(".")[2] != "open":
        return False
    modes = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
    given = [str(mode.value) for mode in modes if isinstance(mode, ast.Constant)]
    return any(re.fullmatch("[wax+brt]*[wax+][wax+brt]*", mode) for mode in given)


def test_all_files_go_through_the_writer(repo: Path) -> None:
    found = {}
    for path in sorted((repo / "gtrans").rglob("*.py")):
        lines = list(writes(ast.parse(path.read_text(encoding="utf-8"))))
        if lines:
            found[str(path.relative_to(repo / "gtrans"))] = lines
    assert found.keys() == EXCEPTIONS.keys(), found
