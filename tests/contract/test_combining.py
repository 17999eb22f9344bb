"""docs/combining.md: every cell of its table of systems and parts is tried."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from fairseq.models import ARCH_MODEL_REGISTRY
from support.contract import Built, Case, batch_of, build, classes, loss_of, searched_and_read
from support.suites import one_in

from gtrans.environment import import_plugin
from gtrans.errors import GtransError
from gtrans.models.base.presets import resolve_sizes
from gtrans.tasks.options import DocumentTranslationConfig

PAGE = Path(__file__).parents[2] / "docs" / "combining.md"
# So that a part is as small as the models here.
SMALL = {"encoder_global_layers": 1, "decoder_global_layers": 1, "cross_global_layers": 1}


def options_of(flags: str) -> dict[str, Any]:
    """The options on a command line, as keys and values."""
    words = flags.split()
    names = [word.removeprefix("--").replace("-", "_") for word in words[::2]]
    return dict(zip(names, map(yaml.safe_load, words[1::2]), strict=True))


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        arch: the architecture.
        options: further options of the system.
        cells: the options of a part, as they are typed -> ``yes`` or ``no``.
    """

    arch: str
    options: str
    cells: dict[str, str]

    def __str__(self) -> str:
        return f"{self.arch}{self.options}".replace(" ", "")

    def built(self, data: Path, *parts: str) -> Built:
        """A tiny model with these parts; GtransError where they are refused."""
        model = ARCH_MODEL_REGISTRY[self.arch]
        given: dict[str, Any] = {}
        for part in (self.options, *parts):
            given |= options_of(part)
        unit = given.pop("unit", model.inputs.units[0])
        cfg = model.options()
        known = {field.name for field in dataclasses.fields(cfg)}
        # As the command line and configuration files do it.
        of_task = {field.name for field in dataclasses.fields(DocumentTranslationConfig)}
        of_model = {name: value for name, value in given.items() if name not in of_task}
        resolve_sizes({**of_model, "_name": self.arch}, model.options, model.presets)
        if self.arch == "gtransformer_mbart_large":
            given |= {"langs": "en,de", "share_all_embeddings": False}
        given |= {name: value for name, value in SMALL.items() if name in known}
        sides = model.inputs.context_sides[0] if unit == "window" else None
        return build(Case(self.arch, unit, sides), data, **given)


def table() -> list[Row]:
    """The rows of the page."""
    text = PAGE.read_text("utf-8")
    table = text[text.index("| system |") :].split("\n\n")[0]
    lines = table.splitlines()
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    found = []
    for name, *cells in rows:
        arch, *options = name.strip("`").split(" ", 1)
        parts = [part.strip("`") for part in header[1:]]
        found.append(Row(arch, "".join(options), dict(zip(parts, cells, strict=True))))
    return found


def works(built: Built) -> None:
    """One pass with its gradient; then a search, whose words have the same score in one pass."""
    loss = loss_of(built, batch_of(built))
    assert torch.isfinite(loss)
    loss.backward()
    for written, read in searched_and_read(built):
        assert written == pytest.approx(read, abs=1e-4)


def refuses(message: str, part: str) -> bool:
    """Whether a refusal names an option of ``part`` with its value, or that there is none."""
    named = (
        f"`--{name.replace('_', '-')} {value}`" in message or f"Key '{name}' not in" in message
        for name, value in options_of(part).items()
    )
    return any(named) and "\n" not in message


@pytest.fixture(scope="module", autouse=True)
def plugin() -> None:
    import_plugin()


@pytest.mark.parametrize("row", one_in(2, table()))
def test_every_cell(row: Row, prepared_with_bert: Path) -> None:
    for part, said in row.cells.items():
        if said == "yes":
            works(row.built(prepared_with_bert, part))
            continue
        assert said == "no"
        with pytest.raises(GtransError) as refusal:
            works(row.built(prepared_with_bert, part))
        assert refuses(str(refusal.value), part), part


def test_every_system_stands_in_the_table() -> None:
    here = {ARCH_MODEL_REGISTRY[row.arch] for row in table()}
    ours = {model for model in classes().values() if model.__module__.startswith("gtrans.")}
    assert here == ours
