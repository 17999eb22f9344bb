"""Freeze tiny checkpoints with what they answer, for ``test_frozen_checkpoints.py``.

Every folder here is one generation: checkpoints of the version that it is named after, the
data folder and the BERT that they were trained with, and for each checkpoint the exact
translations and log-probabilities that this version gave. Later versions must give the same.

Nothing frozen is ever made again. This script freezes what a folder lacks: a new system in
the generation of today (found by itself; further variants stand in ``VARIANTS``), or all of
them in a new folder, when a version has changed what it writes::

    .venv/bin/python tests/frozen/make.py tests/frozen/0.2.0

0.1.0 was made before its release: by commit 357ba4f, and each system since by the commit that
added it (``flat_transformer_bert`` by a15e0dd).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gtrans import __version__
from gtrans.cli import main as gtrans
from gtrans.cli.shared.fairseq_commands import architectures

REPO = Path(__file__).resolve().parent.parent.parent
SIZES = (
    *("--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "16"),
    *("--encoder-ffn-embed-dim", "16", "--decoder-ffn-embed-dim", "16"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
)
TRAINING = (
    *("--user-dir", "gtrans", "--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1"),
    *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "40", "--dropout", "0"),
    *("--max-tokens", "512", "--max-update", "250", "--seed", "1"),
    *("--num-workers", "0", "--no-epoch-checkpoints", "--disable-validation", "--cpu"),
)
DOCUMENT = ("--task", "document_translation")
SHARED = "--share-all-embeddings"
TWO_LAYERS = ("--encoder-layers", "2", "--decoder-layers", "2")
# The lower layers have group attention only, the upper ones both kinds.
ONE_GLOBAL = (
    *TWO_LAYERS,
    *("--encoder-global-layers", "1", "--decoder-global-layers", "1"),
    *("--cross-global-layers", "1"),
)
CROSS_ENTROPY = ("--criterion", "label_smoothed_cross_entropy")
FUSION = (*DOCUMENT, "--arch", "gtrans_fusion_tiny", *SIZES, SHARED)
# What each one adds to TRAINING.
VARIANTS: dict[str, tuple[str, ...]] = {
    "gtransformer": (
        *(*DOCUMENT, "--arch", "gtransformer_tiny", *SIZES, SHARED, *ONE_GLOBAL, *CROSS_ENTROPY),
    ),
    "gtransformer-sentence-positions": (
        *(*DOCUMENT, "--arch", "gtransformer_tiny", *SIZES, SHARED, *ONE_GLOBAL, *CROSS_ENTROPY),
        *("--positions", "sentence", "--gate-bias", "2"),
    ),
    "gtransformer-like-mbart": (
        *(*DOCUMENT, "--arch", "gtransformer_tiny", *SIZES, SHARED, *ONE_GLOBAL, *CROSS_ENTROPY),
        *("--sentence-marks", "mbart", "--langs", "en,de", "--learned-positions"),
        *("--max-positions", "128", "--layernorm-embedding", "--encoder-normalize-before"),
        "--decoder-normalize-before",
    ),
    "gtransformer-full": (
        *(*DOCUMENT, "--arch", "gtransformer_tiny", *SIZES, SHARED, *ONE_GLOBAL, *CROSS_ENTROPY),
        *("--doc-mode", "full"),
    ),
    "concat_transformer": (
        *(*DOCUMENT, "--arch", "concat_transformer_tiny", *SIZES, SHARED, *CROSS_ENTROPY),
    ),
    "flat_transformer": (
        *(*DOCUMENT, "--arch", "flat_transformer_tiny", *SIZES, SHARED, *CROSS_ENTROPY),
        *("--encoder-layers", "2"),
    ),
    "memory_transformer": (
        *(*DOCUMENT, "--arch", "memory_transformer_tiny", *SIZES, SHARED, *CROSS_ENTROPY),
        *(*TWO_LAYERS, "--memory-size", "4"),
    ),
    "document_aware_transformer": (
        *(*DOCUMENT, "--arch", "document_aware_transformer_tiny", *SIZES, SHARED, *CROSS_ENTROPY),
    ),
    "bert_context_transformer": (
        *(*DOCUMENT, "--arch", "bert_context_transformer_tiny", *SIZES, SHARED, *CROSS_ENTROPY),
    ),
    # The encoder is a BERT, whose feed-forward nets are four times as wide as the model.
    "gtransformer_bert": (
        *(*DOCUMENT, "--arch", "gtransformer_bert_tiny", *SIZES, *ONE_GLOBAL, *CROSS_ENTROPY),
        *("--encoder-ffn-embed-dim", "64", "--share-decoder-input-output-embed"),
    ),
    "flat_transformer_bert": (
        *(*DOCUMENT, "--arch", "flat_transformer_bert", *SIZES, *CROSS_ENTROPY),
        *("--encoder-layers", "2", "--encoder-ffn-embed-dim", "64"),
        "--share-decoder-input-output-embed",
    ),
    "gtrans_fusion": (
        *(*FUSION, "--criterion", "multi_level_cross_entropy", "--sentence-marks", "end"),
        *("--encoder-layers", "4", "--decoder-layers", "2"),
        *("--encoder-group-size", "2", "--decoder-group-size", "1"),
    ),
    "gtransformer-fusion": (
        *(*DOCUMENT, "--arch", "gtransformer_tiny", *SIZES, SHARED, *ONE_GLOBAL),
        *("--encoder-group-size", "1", "--decoder-group-size", "1"),
        *("--criterion", "multi_level_cross_entropy"),
    ),
    "gtransformer_memory": (
        *(*DOCUMENT, "--arch", "gtransformer_memory_tiny", *SIZES, SHARED, *ONE_GLOBAL),
        *(*CROSS_ENTROPY, "--max-doc-tokens", "24"),
    ),
    "gtrans_fusion-dlcl": (*FUSION, *CROSS_ENTROPY, *TWO_LAYERS, "--system", "dlcl"),
}
# Its optimizer is kept too, so that it can be resumed as it was left.
RESUMED = "gtransformer-full"
SEARCH = ("--max-len-a", "0", "--max-len-b", "12", "--cpu")


def systems() -> dict[str, tuple[str, ...]]:
    """The variants, and each class that has none, with the defaults of its smallest sizes."""
    found = dict(VARIANTS)
    named = {word for options in VARIANTS.values() for word in options}
    models: dict[type, list[str]] = {}
    for arch, model in architectures().items():
        models.setdefault(model, []).append(arch)
    for names in models.values():
        if not named & set(names):
            smallest = next((name for name in names if name.endswith("_tiny")), names[0])
            found[names[0]] = (*DOCUMENT, "--arch", smallest, *SIZES, SHARED, *CROSS_ENTROPY)
    return found


def copy_data(generation: Path, target: Path) -> None:
    """Copy a frozen data folder, and say in it where its BERT is now."""
    shutil.copytree(generation / "data", target)
    name_bert(target, str(generation / "bert"))


def name_bert(data: Path, name: str) -> None:
    """Say in a data folder where its BERT is."""
    state = json.loads((data / "prepare.json").read_text(encoding="utf-8"))
    state["bert"]["name"] = name
    whole = json.dumps(state, indent=2) + "\n"
    (data / "prepare.json").write_text(whole, encoding="utf-8")


def answers(generation: Path, system: str, data: Path, scratch: Path) -> dict[str, Any]:
    """What a frozen checkpoint gives, by the commands that a user types.

    Args:
        generation: the folder with the checkpoint and the text.
        system: the name of the checkpoint.
        data: what :func:`copy_data` has written.
        scratch: an empty folder.

    Returns:
        ``translations``: the lines by beam 1 and 5, of the binarised split and of the text;
        ``log_probabilities``: of the sentences of the reference, with and without context.
    """
    model = ("--path", f"{generation / system}.pt", "--data", str(data))
    text = {lang: str(generation / f"test.{lang}") for lang in ("en", "de")}
    files = {beam: scratch / f"beam{beam}.de" for beam in ("1", "5")}
    source = {"1": ("--split", "test"), "5": ("--input", text["en"])}
    for beam, file in files.items():
        command = ("translate", *model, *source[beam], "--beam", beam, "--output", str(file))
        assert gtrans([*command, *SEARCH]) == 0
    scores = scratch / "scores.jsonl"
    sides = ("--src", text["en"], "--ref", text["de"])
    assert gtrans(["cxmi", *model, *sides, "--output", str(scores), "--cpu"]) == 0
    values = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines()]
    return {
        "translations": {
            f"beam {beam}": file.read_text(encoding="utf-8").splitlines()
            for beam, file in files.items()
        },
        "log_probabilities": [
            [value["with_context"], value["without_context"]] for value in values
        ],
    }


def run(*words: str | Path, cwd: Path) -> None:
    """Run a command of the environment, or stop."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO)}
    command = [str(word) for word in words]
    subprocess.run(command, cwd=cwd, env=environment, check=True)


