#!/usr/bin/env bash
# Prepare a corpus for fine-tuning (run-finetune.sh): Moses steps and joint BPE, into OUT/data; with
# --sentence-data DIR in the vocabulary of an existing sentence model.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
parse "$@"
PREPARE+=("${EXTRA[@]}")
prepare

# ---- What it runs: the commands of
#   prepare-finetune.sh --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/data
