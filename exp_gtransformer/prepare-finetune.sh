#!/usr/bin/env bash
# Prepare a corpus for fine-tuning (run-finetune.sh): Moses steps and joint BPE, into OUT/data; with
# --sentence-data DIR in the vocabulary of an existing sentence model.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
parse "$@"
PREPARE+=("${EXTRA[@]}")
prepare
