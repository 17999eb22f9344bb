#!/usr/bin/env bash
# BERT-context Transformer (thesis, §4.2) and what it is compared with: 4 + 4 layers, one learning
# rate, batches of 4,000 tokens, dropout 0.1 for the sentence model and 0.2 after it. The corpora are
# those of G-Transformer (TED is iwslt17, News nc2016); for Chinese name --bert bert-base-chinese.
set -euo pipefail
NAME=run-bert
SUMMARY="Train a sentence Transformer and BERT-context Transformers from it, test all: preparation
(what is left of it), training into OUT/MODEL, translation to OUT/test.MODEL.LANG, scores.
  --bert NAME_OR_DIR    the BERT: a local folder or a name on the hub (default: bert-base-uncased)
  --systems NAMES       of context,encoder,decoder,fused,aware,aware-bert (default: context): BERT
                        as context on both sides, on one side only (table 5.3), BERT-fused with
                        drop-net, the document-aware Transformer, and that on top of BERT"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

SYSTEMS=(context encoder decoder fused aware aware-bert)
OPTION[systems]=context OPTION[bert]=bert-base-uncased
TRAINING_OPTION[arch]=bert_context_transformer_base
TRAINING_OPTION[max-tokens]=4000
TRAINING_OPTION[gpus]=1
parse "$@"
[[ -z ${GIVEN[start]+given} ]] || die "\`--start\` is for the G-Transformer (run-finetune.sh)."
listed systems "${SYSTEMS[@]}"
begin gtransformer/prepare-bpe.sh

# settings DROPOUT: what `train` gives to gtrans train.
settings() {
  # shellcheck disable=SC2034 # training.sh reads it
  COMMON_SETTINGS=(
    --share-all-embeddings
    --optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-8
    --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --dropout "$1"
  )
}

arch=${OPTION[arch]}
settings 0.1
start_from sentence "$SENTENCE_SEED" --unit sentence --bert-integration none
settings 0.2
for system in "${LISTED[@]}"; do
  OPTION[arch]=$arch scale=1 parts=()
  case $system in
    encoder | decoder) parts=(--bert-integration "$system") ;;
    fused) parts=(--combine mean --drop-net 1.0) ;;
    # Zhang et al. (2018) train the second step with the sentence model as it is.
    aware) OPTION[arch]=${arch/bert_context/document_aware} scale=0 ;;
    aware-bert)
      OPTION[arch]=${arch/bert_context/document_aware} scale=0 parts=(--context-input bert)
      ;;
  esac
  model=$(document_model "$system" "$(several "$system")")
  train "$model" "${OPTION[document-updates]}" --unit window --context-before 1 \
    "${parts[@]}" --init-from "$SENTENCE" --lr-scale-pretrained "$scale"
  evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt"
done
