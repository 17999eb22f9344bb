"""``gtrans cxmi``: numbers by hand, the interval, the command."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from support.fake_models import RowByRow
from support.untrained import task_for
from torch import Tensor, nn

from gtrans.cli import main
from gtrans.evaluation.cxmi import ScoredSentence, corpus_cxmi
from gtrans.translating.force_decode import CorpusSide, ScoredCorpus, token_scores

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

Call = Callable[..., tuple[int, str, str]]


class Counting(RowByRow):
    """Every word has probability 1/2 in a row of one sentence, 3/4 in a longer one."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary = nn.Parameter(torch.tensor(float(vocabulary)))

    def logits(self, src_tokens: Tensor, prev_output_tokens: Tensor) -> Tensor:
        size = int(self.vocabulary)
        several = src_tokens.eq(2).sum(1) > 1
        share = torch.where(several, 0.75, 0.5)[:, None, None]
        rest = ((1 - share) / (size - 2)).expand(*prev_output_tokens.shape, size).clone()
        rest[..., 2] = rest[..., 4] = share[..., 0] / 2
        return rest.log()


class AsTheyAre:
    """Words are pieces."""

    def encode(self, sentence: str) -> str:
        return sentence

    def unsegment(self, tokens: str) -> str:
        return tokens


def test_log_probabilities_by_hand() -> None:
    task = task_for("document")
    model = Counting(len(task.target_dictionary))
    source, target = (
        CorpusSide(AsTheyAre(), documents)  # type: ignore[arg-type]
        for documents in ([["b", "c", "d"], ["b"]], [["a", "a a", "a"], ["a"]])
    )

    def sums(context: int | None) -> list[list[float]]:
        found = token_scores([model], task, ScoredCorpus(source, target, context), 100)
        return [[float(tokens.sum()) for tokens in document] for document in found]

    few, many = math.log(1 / 4), math.log(3 / 8)
    assert sums(None) == [pytest.approx([2 * many, 3 * many, 2 * many]), pytest.approx([2 * few])]
    # with at most one sentence before it, the first sentence has no context
    assert sums(1) == [pytest.approx([2 * few, 3 * many, 2 * many]), pytest.approx([2 * few])]
    # a unit of 8 tokens holds two of the three sentences: <s> b </s> <s> c </s>
    task.cfg.max_doc_tokens = 8
    assert sums(None)[0] == pytest.approx([2 * many, 3 * many, 2 * few])


def test_the_corpus_by_hand() -> None:
    sentences = [
        ScoredSentence(1, 1, 4, -3.0, -4.0),
        ScoredSentence(1, 2, 4, -3.0, -6.0),
        ScoredSentence(2, 1, 2, -5.0, -4.5),
    ]
    result = corpus_cxmi(sentences)
    assert result.value == pytest.approx((1 + 3 - 0.5) / 3)
    assert result.per_token == pytest.approx(3.5 / 10)
    assert (result.sentences, result.documents, result.resampled) == (3, 2, "documents")
    # Without the first document the mean is -0.5, without the second one it is 2. Student's t has
    # one degree of freedom.
    error = math.sqrt(((7 / 6 + 0.5) ** 2 + (7 / 6 - 2) ** 2) / 2)
    radius = math.tan(0.475 * math.pi) * error
    assert result.interval == pytest.approx((7 / 6 - radius, 7 / 6 + radius))
    assert corpus_cxmi(sentences[:2]).resampled == "sentences"
    radius = math.tan(0.475 * math.pi)
    assert corpus_cxmi(sentences[:2]).interval == pytest.approx((2 - radius, 2 + radius))
    assert corpus_cxmi(sentences[:1]).interval is None


@pytest.mark.parametrize(("documents", "longest"), [(40, 5), (8, 5), (8, 60), (21, 100)])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(
    documents: int, longest: int
) -> None:
    # Documents have a mean of their own: intervals over sentences would be far too narrow, and so
    # would those that forget how much one of the documents weighs.
    generator = torch.Generator().manual_seed(1)
    held = 0
    for _ in range(200):
        means = torch.randn(documents, generator=generator).tolist()
        sentences = [
            ScoredSentence(document, sentence, 5, mean + noise, 0.0)
            for document, mean in enumerate(means)
            for sentence, noise in enumerate(
                torch.randn(5 if document else longest, generator=generator).tolist()
            )
        ]
        found = corpus_cxmi(sentences).interval
        assert found is not None
        low, high = found
        held += low <= 0 <= high
    assert held >= 184
    assert held < 200 or longest > 5


