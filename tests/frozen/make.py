"""Freeze tiny checkpoints with what they answer, for ``test_frozen_checkpoints.py``.

An archive here is one generation: checkpoints of the version that it is named after, in
bfloat16, the data folder and the BERT that they were trained with, and in ``answers.json`` the
exact translations and log-probabilities that this version gave. Later versions must give the same.

Nothing frozen is made again. This script freezes what an archive lacks, a new system; or all of
them in a new archive, when a version has changed what it writes::

    .venv/bin/python tests/frozen/make.py tests/frozen/0.1.0.tar.xz
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from gtrans.cli import main as gtrans
from gtrans.cli.shared.fairseq_commands import architectures
from gtrans.translating.loading import import_plugin

REPO = Path(__file__).resolve().parent.parent.parent
WIDTH = "12"
SIZES = (
    *("--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", WIDTH),
    *("--encoder-ffn-embed-dim", WIDTH, "--decoder-ffn-embed-dim", WIDTH),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
)
TRAINING = (
    *("--user-dir", "gtrans", "--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1"),
    *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "40", "--dropout", "0"),
    *("--max-tokens", "512", "--max-update", "250", "--seed", "1", "--num-workers", "0"),
    *("--no-epoch-checkpoints", "--disable-validation", "--cpu"),
)
# The one whose optimizer is frozen, too: it is what takes most room.
WITH_OPTIMIZER = "concat_transformer"
SHARED = "--share-all-embeddings"
TWO_LAYERS = ("--encoder-layers", "2", "--decoder-layers", "2")
# The lower layers have group attention only, the upper ones both kinds.
GTRANSFORMER = (
    *("--arch", "gtransformer_tiny", *SIZES, SHARED, *TWO_LAYERS),
    *("--encoder-global-layers", "1", "--decoder-global-layers", "1"),
    *("--cross-global-layers", "1"),
)
BERT = ("--encoder-ffn-embed-dim", "48", "--share-decoder-input-output-embed")
CROSS_ENTROPY = ("--criterion", "label_smoothed_cross_entropy")
MULTI_LEVEL = ("--criterion", "multi_level_cross_entropy")
# What each one adds to TRAINING; all other classes are trained with their defaults.
VARIANTS: dict[str, tuple[str, ...]] = {
    "gtransformer": (*GTRANSFORMER, *CROSS_ENTROPY),
    "gtransformer-sentence-positions": (
        *(*GTRANSFORMER, *CROSS_ENTROPY, "--positions", "sentence", "--gate-bias", "2"),
    ),
    "gtransformer-like-mbart": (
        *(*GTRANSFORMER, *CROSS_ENTROPY, "--sentence-marks", "mbart", "--langs", "en,de"),
        *("--learned-positions", "--max-positions", "128", "--layernorm-embedding"),
        *("--encoder-normalize-before", "--decoder-normalize-before"),
    ),
    "gtransformer_memory": (
        *("--arch", "gtransformer_memory_tiny", *GTRANSFORMER[2:], *CROSS_ENTROPY),
        *("--max-doc-tokens", "24"),
    ),
    "flat_transformer": (
        *("--arch", "flat_transformer_tiny", *SIZES, SHARED, "--encoder-layers", "2"),
        *CROSS_ENTROPY,
    ),
    "memory_transformer": (
        *("--arch", "memory_transformer_tiny", *SIZES, SHARED, *TWO_LAYERS, "--memory-size", "4"),
        *CROSS_ENTROPY,
    ),
    "bert_context_transformer": (
        *("--arch", "bert_context_transformer_tiny", *SIZES, SHARED, *CROSS_ENTROPY),
    ),
    # The encoder is a BERT, whose feed-forward networks are four times as wide as the model.
    "gtransformer_bert": (
        *("--arch", "gtransformer_bert_tiny", *(x for x in GTRANSFORMER[2:] if x != SHARED)),
        *(*BERT, *CROSS_ENTROPY),
    ),
    "flat_transformer_bert": (
        *("--arch", "flat_transformer_bert", *SIZES, "--encoder-layers", "2", *BERT),
        *CROSS_ENTROPY,
    ),
    "gtrans_fusion": (
        *("--arch", "gtrans_fusion_tiny", *SIZES, SHARED, *MULTI_LEVEL, "--sentence-marks", "end"),
        *("--max-update", "600"),
        *("--encoder-layers", "4", "--decoder-layers", "2"),
        *("--encoder-group-size", "2", "--decoder-group-size", "1"),
    ),
}
_TRAIN_EACH = """
import json, sys
from fairseq_cli.train import cli_main
for command in json.load(sys.stdin):
    sys.argv = command
    cli_main()
