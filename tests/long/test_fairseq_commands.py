"""The five systems by fairseq's commands alone: the losses and translations of ``gtrans``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.runs import GROUPS, PLUGIN, SIZES, differing, last, log_of
from support.tiny_models import StockCommands, TinyWorld

pytestmark = pytest.mark.long

LANGUAGES = ("--source-lang", "en", "--target-lang", "de")
SENTENCE = ("--arch", "gtransformer_tiny", "--unit", "sentence", "--doc-mode", "full", *GROUPS)
BY_GROUPS = ("--encoder-group-size", "1", "--decoder-group-size", "1")
MULTI_LEVEL = ("--criterion", "multi_level_cross_entropy")
FUSION = ("--arch", "gtrans_fusion_tiny", "--unit", "sentence", *BY_GROUPS)
# The sentence model, and the document model that starts from it.
SYSTEMS = {
    "gtransformer": (SENTENCE, ("--arch", "gtransformer_tiny", *GROUPS)),
    "memory": (SENTENCE, ("--arch", "memory_transformer_tiny", "--max-tokens", "300")),
    "fusion": ((*FUSION, *MULTI_LEVEL), (*FUSION, *MULTI_LEVEL)),
    "bert-context": (SENTENCE, ("--arch", "bert_context_transformer_tiny")),
    "flat": (SENTENCE, ("--arch", "flat_transformer_tiny", "--unit", "window")),
}
TRAINING = (
    *(*PLUGIN, *SIZES, "--share-all-embeddings", "--optimizer", "adam", "--lr", "0.003"),
    *("--num-workers", "0", "--cpu", "--log-format", "json", "--log-interval", "1"),
)


def losses(log: str) -> list[str]:
    """Those of all updates and of the validations."""
    return re.findall(r'"(?:valid_)?loss": "([\d.]+)"', log)


@pytest.mark.parametrize("system", SYSTEMS)
def test_losses_and_translations(
    system: str, tiny: TinyWorld, stock: StockCommands, prepared_with_bert: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data-bin"
    if system == "bert-context":
        data = prepared_with_bert  # subwords of BERT beside the source are not fairseq-preprocess's
    else:
        text = tiny.data / "text"
        prefixes = [
            part for split in ("train", "valid", "test")
            for part in (f"--{split}pref", text / f"{split}.bpe")
        ]  # fmt: skip
        stock.succeed("preprocess", *LANGUAGES, *prefixes, "--joined-dictionary", "--destdir", data)

    def both(stage: str, *options: str | Path) -> None:
        logs = []
        for name, command in (("fairseq", ("train",)), ("gtrans", ("gtrans", "train"))):
            criterion = () if "--criterion" in options else (
                "--criterion", "label_smoothed_cross_entropy"
            )  # fmt: skip
            limit = () if "--max-tokens" in options else ("--max-tokens", "512")
            files = (data, "--save-dir", tmp_path / name / stage)
            words = (*files, *TRAINING, *criterion, *limit, *options)
            logs.append(losses(log_of(stock(*command, *words))))
        assert logs[0] == logs[1] and len(logs[0]) > 4
        ends = [last(tmp_path / name / stage) for name in ("fairseq", "gtrans")]
        for part in ("model", "last_optimizer_state"):
            assert differing(ends[0][part], ends[1][part]) == []

    of_sentences, of_documents = SYSTEMS[system]
    both("sentence", *of_sentences, "--max-update", "4")
    start = tmp_path / "fairseq" / "sentence" / "checkpoint_best.pt"
    both("document", *of_documents, "--init-from", start, "--max-update", "4")
    found = []
    for name, command in (("fairseq", ("generate",)), ("gtrans", ("gtrans", "generate"))):
        path = tmp_path / name / "document" / "checkpoint_last.pt"
        search = ("--beam", "2", "--max-len-b", "8", "--cpu", "--gen-subset", "test")
        words = (*command, data, *PLUGIN, *LANGUAGES, *search, "--path", path)
        found.append(stock.succeed(*words).lines("H"))
    assert found[0] == found[1]
    assert len(found[0]) == len(tiny.subwords("en"))
