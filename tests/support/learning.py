"""What learning tests share: the embedded corpus, and a sentence model to start from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gtrans.cli import main
from support.synthetic_corpus import prepare

if TYPE_CHECKING:
    from support.tiny_models import StockCommands

# As in docs/training.md.
SETTINGS = (
    *("--encoder-layers", "3", "--decoder-layers", "3", "--encoder-embed-dim", "128"),
    *("--encoder-ffn-embed-dim", "512", "--decoder-ffn-embed-dim", "512"),
    *("--share-all-embeddings", "--dropout", "0.1", "--optimizer", "adam"),
    *("--adam-betas", "(0.9, 0.98)", "--lr-scheduler", "inverse_sqrt", "--seed", "1"),
    *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
    *("--max-tokens", "4096", "--no-epoch-checkpoints", "--cpu", "--num-workers", "0"),
)
SENTENCE = (
    *("--arch", "gtransformer_tiny", "--unit", "sentence", "--lr", "0.003"),
    *("--warmup-updates", "100", "--max-update", "400"),
)


@dataclass
class LearningWorld:
    """The embedded corpus, prepared, and a folder for models.

    Attributes:
        folder: models are saved in folders in it.
        run: fairseq's own commands.
    """

    folder: Path
    run: StockCommands

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    def contrast(self, checkpoint: Path, capsys: Any, *options: Any, sets: Any = ()) -> Any:
        """What ``gtrans contrast`` reports; without ``sets`` of pronouns and of ellipsis."""
        known = self.folder / "corpus" / "contrastive"
        files = sets or [known / f"{name}.jsonl" for name in ("pronoun", "ellipsis")]
        words = ["contrast", "--path", checkpoint, "--data", self.data, "--json", "--cpu"]
        capsys.readouterr()
        assert main([str(part) for part in (*words, *options, "--set", *files)]) == 0
        return json.loads(capsys.readouterr().out)

    def prepare(self) -> None:
        """Write and prepare the corpus."""
        corpus = self.folder / "corpus"
        pytest.importorskip("gtrans.lab")
        made = ["make-corpus", "--seed", "1", "--docs", "4000"]
        assert main([*made, "--out", str(corpus)]) == 0
        assert prepare(corpus, self.data, "--bpe-merges", "1000") == 0

    def train(self, name: str, *options: str | Path) -> Path:
        """Train a model; returns its best checkpoint."""
        self.run.succeed(
            "train", self.data, "--user-dir", "gtrans", "--task", "document_translation",
            *SETTINGS, *options, "--save-dir", self.folder / name,
        )  # fmt: skip
        return self.folder / name / "checkpoint_best.pt"

    def from_sentence_model(self, name: str, *options: str | Path) -> Path:
        """Train a sentence model and, from it, another one; returns its best checkpoint."""
        self.prepare()
        start = self.train("sentence", *SENTENCE)
        return self.train(name, *options, "--init-from", start, "--optimizer", "two_rate_adam")
