#!/usr/bin/env bash
# Prepare a corpus: Moses tokenisation and truecasing, joint BPE, fairseq-preprocess, into OUT/data. One
# corpus serves sentence and document models. With --sentence-data the vocabulary is that of another folder.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
parse "$@"
PREPARE+=("${EXTRA[@]}")
prepare
