"""What the tests of exp_gtransformer/ share: settings, and reading what a script has printed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from support.tiny_models import TinyWorld

CORPORA = ("iwslt17", "nc2016", "europarl7")
PLACE = ("--data", "texts", "--corpus", "europarl7", "--out", "out")
# the paper's settings that most recipes have in common
EVERYWHERE = (
    "--arch gtransformer_base",
    "--share-all-embeddings",
    "--optimizer adam --adam-betas '(0.9, 0.98)' --lr 5e-4",
    "--lr-scheduler inverse_sqrt --warmup-updates 4000",
    "--criterion chunked_cross_entropy --label-smoothing 0.1",
    "--dropout 0.3",
    "--max-tokens 4096 --update-freq 1",
    "--best-checkpoint-metric loss --patience 10",
)
# a model of two layers
SMALL = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "32"),
    *("--encoder-ffn-embed-dim", "64", "--decoder-ffn-embed-dim", "64"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
)


def run_script(
    repo: Path, folder: Path, name: str, *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script of exp_gtransformer/ in a folder; no GPU is named in the environment."""
    inherited = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return subprocess.run(
        [repo / "exp_gtransformer" / f"{name}.sh", *map(str, arguments)],
        cwd=folder,
        env={**inherited, "OMP_NUM_THREADS": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


def commands(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The commands that a dry run prints, without the folder of the programs."""
    assert done.returncode == 0, done.stderr
    found = [line[2:] for line in done.stdout.splitlines() if line.startswith("$ ")]
    return [re.sub(r"^\S*/(?=[a-z-]+ )", "", command) for command in found]


def the_error(done: subprocess.CompletedProcess[str]) -> str:
    """The one line with which a script has refused."""
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    return line


class Recipe:
    """A recipe on the tiny corpus, always in the same folder.

    Args:
        repo: the project folder.
        tiny: has the text.
        out: ``--out``.
        name: the script.
        options: what each call has before ``--``.
        training: what each call has after it.
    """

    def __init__(
        self, repo: Path, tiny: TinyWorld, out: Path, name: str, options: Sequence[str | Path],
        training: Sequence[str],
    ) -> None:  # fmt: skip
        self.out = out
        self._repo, self._name, self._training = repo, name, training
        prefixes = [(f"--{x}-prefix", tiny.text / x) for x in ("train", "valid", "test")]
        self._options = [
            *(part for pair in prefixes for part in pair), "--out", out, "--gpus", "0", "--beam",
            "1", "--max-tokens", "1000", *options,
        ]
        if not {"--prepared", "--sentence-data"} & set(options):
            self._options += ["--bpe-merges", "300"]  # fmt: skip

    def __call__(
        self, options: Sequence[str | Path] = (), training: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        return run_script(
            self._repo, self.out.parent, self._name, *self._options, *options, "--",
            *self._training, *training, "--num-workers", "0",
        )  # fmt: skip

    def succeed(
        self, options: Sequence[str | Path] = (), training: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run it and insist on status 0."""
        done = self(options, training)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        return done

    def refuse(
        self, model: str, settings: Sequence[str], options: Sequence[str | Path] = (),
        training: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """It ends with a line that names the settings, and leaves all results as they are."""
        before = self.files()
        done = self(options, training)
        assert done.returncode == 1, done.stdout[-2000:] + done.stderr
        (line,) = re.findall(r"^gtrans: error: .*", done.stdout, re.MULTILINE)
        assert f"{self.out}/{model} holds a run with other settings: " in line
        assert all(setting in line for setting in settings), line
        assert done.stderr.splitlines()[-1] == (
            f"{self._name}: error: {self.out}/{model}: for other settings, `--name NAME` makes a "
            "variant beside it; `-- --restart` starts it anew."
        )
        assert self.files() == before

    def outputs(
        self, options: Sequence[str | Path] = (), training: Sequence[str] = ()
    ) -> set[str]:
        """The files that a call names as what it makes, relative to the folder."""
        lines = self.succeed([*options, "--outputs"], training).stdout.splitlines()
        return {os.path.relpath(line.split("\t")[2], self.out) for line in lines}

    def files(self) -> dict[str, str]:
        """Digests of checkpoints, translations and scores, by name in the folder."""
        kinds = ("*/checkpoint*.pt", "test.*", "scores.*")
        paths = [path for kind in kinds for path in self.out.glob(kind)]
        return {str(x.relative_to(self.out)): sha256(x.read_bytes()).hexdigest() for x in paths}
