#!/usr/bin/env bash
# Prepare a corpus for random parameters (run-randinit.sh): Moses steps and joint BPE, into OUT/data.
# Documents are formed when the corpus is loaded, so that nothing is cut here.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
parse "$@"
[[ -z ${OPTION[sentence-data]} ]] || die "\`--sentence-data\` is for fine-tuning (prepare-finetune.sh)."
PREPARE+=("${EXTRA[@]}")
prepare
