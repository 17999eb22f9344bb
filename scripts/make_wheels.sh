#!/usr/bin/env bash
# Fills a folder with the wheels that a machine with torch lacks, for scripts/gpu_check.sh.
#
#   scripts/make_wheels.sh DIR                 for Python 3.12 on x86_64 Linux
#   PYTHON_VERSION=3.11 scripts/make_wheels.sh DIR
#   scripts/make_wheels.sh DIR NAME...         these packages of requirements.txt instead
#
# Without names: what fairseq, gtrans and the tests need and torch, transformers, sacrebleu and cython do
# not bring along. Versions: requirements.txt. A package without a
# wheel is built here if it is pure Python; fairseq has wheels for Python 3.12 on x86_64 only, for
# others it is built on such a machine: pip wheel --no-deps fairseq-fixed.
set -euo pipefail
VERSION=${PYTHON_VERSION:-3.12}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
if (($# == 0)) || [[ $1 == -* ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
  [[ ${1:-} == --help || ${1:-} == -h ]]
  exit
fi
mkdir -p "$1"
FOLDER=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=python3
[[ ! -x .venv/bin/python ]] || PYTHON=.venv/bin/python
NAMES=("${@:2}")
((${#NAMES[@]})) || NAMES=(fairseq-fixed hydra-core omegaconf antlr4-python3-runtime bitarray
  cffi pycparser scikit-learn scipy joblib threadpoolctl narwhals cloudpickle sacremoses subword-nmt
  mock nltk defusedxml pytest iniconfig pluggy pytest-timeout pytest-xdist execnet hypothesis
  sortedcontainers)

fail() {
  echo "make_wheels: error: $*" >&2
  exit 1
}

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
for name in "${NAMES[@]}"; do
  pinned=$(grep -i "^$name==" requirements.txt) || fail "'$name' is not in requirements.txt."
  if "$PYTHON" -m pip download --quiet --no-deps --only-binary :all: --dest "$WORK" \
    --python-version "$VERSION" --implementation cp --platform manylinux2014_x86_64 \
    --platform manylinux_2_28_x86_64 "$pinned" >"$WORK/log" 2>&1; then
    :
  elif ! "$PYTHON" -m pip wheel --quiet --no-deps --wheel-dir "$WORK" "$pinned" \
    >"$WORK/log" 2>&1 || ! compgen -G "$WORK/*-none-any.whl" >/dev/null; then
    fail "$pinned: no wheel for Python $VERSION and none that can be made here \
($(grep ERROR "$WORK/log" | head -n 1))."
  fi
  mv "$WORK"/*.whl "$FOLDER"
done
du -h "$FOLDER"/*.whl
