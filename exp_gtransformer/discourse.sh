#!/usr/bin/env bash
# Table 4 of G-Transformer: how often an English-Russian model gives the consistent translation the best score,
# for deixis, lexical cohesion and ellipsis (sets of Voita et al. 2019), with the same for shuffled context.
#
# usage: discourse.sh CHECKPOINT DATA SETS [options of gtrans contrast, such as --cpu]
#   SETS: the folder with deixis_test.json, lex_cohesion_test.json, ellipsis_infl.json, ellipsis_vp.json
set -euo pipefail
if (($# < 3)) || [[ $1 == -* ]]; then
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
  [[ ${1:-} == -h || ${1:-} == --help ]] || exit 1
  exit
fi
sets=()
for set in deixis_test lex_cohesion_test ellipsis_infl ellipsis_vp; do
  file=$3/$set.json
  [[ -f $file || ! -f $file.gz ]] || file+=.gz
  sets+=("$file")
done
PATH=$(dirname "${BASH_SOURCE[0]}")/../.venv/bin:$PATH
set -x
exec gtrans contrast --path "$1" --data "$2" --format consistency --set "${sets[@]}" --shuffled-context "${@:4}"
