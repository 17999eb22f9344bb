"""``gtrans report``: one page with scores and texts, whatever the texts hold."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.score_corpus import HYPOTHESES, REFERENCES, text, write

from gtrans.cli import main

HOSTILE = "</script><script>alert(1)</script> \u2028 <b>{{scores}} &"


def page(folder: Path, hyp: list[list[str]] = HYPOTHESES) -> str:
    ref = write(folder / "ref", text(REFERENCES))
    hyps = [f"base={ref}", f"ours={write(folder / 'ours', text(hyp))}"]
    out = folder / "page.html"
    words = ["--hyp", *hyps, "--ref", ref, "--src", ref, "--output", str(out)]
    assert main(["report", *words, "--metrics", "s_bleu", "chrf"]) == 0
    return out.read_text(encoding="utf-8")


def data(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_page_has_scores_and_texts(tmp_path: Path) -> None:
    html = page(tmp_path)
    assert "<th>s-BLEU</th><th>chrF2</th>" in html and ">100.00</b>" in html
    assert "src=" not in html and "url(http" not in html
    found = data(html)
    assert found["systems"] == ["base", "ours"]
    assert [one["r"] for one in found["documents"]] == REFERENCES
    assert [one["h"][1] for one in found["documents"]] == HYPOTHESES
    assert found["documents"][0]["c"][0] == [100.0] * len(REFERENCES[0])


def test_texts_stay_texts_and_no_other_script_runs(tmp_path: Path) -> None:
    hostile = [[HOSTILE, *HYPOTHESES[0][1:]], *HYPOTHESES[1:]]
    html = page(tmp_path, hyp=hostile)
    assert data(html)["documents"][0]["h"][1][0] == HOSTILE
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hyp", "{ref}", "--output", "{ref}.html"], "a page needs --ref"),
        (["--hyp", "{ref}", "--ref", "{ref}", "--output", "{ref}"], "is the input"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = write(tmp_path / "ref", text(REFERENCES))
    assert main(["report", *(word.format(ref=ref) for word in words)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("gtrans: error: ") and error.count("\n") == 1 and message in error
