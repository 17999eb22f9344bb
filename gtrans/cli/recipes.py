"""List the papers' scripts and the configurations of gtrans train, or copy them out.

A script prepares a corpus, trains, translates and scores with the settings of a paper; each has
--help. A configuration has all options of a training, each with its meaning and default.
--output copies both, with what they need, into a folder: there they can be run and changed.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from shlex import quote
from textwrap import shorten

from gtrans.errors import GtransError
from gtrans.identity.files import check_output_folder, copy_file
from gtrans.messages import print_lines
from gtrans.shipped import shipped

EXAMPLE = "gtrans recipes --output experiments"
NEEDS = ()
SCRIPTS, CONFIGURATIONS = "exp_gtransformer", "configs"
# what run-bert.sh --make-bert calls
BERT = "scripts/make_bert.py"
_COPIED = (".sh", ".sbatch", ".yaml", ".md", "Snakefile")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans recipes``."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help=f"copy them to FOLDER/{SCRIPTS} and FOLDER/{CONFIGURATIONS}, which must not be there",
    )


def run(args: argparse.Namespace) -> None:
    """Print or copy.

    Raises:
        GtransError: a folder is there already, or cannot be written.
    """
    folder: Path | None = args.output
    if folder is not None:
        copy_recipes(folder)
    place = "FOLDER" if folder is None else quote(str(folder))
    print_lines(f"Scripts: {place}/{SCRIPTS}/NAME --help")
    for path in sorted(shipped(SCRIPTS).glob("*.sh")):
        print(f"  {path.name:<26}{_about(_target(path))}")
    print_lines(
        "",
        f"Configurations: gtrans train --config-dir {place}/{CONFIGURATIONS} --config-name NAME \\",
        "    task.data=... checkpoint.save_dir=...",
    )
    for path in sorted(shipped(CONFIGURATIONS).glob("*.yaml")):
        print(f"  {path.stem:<26}{_about(path.parent / 'recipes' / path.name)}")
    if folder is None:
        print("\n'gtrans recipes --output FOLDER' copies all of them to a folder.")


def copy_recipes(folder: Path) -> None:
    """Copy scripts and configurations into ``folder``, the scripts executable.

    Raises:
        GtransError: a folder is there already, or cannot be written.
    """
    check_output_folder("--output", folder)
    for name in (SCRIPTS, CONFIGURATIONS, BERT):
        if (folder / name).exists():
            raise GtransError(f"`--output`: '{folder / name}' is there already; give a new folder.")
    try:
        for name in (SCRIPTS, CONFIGURATIONS):
            origin = shipped(name)
            for path in sorted(origin.rglob("*")):
                if path.name.endswith(_COPIED):
                    copy = _copied(path, folder / name / path.relative_to(origin))
                    if path.suffix == ".sh":
                        copy.chmod(copy.stat().st_mode | 0o111)
        _copied(shipped(BERT), folder / BERT)
    except OSError as error:
        raise GtransError(f"cannot write '{error.filename}': {error.strerror}") from None


def _copied(path: Path, copy: Path) -> Path:
    """``copy``, after it is made of ``path`` with the folders that it needs."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy_file(path, copy)
    return copy


def _target(script: Path) -> Path:
    """The script that a short name calls."""
    called = re.search(r'/(\w+/[\w-]+\.sh)"', script.read_text(encoding="utf-8"))
    return script.parent / called[1] if called else script


def _about(path: Path) -> str:
    """The beginning of the comment at a file's head, up to a full stop or parenthesis."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = [line.lstrip("# ") for line in lines[:6] if line.startswith("# ")]
    return shorten(re.split(r"\.(?:\s|$)| \(", " ".join(comment))[0], 90, placeholder=" ...")
