"""What all scripts of exp_gtransformer/ have: names, options and defaults, one line of error."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.recipes import CORPORA, commands, the_error

# their --help is that of lib/common.sh
USUAL = (
    *("prepare-bpe", "prepare-randinit", "prepare-finetune", "prepare-mbart"),
    *("run-randinit", "run-finetune", "run-mbart", "run-memory", "run-flat", "run-bert", "run-han",
      "run-compare", "run-all"),
)


@pytest.fixture
def folder(repo: Path) -> Path:
    return repo / "exp_gtransformer"


def test_bash_can_read_them(folder):
    scripts = sorted(folder.rglob("*.sh"))
    assert scripts
    for path in scripts:
        subprocess.run(["bash", "-n", path], check=True)
        if shutil.which("shellcheck"):
            subprocess.run(["shellcheck", "-x", path], check=True, cwd=path.parent)


def test_every_script_has_a_short_name(folder):
    """It is a call of one line; ``run-flat.sh`` is that of ``flat/run.sh``."""
    called = []
    for path in sorted(folder.glob("*.sh")):
        shebang, line = path.read_text(encoding="utf-8").splitlines()
        call = re.fullmatch(r'exec bash "\$\(dirname "\$\{BASH_SOURCE\[0\]\}"\)/(\S+)" "\$@"', line)
        assert shebang == "#!/usr/bin/env bash" and call, path
        system, _, name = call[1].partition("/")
        assert path.name in (name, name.replace("run", f"run-{system}"))
        called.append(folder / call[1])
    scripts = {path for path in folder.glob("*/*.sh") if path.parent.name != "lib"}
    assert set(called) == scripts and len(called) == len(scripts)
    for path in (*folder.glob("*.sh"), *scripts):
        assert os.access(path, os.X_OK), path


def test_a_dry_run_names_the_files_that_are_there(script, tmp_path):
    """Text may be gzipped; what is not there has the name without it."""
    words = ["--dry-run", "--out", "out", "--source-lang", "en", "--target-lang", "de"]
    for split in ("train", "valid", "test"):
        words += [f"--{split}-prefix", str(tmp_path / split)]
    for name in ("test.en.gz", "test.en"):
        (tmp_path / name).write_bytes(gzip.compress(b"a\n"))
        found = [it for it in commands(script("run-finetune", *words)) if " translate " in it]
        assert len(found) == 2 and all(f"--input {tmp_path}/{name} " in it for it in found)
        (tmp_path / name).unlink()


@pytest.mark.parametrize("name", USUAL)
def test_help_shows_options_and_defaults(name, script):
    done = script(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: exp_gtransformer/{name}.sh ")
    assert "--bpe-merges N        joint BPE merges (default: 30000)" in done.stdout
    assert ("--update-freq N" in done.stdout) == name.startswith("run-")
    for corpus in CORPORA:
        assert corpus in done.stdout


SETS = ("deixis_test", "lex_cohesion_test", "ellipsis_infl", "ellipsis_vp")


def test_table_4_is_one_command(script, tmp_path):
    place = ("--path", "ru.pt", "--data-bin", "bin", "--sets", "sets")
    (command,) = commands(script("discourse", *place, "--dry-run", "--", "--cpu", "--json"))
    files = " ".join(f"sets/{name}.json" for name in SETS)
    assert command == (
        f"gtrans contrast --path ru.pt --data bin --format consistency --set {files} "
        "--random-context --cpu --json"
    )
    assert "sets/deixis_test.json: there is no such file" in the_error(script("discourse", *place))
    assert "`--path` is missing" in the_error(script("discourse"))
    (tmp_path / "sets").mkdir()
    for name in SETS:
        (tmp_path / "sets" / f"{name}.json.gz").write_bytes(gzip.compress(b"[]"))
    error = script("discourse", *place).stderr
    assert error == "gtrans: error: 'sets/deixis_test.json.gz' holds no contrastive item.\n"
