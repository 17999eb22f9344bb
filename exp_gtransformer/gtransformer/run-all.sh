#!/usr/bin/env bash
# All systems on all corpora of the paper, one after the other: OUT/CORPUS holds what
# run-randinit.sh and run-finetune.sh write for a corpus; both use one preparation.
set -euo pipefail
NAME=run-all
SUMMARY="run-randinit.sh and run-finetune.sh for every corpus, into OUT/CORPUS. Two options have
another meaning here: --corpus may be several names joined by commas (default: all), and --out gets
a folder for each.
  --systems NAMES       of randinit,finetune (default: both)"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

SYSTEMS=(randinit finetune)
OPTION[systems]=$(IFS=, && printf '%s' "${SYSTEMS[*]}")
OPTION[corpus]=$(IFS=, && printf '%s' "${CORPORA[*]}")
parse "$@"
behind=()
for word in "$@"; do
  [[ $word != -- && ${#behind[@]} == 0 ]] || behind+=("$word")
done
for key in train-prefix valid-prefix test-prefix sentence-checkpoint sentence-data prepared only; do
  [[ -z ${GIVEN[$key]+given} ]] ||
    die "\`--$key\` is for one corpus (run-finetune.sh, run-randinit.sh)."
done
IFS=, read -ra corpora <<<"${OPTION[corpus]}"
((${#corpora[@]})) || die "\`--corpus\` names nothing."
listed systems "${SYSTEMS[@]}"

# All text must be there before the first training begins.
out=${OPTION[out]}
for corpus in "${corpora[@]}"; do
  OPTION[corpus]=$corpus
  find_text
done

# call_all: every script for every corpus.
call_all() {
  local corpus system key arguments
  for corpus in "${corpora[@]}"; do
    for system in "${LISTED[@]}"; do
      arguments=(--corpus "$corpus" --out "$out/$corpus")
      for key in "${!GIVEN[@]}"; do
        case $key:$system in
          corpus:* | out:* | systems:* | name:* | start:randinit | sentence-*:randinit) ;;
          *) arguments+=("--$key" "${OPTION[$key]}") ;;
        esac
      done
      [[ -z ${OPTION[name]} ]] || arguments+=(--name "$(document_model "" "$(several "$system")")")
      [[ $PRINT_ONLY == no ]] || arguments+=(--dry-run)
      [[ $OUTPUTS_ONLY == no ]] || arguments+=(--outputs)
      bash "$ROOT/exp_gtransformer/gtransformer/run-$system.sh" "${arguments[@]}" "${behind[@]}"
    done
  done
}

if [[ $OUTPUTS_ONLY == yes ]]; then
  call_all | awk '!seen[$0]++' # both scripts share a preparation
  exit
fi
call_all
if [[ $DRY_RUN == yes ]] || ! chosen score; then exit 0; fi
for corpus in "${corpora[@]}"; do
  for scores in "$out/$corpus"/scores.*.txt; do
    if [[ -f $scores ]]; then printf '\n%s\n' "$scores" && cat "$scores"; fi
  done
done
