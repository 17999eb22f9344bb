#!/usr/bin/env bash
# Prepare a corpus: Moses tokenisation and truecasing, joint BPE, fairseq-preprocess, into OUT/data. One
# corpus serves sentence and document models. With --sentence-data the vocabulary is that of another folder.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
parse "$@"
PREPARE+=("${EXTRA[@]}")
prepare

# ---- What it runs: the commands of
#   prepare-bpe.sh --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/data
