#!/usr/bin/env bash
# Everything that needs a GPU to be known, in one command on a bare machine without a network.
#
#   scripts/gpu_check.sh --wheels DIR --out DIR   with the libraries of DIR (scripts/make_wheels.sh)
#   scripts/gpu_check.sh --out DIR                in the environment that is there (.venv, or python3)
#   scripts/gpu_check.sh --cpu --out DIR          the same steps on the CPU at tiny sizes
#   scripts/gpu_check.sh ... --out DIR -- SCRIPT  another script in that environment, with its options:
#                                                 scripts/gpu_result.py, scripts/gpu_decoding.py
#
#   --python PYTHON   the interpreter that has torch (default: .venv's, else python3)
#   --minutes N       for all steps together (default: 8)
#
# With --wheels, an environment OUT/venv is made: it sees what PYTHON has, and has the wheels besides.
# OUT has the log of every step, outcomes.json and summary.md. The status is 0 if every step has passed.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
WHEELS='' OUT='' PYTHON='' MINUTES=8 DEVICE=cuda SCRIPT=()

fail() {
  echo "gpu_check: error: $*" >&2
  exit 1
}

while (($#)); do
  case $1 in
    --cpu) DEVICE=cpu && shift && continue ;;
    --) SCRIPT=("${@:2}") && break ;;
    --wheels | --out | --python | --minutes) (($# > 1)) || fail "\`$1\` needs a value." ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit ;;
    *) fail "'$1' is unknown; --help lists what there is." ;;
  esac
  case $1 in
    --wheels) WHEELS=$2 ;;
    --out) OUT=$2 ;;
    --python) PYTHON=$2 ;;
    --minutes) MINUTES=$2 ;;
  esac
  shift 2
done
START=$SECONDS
[[ -n $OUT ]] || fail "\`--out\` is missing: the folder for results."
[[ $MINUTES =~ ^[1-9][0-9]*$ ]] || fail "\`--minutes\` must be a whole number, but is '$MINUTES'."
if [[ -z $PYTHON ]]; then
  PYTHON=python3
  [[ -n $WHEELS || ! -x $ROOT/.venv/bin/python ]] || PYTHON=$ROOT/.venv/bin/python
fi
[[ -z $WHEELS ]] || compgen -G "$WHEELS/*.whl" >/dev/null ||
  fail "\`--wheels $WHEELS\` holds no wheel; scripts/make_wheels.sh $WHEELS fills it."
"$PYTHON" -c 'import torch' 2>/dev/null || fail "\`--python $PYTHON\` has no torch; name one that has."
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)

# The interpreter may itself be that of a virtual environment, whose packages venv would not show:
# a .pth file does. It has pip, so that the new environment needs none.
environment() {
  local packages
  "$PYTHON" -m venv --without-pip "$OUT/venv"
  packages=$("$OUT/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "$PYTHON" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' \
    >"$packages/beside-torch.pth"
  "$PYTHON" -m pip --python "$OUT/venv/bin/python" install --no-index --no-deps --quiet \
    --disable-pip-version-check --no-warn-script-location "$WHEELS"/*.whl
  # what the installed command `gtrans` would be
  printf '%s\n' "$ROOT" >"$packages/gtrans-check.pth"
  printf '#!%s\nimport sys\nfrom gtrans.cli import main\nsys.exit(main())\n' \
    "$OUT/venv/bin/python" >"$OUT/venv/bin/gtrans"
  chmod +x "$OUT/venv/bin/gtrans"
  touch "$OUT/venv/complete"
}
if [[ -n $WHEELS ]]; then
  if [[ ! -e $OUT/venv/complete ]]; then
    rm -rf "$OUT/venv"
    environment >"$OUT/environment.log" 2>&1 ||
      fail "the environment cannot be made ($(tail -n 1 "$OUT/environment.log")), see \
$OUT/environment.log."
  fi
  PYTHON=$OUT/venv/bin/python
fi
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}
((${#SCRIPT[@]} == 0)) || exec "$PYTHON" "${SCRIPT[@]}"
exec "$PYTHON" "$ROOT/scripts/gpu_check.py" --device "$DEVICE" --out "$OUT" \
  --seconds $((MINUTES * 60 - SECONDS + START))
