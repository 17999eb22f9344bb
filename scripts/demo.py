"""Run the whole pipeline on the embedded corpus and print a table of scores.

The steps are: corpus, preparation, sentence Transformer, G-Transformer initialised with it,
translation of the test documents, then s-BLEU, d-BLEU and contrastive accuracy of both.
Every step is a command that a user would type. It is printed before it runs, and its output
is written to OUT/log/. The results are written to OUT/results.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gtrans.files import atomic_writer

ROOT = Path(__file__).resolve().parent.parent
PYTHON_BIN = Path(sys.executable).parent

SIZE = [
    *("--encoder-layers", "3", "--decoder-layers", "3"),
    *("--encoder-embed-dim", "128", "--encoder-ffn-embed-dim", "512"),
    *("--decoder-ffn-embed-dim", "512", "--share-all-embeddings", "--dropout", "0.1"),
]
TRAINING = [
    *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.003"),
    *("--lr-scheduler", "inverse_sqrt", "--criterion", "chunked_cross_entropy"),
    *("--label-smoothing", "0.1", "--max-tokens", "4096", "--no-epoch-checkpoints"),
    *("--log-format", "json", "--log-interval", "5", "--seed", "1"),
]
SENTENCE = [
    *("--arch", "gtransformer_tiny", "--unit", "sentence", "--doc-mode", "full"),
    *("--warmup-updates", "100"),
]
# Positions as in the sentence model and almost closed gates: a start close to the sentence model.
DOCUMENT = [
    *("--arch", "gtransformer_tiny", "--unit", "document", "--positions", "sentence"),
    *("--gate-bias", "2", "--lr-scale-pretrained", "0.5", "--warmup-updates", "100"),
]
MEMORY = [
    *("--arch", "memory_transformer_tiny", "--unit", "stream"),
    *("--lr-scale-pretrained", "0.5", "--warmup-updates", "50"),
]


class Demo:
    """Runs the steps, keeps the times, writes the results."""

    def __init__(self, out: Path, updates: dict[str, int], docs: int) -> None:
        """``updates``: of each system, the sentence model first."""
        self.out = out
        self.updates = updates
        self.docs = docs
        self.seconds: dict[str, float] = {}
        self.systems: dict[str, dict[str, Any]] = {system: {} for system in updates}
        self.signatures: dict[str, str] = {}

    def run(self) -> None:
        """All steps; raises SystemExit with one line when a command fails."""
        self._clear()
        with self._timed("corpus"):
            self._command("gtrans", "make-corpus", "--seed", "1", "--docs", str(self.docs),
                          "--pair", "en-de", "--out", self.out / "corpus")  # fmt: skip
        with self._timed("prepare"):
            corpus = self.out / "corpus"
            self._command("gtrans", "prepare", "--source-lang", "en", "--target-lang", "de",
                          "--train", corpus / "train", "--valid", corpus / "valid",
                          "--test", corpus / "test", "--bpe-merges", "1000",
                          "--out", self.out / "data")  # fmt: skip
        with self._timed("train_sentence"):
            self._train("sentence", *SENTENCE)
        for system, options in (("gtransformer", DOCUMENT), ("memory_transformer", MEMORY)):
            if system in self.systems:
                with self._timed(f"train_{system}"):
                    self._train(system, *options, "--init-from", self._checkpoint("sentence"))
        for system in self.systems:
            with self._timed(f"translate_{system}"):
                self._translate(system)
            with self._timed(f"contrast_{system}"):
                self._contrast(system)
        self._report()

    def _clear(self) -> None:
        if self.out.exists() and any(self.out.iterdir()) and not (self.out / "log").is_dir():
            raise SystemExit(f"demo: error: {self.out} holds other files; choose another --out.")
        for name in ("corpus", "data", "checkpoints", "log"):
            shutil.rmtree(self.out / name, ignore_errors=True)
        (self.out / "log").mkdir(parents=True)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self.seconds[stage] = round(time.monotonic() - begin, 1)

    def _checkpoint(self, system: str) -> Path:
        return self.out / "checkpoints" / system / "checkpoint_best.pt"

    def _start(self, name: str, *words: str | Path, **options: Any) -> subprocess.Popen[str]:
        command = [str(word) for word in words]
        print("\n$ " + " ".join(_quoted(word) for word in command), flush=True)
        program = str(PYTHON_BIN / command[0])
        # Threads that wait without spinning: on a busy machine the others get to work meanwhile.
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
        return subprocess.Popen(
            [program, *command[1:]], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
            **options,
        )  # fmt: skip

    def _command(self, *words: str | Path) -> str:
        """Run a command whose standard output is short; its progress goes to the terminal."""
        name = str(words[1])
        process = self._start(name, *words)
        output, _ = process.communicate()
        with atomic_writer(self.out / "log" / f"{name}.{len(self.seconds)}.log") as file:
            file.write(output)
        if process.returncode:
            raise SystemExit(f"demo: error: {words[0]} {name} failed, see above.")
        return output

    def _train(self, system: str, *options: str | Path) -> None:
        log = self.out / "log" / f"train_{system}.log"
        total = self.updates[system]
        process = self._start(
            system,
            *("fairseq-train", self.out / "data", "--user-dir", "gtrans"),
            *("--task", "document_translation", *options, *SIZE, *TRAINING),
            *("--max-update", str(total), "--save-dir", self._checkpoint(system).parent),
            stderr=subprocess.STDOUT,
        )
        with log.open("w") as file, tqdm(total=total, unit=" updates", desc=system) as bar:
            for line in process.stdout or ():
                file.write(line)
                numbers = _json_of(line)
                updates = numbers.get("num_updates", numbers.get("train_num_updates"))
                if updates is not None:
                    bar.update(int(updates) - bar.n)
                if "loss" in numbers:
                    bar.set_postfix(loss=numbers["loss"])
        if process.wait():
            tail = log.read_text().splitlines()[-1:]
            raise SystemExit(f"demo: error: fairseq-train failed, see {log}: {' '.join(tail)}")

    def _translate(self, system: str) -> None:
        hypothesis = self.out / f"test.{system}.de"
        self._command("gtrans", "translate", "--path", self._checkpoint(system),
                      "--data", self.out / "data", "--input", self.out / "corpus" / "test.en",
                      "--output", hypothesis, "--max-len-a", "1.5", "--max-len-b", "10",
                      "--max-tokens", "8000", "--force")  # fmt: skip
        output = self._command("gtrans", "score", "--hyp", hypothesis,
                               "--ref", self.out / "corpus" / "test.de",
                               "--src", self.out / "corpus" / "test.en", "--json")  # fmt: skip
        (scores,) = json.loads(output)["systems"].values()
        for name, score in scores.items():
            self.systems[system][name] = score["score"]
            self.signatures[name] = score["signature"]

    def _contrast(self, system: str) -> None:
        sets = sorted((self.out / "corpus" / "contrastive").glob("*.jsonl"))
        output = self._command("gtrans", "contrast", "--path", self._checkpoint(system),
                               "--data", self.out / "data", "--set", *sets, "--json")  # fmt: skip
        self.systems[system]["contrastive"] = json.loads(output)["contrastive"]

    def _report(self) -> None:
        results = {
            "systems": self.systems,
            "seconds": {**self.seconds, "total": round(sum(self.seconds.values()), 1)},
            "signatures": self.signatures,
        }
        path = self.out / "results.json"
        with atomic_writer(path) as file:
            file.write(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
        print("\n" + "\n".join(_table(results)))
        print(f"\nwritten to {path}")


def _quoted(word: str) -> str:
    return f"'{word}'" if any(c in word for c in " ()") else word


def _json_of(line: str) -> dict[str, Any]:
    """The JSON object that a log line ends with, or an empty one."""
    begin = line.find("{")
    if begin < 0:
        return {}
    try:
        value = json.loads(line[begin:])
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _table(results: dict[str, Any]) -> list[str]:
    systems: dict[str, dict[str, Any]] = results["systems"]
    phenomena = list(systems["sentence"]["contrastive"])
    lines = [f"{'':24}" + "".join(f"{name:>20}" for name in systems)]
    for key, label in (("s_bleu", "s-BLEU"), ("d_bleu", "d-BLEU"), ("chrf", "chrF2")):
        lines.append(f"{label:24}" + "".join(f"{s[key]:20.2f}" for s in systems.values()))
    for phenomenon in phenomena:
        for distance in systems["sentence"]["contrastive"][phenomenon]:
            cells = (s["contrastive"][phenomenon][distance] for s in systems.values())
            lines.append(
                f"{f'{phenomenon}, distance {distance}':24}"
                + "".join(f"{100 * cell:19.1f}%" for cell in cells)
            )
    times = results["seconds"]
    lines.append("seconds: " + ", ".join(f"{stage} {value}" for stage, value in times.items()))
    return lines


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder to write")
    parser.add_argument(
        "--sentence-updates", type=int, default=400, metavar="N",
        help="updates of the sentence Transformer (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--document-updates", type=int, default=330, metavar="N",
        help="updates of the G-Transformer (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--docs", type=int, default=4000, metavar="N",
        help="documents of the corpus (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--memory-updates", type=int, default=0, metavar="N",
        help="also train the Transformer with recurrent memory, for N updates (300 are enough; "
        "default: 0, do not train it)",
    )  # fmt: skip
    args = parser.parse_args()
    updates = {"sentence": args.sentence_updates, "gtransformer": args.document_updates}
    if args.memory_updates:
        updates["memory_transformer"] = args.memory_updates
    Demo(args.out.resolve(), updates, args.docs).run()


if __name__ == "__main__":
    main()
