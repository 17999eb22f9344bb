"""The page of HTML: one file with everything in it, which needs no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module, resources
from typing import Any

from gtrans.lab.page.charts import Chart
from gtrans.lab.page.contrast import Accuracy
from gtrans.lab.page.folders import Run
from gtrans.lab.page.scores import SIGNIFICANT, ScoresOfTest
from gtrans.lab.page.training import Training, differing
from gtrans.version import __version__


@dataclass(frozen=True)
class TestTable:
    """The scores over a test set, its baseline, and the chart of the intervals."""

    title: str
    baseline: str
    scores: ScoresOfTest
    chart: Chart | None


@dataclass(frozen=True)
class Group:
    """Charts under one heading; ``id``: of the heading in the page."""

    id: str
    title: str
    charts: Sequence[Chart]


@dataclass
class Contents:
    """What is on the page.

    Attributes:
        runs: the run folders.
        tests: the test sets with their scores.
        models: the trainings, by label.
        groups: charts.
        contrast: accuracies by phenomenon and system.
        reader: the texts of the document reader.
    """

    runs: Sequence[Run]
    tests: Sequence[TestTable]
    models: Mapping[str, Training]
    groups: Sequence[Group] = ()
    contrast: Mapping[str, Mapping[str, Accuracy]] = field(default_factory=dict)
    reader: Sequence[Mapping[str, Any]] = ()


def html(contents: Contents) -> str:
    """The page. Every text is escaped by the template engine."""
    jinja = import_module("jinja2")
    markup = import_module("markupsafe").Markup
    environment = jinja.Environment(autoescape=True, undefined=jinja.StrictUndefined,
                                    trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False, "separators": (",", ":"), "allow_nan": False,
    }  # fmt: skip
    script = _part("reader.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    trainings = list(contents.models.values())
    different, same = differing(trainings)
    judged = dict.fromkeys(label for row in contents.contrast.values() for label in row)
    sections = [("scores", "Scores")]
    sections += [("contrast", "Contrastive sets")] if contents.contrast else []
    sections += [(group.id, group.title) for group in contents.groups]
    sections += [("settings", "Settings and hardware")] if contents.models else []
    sections.append(("documents", "Documents"))
    page: str = environment.from_string(_part("report.html.jinja")).render(
        title=f"Report of {', '.join(run.name for run in contents.runs)}",
        version=__version__,
        style=markup(_part("style.css")),
        script=markup(script),
        script_hash=f"sha256-{digest}",
        significant=SIGNIFICANT,
        breakable=markup("_<wbr>"),  # a long value may go on in the next line
        runs=contents.runs,
        sections=[{"id": name, "title": title} for name, title in sections],
        tests=contents.tests,
        contrast=contents.contrast,
        judged=list(judged),
        groups=contents.groups,
        models=contents.models,
        facts=list(dict.fromkeys(name for one in trainings for name in one.facts)),
        different=different,
        same=same,
        reader=contents.reader,
    )
    return page


def _part(name: str) -> str:
    """A file of ``gtrans/report/page``."""
    return (resources.files("gtrans.lab.page") / "template" / name).read_text(encoding="utf-8")
