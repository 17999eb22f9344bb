#!/usr/bin/env bash
# Transformer with recurrent memory (Feng et al. 2022, §4.2): learned token positions, AdamW (its
# weight decay is not given). A sentence model at 5e-4 with 4,000 updates of warm-up; from it the
# memory model, whose memories learn at 3e-4 and what is loaded at 0.2 of it, 6e-5. Dropout and
# warm-up depend on the corpus. Results are the mean of two runs.
set -euo pipefail
NAME=run-memory
SUMMARY="Train a sentence Transformer, fine-tune a Transformer with recurrent memory from it and
test both; then do the same with the next seed (--seed): preparation (what is left of it), training
into OUT/memory-sentence-SEED and OUT/memory-SEED, translation to OUT/test.MODEL.LANG, scores, and
their mean over the runs in OUT/scores.memory.txt. Corpora other than nc2016 and europarl7 are
trained with the settings of iwslt17 (TED).
  --runs N              runs whose scores are averaged (default: 2)
  --min-window N        fewest sentences of a document that an update reads (default: 5)
  --max-window N        most sentences that an update reads; 0: whole documents (default: 10)"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

OPTION[runs]=2 OPTION[min-window]=5 OPTION[max-window]=10
TRAINING_OPTION[arch]=memory_transformer_base TRAINING_OPTION[patience]=5
parse "$@"
at_least 1 runs min-window
at_least 0 max-window
[[ -z ${GIVEN[start]+given} ]] || die "\`--start\` is for the G-Transformer (run-finetune.sh)."
begin gtransformer/prepare-finetune.sh

case ${OPTION[corpus]} in
  europarl7) sentence_dropout=0.1 dropout=0.1 warmup=2000 ;;
  nc2016) sentence_dropout=0.3 dropout=0.2 warmup=2000 ;;
  *) sentence_dropout=0.3 dropout=0.2 warmup=1000 ;;
esac
arch=${OPTION[arch]} first=${OPTION[seed]}

# settings LR WARM-UP DROPOUT: what `train` gives to gtrans train.
settings() {
  # shellcheck disable=SC2034 # training.sh reads it
  COMMON_SETTINGS=(
    --share-all-embeddings --learned-positions
    --optimizer adam --adam-betas "(0.9, 0.98)" --weight-decay 0.01
    --lr "$1" --lr-scheduler inverse_sqrt --warmup-updates "$2"
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --dropout "$3"
  )
}

models=()
for ((number = 0; number < OPTION[runs]; number++)); do
  settings 5e-4 4000 "$sentence_dropout"
  OPTION[arch]=${arch/memory_transformer/gtransformer} OPTION[seed]=$((first + number))
  start_from "memory-sentence-$((SENTENCE_SEED + number))" $((SENTENCE_SEED + number)) \
    --unit sentence --doc-mode full
  model=$(document_model "memory-${OPTION[seed]}" "${OPTION[seed]}")
  OPTION[arch]=$arch
  settings 3e-4 "$warmup" "$dropout"
  train "$model" "${OPTION[document-updates]}" --unit stream \
    --min-window "${OPTION[min-window]}" --max-window "${OPTION[max-window]}" \
    --init-from "$SENTENCE" --lr-scale-pretrained 0.2
  evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt"
  models+=("${OPTION[out]}/scores.$model.txt")
done

[[ $DRY_RUN == no ]] || exit 0
# average: print the mean of the scores of all runs.
average() {
  printf 'mean of %d runs: %s\n' "${OPTION[runs]}" "${models[*]}"
  awk 'match($0, / +[0-9]+\.[0-9][0-9] +/) {
    name = substr($0, 1, RSTART - 1)
    if (!(name in sum)) names[++count] = name
    sum[name] += substr($0, RSTART, RLENGTH)
  }
  END { for (i = 1; i <= count; i++) printf "%-18s  %6.2f\n", names[i], sum[names[i]] / files }' \
    files="${OPTION[runs]}" "${models[@]}"
}
keep "${OPTION[out]}/scores.$(document_model memory).txt" average
