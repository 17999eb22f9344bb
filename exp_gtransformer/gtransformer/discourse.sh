#!/usr/bin/env bash
# Table 4: deixis, lexical cohesion and ellipsis, English to Russian (sets of Voita et al. 2019).
set -euo pipefail
NAME=discourse
TRAINS=no
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

usage() {
  cat <<EOF
usage: exp_gtransformer/$NAME.sh --path CKPT --data-bin DIR --sets DIR [options] [-- ...]

Table 4 of the paper: how often a model gives the consistent translation the best score, for
deixis, lexical cohesion, ellipsis (infl.) and ellipsis (VP), by the distance of the sentence that
decides it, with 95% intervals. The last column has the same with contexts of other instances. It
is one command, which is printed before it runs.

  --path CKPT           checkpoint of an English-Russian model, of any system and unit
  --data-bin DIR        data folder of the model, made by gtrans prepare
  --sets DIR            folder with deixis_test.json, lex_cohesion_test.json, ellipsis_infl.json
                        and ellipsis_vp.json, gzipped (.gz) or not
  --dry-run             print the command only, check no file
  --help                this text

What follows -- goes to gtrans contrast, e.g. --cpu or --json.
EOF
}

OPTION=([path]="" [data-bin]="" [sets]="")
check_options() {
  local key
  for key in path data-bin sets; do
    [[ -n ${OPTION[$key]} ]] || die "\`--$key\` is missing; --help describes it."
  done
}

parse "$@"
sets=()
for set in deixis_test lex_cohesion_test ellipsis_infl ellipsis_vp; do
  sets+=("$(text_file "${OPTION[sets]}/$set" json)")
done
run "$(program gtrans)" contrast --path "${OPTION[path]}" --data "${OPTION[data-bin]}" \
  --format consistency --set "${sets[@]}" --random-context "${EXTRA[@]}"
