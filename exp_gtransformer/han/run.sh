#!/usr/bin/env bash
# HAN (Miculicich et al., EMNLP 2018) as the commands of its authors' program train it (idiap/HAN_NMT,
# README.md, onmt/Optim.py): a sentence model; from it the encoder's or the decoder's attention to the
# three sentences before; from the encoder's model both. All parameters have one rate, that of Vaswani
# et al. with factor 2 and 8,000 updates of warm-up, which is at most 9.88e-4 = 2 / sqrt(512 x 8000).
# Batches are counted with their context here: four of 4,096 tokens are the program's four of 1,024 of
# the sentences themselves. docs/fidelity.md has the table of settings.
set -euo pipefail
NAME=run-han
SUMMARY="Train a sentence Transformer, fine-tune HAN from it and test both: preparation (what is left
of it), training into OUT/sentence and OUT/han-SYSTEM, translation to OUT/test.MODEL.LANG, scores with
tests of the difference from the sentence model.
  --systems NAMES       of encoder,decoder,joint (default: joint): the side whose states attend to the
                        sentences before; joint: both, from the model of the encoder, which is
                        trained first"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

OPTION[systems]=joint
TRAINING_OPTION[arch]=han_transformer_base
TRAINING_OPTION[update-freq]=4 TRAINING_OPTION[gpus]=1
parse "$@"
[[ -z ${GIVEN[start]+given} ]] || die "\`--start\` is for the G-Transformer (run-finetune.sh)."
SYSTEMS=(encoder decoder joint)
listed systems "${SYSTEMS[@]}"
wanted=" ${LISTED[*]} " LISTED=()
for system in "${SYSTEMS[@]}"; do
  # joint begins where the encoder's model ends
  [[ $wanted != *" $system "* && ! ($system == encoder && $wanted == *" joint "*) ]] ||
    LISTED+=("$system")
done
begin gtransformer/prepare-finetune.sh

# shellcheck disable=SC2034 # training.sh reads it
COMMON_SETTINGS=(
  --share-all-embeddings
  --optimizer adam --adam-betas "(0.9, 0.998)" --adam-eps 1e-9
  --lr 9.88e-4 --lr-scheduler inverse_sqrt --warmup-updates 8000
  --criterion chunked_cross_entropy --label-smoothing 0.1
  --dropout 0.1
)

arch=${OPTION[arch]}
OPTION[arch]=${arch/han_transformer/gtransformer}
start_from sentence "$SENTENCE_SEED" --unit sentence --doc-mode full
OPTION[arch]=$arch
for system in "${LISTED[@]}"; do
  model=$(document_model "han-$system" "$(several "$system")") side=$system start=$SENTENCE
  if [[ $system == joint ]]; then
    side=both start=${OPTION[out]}/$(document_model han-encoder encoder)/checkpoint_best.pt
  fi
  train "$model" "${OPTION[document-updates]}" --unit window --context-before 3 --context-after 0 \
    --context-sides history --han-side "$side" --init-from "$start" --lr-scale-pretrained 1
  evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt" "$BASELINE"
done
