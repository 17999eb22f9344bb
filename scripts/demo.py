"""Run the whole pipeline on the synthetic corpus and print a table of scores.

The steps are: corpus, preparation, a sentence Transformer, a G-Transformer from it, translation of
the test documents, s-BLEU and d-BLEU of both, and accuracy on contrastive sets. Every step is a
command that a user would type; it is printed before it runs. OUT/results.json has the numbers.

    python scripts/demo.py --out demo
    python scripts/demo.py --out demo-2 --seed 2 --system gtransformer memory_transformer
    python scripts/demo.py --collect demo demo-2 demo-3     # write results/demo.csv
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtrans.lab.provenance import provenance

GTRANS = Path(sys.executable).parent / "gtrans"
SHARED = (
    "--config tiny --encoder-layers 2 --decoder-layers 2 --encoder-ffn-embed-dim 256 "
    "--decoder-ffn-embed-dim 256 --dropout 0 --label-smoothing 0 --lr 0.003 "
    "--lr-scheduler polynomial_decay --warmup-updates 50 --log-interval 50"
)
SENTENCE = "--unit sentence --max-update 250 --total-num-update 250"
FROM_SENTENCE = (
    "--init-from checkpoints/sentence/checkpoint_best.pt --optimizer two_rate_adam "
    "--lr-scale-pretrained 1 "
    "--max-update 750 --total-num-update 750"
)
# Positions count through the document, as in the paper: where several things are named, only their
# order says which one `it` is.
SYSTEMS = {
    "gtransformer": "--positions document",
    "memory_transformer": "--arch memory_transformer_tiny --unit stream --lr 0.002 "
    "--lr-scale-pretrained 0.5",
    "concat_transformer": "--arch concat_transformer_tiny --unit window --lr 0.002 "
    "--lr-scale-pretrained 0.5 --max-update 1500 --total-num-update 1500",
}
LAMP = ("The lamp is dirty.", "It is small.")
RESULTS = Path(__file__).resolve().parent.parent / "results" / "demo.csv"


def types(out: Path, words: str, quiet: bool = False) -> str:
    """Run a command of gtrans in a folder; returns its output."""
    print(f"\n$ gtrans {words}", flush=True)
    process = subprocess.run(
        [GTRANS, *words.split()],
        cwd=out,
        # One thread, so that the number of cores changes no sum.
        env={"OMP_NUM_THREADS": "1", **os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    if process.returncode:
        raise SystemExit(f"demo: error: gtrans {words.split()[0]} failed, see above.")
    if not quiet:
        print(process.stdout, end="", flush=True)
    return process.stdout


def run(out: Path, seed: int, docs: int, systems: Sequence[str]) -> dict[str, Any]:
    """Scores and accuracies of each system; raises SystemExit when a command fails."""
    if out.exists() and any(out.iterdir()) and not (out / "corpus").is_dir():
        raise SystemExit(f"demo: error: {out} holds other files; choose another --out.")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    types(out, f"make-corpus --docs {docs} --seed 1 --out corpus")
    texts = " ".join(f"--{split} corpus/{split}" for split in ("train", "valid", "test"))
    types(out, f"prepare --source-lang en --target-lang de {texts} --out data-bin")
    systems = ["sentence", *systems]
    for system in systems:
        options = SENTENCE if system == "sentence" else f"{FROM_SENTENCE} {SYSTEMS[system]}"
        folder = f"--seed {seed} --save-dir checkpoints/{system}"
        types(out, f"train data-bin {SHARED} {options} {folder}")
    sets = " ".join(
        str(path.relative_to(out)) for path in sorted((out / "corpus/contrastive").glob("*.jsonl"))
    )
    accuracy: dict[str, Any] = {}
    for system in systems:
        model = f"--path checkpoints/{system}/checkpoint_best.pt"
        types(out, f"translate {model} --input corpus/test.en --output {system}.de")
        output = types(out, f"contrast {model} --data data-bin --set {sets} --json", quiet=True)
        accuracy[system] = json.loads(output)["contrastive"]
    hypotheses = " ".join(f"{system}={system}.de" for system in systems)
    files = f"--hyp {hypotheses} --ref corpus/test.de --src corpus/test.en --target-lang de"
    output = types(out, f"score {files} --metrics s_bleu d_bleu --json", quiet=True)
    scores = {
        system: {name: entry["score"] for name, entry in metrics.items() if "score" in entry}
        for system, metrics in json.loads(output)["systems"].items()
    }
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    results = {
        "versions": provenance(),
        "seed": seed,
        "cpu_seconds": round(used.ru_utime + used.ru_stime),
        "scores": scores,
        "contrastive": accuracy,
    }
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return results


def table(results: dict[str, Any]) -> list[str]:
    """The lines that the demo ends with; accuracies in per cent."""
    systems = list(results["scores"])
    lines = [f"{'':24}" + "".join(f"{name:>20}" for name in systems)]
    for key, label in (("s_bleu", "s-BLEU"), ("d_bleu", "d-BLEU")):
        cells = (results["scores"][system][key] for system in systems)
        lines.append(f"{label:24}" + "".join(f"{cell:20.1f}" for cell in cells))
    for phenomenon, distances in results["contrastive"]["sentence"].items():
        for distance in distances:
            cells = (results["contrastive"][system][phenomenon][distance] for system in systems)
            label = f"{phenomenon}, distance {distance}"
            lines.append(f"{label:24}" + "".join(f"{100 * cell:19.1f}%" for cell in cells))
    return lines


def lamp(out: Path, systems: Sequence[str]) -> list[str]:
    """Two sentences through all models: the pronoun follows a noun of the sentence before."""
    (out / "lamp.en").write_text("\n".join(LAMP) + "\n", encoding="utf-8")
    lines = [f"{'':24}{' '.join(LAMP)}"]
    for system in systems:
        path = f"checkpoints/{system}/checkpoint_best.pt"
        types(out, f"translate --path {path} --input lamp.en --output lamp.{system}.de", quiet=True)
        translation = (out / f"lamp.{system}.de").read_text(encoding="utf-8").split("\n")
        lines.append(f"{system:24}{' '.join(translation).strip()}")
    return lines


def collect(folders: Sequence[Path]) -> None:
    """Write the accuracies of several runs as one table."""
    runs = [json.loads((folder / "results.json").read_text(encoding="utf-8")) for folder in folders]
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["seed", "system", "phenomenon", "distance", "accuracy"])
        for results in runs:
            for system, phenomena in results["contrastive"].items():
                for phenomenon, distances in phenomena.items():
                    for distance, accuracy in distances.items():
                        writer.writerow([results["seed"], system, phenomenon, distance, accuracy])
            for system, scores in results["scores"].items():
                for metric, score in scores.items():
                    writer.writerow([results["seed"], system, metric, "", round(score, 3)])


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", type=Path, default=Path("demo"), help="folder to write")
    add("--seed", type=int, default=1, help="seed of training (%(default)s)")
    add("--docs", type=int, default=4000, metavar="N", help="documents of the corpus (%(default)s)")
    add(
        "--system",
        nargs="+",
        choices=list(SYSTEMS),
        default=["gtransformer"],
        metavar="NAME",
        help=f"document models to train: {', '.join(SYSTEMS)} (gtransformer)",
    )
    add("--collect", nargs="+", type=Path, metavar="FOLDER", help="write results/demo.csv of runs")
    args = parser.parse_args()
    if args.collect:
        collect(args.collect)
        return
    results = run(args.out.resolve(), args.seed, args.docs, args.system)
    print("\n" + "\n".join(table(results)))
    print("\n" + "\n".join(lamp(args.out.resolve(), ["sentence", *args.system])))
    print(f"\n{results['cpu_seconds']} CPU seconds; all numbers: {args.out / 'results.json'}")
    print(
        "\nNext, translate a document of your own words (docs/quickstart.md trains on your corpus):"
    )
    path = args.out / "checkpoints" / args.system[0] / "checkpoint_best.pt"
    print(f"  gtrans translate --path {path} --input {args.out / 'lamp.en'} --output lamp.de")


if __name__ == "__main__":
    main()
