"""The package ``gtrans`` and its command; every version comes from ``requirements.txt``."""

import re
from collections import defaultdict
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


def version() -> str:
    """The version in ``gtrans/version.py``, read as text: building imports nothing of it."""
    text = (HERE / "gtrans" / "version.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if match is None:
        raise SystemExit('setup.py: error: gtrans/version.py has no line __version__ = "..."')
    return match.group(1)


def sections() -> dict[str, list[str]]:
    """The pinned requirements by section; a header ``# [a b]`` puts its lines into a and b."""
    found: dict[str, list[str]] = defaultdict(list)
    names: list[str] = []
    for line in (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if header := re.match(r"# \[([a-z ]+)\]", line):
            names = header.group(1).split()
        elif line and not line.startswith("#"):
            for name in names:
                found[name].append(line)
    return found


class BuildWithProjectFiles(build_py):
    """Puts files that are not code into the package of a wheel (``gtrans/environment.py``)."""

    def run(self) -> None:
        """Copy the modules, then the rest."""
        super().run()
        if self.editable_mode:
            return
        for name in ("configs", "exp_gtransformer", "requirements.txt", "scripts/make_bert.py"):
            place = HERE / name
            for path in place.rglob("*") if place.is_dir() else [place]:
                if path.is_file():
                    copy = Path(self.build_lib, "gtrans", "project_files", path.relative_to(HERE))
                    self.mkpath(str(copy.parent))
                    self.copy_file(str(path), str(copy))


PINNED = sections()

setup(
    name="gtrans",
    version=version(),
    description="Document-level machine translation as a fairseq plugin",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    author="gtrans contributors",
    python_requires=">=3.11,<3.14",
    cmdclass={"build_py": BuildWithProjectFiles},
    packages=find_packages(include=["gtrans", "gtrans.*"]),
    package_data={"gtrans.cli.shared": ["*.json"], "gtrans.lab": ["report.html"]},
    entry_points={"console_scripts": ["gtrans = gtrans.cli:main"]},
    # torch and fairseq-fixed are left out on purpose. pip would answer the first with gigabytes of
    # whatever build of torch is newest, or replace the one that fits a machine's GPU; it would
    # answer the second with torchaudio, which drags in a torch of its own. scripts/install.sh puts
    # both in, in the one order that works; `gtrans score` and `gtrans make-corpus` need neither,
    # the other commands say how to install them (gtrans/environment.py). The extra `build` is what
    # fairseq-fixed is built with.
    install_requires=PINNED["core"],
    extras_require={
        name: PINNED[name]
        for name in (
            *("build", "bert", "mbart", "zh", "plots", "tensorboard"),
            *("documents", "experiments", "docs", "dev"),
        )
    },
)
