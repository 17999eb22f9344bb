#!/usr/bin/env bash
# Transformer with recurrent memory (Feng et al. 2022). Settings of §4.2: a sentence model at 5e-4
# with 4,000 updates of warm-up; from it the memory model, whose memories learn at 3e-4 and what is
# loaded at 0.2 of it, 6e-5; dropout and warm-up depend on the corpus; results are the mean of two
# runs. What the paper does not print is as in the authors' program (yukunnf/RecurrentMemForDocMT):
# the Transformer of BART (learned positions, GELU, LayerNorm on unscaled embeddings, dropout on
# attention weights), AdamW without weight decay, no label smoothing, 8 documents side by side,
# an update for every 8 whole documents. docs/fidelity.md has the table.
set -euo pipefail
NAME=run-memory
SUMMARY="Train a sentence Transformer, fine-tune a Transformer with recurrent memory from it and
test both; then do the same with the next seed (--seed): preparation (what is left of it), training
into OUT/memory-sentence-SEED and OUT/memory-SEED, translation to OUT/test.MODEL.LANG, scores with a
test of the difference in OUT/scores.MODEL.txt, and the means of both models over the runs in
OUT/scores.memory.txt. Corpora other than nc2016 and europarl7 are trained with the settings of
iwslt17 (TED).
  --runs N              runs whose scores are averaged (default: 2)
  --batches NAME        what an update accumulates: authors (default): 8 whole documents, side by
                        side, as in the authors' program; printed: one document, a sentence pair at
                        a time, as in the paper; filled: 5 to 10 sentences of as many documents as
                        fill --max-tokens on every GPU. These options change parts of it:
  --documents N         documents that are read side by side; 0: as many as fill --max-tokens
  --min-window N        fewest sentences of a document that an update accumulates
  --max-window N        most sentences; 0: whole documents. For figure 5, -- --log-interval 100 and
                        one --name for each --max-window"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

OPTION[runs]=2 OPTION[batches]=authors
OPTION[documents]=8 OPTION[min-window]=5 OPTION[max-window]=0
TRAINING_OPTION[arch]=memory_transformer_base TRAINING_OPTION[patience]=5 TRAINING_OPTION[gpus]=1
parse "$@"
one_of batches authors printed filled
case ${OPTION[batches]} in
  printed) documents=1 window=0 ;;
  filled) documents=0 window=10 ;;
  *) documents=8 window=0 ;;
esac
[[ -n ${GIVEN[documents]+given} ]] || OPTION[documents]=$documents
[[ -n ${GIVEN[max-window]+given} ]] || OPTION[max-window]=$window
if [[ -z ${GIVEN[min-window]+given} ]] && ((0 < OPTION[max-window] && OPTION[max-window] < 5)); then
  OPTION[min-window]=${OPTION[max-window]}
fi
at_least 1 runs min-window
at_least 0 documents max-window
[[ -z ${GIVEN[start]+given} ]] || die "\`--start\` is for the G-Transformer (run-finetune.sh)."
at_once=${OPTION[max-tokens]}
begin gtransformer/prepare-finetune.sh

case ${OPTION[corpus]} in
  europarl7) sentence_dropout=0.1 dropout=0.1 warmup=2000 ;;
  nc2016) sentence_dropout=0.3 dropout=0.2 warmup=2000 ;;
  *) sentence_dropout=0.3 dropout=0.2 warmup=1000 ;;
esac
arch=${OPTION[arch]} first=${OPTION[seed]} side_by_side=()
if [[ -n ${OPTION[launcher]} && -z ${GIVEN[update-freq]+given} ]] && ((OPTION[documents])); then
  # The documents of an update are shared, not the tokens that are read at once.
  workers=$((OPTION[nodes] * (OPTION[gpus] ? OPTION[gpus] : 1)))
  ((OPTION[documents] % workers == 0)) ||
    die "$workers processes cannot share the ${OPTION[documents]} documents of an update; give a \
number that divides them, or \`--documents\`."
  OPTION[documents]=$((OPTION[documents] / workers))
else
  at_once=
fi
if ((OPTION[documents])); then
  side_by_side=(--batch-size "${OPTION[documents]}")
  say "the memory model reads ${OPTION[documents]} documents side by side, at most \
${at_once:-${OPTION[max-tokens]}} tokens at once"
fi

# settings LR WARM-UP DROPOUT: what `train` gives to gtrans train.
settings() {
  # shellcheck disable=SC2034 # training.sh reads it
  COMMON_SETTINGS=(
    --share-all-embeddings --learned-positions --layernorm-embedding --no-scale-embedding
    --activation-fn gelu
    --optimizer adam --adam-betas "(0.9, 0.999)" --adam-eps 1e-6 --weight-decay 0
    --lr "$1" --lr-scheduler inverse_sqrt --warmup-updates "$2"
    --criterion chunked_cross_entropy --label-smoothing 0
    --dropout "$3" --attention-dropout "$3"
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
  shared=${OPTION[max-tokens]}
  OPTION[max-tokens]=${at_once:-$shared}
  train "$model" "${OPTION[document-updates]}" --unit stream \
    --min-window "${OPTION[min-window]}" --max-window "${OPTION[max-window]}" \
    "${side_by_side[@]}" --init-from "$SENTENCE" --lr-scale-pretrained 0.2
  OPTION[max-tokens]=$shared
  evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt" "$BASELINE"
  models+=("${OPTION[out]}/scores.$model.txt")
done

means=$(document_model memory)
makes score "$means" "${OPTION[out]}/scores.$means.txt" || exit 0
needs score "${models[@]}"
[[ $DRY_RUN == no ]] || exit 0
# average: print the means over all runs of the memory model, and of the sentence model if it is in
# the same tables, as the first of their two systems.
average() {
  printf 'mean of %d runs: %s\n' "${OPTION[runs]}" "${models[*]}"
  awk 'match($0, / +[0-9]+\.[0-9][0-9] +/) {
    head = substr($0, 1, RSTART - 1)
    place = 2
    if (head ~ /^[^ ]/) {
      place = 1
      name = head
      sub(/  .*/, "", name)
      if (!((name, 1) in sum)) names[++count] = name
    }
    sum[name, place] += substr($0, RSTART, RLENGTH)
    both = both || place == 2
  }
  END {
    if (both) printf "%-18s  %8s  %8s  %8s\n", "", "sentence", "memory", "change"
    for (i = 1; i <= count; i++) {
      first = sum[names[i], 1] / files
      second = sum[names[i], 2] / files
      if (both) printf "%-18s  %8.2f  %8.2f  %+8.2f\n", names[i], first, second, second - first
      else printf "%-18s  %6.2f\n", names[i], first
    }
  }' files="${OPTION[runs]}" "${models[@]}"
}
keep "${OPTION[out]}/scores.$means.txt" average