"""
SEARCH = ("--max-len-a", "0", "--max-len-b", "12", "--cpu")


def systems() -> dict[str, tuple[str, ...]]:
    """The variants, and each class that has none, with the defaults of its smallest sizes."""
    options = dict(VARIANTS)
    named = {word for words in VARIANTS.values() for word in words}
    models: dict[type, list[str]] = {}
    for arch, model in architectures().items():
        models.setdefault(model, []).append(arch)
    for names in models.values():
        if not named & set(names):
            smallest = next((name for name in names if name.endswith("_tiny")), names[0])
            options[names[0]] = ("--arch", smallest, *SIZES, SHARED, *CROSS_ENTROPY)
    return options


def unpack(archive: Path, folder: Path) -> Path:
    """The files of a generation in ``folder``, whose data folder says where its BERT is now."""
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    name_bert(folder / "data", str(folder / "bert"))
    return folder


def name_bert(data: Path, name: str) -> None:
    """Say in a data folder where its BERT is."""
    state = json.loads((data / "prepare.json").read_text(encoding="utf-8"))
    state["bert"]["name"] = name
    whole = json.dumps(state, indent=2) + "\n"
    (data / "prepare.json").write_text(whole, encoding="utf-8")


def answers(generation: Path, system: str, scratch: Path) -> dict[str, Any]:
    """What a frozen checkpoint gives, by the commands that a user types.

    Args:
        generation: the unpacked folder.
        system: the name of the checkpoint.
        scratch: an empty folder.

    Returns:
        ``translations``: the lines by beam 1 and 5;
        ``log_probabilities``: of the sentences of the reference, with and without context.
    """
    model = ("--path", f"{generation / system}.pt", "--data", str(generation / "data"))
    text = {lang: str(generation / f"test.{lang}") for lang in ("en", "de")}
    written = {beam: scratch / f"beam{beam}.de" for beam in ("1", "5")}
    for beam, file in written.items():
        files = ("--input", text["en"], "--output", str(file))
        assert gtrans(["translate", *model, *files, "--beam", beam, *SEARCH]) == 0
    scores = scratch / "scores.jsonl"
    sides = ("--src", text["en"], "--ref", text["de"])
    assert gtrans(["cxmi", *model, *sides, "--output", str(scores), "--cpu"]) == 0
    values = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines()]
    return {
        "translations": {
            f"beam {beam}": file.read_text(encoding="utf-8").splitlines()
            for beam, file in written.items()
        },
        "log_probabilities": [
            [value["with_context"], value["without_context"]] for value in values
        ],
    }


def run(*words: str | Path, cwd: Path) -> None:
    """Run a command of the environment, or stop."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO)}
    subprocess.run([str(word) for word in words], cwd=cwd, env=environment, check=True)


