"""What the tests of the recipes share."""

from __future__ import annotations

import os
import re
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
printf '%s\\n' "$name $*" >>"$LOG"
words=("$@")
value() { # value FLAG: the word after it
  for ((i = 0; i < ${#words[@]}; i++)); do
    [[ ${words[i]} != "$1" ]] || printf '%s' "${words[i + 1]}"
  done
}
case $name:$1 in
  gtrans:prepare)
    out=$(value --out) && mkdir -p "$out"
    sides=(en de)
    [[ $* != *" --bert "* ]] || sides+=(en.bert)
    for split in train valid test; do
      for side in "${sides[@]}"; do
        printf x | tee "$out/$split.en-de.$side.idx" >"$out/$split.en-de.$side.bin"
      done
    done
    printf x | tee "$out/dict.en.txt" >"$out/dict.de.txt"
    printf '{"bpe": {\\n"merges": %s,\\n}, "binarise"}\\n' "$(value --bpe-merges)" \\
      >"$out/prepare.json"
    ;;
  gtrans:translate) printf 'x\\n' >"$(value --output)" ;;
  gtrans:generate) [[ -z ${GENERATED:-} ]] || cat "$GENERATED" ;;
  gtrans:trim-vocab) mkdir -p "$(value --out)" && printf x >"$(value --out)/model.pt" ;;
  gtrans:score)
    [[ $* != *" --json "* ]] || printf '{}\n' >"$(value --json)"
    if [[ $* == *" --hyp "*=*=* ]]; then
      printf '%s\\n' '         system  score  change' 's-BLEU              a   12.34  x' \\
        '                    b  14.34 +2.00' 'd-BLEU (instances)  a   15.00  x' \\
        '                    b  16.50  +1.50'
    else
      printf 's-BLEU   12.34 \\n'
    fi
    ;;
  gtrans:train)
    folder=$(value --save-dir)
    if [[ -n ${REFUSE:-} && ${folder##*/} == "${REFUSE%%:*}" ]]; then
      printf 'gtrans: error: %s\\n' "${REFUSE#*:}" >&2
      exit 1
    fi
    printf x | tee "$folder/checkpoint_best.pt" >"$folder/checkpoint_last.pt"
    [[ -z ${FINISH:-} ]] || printf '%s' "$(value --seed)" >"$folder/finished"
    ;;
  python:-m)
    [[ $2 == gtrans.training.finished ]] || exit 0
    [[ -f $3/finished ]] || exit 1
    [[ -z ${4:-} || $(<"$3/finished") == "$4" ]] || exit 2
    ;;
  python:*/make_bert.py)
    out=$(value --out) && mkdir -p "$out"
    printf x >"$out/model.safetensors"
    ;;
  sacremoses:*) cat ;;
esac
"""


@pytest.fixture
def stand_ins(repo: Path, tmp_path: Path):
    """The recipes with programs that only write down how they are called.

    Returns a function that runs a recipe on the CPU, on text that is there, into ``out``. It
    returns the process and the calls, without those of ``gtrans score``. A training writes
    checkpoints, and is finished if there is a file ``finished``, which holds its seed, in its
    folder; it is there with FINISH. It is refused if REFUSE is ``MODEL:MESSAGE``. What ``gtrans
    generate`` prints stands in the file GENERATED.
    """
    shutil.copytree(repo / "exp_gtransformer", tmp_path / "exp_gtransformer")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("gtrans", "python", "sacremoses"):
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
             "--gpus", "0", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "LOG": str(log), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )  # fmt: skip
        calls = log.read_text(encoding="utf-8").splitlines()
        return done, [line for line in calls if re.match("gtrans (?!score)", line)]

    return call
