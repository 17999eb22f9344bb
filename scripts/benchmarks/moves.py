"""How many files one reads to follow a batch, a training and a translation, beside stock fairseq.

    .venv/bin/python scripts/benchmarks/moves.py [--list] [CHECKOUT]

A *move* is a call whose caller and callee lie in different files of the package. The caller is the
nearest function of the package, so that torch between two modules hides none. Class bodies and
whatever runs while a module is imported are left out. The commands run on a synthetic corpus as a
user types them. CHECKOUT is another checkout of this project, whose package is counted instead;
``--list`` also prints the files.
"""

from __future__ import annotations

import inspect
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import fairseq
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

LISTS = "--list" in sys.argv
_GIVEN = [word for word in sys.argv[1:] if word != "--list"]
CHECKOUT = Path(_GIVEN[0] if _GIVEN else Path(__file__).parents[2]).resolve()
sys.path.insert(0, str(CHECKOUT))

import gtrans  # noqa: E402
from gtrans.cli import main as command  # noqa: E402

WORDS = {
    "en": "a the dog cat house lamp sees buys sells red old new never it",
    "de": "ein der Hund Katze Haus Lampe sieht kauft verkauft rot alt neu nie es",
}
DOCUMENTS = {"train": 40, "valid": 4, "test": 9}
SIZES = (
    "--encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64 "
    "--decoder-ffn-embed-dim 64 --encoder-attention-heads 2 --decoder-attention-heads 2"
)
OURS = (
    "--task document_translation --unit document --arch gtransformer_tiny "
    f"--encoder-global-layers 1 --decoder-global-layers 1 --cross-global-layers 1 {SIZES}"
)
STOCK = f"--task translation --arch transformer {SIZES} --source-lang en --target-lang de"
TRAINING = (
    "--optimizer adam --lr 0.003 --criterion label_smoothed_cross_entropy --max-tokens 512 "
    "--max-update 3 --validate-interval-updates 2 --num-workers 0 --cpu"
)


class Moves:
    """Counts the files of a package that run, and the moves between them."""

    def __init__(self, package: Any) -> None:
        self.root = f"{Path(package.__file__).parent}/"
        self.files: set[str] = set()
        self.count = 0
        self._importing = 0

    def follow(self, work: Callable[[], object]) -> None:
        """Count what ``work`` runs."""
        sys.setprofile(self._see)
        try:
            work()
        finally:
            sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        # The code of modules and classes is not optimised, the code of functions is.
        defines = not frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if defines and event in ("call", "return"):
            self._importing += 1 if event == "call" else -1
        if event != "call" or self._importing or not self._is_own(frame):
            return
        callee = frame.f_code.co_filename
        self.files.add(callee.removeprefix(self.root))
        caller = frame.f_back
        while caller is not None and not self._is_own(caller):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != callee:
            self.count += 1

    def _is_own(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(self.root)


def write_corpus(folder: Path) -> None:
    """Write documents of random words, one sentence a line and an empty line between documents."""
    chance = random.Random(1)
    vocabularies = {lang: words.split() for lang, words in WORDS.items()}
    for split, count in DOCUMENTS.items():
        sides: dict[str, list[str]] = {lang: [] for lang in WORDS}
        for _ in range(count):
            for _ in range(chance.randint(2, 6)):
                places = chance.choices(range(len(vocabularies["en"])), k=chance.randint(3, 9))
                for lang, words in vocabularies.items():
                    sides[lang].append(" ".join(words[place] for place in places))
            for lines in sides.values():
                lines.append("")
        for lang, lines in sides.items():
            text = "\n".join(lines[:-1]) + "\n"
            (folder / f"{split}.{lang}").write_text(text, encoding="utf-8")


def run(words: str) -> None:
    """Run ``gtrans WORDS``."""
    status = command(words.split())
    if status:
        raise SystemExit(f"gtrans {words}: status {status}")


def batch_to_loss(data: Path, words: str) -> Callable[[], object]:
    """What turns the first sentences or documents of the training set into a loss and gradients."""
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(
        parser, [str(data), "--user-dir", str(CHECKOUT / "gtrans"), *words.split()]
    )
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    task.load_dataset("train")
    model = task.build_model(cfg.model)
    criterion = task.build_criterion(cfg.criterion)
    dataset = task.dataset("train")

    def work() -> None:
        task.get_batch_iterator(dataset, max_tokens=512)
        batch = dataset.collater([dataset[number] for number in range(2)])
        criterion(model, batch)[0].backward()

    return work


def report(name: str, package: Any, work: Callable[[], object], log: Path) -> None:
    """Print the files and the moves of some work, whose own output goes to ``log``."""
    moves = Moves(package)
    with open(log, "a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        moves.follow(work)
    print(f"{package.__name__:8} {name:14} {len(moves.files):3} files {moves.count:7,} moves")
    if LISTS:
        print(*sorted(moves.files), sep="\n")


def main() -> None:
    """Count and print."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        log, data, run_folder = folder / "log", folder / "data", folder / "run"
        write_corpus(folder)
        with open(log, "w", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
            run(
                f"prepare --source-lang en --target-lang de --train {folder}/train --valid "
                f"{folder}/valid --test {folder}/test --bpe-merges 20 --out {data}"
            )
        training = f"train {data} {OURS} {TRAINING} --save-dir {run_folder}"
        translation = (
            f"translate --path {run_folder}/checkpoint_last.pt --input {folder}/test.en --output "
            f"{folder}/out.de --beam 2 --max-len-a 0 --max-len-b 8 --cpu"
        )
        ours = f"{OURS} {TRAINING} --save-dir {folder}/ours"
        stock = f"{STOCK} {TRAINING} --save-dir {folder}/stock"
        report("train", gtrans, lambda: run(training), log)
        report("translate", gtrans, lambda: run(translation), log)
        report("batch to loss", gtrans, batch_to_loss(data, ours), log)
        report("batch to loss", fairseq, batch_to_loss(data, stock), log)


if __name__ == "__main__":
    main()
