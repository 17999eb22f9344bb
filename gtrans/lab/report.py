"""Write one page of HTML: scores with intervals and tests, and a document reader.

The systems are given and scored as by 'gtrans score', with all its options. The page has the table
of scores, and the source, the reference and every system sentence by sentence. Words that the
reference does not have are marked; sentences are found by text, or by the loss of chrF against the
first system.

It is a single file that opens from disk, without a network. See docs/report.md.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from gtrans.cli import score
from gtrans.cli.score import inputs
from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Measurement
from gtrans.evaluation.significance import SIGNIFICANT
from gtrans.evaluation.table import Report, p_value, to_json
from gtrans.evaluation.texts import Texts
from gtrans.files import atomic_writer, check_output
from gtrans.messages import in_digits, print_message
from gtrans.version import __version__

EXAMPLE = (
    "gtrans report --hyp sentence=out1.de document=out2.de --ref test.de --src test.en "
    "--target-lang de --output report.html"
)
NEEDS = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    page = parser.add_argument_group("page")
    page.add_argument("--output", required=True, metavar="FILE", help="the page to write")
    score.add_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Write the page."""
    if not args.ref:
        raise GtransError("a page needs --ref.")
    check_output("--output", args.output, inputs(args))
    report, texts = score.report_of(args)
    page = _page(args, report, texts)
    with atomic_writer(args.output, inputs(args)) as file:
        file.write(page)
    print_message(f"{len(page.encode()) / 1000:,.0f} kB written to {args.output}")


def _page(args: argparse.Namespace, report: Report, texts: Texts) -> str:
    template = Path(__file__).with_name("report.html").read_text(encoding="utf-8")
    data = json.dumps(_reader(report, texts), ensure_ascii=False, separators=(",", ":"))
    _, _, rest = template.partition("<script>")
    script, _, _ = rest.partition("</script>")
    digest = hashlib.sha256(script.encode()).digest()
    systems = ", ".join(report.systems)
    values = {
        "title": escape(f"{systems} on {Path(args.ref[0]).name}"),
        "hash": base64.b64encode(digest).decode(),
        "scores": "".join(_scores(report)),
        "version": escape(__version__),
        "data": data.replace("<", "\\u003c"),  # data inside a script must not end it
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda name: values[name[1]], template)


# ---- scores --------------------------------------------------------------------------------------


def _scores(report: Report) -> Iterator[str]:
    data = to_json(report)
    columns = list(report.measurements.values())
    yield '<div class="wide"><table><thead><tr><th class="corner">system</th>'
    for column in columns:
        arrow = "" if column.higher_is_better else " ↓"
        yield f"<th>{escape(column.label)}{arrow}</th>"
    yield "</tr></thead><tbody>"
    for system, entry in data["systems"].items():
        yield f'<tr><th scope="row">{escape(system)}</th>'
        for column in columns:
            details = "".join(_score_details(entry[column.key], column.digits))
            yield f"<td>{_score(report, column, system)}{details}</td>"
        yield "</tr>"
    yield "</tbody></table></div>"
    counts = ", ".join(f"{count:,} {noun}" for noun, count in report.counts.items())
    if len(report.systems) > 1:
        counts += f"; changes are from {report.systems[0]}"
    yield f'<p class="soft">{escape(counts)}</p>'
    for note in data["notes"]:
        yield f'<p class="soft">{escape(note)}</p>'
    yield "<details><summary>Signatures</summary><ul>"
    for column in columns:
        signature = f"{column.label}: {column.signature}"
        yield f"<li><code>{escape(signature)}</code></li>"
    yield "</ul></details>"


def _score(report: Report, column: Measurement, system: str) -> str:
    shown = {name: f"{column.score(name):.{column.digits}f}" for name in report.systems}
    numbers = [float(text) for text in shown.values()]
    best = max(numbers) if column.higher_is_better else min(numbers)
    if len(report.systems) > 1 and float(shown[system]) == best:
        return f'<b class="score">{shown[system]}</b>'
    return shown[system]


def _score_details(entry: Mapping[str, Any], digits: int) -> Iterator[str]:
    if "confidence" in entry:
        low, high = entry["confidence"]["interval"]
        yield f"<small>{in_digits(low, digits)} to {in_digits(high, digits)}</small>"
    if "comparison" in entry:
        comparison = entry["comparison"]
        test = comparison.get("paired_randomisation")
        p = "" if test is None else f", p {p_value(test['p'])}"
        is_significant = test is not None and test["p"] < SIGNIFICANT
        kind = escape(comparison["direction"]) if is_significant else "even"
        change = in_digits(comparison["difference"], digits, "+")
        yield f'<small class="{kind}">{change}{escape(p)}</small>'
        if "non_inferiority" in comparison:
            lower = p_value(comparison["non_inferiority"]["p"])
            yield f"<small>p non-inf {escape(lower)}</small>"


# ---- document reader -----------------------------------------------------------------------------


def _reader(report: Report, texts: Texts) -> dict[str, Any]:
    """Return the data of the page's script.

    ``documents`` have lists by sentence: ``s`` source, ``r`` reference, ``h`` each system, ``c``
    chrF2 of each system, if measured. There are none if a translation has other sentences.
    """
    references, systems = texts.references[0], texts.systems
    shape = [len(document) for document in references]
    names = list(systems)
    for translations in systems.values():
        if [len(document) for document in translations] != shape:
            return {"systems": names, "documents": []}
    scores = _sentence_scores(report, names, sum(shape))
    documents, start = [], 0
    for number, reference in enumerate(references):
        end = start + len(reference)
        source = texts.sources[number] if texts.sources is not None else []
        document = {
            "s": list(source),
            "r": list(reference),
            "h": [list(systems[name][number]) for name in names],
            "c": [values[start:end] for values in scores],
        }
        documents.append(document)
        start = end
    return {"systems": names, "documents": documents}


def _sentence_scores(report: Report, systems: Sequence[str], sentences: int) -> list[list[float]]:
    chrf = report.measurements.get("chrf")
    if chrf is None or chrf.unit != "sentence":
        return []
    if len(chrf.statistics[systems[0]]) != sentences:
        return []
    scores = []
    for name in systems:
        values = chrf.compute(chrf.statistics[name]).tolist()
        finite = [value if math.isfinite(value) else 0.0 for value in values]
        scores.append([round(value, 1) for value in finite])
    return scores
