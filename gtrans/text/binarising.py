"""From text in subword pieces to fairseq's binary form."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.identity.files import atomic_writer, replacing
from gtrans.text.workers import run_module

_FOLDER = ".binarise.tmp"
_LOG_FILE = "preprocess.log"


def binarise(
    out: Path,
    splits: Sequence[str],
    languages: tuple[str, str],
    dictionaries: Sequence[Path],
    workers: int,
) -> None:
    """Run ``fairseq-preprocess`` on ``text/SPLIT.bpe.LANG``; its output is moved into ``out``.

    Args:
        out: the data folder.
        splits: names of the splits.
        languages: source and target.
        dictionaries: the joint dictionary, or those of both languages; none: a joint one is made
            from the training text.
        workers: processes.

    Raises:
        GtransError: it failed; a file has what it printed.
    """
    folder = out / _FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    # Relative prefixes, because fairseq splits a list of prefixes at every comma.
    tests = ",".join(f"text/{split}.bpe" for split in splits if split.startswith("test"))
    command = ["--joined-dictionary"] if len(dictionaries) < 2 else []
    command += ["--source-lang", languages[0], "--target-lang", languages[1]]
    command += ["--destdir", _FOLDER, "--workers", str(workers)]
    for flag, prefix in (
        ("--trainpref", "text/train.bpe" if "train" in splits else ""),
        ("--validpref", "text/valid.bpe" if "valid" in splits else ""),
        ("--testpref", tests),
    ):
        if prefix:
            command += [flag, prefix]
    for flag, path in zip(("--srcdict", "--tgtdict"), dictionaries, strict=False):
        command += [flag, str(path.resolve())]
    status, printed = run_module("fairseq_cli.preprocess", command, out)
    if status:
        with atomic_writer(log := out / _LOG_FILE) as file:
            file.write(printed)
        last = (printed.strip() or "no output").splitlines()[-1]
        raise GtransError(f"fairseq-preprocess failed ({last}); its output is in '{log}'")
    made = sorted(folder.iterdir())
    with replacing(*(out / path.name for path in made)) as temporary:
        for path, name in zip(made, temporary, strict=True):
            os.replace(path, name)
    folder.rmdir()