@pytest.fixture
def cxmi(tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command on the first documents of the test set."""
    for lang in ("en", "de"):
        text = (tiny.text / f"test.{lang}").read_text(encoding="utf-8")
        few = "\n\n".join(text.strip().split("\n\n")[:4])
        (tmp_path / f"few.{lang}").write_text(few + "\n", encoding="utf-8")

    def call(model: str, *more: str) -> tuple[int, str, str]:
        files = ("--src", str(tmp_path / "few.en"), "--ref", str(tmp_path / "few.de"))
        path = ("--path", str(tiny.checkpoints[model]), "--data", str(tiny.data))
        status = main(["cxmi", *path, *files, "--cpu", *more])
        return status, *capsys.readouterr()

    return call


def test_a_sentence_model_uses_no_context(cxmi: Call) -> None:
    status, out, _ = cxmi("sentence", "--json")
    found = json.loads(out)
    assert (status, found["unit"], found["documents"]) == (0, "sentence", 4)
    assert (found["value"], found["interval"]) == (0.0, [0.0, 0.0])


def test_a_random_context_says_nothing_to_a_sentence_model(cxmi: Call, tmp_path: Path) -> None:
    """Its sentences, which are read in another order, come back to their places."""
    status, out, _ = cxmi(
        "sentence", "--shuffled-context", "--json", "--output", str(tmp_path / "x")
    )
    found = json.loads(out)
    assert status == 0
    assert found["shuffled_context"]["value"] == pytest.approx(0, abs=1e-5)
    assert found["above_shuffled_context"]["interval"] == pytest.approx([0, 0], abs=1e-5)
    head, *rows = (line.split("\t") for line in (tmp_path / "x").read_text().splitlines())
    assert head[-1] == "shuffled_context"
    each = [(float(row[4]), float(row[-1])) for row in rows]
    assert [in_random for _, in_random in each] == pytest.approx([alone for alone, _ in each])
    assert len({alone for alone, _ in each}) > 1


def test_sentences_are_written_and_add_up(cxmi: Call, tmp_path: Path) -> None:
    status, out, _ = cxmi("document", "--output", str(tmp_path / "each.tsv"))
    assert status == 0
    assert out.startswith("CXMI ") and "documents resampled" in out
    head, *rows = (tmp_path / "each.tsv").read_text().splitlines()
    columns = ("document", "sentence", "tokens", "with_context", "without_context", "cxmi")
    assert tuple(head.split("\t")) == columns
    values = [float(row.split("\t")[5]) for row in rows]
    assert sum(values) / len(values) == pytest.approx(float(out.split()[1]), abs=1e-4)
    assert any(value != 0 for value in values)
    cxmi("document", "--output", str(tmp_path / "each.jsonl"))
    objects = [json.loads(line) for line in (tmp_path / "each.jsonl").read_text().splitlines()]
    assert [entry["cxmi"] for entry in objects] == pytest.approx(values, abs=1e-5)
    (tmp_path / "each.tsv").write_text("of the user")
    status, _, err = cxmi("document", "--output", str(tmp_path / "each.tsv"))
    assert status == 1 and "did not write it" in err and "--force" in err


def test_another_model_may_stand_for_no_context(
    cxmi: Call, tiny: TinyWorld, tmp_path: Path
) -> None:
    sentence = ("--without", str(tiny.checkpoints["sentence"]))
    for model, more in (("document", sentence), ("sentence", ())):
        cxmi(model, *more, "--output", str(tmp_path / f"{model}.jsonl"))
    found = {
        model: [json.loads(line) for line in (tmp_path / f"{model}.jsonl").read_text().split("\n")
                if line]
        for model in ("document", "sentence")
    }  # fmt: skip
    for one, other in zip(found["document"], found["sentence"], strict=True):
        assert one["without_context"] == pytest.approx(other["with_context"], abs=1e-4)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--max-tokens", "0"), "`--max-tokens` must be at least 1, but is 0."),
        (
            ("--context", "1", "--overlap", "2"),
            "`--overlap 2` cuts documents, but with `--context 1` every sentence is scored with",
        ),
        (("--context", "1", "--max-doc-tokens", "99"), "`--max-doc-tokens 99` cuts documents"),
        (("--without-data", "x"), "`--without-data` is the folder of `--without`"),
        (("--output", "nowhere/x.tsv"), "`--output` 'nowhere/x.tsv': cannot be written"),
    ],
)
def test_mistakes_are_one_line(more: tuple[str, ...], message: str, cxmi: Call) -> None:
    status, out, err = cxmi("sentence", *more)
    assert (status, out) == (1, "")
    assert message in err.splitlines()[-1]
