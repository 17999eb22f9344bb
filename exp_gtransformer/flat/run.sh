#!/usr/bin/env bash
# Flat-Transformer (Ma et al., ACL 2020) on its three corpora, which are those of G-Transformer:
# TED is iwslt17, News nc2016, Europarl europarl7. §3.2: one sentence before and one after, 1 bottom
# and 5 top layers, batches of 4,000 tokens, Adam (0.9, 0.98) with epsilon 1e-8, patience 10.
set -euo pipefail
NAME=run-flat
SUMMARY="Train Flat-Transformer and test it: preparation (what is left of it), training into
OUT/MODEL, translation to OUT/test.MODEL.LANG, scores.
  --systems NAMES       of flat,nosegment,sentence,concat (default: flat): the model, the two
                        cumulative ablations of table 3 (w/o Segment, w/o Unified), and a Transformer
                        of this size that reads and translates two sentences"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

SYSTEMS=(flat nosegment sentence concat)
OPTION[systems]=flat
TRAINING_OPTION[arch]=flat_transformer_base
TRAINING_OPTION[max-tokens]=4000
TRAINING_OPTION[gpus]=1
parse "$@"
for key in start sentence-checkpoint sentence-data sentence-updates; do
  [[ -z ${GIVEN[$key]+given} ]] || die "\`--$key\` is for fine-tuning (run-finetune.sh)."
done
listed systems "${SYSTEMS[@]}"
begin gtransformer/prepare-bpe.sh

for system in "${LISTED[@]}"; do
  case $system in
    flat) settings=(--unit window) ;;
    nosegment) settings=(--unit window --no-segment-embedding) ;;
    sentence) settings=(--unit sentence) ;;
    concat)
      settings=(--arch concat_transformer_base --unit window --encoder-ffn-embed-dim 1024
        --decoder-ffn-embed-dim 1024 --encoder-attention-heads 4 --decoder-attention-heads 4)
      ;;
  esac
  model=$(document_model "$system" "$(several "$system")")
  train "$model" "${OPTION[document-updates]}" "${settings[@]}" --adam-eps 1e-8
  evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt"
done
