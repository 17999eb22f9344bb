"""``gtrans score``: languages, text without spaces, and the tokens of Moses."""

from __future__ import annotations

from pathlib import Path

import pytest
import sacrebleu
from sacremoses import MosesTokenizer
from support.score_corpus import HYPOTHESES, REFERENCES, text, write
from support.score_tools import Capture, refusal, score

from gtrans.cli import main
from gtrans.languages import language_code


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        *(("zh", "zh"), ("ZH", "zh"), ("zh_CN", "zh"), ("zh-Hans-CN", "zh"), ("chinese", "zh")),
        *(("cmn", "zh"), ("zho", "zh"), ("German", "de"), ("de_DE", "de"), ("en_XX", "en")),
        *(("pt-BR", "pt"), ("Haitian Creole", "ht"), ("iw", "he"), ("yue", "yue"), ("qaa", "qaa")),
        *(("lua_Latn", "lua"), ("ns", "nso")),  # of NLLB, and of M2M-100
        *(("xx", None), ("", None), ("src", None), ("cz", None), ("zh_!", None)),
    ],
)
def test_languages(tag: str, code: str | None) -> None:
    assert language_code(tag) == code


def test_every_spelling_of_a_language_chooses_its_tokeniser_and_stemmer(
    tmp_path: Path, capsys: Capture
) -> None:
    ref = write(tmp_path / "ref", "我今天在家里看书。\n\n他也在。\n")
    hyp = write(tmp_path / "hyp", "我今天在家里读书。\n\n他也在。\n")
    files = ["--hyp", hyp, "--ref", ref, "--resample", "none", "--target-lang"]
    expected = score(capsys, *files, "zh")["of_one"]
    sides = ["我今天在家里读书。", "他也在。"], ["我今天在家里看书。", "他也在。"]
    bleu = sacrebleu.corpus_bleu(sides[0], [sides[1]], tokenize="zh")
    assert expected["s_bleu"]["score"] == pytest.approx(bleu.score)
    assert expected["ter"]["score"] == pytest.approx(100 / 13)  # one character of 13
    assert expected["meteor"]["score"] > 80
    assert score(capsys, *files, "zh_CN")["of_one"] == expected
    german = score(capsys, *files, "GERMAN", "--metrics", "meteor")["of_one"]["meteor"]
    assert "stem[snowball-german]" in german["signature"]
    for tag, part in [("xx", "give its code as in BCP 47"), ("cn", "the language is 'zh'")]:
        error = refusal(capsys, *files, tag)
        assert f"--target-lang '{tag}' is no language that is " in error and part in error
    assert main(["prepare", "--source-lang", "xx", "--target-lang", "de", "--out", "o"]) == 1
    assert "`--source-lang` 'xx' is no language" in capsys.readouterr().err


def test_spaces_do_not_change_scores_of_chinese_documents(tmp_path: Path, capsys: Capture) -> None:
    ref = write(tmp_path / "ref", "他说：「我在家里看书。」\n她笑了。\n\n他也在。\n")
    found = []
    for joined in (
        "他说：「我在家 看书。」\n她笑 了。\n\n他也 在。\n",
        "他说：「我在家看书。」她笑了。\n\n他也在。\n",
    ):
        hyp = write(tmp_path / "hyp", joined)
        files = ["--hyp", hyp, "--ref", ref, "--target-lang", "zh", "--documents-only"]
        found.append(score(capsys, *files)["of_one"])
    assert found[0] == found[1]
    assert found[0]["d_bleu"]["score"] < 100


def test_chunks_of_chinese_are_measured_in_characters(tmp_path: Path, capsys: Capture) -> None:
    ref = write(tmp_path / "ref", "我今天在家里看书。\n" * 4)
    files = ["--hyp", ref, "--ref", ref, "--target-lang", "zh", "--metrics", "d_bleu_chunk"]
    # Nine characters and two marks each.
    report = score(capsys, *files, "--max-doc-tokens", "22")
    assert report["chunks"] == 2
    signature = report["of_one"]["d_bleu_chunk"]["signature"]
    assert signature.endswith("|unit:chunk(22,characters)|lengths:ref")
    src = write(tmp_path / "src", "I am reading.\n" * 4)
    signature = score(capsys, *files, "--src", src)["of_one"]["d_bleu_chunk"]["signature"]
    assert signature.endswith("|unit:chunk(512,words+characters)")


def test_tokens_of_moses(tmp_path: Path, capsys: Capture) -> None:
    """Tokenised BLEU is that of sacreBLEU on the tokens, of sentences and of whole documents."""
    references = [[*REFERENCES[0], "It's 3.5%, isn't it (Mr. Smith)?"], REFERENCES[1]]
    hypotheses = [[*HYPOTHESES[0], "It's 3.5 %, isn't it so (Mr. Smith)?"], HYPOTHESES[1]]
    ref, hyp = write(tmp_path / "r", text(references)), write(tmp_path / "h", text(hypotheses))
    tokenize = MosesTokenizer("en").tokenize
    tokens = [
        [[tokenize(line, escape=False, return_str=True) for line in lines] for lines in documents]
        for documents in (hypotheses, references)
    ]
    flat = [[line for lines in documents for line in lines] for documents in tokens]
    joined = [[" ".join(lines) for lines in documents] for documents in tokens]
    files = ["--hyp", hyp, "--ref", ref, "--target-lang", "en", "--tokenize", "moses"]
    found = score(capsys, *files, "--metrics", "s_bleu", "d_bleu", "meteor")["of_one"]
    for key, (one, other) in (("s_bleu", flat), ("d_bleu", joined)):
        expected = sacrebleu.corpus_bleu(one, [other], tokenize="none", force=True).score
        assert found[key]["score"] == expected
        assert "|tok:moses-en,sacremoses-" in found[key]["signature"]
    assert found["s_bleu"]["score"] != score(capsys, *files[:-2])["of_one"]["s_bleu"]["score"]
    chinese = write(tmp_path / "zh", "我今天在家里看书。\n")
    for wrong in ([*files[:4], "--target-lang", "zh"], ["--hyp", chinese, "--ref", chinese]):
        error = refusal(capsys, *wrong, "--tokenize", "moses")
        assert "moses cannot split text into words that is written without" in error


def test_a_language_without_spaces_and_without_a_tokeniser_is_told(
    tmp_path: Path, capsys: Capture
) -> None:
    thai = write(tmp_path / "th", "วันนี้ฉันอ่านหนังสือที่บ้าน\n")
    files = ["--hyp", thai, "--ref", thai, "--target-lang", "th", "--resample", "none", "--metrics"]
    (note,) = score(capsys, *files, "s_bleu", "chrf", "ter")["notes"]
    assert note.startswith("s-BLEU, TER: words are found by spaces, but the reference is written ")
    (note,) = score(capsys, *files, "s_bleu", "ter", "--tokenize", "char")["notes"]
    assert note.startswith("TER: words are found by spaces")
    assert score(capsys, *files, "s_bleu", "chrf", "--tokenize", "char")["notes"] == []
