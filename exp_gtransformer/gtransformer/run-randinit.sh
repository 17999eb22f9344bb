#!/usr/bin/env bash
# G-Transformer from random parameters (App. C.1): learning rate 5e-4, word dropout 0.3, in the first
# 30 epochs as in the authors' script. The document Transformer of table 2 has plain attention and no
# word dropout, and decides itself how many sentences it writes (`baselines/run-doc.sh`). Of G-Transformer
# with a BERT the paper has a result and no details: word dropout and rates are those of fine-tuning.
set -euo pipefail
NAME=run-randinit
SUMMARY="Train a randomly initialised G-Transformer and test it: preparation (what is left of it),
training into OUT/randinit, translation to OUT/test.randinit.LANG, scores.
  --system NAME         gtransformer (default); document: the document Transformer, into OUT/document;
                        one line a document (gtrans translate --free), d-BLEU only; bert:
                        G-Transformer whose encoder begins as a BERT, into OUT/gtransformer-bert
  --bert NAME_OR_DIR    that BERT: a local folder or a name on the hub (default: bert-base-uncased)"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

# shellcheck disable=SC2034 # of training.sh; the limit of the authors' scripts
SEARCH=(--max-len-a 1.2 --max-len-b 10)

OPTION[system]=gtransformer OPTION[bert]=bert-base-uncased
parse "$@"
one_of system gtransformer document bert
for key in start sentence-checkpoint sentence-data sentence-updates sentence-seed; do
  [[ -z ${GIVEN[$key]+given} ]] || die "\`--$key\` is for fine-tuning (run-finetune.sh)."
done
without sentence
if [[ ${OPTION[system]} != bert ]]; then
  [[ -z ${GIVEN[bert]+given} ]] || die "\`--bert\` is for \`--system bert\`."
  unset 'OPTION[bert]' # `begin` prepares for a BERT if it is set
fi
begin gtransformer/prepare-randinit.sh
if [[ ${OPTION[system]} == document ]]; then
  model=$(document_model document) parts=(--word-dropout 0 --doc-mode full)
  SEARCH+=(--free)
elif [[ ${OPTION[system]} == bert ]]; then
  model=$(document_model gtransformer-bert)
  parts=(--word-dropout 0.1 --word-dropout-epochs 40 --lr-scale-pretrained 0.2)
  OPTION[arch]=${OPTION[arch]/gtransformer/gtransformer_bert}
  # The source has BERT's word pieces, so the sides cannot share their words.
  COMMON_SETTINGS=("${COMMON_SETTINGS[@]/--share-all-embeddings/--share-decoder-input-output-embed}")
  COMMON_SETTINGS=("${COMMON_SETTINGS[@]/#adam/two_rate_adam}")
else
  model=$(document_model randinit) parts=(--word-dropout 0.3 --word-dropout-epochs 30)
fi
train "$model" "${OPTION[document-updates]}" \
  --unit document --max-doc-tokens "${OPTION[max-doc-tokens]}" "${parts[@]}"
evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt"
