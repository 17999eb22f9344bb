#!/usr/bin/env bash
# G-Transformer on all corpora of its paper: run-randinit.sh and run-finetune.sh for every corpus, with one
# preparation, into OUT/CORPUS.
#   --corpus NAMES    joined by commas (default: iwslt17,nc2016,europarl7)
#   --script NAMES    of randinit,finetune, joined by commas (default: both)
# All other options are those of run-finetune.sh.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
corpora=iwslt17,nc2016,europarl7 scripts=randinit,finetune out="" rest=()
while (($#)); do
  case $1 in
    -h | --help) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" && echo && sed s/SCRIPT/run-all.sh/ "$here/options.txt" && exit ;;
    --corpus) corpora=$2 && shift 2 ;;
    --script) scripts=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --) rest+=("$@") && break ;;
    *) rest+=("$1") && shift ;;
  esac
done
[[ -n $out ]] || { echo "run-all: error: \`--out\` is missing: where everything is to be written." >&2 && exit 1; }

for corpus in ${corpora//,/ }; do
  for script in ${scripts//,/ }; do
    "$here/run-$script.sh" --corpus "$corpus" --out "$out/$corpus" "${rest[@]}"
  done
done
