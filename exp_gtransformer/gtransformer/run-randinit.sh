#!/usr/bin/env bash
# G-Transformer from random parameters (App. C.1): learning rate 5e-4, word dropout 0.3, in the first
# 30 epochs as in the authors' script. The document Transformer of table 2 has plain attention and no
# word dropout, and decides itself how many sentences it writes (`baselines/run-doc.sh`).
set -euo pipefail
NAME=run-randinit
SUMMARY="Train a randomly initialised G-Transformer and test it: preparation (what is left of it),
training into OUT/randinit, translation to OUT/test.randinit.LANG, scores.
  --system NAME         gtransformer (default), or document: the document Transformer, into
                        OUT/document; one line a document (gtrans translate --free), d-BLEU only"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

# shellcheck disable=SC2034 # of training.sh; the limit of the authors' scripts
SEARCH=(--max-len-a 1.2 --max-len-b 10)

OPTION[system]=gtransformer
parse "$@"
one_of system gtransformer document
for key in start sentence-checkpoint sentence-data sentence-updates sentence-seed; do
  [[ -z ${GIVEN[$key]+given} ]] || die "\`--$key\` is for fine-tuning (run-finetune.sh)."
done
begin gtransformer/prepare-randinit.sh
if [[ ${OPTION[system]} == document ]]; then
  model=$(document_model document) parts=(--word-dropout 0 --doc-mode full)
  SEARCH+=(--free)
else
  model=$(document_model randinit) parts=(--word-dropout 0.3 --word-dropout-epochs 30)
fi
train "$model" "${OPTION[document-updates]}" \
  --unit document --max-doc-tokens "${OPTION[max-doc-tokens]}" "${parts[@]}"
evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt"
