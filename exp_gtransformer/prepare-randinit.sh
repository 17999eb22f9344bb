#!/usr/bin/env bash
# Prepare a corpus for random parameters (run-randinit.sh): Moses steps and joint BPE, into OUT/data.
# Documents are formed when the corpus is loaded, so that nothing is cut here.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
parse "$@"
[[ -z ${OPTION[sentence-data]} ]] || die "\`--sentence-data\` is for fine-tuning (prepare-finetune.sh)."
PREPARE+=("${EXTRA[@]}")
prepare

# ---- What it runs: the commands of
#   prepare-randinit.sh --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/data
