"""What is killed: commands as a user types them, and the files that they must come to.

A command runs in an empty folder. ``{NAME}`` stands for the folder in which the command of the case
NAME has run without an interruption, so cases build on each other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gtrans.identity.digests import digest, fingerprint

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
CHECKPOINT = "*checkpoint*.pt*"
"""Name of a file to which a training writes its checkpoint, whatever is put around it."""


@dataclass(frozen=True)
class Case:
    """A command that is killed.

    Attributes:
        name: of the case, and of the folder of its uninterrupted run.
        title: what the table calls it.
        command: the words that are typed; the first one is a program.
        results: patterns of the files that are compared.
        weight: its share of the kills; 0: it only makes what others need.
        aim: pattern of the files during whose writing a part of the kills happens.
        whole: kill all processes at once, as when a job is cancelled or the machine goes down;
            otherwise only the first one, and its children have to notice.
        needs: a command that must succeed, else the case is skipped.
    """

    name: str
    title: str
    command: tuple[str, ...]
    results: tuple[str, ...]
    weight: int = 1
    aim: str = "*"
    whole: bool = False
    needs: tuple[str, ...] = ()

    @property
    def others(self) -> list[str]:
        """The names of the cases that it builds on, in order of their mention."""
        named = re.findall(r"\{([a-z0-9-]+)\}", " ".join(self.command))
        return list(dict.fromkeys(name for name in named if name != "root"))

    def words(self, expected: Path) -> list[str]:
        """The command with its folders: ``expected`` holds those of uninterrupted runs."""
        folders = {name: expected / name for name in self.others} | {"root": ROOT}
        return typed(
            re.sub(r"\{([a-z0-9-]+)\}", lambda found: str(folders[found[1]]), word)
            for word in self.command
        )


def typed(command: Iterable[str]) -> list[str]:
    """A command whose program is that of this environment."""
    first, *rest = command
    return [str(PROGRAMS / first) if (PROGRAMS / first).exists() else first, *rest]


def identity(case: Case, cases: Mapping[str, Case]) -> str:
    """Digest of what the results of a case depend on: commands, and the code of the project."""
    others = [identity(cases[name], cases) for name in case.others]
    return fingerprint(_code(), case.command, case.results, others)


@cache
def _code() -> str:
    """Digest of the code that runs."""
    folders = ("gtrans", "exp_gtransformer", "scripts/reliability")
    files = (path for name in folders for path in sorted((ROOT / name).rglob("*.[ps][yh]")))
    return fingerprint(*((str(path.relative_to(ROOT)), digest(path)) for path in files))


# ---- the table -----------------------------------------------------------------------------------

_LANGUAGES = ("--source-lang", "en", "--target-lang", "de")
_TEXT = tuple(
    word for split in ("train", "valid", "test") for word in
    (f"--{split}", f"{{corpus}}/corpus/{split}")
)  # fmt: skip
_SIZE = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "64"),
    *("--encoder-ffn-embed-dim", "128", "--decoder-ffn-embed-dim", "128"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
    "--share-all-embeddings",
)
_GLOBAL = tuple(
    word for part in ("encoder", "decoder", "cross") for word in (f"--{part}-global-layers", "1")
)
_STEPS = ("--max-tokens", "1000", "--max-update", "40", "--save-interval-updates", "7")
_TRAINING = (
    *("--optimizer", "adam", "--lr", "0.003", "--lr-scheduler", "inverse_sqrt"),
    *("--warmup-updates", "10", "--dropout", "0.1", "--save-dir", "run", "--cpu"),
)
_SMOOTHED = ("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1")
_SENTENCE = ("--arch", "gtransformer_tiny", "--unit", "sentence", "--doc-mode", "full", *_GLOBAL)
_DOCUMENT = ("--arch", "gtransformer_tiny", "--unit", "document", *_GLOBAL)
_START = ("--init-from", "{train-sentence}/run/checkpoint_best.pt")
_STOCK = ("fairseq-train",)
_PLUGIN = ("--user-dir", "{root}/gtrans", "--task", "document_translation")


def _training(
    name: str, title: str, *options: str, data: str = "prepare", criterion: tuple[str, ...] =
    _SMOOTHED, steps: tuple[str, ...] = _STEPS, weight: int = 3,
) -> Case:  # fmt: skip
    """``fairseq-train``, with checkpoints within epochs and at their ends."""
    words = (*_STOCK, f"{{{data}}}/data", *_PLUGIN, *options, *_SIZE, *criterion, *_TRAINING)
    return Case(
        f"train-{name}", f"`fairseq-train`: {title}", (*words, *steps), ("run/checkpoint*.pt",),
        weight, CHECKPOINT,
    )  # fmt: skip


def _prepare(name: str, title: str, *options: str, weight: int = 2) -> Case:
    words = ("gtrans", "prepare", *_LANGUAGES, *_TEXT, *options, "--out", "data")
    return Case(name, f"`gtrans prepare`: {title}", words, ("data/**/*",), weight)


def _gtrans(name: str, title: str, results: str, *words: str, **others: Any) -> Case:
    return Case(name, title, ("gtrans", *words), (results,), **others)


_MODEL = (
    *("--path", "{train-document}/run/checkpoint_best.pt", "--data", "{prepare}/data", "--cpu"),
)
_SEARCH = ("--beam", "2", "--max-len-a", "1", "--max-len-b", "5", "--max-tokens", "400")
_BYTES = (
    "import tokenizers; model = tokenizers.ByteLevelBPETokenizer(); model.train(["
    "'{corpus}/corpus/train.en'], vocab_size=400); model.save_model('.')"
)
_PIECES = (
    "import sentencepiece; sentencepiece.SentencePieceTrainer.train(input='{corpus}/corpus/train.en"
    ",{corpus}/corpus/train.de', vocab_size=300, num_threads=1, model_prefix='pieces')"
)

_TABLE = [
    _gtrans(
        "corpus", "`gtrans make-corpus`", "corpus/**/*",
        *("make-corpus", "--docs", "200", "--items", "2", "--out", "corpus"),
    ),
    _gtrans(
        "texts", "`gtrans get-corpus`", "texts/own/*",
        *("get-corpus", "own", "--from", "{corpus}/corpus", "--out", "texts", *_LANGUAGES),
        *("--splits", "train,test"),
    ),
    Case(
        "bert", "`scripts/make_bert.py`",
        ("python", "{root}/scripts/make_bert.py", "--text", "{corpus}/corpus/train.en", "--out",
         "bert", "--vocabulary", "200", "--dim", "16", "--heads", "2", "--updates", "0"),
        ("bert/*",), weight=0,
    ),
    Case("pieces", "a SentencePiece model", ("python", "-c", _PIECES), ("pieces.model",), weight=0),
    Case(
        "bytes", "a byte-level BPE", ("python", "-c", _BYTES), ("vocab.json", "merges.txt"),
        weight=0,
    ),
    _prepare("prepare", "Moses, BPE, 2 processes", "--bpe-merges", "300", "--workers", "2"),
    _prepare("prepare-pieces", "SentencePiece", "--sentencepiece", "{pieces}/pieces.model"),
    _prepare(
        "prepare-bert", "with word pieces of a BERT", "--bpe-merges", "300", "--bert",
        "{bert}/bert",
    ),
    _training("sentence", "sentence Transformer", *_SENTENCE),
    _training("document", "G-Transformer", *_DOCUMENT, *_START),
    _training(
        "flat", "Flat-Transformer", "--arch", "flat_transformer_tiny", "--unit", "window",
        "--context-before", "1", "--context-after", "1",
    ),
    _training(
        "stream", "recurrent memory", "--arch", "memory_transformer_tiny", "--unit", "stream",
        *_START,
        steps=("--max-tokens", "1000", "--max-update", "24", "--save-interval-updates", "5"),
    ),
    _training(
        "bert", "BERT context, with a cache", "--arch", "bert_context_transformer_tiny", "--unit",
        "window", "--context-before", "1", "--bert-cache", "features", data="prepare-bert",
    ),
    _training(
        "fusion", "GTRANS fusion", "--arch", "gtrans_fusion_tiny", "--unit", "sentence",
        "--encoder-group-size", "1", "--decoder-group-size", "1",
        criterion=("--criterion", "multi_level_cross_entropy", "--label-smoothing", "0.1"),
    ),
    _training(
        "bf16", "`--bf16`, learned positions", *_SENTENCE, "--bf16", "--learned-positions",
        "--max-positions", "200",
    ),
    _training(
        "patience", "`--patience`, old checkpoints removed", *_SENTENCE, "--no-epoch-checkpoints",
        # so high a rate that the loss soon rises
        steps=(*_STEPS, "--lr", "0.1", "--validate-interval-updates", "4", "--patience", "3",
               "--keep-interval-updates", "2"),
    ),
    _training(
        "marks", "marks of mBART", *_DOCUMENT, "--sentence-marks", "mbart", "--langs",
        "de_DE,en_XX", data="prepare-pieces", weight=0,
    ),
    Case(
        "gtrans-train", "`gtrans train`",
        ("gtrans", "train", "{prepare}/data", *_DOCUMENT, *_SIZE, *_SMOOTHED, *_TRAINING, *_STEPS),
        ("run/checkpoint*.pt",), 3, CHECKPOINT, needs=("gtrans", "train", "--help"),
    ),
    _gtrans(
        "translate", "`gtrans translate`: text", "out.de",
        *("translate", *_MODEL, "--input", "{corpus}/corpus/test.en", "--output", "out.de"),
        *_SEARCH, weight=2,
    ),
    Case(
        "pages", "a folder of pages",
        ("python", "{root}/scripts/reliability/pages.py", "{corpus}/corpus/test.en", "pages"),
        ("pages/**/*",), weight=0,
    ),
    _gtrans(
        "translate-files", "`gtrans translate`: a folder of files", "out/**/*",
        *("translate", "{pages}/pages", "--output-dir", "out", *_MODEL), *_SEARCH, weight=2,
    ),
    _gtrans(
        "translate-split", "`gtrans translate`: a prepared split", "out.de",
        *("translate", *_MODEL, "--split", "valid", "--output", "out.de"), *_SEARCH, weight=2,
    ),
    _gtrans(
        "cxmi", "`gtrans cxmi`", "out.tsv",
        *("cxmi", *_MODEL, "--src", "{corpus}/corpus/test.en", "--ref", "{corpus}/corpus/test.de"),
        *("--output", "out.tsv"),
    ),
    _gtrans(
        "contrast", "`gtrans contrast`", "out.jsonl",
        *("contrast", *_MODEL, "--set", "{corpus}/corpus/contrastive/pronoun.jsonl"),
        *("--output", "out.jsonl"),
    ),
    _gtrans(
        "analyse", "`gtrans analyse`", "plot.*",
        *("analyse", *_MODEL, "--units", "20", "--plot", "plot.svg"),
        needs=("python", "-c", "import matplotlib"),
    ),
    _gtrans(
        "score", "`gtrans score`: files for other tools", "tools/**/*",
        *("score", "--hyp", "{translate}/out.de", "--src", "{corpus}/corpus/test.en", "--ref"),
        *("{corpus}/corpus/test.de", "--metrics", "s_bleu", "--comet", "--external-dir", "tools"),
    ),
    _gtrans(
        "average", "`gtrans average`", "average.pt",
        *("average", "--last-updates", "3", "--output", "average.pt", "{train-sentence}/run"),
    ),
    _gtrans(
        "convert", "`gtrans convert`", "longer.pt",
        *("convert", "--from", "gtrans", "--extend-positions", "300"),
        *("{train-bf16}/run/checkpoint_last.pt", "longer.pt"),
    ),
    _gtrans(
        "trim-vocab", "`gtrans trim-vocab`", "small/*",
        *("trim-vocab", "--data", "{prepare-pieces}/data", "--splits", "test", "--out", "small"),
        "{train-marks}/run/checkpoint_last.pt",
    ),
    Case(
        "recipe", "`exp_gtransformer/run-finetune.sh`",
        (
            *("bash", "{root}/exp_gtransformer/run-finetune.sh", "--out", "out", "--gpus", "0"),
            *("--train-prefix", "{corpus}/corpus/train", "--valid-prefix", "{corpus}/corpus/valid"),
            *("--test-prefix", "{corpus}/corpus/test", "--bpe-merges", "300", "--beam", "1"),
            *("--arch", "gtransformer_tiny", "--sentence-updates", "20", "--document-updates"),
            *("10", "--max-tokens", "1000", "--", *_SIZE, *_GLOBAL, "--save-interval-updates", "4"),
        ),
        ("out/data/**/*", "out/*/checkpoint*.pt", "out/test.*", "out/scores.*"),
        2, CHECKPOINT, whole=True,
    ),
    _gtrans(
        "report", "`gtrans report`", "report.html",
        *("report", "{recipe}/out", "--output", "report.html"),
        needs=("python", "-c", "import jinja2, matplotlib"),
    ),
]  # fmt: skip
CASES = {case.name: case for case in _TABLE}
