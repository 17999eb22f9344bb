#!/usr/bin/env bash
# Flat-Transformer (Ma et al., ACL 2020) on its three corpora, which are those of G-Transformer:
# TED is iwslt17, News nc2016, Europarl europarl7. §3.2: one sentence before and one after, 1 bottom
# and 5 top layers, batches of 4,000 tokens, Adam (0.9, 0.98) with epsilon 1e-8, patience 10; with BERT
# the same learning rate for all parameters. The baseline of Zhang et al. (2018) has the sizes of the
# model, context attention behind self-attention, and is trained as its own paper says: a sentence
# model first, and then nothing but what is new.
set -euo pipefail
NAME=run-flat
SUMMARY="Train Flat-Transformer and test it: preparation (what is left of it), training into
OUT/MODEL, translation to OUT/test.MODEL.LANG, scores.
  --systems NAMES       of flat,nosegment,sentence,concat,zhang,bert (default: flat): the model, the
                        two cumulative ablations of table 3 (w/o Segment, w/o Unified), a Transformer
                        of this size that reads and translates two sentences, the document-aware
                        Transformer of Zhang et al. (2018) (and its sentence model, OUT/sentence),
                        the model started from a BERT
  --bert NAME_OR_DIR    the BERT of that system: a local folder or a name on the hub
                        (default: bert-base-uncased)"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

SYSTEMS=(flat nosegment sentence concat zhang bert)
OPTION[systems]=flat OPTION[bert]=bert-base-uncased
TRAINING_OPTION[arch]=flat_transformer_base
TRAINING_OPTION[max-tokens]=4000
TRAINING_OPTION[gpus]=1
parse "$@"
for key in start sentence-checkpoint sentence-data sentence-updates; do
  [[ -z ${GIVEN[$key]+given} ]] || die "\`--$key\` is for fine-tuning (run-finetune.sh)."
done
listed systems "${SYSTEMS[@]}"
[[ " ${LISTED[*]} " == *" zhang "* || -z ${GIVEN[sentence-seed]+given} ]] ||
  die "\`--sentence-seed\` is for \`--systems zhang\`, which has a sentence model."
[[ " ${LISTED[*]} " == *" "@(zhang|sentence)" "* ]] || without sentence
[[ " ${LISTED[*]} " == *" bert "* ]] || unset 'OPTION[bert]' # `begin` prepares for a BERT if it is set
begin gtransformer/prepare-bpe.sh

arch=${OPTION[arch]} common=("${COMMON_SETTINGS[@]}")
sizes=(--encoder-ffn-embed-dim 1024 --decoder-ffn-embed-dim 1024 --encoder-attention-heads 4
  --decoder-attention-heads 4 --encoder-layers 6 --decoder-layers 6)
for system in "${LISTED[@]}"; do
  COMMON_SETTINGS=("${common[@]}")
  case $system in
    flat) settings=(--unit window) ;;
    nosegment) settings=(--unit window --no-segment-embedding) ;;
    sentence) settings=(--unit sentence) ;;
    concat)
      settings=(--arch concat_transformer_base --unit window "${sizes[@]}")
      ;;
    zhang)
      OPTION[sentence-updates]=${OPTION[document-updates]}
      start_from sentence "$SENTENCE_SEED" --unit sentence --adam-eps 1e-8
      settings=(--arch "${arch/flat/document_aware}" --unit window --context-before 1
        --context-after 1 --context-place behind "${sizes[@]}"
        --init-from "$SENTENCE" --lr-scale-pretrained 0)
      ;;
    bert)
      # The source has BERT's word pieces, so the sides cannot share their words.
      COMMON_SETTINGS=(--share-decoder-input-output-embed "${common[@]:1}")
      settings=(--arch "${arch/transformer/transformer_bert}" --unit window)
      ;;
  esac
  model=$(document_model "$system" "$(several "$system")")
  # shellcheck disable=SC2004 # of stages.sh, by name
  [[ $system != sentence ]] || STAGE_OF[$model]=sentence
  train "$model" "${OPTION[document-updates]}" "${settings[@]}" --adam-eps 1e-8
  evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt"
done
