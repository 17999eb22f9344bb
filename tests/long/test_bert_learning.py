"""BERT as context, on the embedded corpus, by the commands that a user types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
SIZE = (
    *("--encoder-layers", "3", "--decoder-layers", "3", "--encoder-embed-dim", "128"),
    *("--encoder-ffn-embed-dim", "512", "--decoder-ffn-embed-dim", "512"),
    *("--encoder-attention-heads", "4", "--decoder-attention-heads", "4"),
    *("--share-all-embeddings", "--dropout", "0.1"),
)
TRAINING = (
    *("--user-dir", "gtrans", "--task", "document_translation", "--optimizer", "adam"),
    *("--adam-betas", "(0.9, 0.98)", "--lr", "0.003", "--lr-scheduler", "inverse_sqrt"),
    *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
    *("--max-tokens", "4096", "--no-epoch-checkpoints", "--disable-validation"),
    *("--num-workers", "0", "--seed", "1", "--cpu"),
)
SYSTEMS = {
    "bert": ("--arch", "bert_context_transformer_tiny", "--warmup-updates", "50",
             "--max-update", "700"),
    "words": ("--arch", "document_aware_transformer_tiny", "--warmup-updates", "240", "--lr",
              "0.0015", "--context-gate-bias", "0", "--lr-scale-pretrained", "1",
              "--max-update", "500"),
}  # fmt: skip
# Those whose cue stands in the source.
PHENOMENA = ("ellipsis", "pronoun")


@pytest.mark.long
def test_the_context_is_found_one_sentence_back(repo: Path, tmp_path: Path) -> None:
    """Right with the true context, at chance with random words in its place."""

    def run(*words: str | Path) -> str:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [str(word) for word in words], cwd=repo, env=environment, check=True,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return done.stdout

    def train(name: str, *options: str | Path) -> Path:
        saved = tmp_path / name
        run(BIN / "fairseq-train", data, *TRAINING, *SIZE, *options, "--save-dir", saved)
        return saved / "checkpoint_last.pt"

    text, data, bert = (tmp_path / name for name in ("corpus", "data", "bert"))
    gtrans = BIN / "gtrans"
    pytest.importorskip("gtrans.lab")
    run(gtrans, "make-corpus", "--seed", "1", "--docs", "4000", "--out", text)
    run(sys.executable, repo / "scripts" / "make_bert.py", "--text", text / "train.en",
        "--out", bert, "--updates", "800", "--layers", "3")  # fmt: skip
    run(gtrans, "prepare", "--source-lang", "en", "--target-lang", "de", "--train", text / "train",
        "--valid", text / "valid", "--test", text / "test", "--bpe-merges", "1000",
        "--bert", bert, "--out", data)  # fmt: skip
    sentence = train(
        "sentence", "--arch", "bert_context_transformer_tiny", "--bert-integration", "none",
        "--unit", "sentence", "--warmup-updates", "100", "--max-update", "400",
    )  # fmt: skip
    sets = [text / "contrastive" / f"{phenomenon}.jsonl" for phenomenon in PHENOMENA]
    for name, options in SYSTEMS.items():
        context = train(name, *options, "--unit", "window", "--init-from", sentence)
        for kind, low, high in (("true", 0.9, 1.0), ("random", 0.4, 0.6)):
            output = run(gtrans, "contrast", "--path", context, "--data", data, "--set", *sets,
                         "--context-kind", kind, "--json")  # fmt: skip
            for phenomenon, cells in json.loads(output)["contrastive"].items():
                assert low <= cells["1"] <= high, (name, kind, phenomenon)
                assert 0.4 <= cells["2"] <= 0.6, (name, kind, phenomenon)
