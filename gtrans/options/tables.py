"""The tables of systems in the documents, written from the registry.

A table stands in its document between two comments, ``<!-- NAME: ... -->`` and
``<!-- end of NAME -->``; what stands around them is written by hand.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.options import docstrings
from gtrans.options.catalogue import models, summary


def systems() -> list[str]:
    """One row for every model class: what it is, with its page, its architectures, its units."""
    rows = ["| system | architectures | reads |", "| --- | --- | --- |"]
    for model, names in models().items():
        listed = ", ".join(f"`{name}`" for name in shortened(names))
        name, colon, rest = summary(model).partition(":")
        if page := page_of(model):
            name = f"[{name}]({page}.md)"
        rows.append(f"| {name}{colon}{rest} | {listed} | {', '.join(model.units)} |")
    return rows


def page_of(model: Any) -> str:
    """The page of a model class in ``docs/systems``; empty: there is none.

    It has the name of the model's module, or of a module that this one's name begins with.
    """
    module = model.__module__.rpartition(".")[2]
    pages = [page for page in EQUATIONS if f"{module}_".startswith(f"{page}_")]
    return max(pages, key=len, default="")


def windows() -> list[str]:
    """One row for every model class that reads windows: its neighbours by default, its sides."""
    rows = ["| system | before, after | sides |", "| --- | --- | --- |"]
    for model, names in models().items():
        if "window" in model.units:
            before, after = model.context_size
            sides = ", ".join(model.context_sides)
            rows.append(f"| `{names[0]}` | {before}, {after} | {sides} |")
    return rows


def equations(*modules: str) -> list[str]:
    """The tables of equations and files in the docstrings of these modules of ``gtrans``."""
    rows: list[str] = []
    for name in modules:
        for table in docstrings.tables(import_module(f"gtrans.{name}").__doc__ or ""):
            path = f"`gtrans/{name.replace('.', '/')}.py`"
            rows += [*([""] if rows else []), f"| where | in {path} |", *table[1:]]
    return rows


# The modules whose docstrings map the equations of a system, by the system's page.
EQUATIONS = {
    "concat_transformer": ("models.concat_transformer",),
    "gtransformer": ("models.gtransformer",),
    "gtransformer_bert": ("models.gtransformer_bert",),
    "gtransformer_context": ("models.gtransformer_context",),
    "gtransformer_memory": ("models.gtransformer_memory",),
    "flat_transformer": ("models.flat_transformer",),
    "memory_transformer": ("models.memory_transformer", "modules.memory"),
    "bert_context_transformer": ("models.bert_context_transformer", "modules.context_attention"),
    "gtrans_fusion": ("models.gtrans_fusion",),
    "han_transformer": ("models.han_transformer", "modules.hierarchical_attention"),
}
# The tables of each document, by the name in its comments.
DOCUMENTS: Mapping[str, Mapping[str, Callable[[], list[str]]]] = {
    "docs/systems/index.md": {"systems": systems},
    "docs/training.md": {"windows": windows},
    **{
        f"docs/systems/{name}.md": {"equations": partial(equations, *modules)}
        for name, modules in EQUATIONS.items()
    },
}


def documents(folder: Path) -> dict[Path, str]:
    """The documents of the project in ``folder`` with their tables as they should be.

    Raises:
        GtransError: a document or the place of its table is missing.
    """
    found = {}
    for name, tables in DOCUMENTS.items():
        path = folder / name
        if not path.is_file():
            raise GtransError(f"{path}: there is no such file; name the folder of the project.")
        text = path.read_text(encoding="utf-8")
        for table, rows in tables.items():
            between = rf"(?s)(<!-- {table}: [^>]*-->\n).*?(<!-- end of {table} -->)"
            place = re.search(between, text)
            if place is None:
                raise GtransError(
                    f"{path}: has no place for the table '{table}'; write the lines "
                    f"'<!-- {table}: generated -->' and '<!-- end of {table} -->'."
                )
            body = "".join(f"{row}\n" for row in rows())
            text = text[: place.end(1)] + body + text[place.start(2) :]
        found[path] = text
    return found


def shortened(names: list[str]) -> list[str]:
    """Architectures of a model without what they share with the last one written in full.

    The name of the model itself, which has the default sizes, is left out: ``m``, ``m_tiny``,
    ``m_base`` and ``other_base`` become ``m_tiny``, ``base`` and ``other_base``.
    """
    written, stem = [], ""
    for name in names[1:] or names:
        if stem and name.startswith(stem):
            written.append(name.removeprefix(stem))
        else:
            written.append(name)
            stem = name.rsplit("_", 1)[0] + "_"
    return written
