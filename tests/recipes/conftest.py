"""What the tests of the run scripts share."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from support.recipes import run_script


@pytest.fixture
def script(repo: Path, tmp_path: Path):
    """Run a script in an empty folder; no GPU is named in the environment."""
    return partial(run_script, repo, tmp_path)


STAND_IN = """#!/usr/bin/env bash
name=${0##*/}
words=("$@")
value() { # value FLAG: the word after it
  for ((i = 0; i < ${#words[@]}; i++)); do
    [[ ${words[i]} != "$1" ]] || printf '%s' "${words[i + 1]}"
  done
}
has_made() { # has_made OUTPUT INPUT...: whether the same command has made it, as its record knows
  local origin record=$1.record
  origin="${words[*]} $(stat -c %.Y "${@:2}")"
  [[ ! -f $1 || ! -f $record || $(<"$record") != "$origin" ]] || return 0
  mkdir -p "$(dirname "$1")" && printf '%s' "$origin" >"$record"
  return 1
}
case $name:$1 in
  gtrans:prepare)
    ! has_made "$(value --out)/prepare.json" "$(value --train)".?? || exit 0 ;;
  gtrans:train)
    log=$(value --save-dir)/train.log
    ! grep -q 'done training' "$log" 2>/dev/null || { echo 'the run is finished' && exit 0; } ;;
  gtrans:translate) ! has_made "$(value --output)" "$(value --path)" || exit 0 ;;
esac
printf '%s\\n' "$name $*" >>"$LOG"
case $name:$1 in
  gtrans:prepare)
    out=$(value --out) && mkdir -p "$out"
    printf '{"bpe": {\\n"merges": %s\\n}}\\n' "$(value --bpe-merges)" >"$out/prepare.json"
    ;;
  gtrans:translate) printf 'x\\n' >"$(value --output)" ;;
  gtrans:trim-vocab) mkdir -p "$(value --out)" && printf x >"$(value --out)/model.pt" ;;
  gtrans:score) printf 's-BLEU   12.34\\n' && printf '{}\\n' >"$(value --json)" ;;
  gtrans:train)
    [[ -z ${FAIL:-} ]] || { echo "gtrans: error: $FAIL" && exit 1; }
    [[ -z ${STOP:-} ]] || { echo 'gtrans: SIGUSR1: stopped after 3 updates' && exit 1; }
    printf x >"$(value --save-dir)/checkpoint_best.pt"
    echo 'done training in 0.1 seconds' >>"$log"
    ;;
  python3:-m) printf x >"${words[-1]}" && printf x >"${words[-2]}" ;;
  fairseq-preprocess:*)
    for lang in en de; do printf x >"$(value --trainpref | sed 's,/text,,').$lang.idx"; done
    ;;
  sacremoses:*) cat ;;
  subword-nmt:*) printf '%s\n' "$name $1" ;;
esac
"""


@pytest.fixture
def stand_ins(repo: Path, tmp_path: Path):
    """The scripts with programs that only write down how they are called.

    Returns a function that runs a script on the CPU, on text that is there, into ``out``; it
    returns the process and the calls.
    """
    shutil.copytree(repo / "exp_gtransformer", tmp_path / "exp_gtransformer")
    shutil.copytree(repo / "configs", tmp_path / "configs")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("gtrans", "sacremoses", "subword-nmt", "fairseq-preprocess", "python3"):
        (programs / name).write_text(STAND_IN, encoding="utf-8")
        (programs / name).chmod(0o755)
    texts = []
    for split in ("train", "valid", "test"):
        texts += [f"--{split}-prefix", tmp_path / split]
        for lang in ("en", "de"):
            (tmp_path / f"{split}.{lang}").write_text("x\n", encoding="utf-8")

    def call(name: str, *arguments: str | Path, **environment: str):
        log = tmp_path / "log"
        log.write_text("", encoding="utf-8")
        done = subprocess.run(
            [tmp_path / "exp_gtransformer" / f"{name}.sh", *map(str, texts), "--out", "out",
             "--source-lang", "en", "--target-lang", "de", "--gpus", "0", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "LOG": str(log), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )  # fmt: skip
        return done, log.read_text(encoding="utf-8").splitlines()

    return call