def write_text(folder: Path) -> None:
    """The embedded corpus, its test set cut down to three documents."""
    run(sys.executable, "-m", "gtrans", "make-corpus", "--docs", "400", "--items", "2",
        "--out", folder, cwd=REPO)  # fmt: skip
    for lang in ("en", "de"):
        file = folder / f"test.{lang}"
        documents = file.read_text(encoding="utf-8").strip().split("\n\n")
        file.write_text("\n\n".join(documents[:3]) + "\n", encoding="utf-8")


def make_bert(text: Path, folder: Path) -> None:
    """A tiny BERT as ``scripts/make_bert.py`` makes it, untrained."""
    spec = importlib.util.spec_from_file_location("make_bert", REPO / "scripts" / "make_bert.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    documents = (text / "train.en").read_text(encoding="utf-8").strip().split("\n\n")
    sizes = {"vocabulary": 150, "layers": 2, "dim": 16, "heads": 2}
    script.make_bert(folder, [document.split("\n") for document in documents], **sizes)


def prepare(generation: Path, work: Path) -> None:
    """Write ``work/data``, and what the generation lacks of text, BERT and data folder."""
    text, data = work / "text", work / "data"
    write_text(text)
    way: tuple[str | Path, ...] = ("--bpe-merges", "100", "--bert", generation / "bert")
    if (generation / "data").is_dir():
        copy_data(generation, work / "frozen")
        way = ("--reuse", work / "frozen")
    else:
        make_bert(text, generation / "bert")
    splits = [part for name in ("train", "valid", "test") for part in (f"--{name}", text / name)]
    run(sys.executable, "-m", "gtrans", "prepare", "--source-lang", "en", "--target-lang", "de",
        *splits, *way, "--out", data, cwd=REPO)  # fmt: skip
    if (generation / "data").is_dir():
        # Checkpoints carry the name of the BERT, which is no place of this machine.
        (work / "bert").symlink_to(generation / "bert")
        name_bert(data, "bert")
        return
    # Neither training text nor logs; the BERT is found next to the data folder.
    unneeded = shutil.ignore_patterns("train.*", "valid.*", "text", "preprocess.log")
    shutil.copytree(data, generation / "data", ignore=unneeded)
    name_bert(generation / "data", "bert")
    for lang in ("en", "de"):
        shutil.copy(text / f"test.{lang}", generation)


def freeze(generation: Path, system: str, work: Path) -> None:
    """Train one system and keep its checkpoint with its answers."""
    saved = Path("checkpoints") / system
    # Relative, so that the checkpoint names no place of this machine.
    command = ["fairseq-train", "data", *TRAINING, *systems()[system], "--save-dir", str(saved)]
    if system != RESUMED:
        command.append("--no-save-optimizer-state")
    run(Path(sys.executable).with_name(command[0]), *command[1:], cwd=work)
    checkpoint = work / saved / "checkpoint_last.pt"
    content = checkpoint.read_bytes()
    found = [place for place in (work, REPO, Path.home()) if os.fsencode(place) in content]
    assert not found, f"{checkpoint} names {found}"
    shutil.copy(checkpoint, generation / f"{system}.pt")
    scratch = work / f"answers-{system}"
    scratch.mkdir()
    frozen = {
        "version": __version__,
        "training": " ".join(command),
        **answers(generation, system, work / "used", scratch),
    }
    whole = json.dumps(frozen, indent=1, ensure_ascii=False) + "\n"
    (generation / f"{system}.json").write_text(whole, encoding="utf-8")


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("generation", type=Path, metavar="FOLDER")
    generation = parser.parse_args().generation.resolve()
    missing = [name for name in systems() if not (generation / f"{name}.pt").exists()]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "gtrans").symlink_to(REPO / "gtrans")
        prepare(generation, work)
        copy_data(generation, work / "used")
        for system in missing:
            freeze(generation, system, work)
    print(f"{generation}: frozen {', '.join(missing) or 'nothing new'}")


if __name__ == "__main__":
    main()