def make_bert(text: Path, folder: Path) -> None:
    """A tiny BERT as ``scripts/make_bert.py`` makes it, untrained."""
    spec = importlib.util.spec_from_file_location("make_bert", REPO / "scripts" / "make_bert.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    lines = (text / "train.en").read_text(encoding="utf-8").strip().split("\n\n")
    sizes = {"vocabulary": 150, "layers": 2, "dim": int(WIDTH), "heads": 2}
    script.make_bert(folder, [document.split("\n") for document in lines], **sizes)
    weights = folder / "model.safetensors"
    halves = {name: tensor.bfloat16() for name, tensor in load_file(weights).items()}
    save_file(halves, weights, {"format": "pt"})


def prepare(work: Path, archive: Path) -> Path:
    """Make text, BERT and data in ``work``, as in the archive if there is one.

    Returns:
        the folder of what is to be frozen.
    """
    generation, text = work / "generation", work / "text"
    generation.mkdir()
    run(sys.executable, "-m", "gtrans", "make-corpus", "--docs", "400", "--items", "2",
        "--out", text, cwd=REPO)  # fmt: skip
    for lang in ("en", "de"):
        documents = (text / f"test.{lang}").read_text(encoding="utf-8").strip().split("\n\n")
        (text / f"test.{lang}").write_text("\n\n".join(documents[:3]) + "\n", encoding="utf-8")
        shutil.copy(text / f"test.{lang}", generation)
    if archive.exists():
        way: tuple[str | Path, ...] = ("--reuse", unpack(archive, generation) / "data")
    else:
        make_bert(text, generation / "bert")
        way = ("--bpe-merges", "100", "--bert", generation / "bert")
    splits = [part for name in ("train", "valid", "test") for part in (f"--{name}", text / name)]
    run(sys.executable, "-m", "gtrans", "prepare", "--source-lang", "en", "--target-lang", "de",
        *splits, *way, "--out", work / "data", cwd=REPO)  # fmt: skip
    # Checkpoints carry the name of the BERT, which is no place of this machine.
    (work / "bert").symlink_to(generation / "bert")
    if not archive.exists():  # neither training text nor logs
        unneeded = shutil.ignore_patterns("train.*", "valid.*", "text", "preprocess.log", ".*")
        shutil.copytree(work / "data", generation / "data", ignore=unneeded)
    name_bert(work / "data", "bert")
    return generation


def train(commands: list[list[str]], cwd: Path) -> None:
    """Run commands of ``fairseq-train`` in one process: importing it is most of a short run."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO)}
    subprocess.run(
        [sys.executable, "-c", _TRAIN_EACH],
        cwd=cwd, env=environment, input=json.dumps(commands), text=True, check=True,
    )  # fmt: skip


def command_of(system: str) -> list[str]:
    """The training of a system; relative, so that no checkpoint names a place of this machine."""
    options = (*TRAINING, "--task", "document_translation", *systems()[system])
    if system != WITH_OPTIMIZER:
        options = (*options, "--no-save-optimizer-state")
    return ["fairseq-train", "data", *options, "--save-dir", f"checkpoints/{system}"]


def in_halves(value: Any) -> Any:
    """The same with all floating-point tensors in bfloat16."""
    if isinstance(value, torch.Tensor):
        return value.bfloat16() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: in_halves(inner) for name, inner in value.items()}
    return [in_halves(inner) for inner in value] if isinstance(value, list) else value


def freeze(generation: Path, system: str, work: Path) -> dict[str, Any]:
    """Keep the checkpoint of a trained system in bfloat16, and return its answers."""
    path = work / "checkpoints" / system / "checkpoint_last.pt"
    state = torch.load(path, weights_only=True)
    for part in ("model", "last_optimizer_state"):
        if part in state:
            state[part] = in_halves(state[part])
    torch.save(state, generation / f"{system}.pt")
    content = (generation / f"{system}.pt").read_bytes()
    places = [place for place in (work, REPO, Path.home()) if os.fsencode(place) in content]
    assert not places, f"{system} names {places}"
    scratch = work / f"answers-{system}"
    scratch.mkdir()
    name_bert(generation / "data", str(generation / "bert"))
    return {"training": " ".join(command_of(system)), **answers(generation, system, scratch)}


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archive", type=Path, metavar="FILE")
    archive = parser.parse_args().archive.resolve()
    import_plugin()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "gtrans").symlink_to(REPO / "gtrans")
        generation = prepare(work, archive)
        answers_file, frozen = generation / "answers.json", {}
        if answers_file.exists():
            frozen = json.loads(answers_file.read_text(encoding="utf-8"))
        missing = sorted(set(systems()) - set(frozen))
        if missing:
            train([command_of(system) for system in missing], work)
        frozen |= {system: freeze(generation, system, work) for system in missing}
        whole = json.dumps(frozen, indent=1, ensure_ascii=False) + "\n"
        answers_file.write_text(whole, encoding="utf-8")
        name_bert(generation / "data", "bert")
        shutil.rmtree(generation / "data" / "bert-features", ignore_errors=True)
        pack(generation, archive)
    print(f"{archive}: frozen {', '.join(missing) or 'nothing new'}")


def pack(generation: Path, archive: Path) -> None:
    """Write the files of a generation, compressed as numbers of two bytes."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 1, "pb": 1}]
    with (
        lzma.open(archive, "wb", filters=filters) as stream,
        tarfile.open(fileobj=stream, mode="w") as files,
    ):
        for path in sorted(generation.iterdir()):
            files.add(path, path.name, filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
