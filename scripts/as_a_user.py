"""Installs the wheel as a user does, outside the project, and types the quickstart's commands.

    python scripts/as_a_user.py --out FOLDER --python python3.12 [--python python3.13 ..]

For each Python: a new environment that has torch and nothing else, the wheel, and an empty folder.
There the commands of docs/quickstart.md are typed as they stand; what a command says is missing
is installed as it says. Then `gtrans
recipes --output`, one of its scripts and one of its configurations. pip's own settings say
where torch comes from. The last lines are a table of the versions that were tried.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

SHORT_RECIPE = (
    "exp_gtransformer/run-randinit.sh --train-prefix corpus/train "
    "--valid-prefix corpus/valid --test-prefix corpus/test --bpe-merges 300 --gpus 0 "
    "--document-updates 3 --max-tokens 600 --arch gtransformer_tiny --beam 1 --out out"
)
SHORT_CONFIGURATION = (
    "fairseq-hydra-train --config-dir {package}/shipped/configs "
    "--config-name gtransformer_sentence common.user_dir={package} task.data={here}/data-bin "
    "model._name=gtransformer_tiny "
    "optimization.max_update=3 dataset.max_tokens=600 common.cpu=true "
    "checkpoint.save_dir={here}/hydra hydra.run.dir={here}/hydra/log"
)


def quickstart_commands(text: str) -> list[str]:
    """The commands of the page above its part for a GPU, each on one line."""
    section = text.split("\n## ")[0].replace("\\\n", " ")
    return [re.sub(" +", " ", line) for line in re.findall(r"^gtrans .*$", section, re.MULTILINE)]


class User:
    """A user at a terminal in an empty folder."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python = python
        self.folder = folder
        self.environment = folder / "env"
        self.here = folder / "empty"
        self.seconds: list[float] = []

    def types(self, command: str, fails: bool = False) -> str:
        """Run a command in the folder; returns what it prints.

        Raises:
            SystemExit: it fails although it should not, or the other way round.
        """
        print(f"$ {command}", flush=True)
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        started = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.here,
            env={**kept, "PATH": f"{self.environment}/bin:{kept['PATH']}", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.seconds.append(time.monotonic() - started)
        if (done.returncode != 0) is not fails:
            print(done.stdout[-4000:])
            raise SystemExit(f"{self.python}: status {done.returncode}: {command}")
        return done.stdout

    def installs(self, wheel: Path, torch: str) -> None:
        """Make the environment: torch, then the wheel with what it asks for."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.here.mkdir(parents=True)
        self.types(f"{self.python} -m venv {self.environment}")
        for words in ("pip install --upgrade pip", f"pip install {torch}", f"pip install {wheel}"):
            self.types(words)

    def follows(self, commands: list[str], wheel: Path) -> None:
        """Type the quickstart's commands; a refusal must be one line that says what to install."""
        self.types("gtrans --help && gtrans score -h")
        corpus, *rest = commands
        self.types(corpus)
        said = self.types(rest[0], fails=True)
        print(said, end="")
        way = re.fullmatch(
            r"gtrans: error: .* needs the library \w+, .*; type, in .* folder: (.*)\.\n",
            said,
        )
        if way is None or list(self.here.iterdir()) != [self.here / "corpus"]:
            raise SystemExit("not one line before any work")
        self.types(way[1].replace("'.[", f"'{wheel}["))
        for command in rest:
            self.types(command)
        sentences = [len(Path(self.here, name).read_text(encoding="utf-8").splitlines())
                     for name in ("corpus/test.en", "document.de")]  # fmt: skip
        if sentences[0] != sentences[1]:
            raise SystemExit(f"{sentences[0]} lines became {sentences[1]}")
        package = self.types('cd / && python -c "import gtrans; print(gtrans.__path__[0])"').strip()
        self.types(f"cp -r {shlex.quote(package)}/shipped/exp_gtransformer .")
        self.types(SHORT_RECIPE)
        self.types(SHORT_CONFIGURATION.format(package=package, here=shlex.quote(str(self.here))))
        self.types("gtrans show checkpoints/document/checkpoint_best.pt")

    def row(self) -> str:
        """A row of the table: versions, commands, seconds."""
        code = (
            "import platform; from importlib.metadata import version as v; "
            "print(platform.python_version(), *map(v, ['torch', 'fairseq-fixed', 'numpy']))"
        )
        numbers = self.types(f"python -c {shlex.quote(code)}").split()
        took = f"{sum(self.seconds):.0f}"
        return f"| {' | '.join([*numbers, str(len(self.seconds)), took])} |"


def rows(args: argparse.Namespace) -> Iterator[str]:
    """For each Python, the row of the table."""
    wheels = args.out / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    subprocess.run(
        [args.python[0], "-m", "pip", "wheel", "-q", "--no-deps", "-w", wheels, ROOT], check=True
    )
    (wheel,) = wheels.glob("*.whl")
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    (torch,) = re.findall(r"^torch==.*$", pinned, re.MULTILINE)
    commands = quickstart_commands((ROOT / "docs" / "quickstart.md").read_text("utf-8"))
    for number, python in enumerate(args.python):
        user = User(python, args.out / f"user{number}")
        user.installs(wheel, torch)
        user.follows(commands, wheel)
        yield user.row()


def main() -> None:
    """Read the options and type."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for everything")
    parser.add_argument("--python", action="append", required=True, help="an interpreter")
    args = parser.parse_args()
    args.out = args.out.resolve()
    if args.out.is_relative_to(ROOT):
        raise SystemExit(f"--out {args.out}: must be outside the project")
    table = list(rows(args))
    print("| Python | torch | fairseq-fixed | numpy | commands | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    print("\n".join(table))


if __name__ == "__main__":
    main()
