"""``gtrans score``: numbers against sacreBLEU, structure, and the command."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from gtrans.cli import main
from gtrans.data.instances import split_instances
from gtrans.data.text_pipeline import STATE_FILE, STATE_FORMAT
from gtrans.errors import GtransError
from gtrans.evaluation.hypotheses import read_hypotheses
from gtrans.evaluation.scores import METRICS, Options, score_documents

REFERENCES = [
    ["The cat sat on the mat.", "It was black.", "Then it ran into the old garden."],
    ["A dog saw the cat in the garden.", "It barked at the cat all day long."],
]
HYPOTHESES = [
    ["The cat sat on a mat.", "He was black.", "Then it ran into the garden."],
    ["One dog saw the cat in the garden.", "It barked at a cat the whole day long."],
]
INSTANCES = [[range(2), range(2, 3)], [range(2)]]


def scores(
    hypotheses: list[list[str]] = HYPOTHESES, options: Options | None = None
) -> dict[str, float]:
    result = score_documents(
        hypotheses, REFERENCES, INSTANCES, instance_unit="instance(512,words)", options=options
    )
    return {key: score.value for key, score in result.items()}


def text(documents: list[list[str]]) -> str:
    """The documents as a file: one sentence per line, an empty line between documents."""
    return "\n\n".join("\n".join(document) for document in documents) + "\n"


def write(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


@pytest.fixture
def hyp(tmp_path: Path) -> str:
    return write(tmp_path / "hyp.txt", text(HYPOTHESES))


@pytest.fixture
def ref(tmp_path: Path) -> str:
    return write(tmp_path / "ref.txt", text(REFERENCES))


# --- instances ---------------------------------------------------------------------------

lengths = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=40)


@given(lengths, st.integers(1, 100))
def test_instances_partition_the_document_greedily_within_the_limit(
    pairs: list[tuple[int, int]], limit: int
) -> None:
    source, target = [a for a, _ in pairs], [b for _, b in pairs]
    cost = [max(pair) + 2 for pair in pairs]
    instances = split_instances(source, target, limit)

    assert [index for span in instances for index in span] == list(range(len(pairs)))
    assert all(len(span) > 0 for span in instances)
    for span in instances:
        assert sum(cost[i] for i in span) <= limit or len(span) == 1
    for span, following in pairwise(instances):
        assert sum(cost[i] for i in span) + cost[following.start] > limit


def test_instances_by_hand() -> None:
    # costs: 5, 5, 12 (longer than the limit: alone), 3, 7 (exactly ten with the 3)
    assert split_instances([3, 1, 10, 1, 5], [2, 3, 4, 0, 5], 10) == [
        range(2),
        range(2, 3),
        range(3, 5),
    ]
    assert split_instances([], [], 10) == []
    with pytest.raises(ValueError):
        split_instances([1, 2], [1], 10)


# --- scores ------------------------------------------------------------------------------


def test_scores_are_those_of_sacrebleu_on_the_segments_of_their_unit() -> None:
    def flat(documents: list[list[str]]) -> list[str]:
        return [sentence for document in documents for sentence in document]

    def pieces(documents: list[list[str]]) -> list[str]:
        first, second = documents
        return [" ".join(first[:2]), first[2], " ".join(second)]

    got = scores()
    hyp, ref = flat(HYPOTHESES), flat(REFERENCES)
    assert got["s_bleu"] == sacrebleu.corpus_bleu(hyp, [ref]).score
    assert got["chrf"] == sacrebleu.corpus_chrf(hyp, [ref]).score
    hyp, ref = [" ".join(d) for d in HYPOTHESES], [" ".join(d) for d in REFERENCES]
    assert got["d_bleu"] == sacrebleu.corpus_bleu(hyp, [ref]).score
    hyp, ref = pieces(HYPOTHESES), pieces(REFERENCES)
    assert got["d_bleu_instance"] == sacrebleu.corpus_bleu(hyp, [ref]).score
    assert len({got["s_bleu"], got["d_bleu"], got["d_bleu_instance"]}) == 3


def test_bleu_by_hand() -> None:
    # Sentences "a b c d" / "e f g h", translated "a b c d" / "e f g x":
    # s-BLEU: 7/8, 5/6, 3/4, 1/2 n-grams match; joined: 7/8, 6/7, 5/6, 4/5.
    result = score_documents(
        [["a b c d", "e f g x"]],
        [["a b c d", "e f g h"]],
        [[range(2)]],
        instance_unit="instance(512,words)",
    )
    s_bleu = 100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** 0.25
    d_bleu = 100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25
    assert result["s_bleu"].value == pytest.approx(s_bleu)
    assert result["d_bleu"].value == pytest.approx(d_bleu)
    assert result["d_bleu_instance"].value == pytest.approx(d_bleu)


def test_perfect_match_is_100_and_nothing_translated_is_0() -> None:
    assert scores(REFERENCES) == pytest.approx(dict.fromkeys(METRICS, 100.0))
    empty = [["" for _ in document] for document in REFERENCES]
    assert scores(empty) == dict.fromkeys(METRICS, 0.0)


def test_order_inside_a_document_matters_to_sentences_more_than_to_documents() -> None:
    reordered = [document[::-1] for document in REFERENCES]
    got = scores(reordered)
    assert got["s_bleu"] < 20
    assert 80 < got["d_bleu"] < 100
    joined = sacrebleu.corpus_bleu(
        [" ".join(d) for d in reordered], [[" ".join(d) for d in REFERENCES]]
    )
    assert joined.score == got["d_bleu"]
    assert joined.precisions[0] == 100.0


def test_case_is_ignored_only_on_request() -> None:
    shouted = [[sentence.upper() for sentence in document] for document in REFERENCES]
    assert scores(shouted)["s_bleu"] < 20
    assert scores(shouted, Options(lowercase=True)) == pytest.approx(dict.fromkeys(METRICS, 100.0))


def test_signatures_name_case_tokeniser_and_unit() -> None:
    def signatures(options: Options) -> dict[str, str]:
        result = score_documents(
            HYPOTHESES, REFERENCES, INSTANCES, instance_unit="instance(9,bpe)", options=options
        )
        return {key: score.signature for key, score in result.items()}

    version = sacrebleu.__version__
    bleu = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}|unit:"
    assert signatures(Options()) == {
        "s_bleu": bleu + "sentence",
        "d_bleu": bleu + "document",
        "d_bleu_instance": bleu + "instance(9,bpe)",
        "chrf": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}|unit:sentence",
    }
    assert "|case:lc|" in signatures(Options(lowercase=True))["chrf"]
    assert "|tok:zh|" in signatures(Options(target_lang="zh"))["d_bleu"]
    assert "|tok:13a|" in signatures(Options(target_lang="de"))["d_bleu"]
    assert "|tok:char|" in signatures(Options(tokenize="char", target_lang="zh"))["d_bleu"]


@pytest.mark.parametrize(
    ("hypotheses", "references", "instances"),
    [
        ([["a", "b"]], [["a"], ["b"]], [[range(1)], [range(1)]]),
        ([["a", "b"]], [["a", "b"]], [[range(1)]]),
        ([], [], []),
    ],
)
def test_arguments_of_different_shapes_are_refused(
    hypotheses: list[list[str]], references: list[list[str]], instances: list[list[range]]
) -> None:
    with pytest.raises(ValueError):
        score_documents(hypotheses, references, instances, instance_unit="instance")


# --- structure ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hypothesis", "expected"),
    [
        ("a\nb\n\nc\n", [["a", "b"], ["c"]]),
        ("a\nb\n\nc\n\n", [["a", "b"], ["c"]]),  # by documents: a boundary at the end
        ("a\nb\n<d>\nc\n", [["a", "b"], ["c"]]),
        ("a\nb\nc\n", [["a", "b"], ["c"]]),  # no boundary, but three sentences
        ("a\n\n\nc\n", [["a", ""], ["c"]]),  # line 2 is an empty translation
        ("\n\n\n\n", [["", ""], [""]]),
    ],
)
def test_ways_to_tell_the_documents_of_a_hypothesis(
    tmp_path: Path, hypothesis: str, expected: list[list[str]]
) -> None:
    ref = write(tmp_path / "ref", "A\nB\n\nC\n")
    assert read_hypotheses(write(tmp_path / "hyp", hypothesis), ref) == expected


@pytest.mark.parametrize(
    ("hypothesis", "difference"),
    [
        # A sentence too many in the first document.
        ("a\nb\nc\n\nd\n", "{hyp}:3 is a sentence but {ref}:3 is a document boundary"),
        # The same number of lines, but the boundary comes a line too early.
        ("a\n\nb\nc\n", "{hyp}:2 is a document boundary but {ref}:2 is a sentence"),
        ("a\nb\n\nc\nd\n", "{hyp}:5 is a sentence but {ref} ends after line 4"),
        # Cut short: the last translation is not empty, it is missing.
        ("a\nb\n\n", "{ref} has 3 sentences: {ref}:4 has no counterpart"),
        ("a\nb\n", "{ref} has 3 sentences: {ref}:4 has no counterpart"),
        ("a\nb\nc\nd\n", "{ref} has 3 sentences: {hyp}:4 has no counterpart"),
        # An empty translation needs the boundaries.
        ("a\n\nc\n", "{hyp}:2 is a document boundary but {ref}:2 is a sentence"),
        ("a\n\nc\n", "empty on one side only (unless the files match line by line)"),
        ("", "{hyp} has 0 sentences and no document boundary"),
    ],
)
def test_another_structure_is_refused_with_the_first_line_that_differs(
    tmp_path: Path, hypothesis: str, difference: str
) -> None:
    ref = write(tmp_path / "ref", "A\nB\n\nC\n")
    hyp = write(tmp_path / "hyp", hypothesis)
    with pytest.raises(GtransError) as caught:
        read_hypotheses(hyp, ref)
    assert difference.format(hyp=hyp, ref=ref) in str(caught.value)
    assert hyp in str(caught.value)


@settings(max_examples=50)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=4))
def test_empty_translations_stay_in_their_place(empty: list[list[bool]]) -> None:
    expected = [["" if gone else "x y" for gone in document] for document in empty]
    with TemporaryDirectory() as folder:
        ref = write(Path(folder, "ref"), text([["A" for _ in document] for document in empty]))
        hyp = write(Path(folder, "hyp"), text(expected))
        assert read_hypotheses(hyp, ref) == expected


# --- the command -------------------------------------------------------------------------


def test_json_report(hyp: str, ref: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--hyp", hyp, "--ref", ref, "--src", ref, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == [*METRICS, "sentences", "documents", "instances"]
    expected = scores()
    for key in ("s_bleu", "d_bleu", "chrf"):
        assert set(report[key]) == {"score", "signature"}
        assert report[key]["score"] == expected[key]
    # Both documents fit into one instance each.
    assert report["d_bleu_instance"]["score"] == expected["d_bleu"]
    assert report["d_bleu_instance"]["signature"].endswith("|unit:instance(512,words)")
    assert (report["sentences"], report["documents"], report["instances"]) == (5, 2, 2)


def test_text_report(hyp: str, ref: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--hyp", hyp, "--ref", ref]) == 0
    *rows, counts = capsys.readouterr().out.splitlines()
    assert [row.split("  ")[0] for row in rows] == [spec.label for spec in METRICS.values()]
    assert f"{scores()['s_bleu']:.2f}" in rows[0]
    assert rows[2].endswith("|unit:instance(512,words)|lengths:ref")
    assert counts == "5 sentences, 2 documents, 2 instances"


def test_the_longer_side_decides_about_instances(
    tmp_path: Path, hyp: str, ref: str, capsys: pytest.CaptureFixture[str]
) -> None:
    long_source = [[f"{sentence} {'word ' * 20}" for sentence in doc] for doc in REFERENCES]
    src = write(tmp_path / "src", text(long_source))
    arguments = ["score", "--hyp", hyp, "--ref", ref, "--json", "--max-doc-tokens", "25"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["instances"] == 2
    assert main([*arguments, "--src", src]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["instances"] == 5
    assert report["d_bleu_instance"]["score"] == report["s_bleu"]["score"]


def test_bpe_lengths_of_a_prepared_folder(
    tmp_path: Path,
    hyp: str,
    ref: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    class Characters:
        def encode(self, sentence: str) -> str:
            return " ".join(sentence.replace(" ", "_"))

    def load_pipeline(data_dir: str, lang: str) -> Characters:
        asked.append((data_dir, lang))
        return Characters()

    monkeypatch.setattr("gtrans.data.text_pipeline.load_pipeline", load_pipeline)
    data = tmp_path / "data"
    data.mkdir()
    arguments = ["score", "--hyp", hyp, "--ref", ref, "--src", ref, "--data", str(data), "--json"]

    assert main(arguments) == 1
    assert "there is no" in capsys.readouterr().err
    state: dict[str, object] = {"format": STATE_FORMAT}
    write(data / STATE_FILE, json.dumps(state))
    assert main(arguments) == 1
    assert "damaged: no 'source_lang'" in capsys.readouterr().err
    state |= {"source_lang": "en", "target_lang": "de"}
    write(data / STATE_FILE, json.dumps(state))
    assert main([*arguments, "--max-doc-tokens", "40"]) == 0
    assert sorted(asked) == [(str(data), "de"), (str(data), "en")]
    report = json.loads(capsys.readouterr().out)
    assert report["d_bleu_instance"]["signature"].endswith("|unit:instance(40,bpe)")
    # In characters and marks: 25 + 15, 34; 34, 36.
    assert report["instances"] == 4


def test_compressed_files(
    tmp_path: Path, hyp: str, ref: str, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "hyp.gz"
    packed.write_bytes(gzip.compress(text(HYPOTHESES).encode()))
    assert main(["score", "--hyp", str(packed), "--ref", ref, "--json"]) == 0
    compressed = capsys.readouterr().out
    assert main(["score", "--hyp", hyp, "--ref", ref, "--json"]) == 0
    assert compressed == capsys.readouterr().out


def test_mistakes_end_in_one_line_and_status_1(
    tmp_path: Path, hyp: str, ref: str, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing")
    latin = tmp_path / "latin"
    latin.write_bytes("Grüße\n".encode("latin-1"))
    empty = write(tmp_path / "empty", "")
    longer = write(tmp_path / "longer", text([*REFERENCES, ["One more."]]))
    for arguments, part in [
        (["--hyp", missing, "--ref", ref], missing),
        (["--hyp", hyp, "--ref", missing], missing),
        (["--hyp", str(latin), "--ref", ref], str(latin)),
        (["--hyp", hyp, "--ref", empty], empty),
        (["--hyp", empty, "--ref", ref], empty),
        (
            ["--hyp", longer, "--ref", ref],
            f"{longer}:7 is a document boundary but {ref} ends after line 6",
        ),
        (["--hyp", hyp, "--ref", ref, "--src", longer], f"{longer}:7 "),
        (["--hyp", hyp, "--ref", ref, "--max-doc-tokens", "3"], "at least 8, but is 3"),
    ]:
        assert main(["score", *arguments]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("gtrans: error: ")
        assert output.err.count("\n") == 1
        assert part in output.err


def test_a_tokeniser_that_is_not_installed_is_one_line(
    hyp: str, ref: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    assert main(["score", "--hyp", hyp, "--ref", ref, "--target-lang", "ja"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("gtrans: error: the tokeniser for --target-lang ja cannot be used: ")
    assert error.count("\n") == 1


def test_the_command_starts_without_torch_and_fairseq(hyp: str, ref: str) -> None:
    program = (
        "import sys; from gtrans.cli import main; status = main(sys.argv[1:]);"
        "assert not {'torch', 'fairseq'} & set(sys.modules); sys.exit(status)"
    )
    arguments = ["score", "--hyp", hyp, "--ref", ref, "--json"]
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True)


def test_python_m_gtrans(hyp: str, ref: str) -> None:
    command = [sys.executable, "-m", "gtrans", "score", "--hyp", hyp, "--ref", ref, "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["s_bleu"]["score"] == scores()["s_bleu"]
