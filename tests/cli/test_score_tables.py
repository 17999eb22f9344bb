"""``gtrans score``: the test of non-inferiority, and tables in LaTeX and CSV."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from support.score_corpus import HYPOTHESES, REFERENCES, text, write
from support.score_tools import Capture, refusal, score

from gtrans.cli import main


def test_tables(tmp_path: Path, capsys: Capture) -> None:
    hyp, ref = write(tmp_path / "h", text(HYPOTHESES)), write(tmp_path / "r", text(REFERENCES))
    arguments = ["--hyp", f"our_s={hyp}", f"human={ref}", "--ref", ref]
    arguments += ["--metrics", "s_bleu", "ter", "--all-tests"]
    latex, table = tmp_path / "t.tex", tmp_path / "t.csv"
    report = score(capsys, *arguments, "--latex", str(latex), "--csv", str(table))
    with table.open(newline="") as file:
        rows = {(row["system"], row["metric"]): row for row in csv.DictReader(file)}
    assert len(rows) == 4
    for (name, key), row in rows.items():
        entry = report["systems"][name][key]
        assert row["score"] == str(entry["score"])
        assert row["signature"] == entry["signature"]
        if comparison := entry.get("comparison"):
            assert row["difference"] == str(comparison["difference"])
            assert row["p_randomisation"] == str(comparison["paired_randomisation"]["p"])
    lines = latex.read_text().splitlines()
    assert lines[0] == "% gtrans score"
    assert lines[1] == f"% s-BLEU: {rows['human', 's_bleu']['signature']}"
    assert r"system & s-BLEU & TER $\downarrow$ \\" in lines
    of_ours = report["systems"]["our_s"]["s_bleu"]["score"]
    assert any(line.startswith(rf"our\_s & {of_ours:.2f} & ") for line in lines)
    assert any(line.startswith(r"human & 100.00 & 0.00") for line in lines)
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]

    for flag, path in [("--csv", ref), ("--latex", hyp), ("--csv", str(tmp_path))]:
        assert flag in refusal(capsys, *arguments, flag, path)
    for flags in (("--latex", "--csv"), ("--csv", "--json")):
        both = [word for flag in flags for word in (flag, str(latex))]
        assert f"{' and '.join(flags)} are both {latex}" in refusal(capsys, *arguments, *both)
    assert Path(ref).read_text() == text(REFERENCES)


@pytest.mark.parametrize(
    ("flag", "name"),
    [("--csv", "t.csv"), ("--latex", "t.tex"), ("--json", "t.json"), ("--segments", "t.tsv"),
     ("--segments", "t.jsonl")],
)  # fmt: skip
def test_files_of_others_stay_unless_forced(
    tmp_path: Path, capsys: Capture, flag: str, name: str
) -> None:
    ref, out = write(tmp_path / "r", text(REFERENCES)), tmp_path / name
    arguments = ["--hyp", ref, "--ref", ref, "--metrics", "s_bleu", flag, str(out)]
    for others in (b"PK\x03\x04 a checkpoint", b'{"segment": 1}\n', b"name,score\n"):
        out.write_bytes(others)
        assert f"`{flag}` '{out}' exists" in refusal(capsys, *arguments)
        assert out.read_bytes() == others
    assert main(["score", *arguments, "--force"]) == 0
    written = out.read_bytes()
    assert written != others
    assert main(["score", *arguments]) == 0, "its own file is replaced"
    assert out.read_bytes() == written


def test_latex_says_which_system_is_better(tmp_path: Path, capsys: Capture) -> None:
    """A score is bold only where it is significantly best; daggers have a sign."""
    words = [f"Dies ist der Satz mit der Nummer {number} hier ." for number in range(12)]
    texts = {
        "ref": words,
        "good": words,
        "same": [*words[:11], words[11].replace("Satz", "Wort")],
        "bad": [line.replace("ist der", "war ein") for line in words],
    }
    for name, lines in texts.items():
        write(tmp_path / name, "\n\n".join(lines) + "\n")
    latex = tmp_path / "t.tex"

    def rows(*names: str) -> list[str]:
        files = [f"{name}={tmp_path / name}" for name in names]
        arguments = ["--hyp", *files, "--ref", str(tmp_path / "ref"), "--metrics", "s_bleu"]
        score(capsys, *arguments, "--latex", str(latex))
        return [line for line in latex.read_text().splitlines() if line.startswith(names)]

    better = rows("bad", "good")
    assert r"\textbf{100.00}$^{+\ddagger}$" in better[1] and "textbf" not in better[0]
    worse = rows("good", "bad")
    assert r"\textbf{100.00}" in worse[0] and r"$^{-\ddagger}$" in worse[1]
    assert not any("textbf" in line for line in rows("bad", "good", "same"))


def test_json_stands_beside_what_is_printed(tmp_path: Path, capsys: Capture) -> None:
    ref = write(tmp_path / "r", text(REFERENCES))
    arguments = ["--hyp", ref, "--ref", ref, "--metrics", "s_bleu"]
    assert main(["score", *arguments]) == 0
    printed = capsys.readouterr().out
    file = tmp_path / "s.json"
    assert main(["score", *arguments, "--json", str(file)]) == 0
    assert capsys.readouterr().out == printed
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report.items() <= score(capsys, *arguments).items()
    assert "--json" in refusal(capsys, *arguments, "--json", ref)
    assert Path(ref).read_text() == text(REFERENCES)


def test_shares_of_text_stand_in_tables_beside_what_is_resegmented(
    tmp_path: Path, capsys: Capture
) -> None:
    """Scores of another program are not of resegmented text."""
    hyp = write(tmp_path / "h", text([HYPOTHESES[0][:2], HYPOTHESES[1]]))
    ref = write(tmp_path / "r", text(REFERENCES))
    scores = write(tmp_path / "m", "1\n2\n")
    latex, table = tmp_path / "t.tex", tmp_path / "t.csv"
    arguments = ["--hyp", f"a={hyp}", "--latex", str(latex), "--csv", str(table), "--ref", ref]
    arguments += ["--resegment", "--segment-scores", f"m={scores}", "--metrics", "s_bleu"]
    entry = score(capsys, *arguments)["of_one"]
    omitted = entry["resegmented"]["omitted"]
    assert omitted > 0
    with table.open(newline="") as file:
        rows = {row["metric"]: row for row in csv.DictReader(file)}
    assert (rows["s_bleu"]["omitted"], rows["s_bleu"]["added"]) == (str(omitted), "0.0")
    assert rows["m"]["omitted"] == "" and "omitted" not in entry["m"]
    assert "resegmented" not in entry["m"]["signature"]
    lines = latex.read_text().splitlines()
    assert r"system & s-BLEU & m & omitted (\%) & added (\%) \\" in lines
    assert any(line.endswith(rf" & {omitted:.1f} & 0.0 \\") for line in lines)


def test_non_inferiority_stands_in_every_output(tmp_path: Path, capsys: Capture) -> None:
    """Twenty documents, of which the second system gets one a little worse."""
    lines = [f"Satz Nummer {number} hat viele kleine Woerter ." for number in range(20)]
    ref = write(tmp_path / "ref", "\n\n".join(lines) + "\n")
    old = write(tmp_path / "old", "\n\n".join(it.replace("viele", "wenig") for it in lines) + "\n")
    lines[3] = "Satz"
    new = write(tmp_path / "new", "\n\n".join(it.replace("viele", "wenig") for it in lines) + "\n")
    arguments = ["--hyp", f"old={old}", f"new={new}", "--ref", ref, "--metrics"]
    arguments += ["chrf", "s_bleu", "--non-inferior"]
    latex, table = tmp_path / "t.tex", tmp_path / "t.csv"
    files = ["--latex", str(latex), "--csv", str(table)]
    found = score(capsys, *arguments, "9", *files)["systems"]["new"]
    test = found["chrf"]["comparison"]["non_inferiority"]
    assert test["margin"] == 9 and test["p"] < 0.02
    assert test["worst_unit"] == 4 and test["largest_loss"] > 40
    assert "non_inferiority" not in found["s_bleu"]["comparison"]
    assert r"$^{\circ}$" in latex.read_text() and "at most 9 below old" in latex.read_text()
    with table.open(newline="") as file:
        rows = {(row["system"], row["metric"]): row for row in csv.DictReader(file)}
    assert float(rows["new", "chrf"]["p_non_inferior"]) == test["p"]
    assert rows["new", "s_bleu"]["p_non_inferior"] == rows["old", "chrf"]["p_non_inferior"] == ""
    # No margin at all: the loss is seen.
    assert main(["score", *arguments, "0", "s_bleu=50"]) == 0
    text = capsys.readouterr().out
    assert "p non-inf" in text and "at most 50 below old" in text
    assert "units, fewer than 200, is often too small" in text
    strict = score(capsys, *arguments, "0")["systems"]["new"]["chrf"]["comparison"]
    assert strict["non_inferiority"]["p"] > 0.5


def test_words_of_an_option_that_is_given_twice_are_added_up(
    tmp_path: Path, capsys: Capture
) -> None:
    """An error rate that is taken for a quality turns the comparison round."""
    ref = write(tmp_path / "ref", "So.\n\nUnd so.\n")
    low, high = write(tmp_path / "low", "1\n1\n"), write(tmp_path / "high", "5\n9\n")
    arguments = ["--hyp", f"a={ref}", "--hyp", f"b={ref}", "--ref", ref]
    for name in ("one", "two"):
        arguments += ["--segment-scores", f"{name}={high}", f"{name}={low}"]
        arguments += ["--lower-is-better", name, "--non-inferior", f"{name}=1"]
    arguments += ["--metrics", "chrf", "--metrics", "ter"]
    found = score(capsys, *arguments)["systems"]["b"]
    assert {"chrf", "ter"} <= found.keys()
    for name in ("one", "two"):
        comparison = found[name]["comparison"]
        assert comparison["difference"] == -6 and comparison["direction"] == "better"
        assert comparison["non_inferiority"]["margin"] == 1
