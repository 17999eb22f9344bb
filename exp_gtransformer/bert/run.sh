#!/usr/bin/env bash
# BERT-context Transformer (Guo Zhiyu's thesis, 2021, §4.2) and what it is compared with: 4 + 4
# layers, one learning rate, batches of 4,000 tokens, dropout 0.1 for the sentence model and 0.2
# after it, BERT's output as it is. The corpora are those of G-Transformer (TED is iwslt17, News
# nc2016). Chinese is segmented by jieba and read by bert-base-chinese. docs/fidelity.md has the
# table of settings.
set -euo pipefail
NAME=run-bert
SUMMARY="Train a sentence Transformer and BERT-context Transformers from it, test all: preparation
(what is left of it), training into OUT/MODEL, translation to OUT/test.MODEL.LANG, scores. Several
systems are also compared with the first one, in OUT/scores.systems.txt.
  --bert NAME_OR_DIR    the BERT: a local folder or a name on the hub (default: bert-base-uncased,
                        bert-base-chinese if the source is zh)
  --make-bert LxW       where no BERT can be had: make one of L layers of width W from the source
                        side of the training text, in OUT/bert (scripts/make_bert.py)
  --bert-updates N      how long it is trained (default: 20000)
  --systems NAMES       of context,whitened,encoder,decoder,fused,fused-scratch,aware,aware-bert
                        (default: context):
                        context        BERT as context on both sides, as in the thesis
                        whitened       the same on whitened output of BERT; not in the thesis
                        encoder        on one side only (table 5.3)
                        decoder
                        fused          BERT-fused with drop-net, started from the sentence model as
                                       in the program of Zhu et al. (2020)
                        fused-scratch  the same from random parameters, as the thesis has it (2.9.3)
                        aware          the document-aware Transformer, on words
                        aware-bert     that on top of whitened output of BERT"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

SYSTEMS=(context whitened encoder decoder fused fused-scratch aware aware-bert)
OPTION[systems]=context OPTION[bert]=bert-base-uncased OPTION[make-bert]="" OPTION[bert-updates]=20000
TRAINING_OPTION[arch]=bert_context_transformer_base
TRAINING_OPTION[max-tokens]=4000
TRAINING_OPTION[gpus]=1
parse "$@"
[[ -z ${GIVEN[start]+given} ]] || die "\`--start\` is for the G-Transformer (run-finetune.sh)."
listed systems "${SYSTEMS[@]}"
at_least 1 bert-updates
[[ -n ${GIVEN[bert]+given} || ${OPTION[source-lang]} != zh ]] || OPTION[bert]=bert-base-chinese
if [[ " ${OPTION[source-lang]} ${OPTION[target-lang]} " == *" zh "* ]]; then
  # shellcheck disable=SC2034 # training.sh reads it
  PREPARE=(--segmenter jieba)
fi

if [[ -n ${GIVEN[make-bert]+given} ]]; then
  [[ -z ${GIVEN[bert]+given} ]] || die "\`--make-bert\` cannot be combined with \`--bert\`."
  [[ ${OPTION[make-bert]} =~ ^([1-9][0-9]?)x([1-9][0-9]{1,3})$ ]] ||
    die "\`--make-bert\` must be LAYERSxWIDTH, such as 12x768, but is '${OPTION[make-bert]}'."
  layers=${BASH_REMATCH[1]} width=${BASH_REMATCH[2]}
  OPTION[bert]=${OPTION[out]}/bert GIVEN[bert]=yes
  made=${OPTION[bert]}/model.safetensors
  if makes prepare bert "$made" && [[ $DRY_RUN == yes || ! -f $made ]]; then
    find_text
    run "$(interpreter)" "$ROOT/scripts/make_bert.py" \
      --text "$(text_file "$TRAIN_TEXT" "${OPTION[source-lang]}")" --out "${OPTION[bert]}" \
      --layers "$layers" --dim "$width" --heads $((width < 64 ? 1 : width / 64)) \
      --vocabulary 8000 --rate 1e-4 --updates "${OPTION[bert-updates]}"
  fi
fi
begin gtransformer/prepare-bpe.sh

# settings DROPOUT: what `train` gives to gtrans train.
settings() {
  # shellcheck disable=SC2034 # training.sh reads it
  COMMON_SETTINGS=(
    --share-all-embeddings
    --optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-8
    --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000
    --criterion chunked_cross_entropy --label-smoothing 0.1
    --dropout "$1"
  )
}

arch=${OPTION[arch]} models=()
settings 0.1
start_from sentence "$SENTENCE_SEED" --unit sentence --bert-integration none
settings 0.2
for system in "${LISTED[@]}"; do
  OPTION[arch]=$arch scale=1 parts=(--raw-bert-states)
  start=(--init-from "$SENTENCE")
  case $system in
    whitened) parts=() ;;
    encoder | decoder) parts+=(--bert-integration "$system") ;;
    fused) parts+=(--combine mean --drop-net 1.0) ;;
    fused-scratch) parts+=(--combine mean --drop-net 1.0) start=() ;;
    # Zhang et al. (2018) train the second step with the sentence model as it is.
    aware) OPTION[arch]=${arch/bert_context/document_aware} scale=0 parts=() ;;
    aware-bert)
      OPTION[arch]=${arch/bert_context/document_aware} scale=0 parts=(--context-input bert)
      ;;
  esac
  model=$(document_model "$system" "$(several "$system")")
  ((${#start[@]} == 0)) || start+=(--lr-scale-pretrained "$scale")
  train "$model" "${OPTION[document-updates]}" --unit window --context-before 1 \
    "${parts[@]}" "${start[@]}"
  evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt" "$BASELINE"
  models+=("$model")
done
((${#models[@]} == 1)) || compare "$(document_model systems)" "${models[@]}"
