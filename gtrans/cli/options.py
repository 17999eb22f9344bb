"""List the architectures, or explain the options of one of them.

Without ARCH, all architectures are listed with their sizes and the units that they read.
With ARCH, the options of its task and its model are listed in groups, each with meaning and
default, as flags of fairseq-train. --yaml shows them as a configuration file for
fairseq-hydra-train. --write generates the files configs/NAME.yaml, from
configs/recipes/NAME.yaml and the help texts of the options, and the tables of systems in
README.md and docs/.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.identity.files import atomic_writer
from gtrans.libraries import ENGINE

EXAMPLE = "gtrans options gtransformer_base"
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans options``."""
    parser.add_argument(
        "arch", nargs="?", metavar="ARCH", help="architecture (--arch of fairseq-train)"
    )
    parser.add_argument(
        "--yaml", action="store_true", help="show the options as a configuration file"
    )
    parser.add_argument(
        "--write", type=Path, nargs="?", const=Path(), metavar="DIR",
        help="generate configs/*.yaml and the tables of systems of the project in DIR "
        "(default: the current folder)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Print or write."""
    if args.write is not None and (args.arch or args.yaml):
        raise GtransError("`--write` writes all files; leave out ARCH and --yaml.")
    if args.yaml and not args.arch:
        raise GtransError("`--yaml` needs an architecture; `gtrans options` lists them.")
    # Imported on demand: torch needs seconds, which --help should not.
    from gtrans.options.recipes import configurations
    from gtrans.options.rendering import explanation, hydra_form, overview
    from gtrans.options.tables import documents

    if args.write is not None:
        for path, text in (configurations(args.write / "configs") | documents(args.write)).items():
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                with atomic_writer(path) as file:
                    file.write(text)
                print(f"{path} written")
    elif args.arch:
        print(hydra_form(args.arch) if args.yaml else explanation(args.arch))
    else:
        print(overview())
