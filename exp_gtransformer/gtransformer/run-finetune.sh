#!/usr/bin/env bash
# G-Transformer fine-tuned from a sentence Transformer (App. C.1): global attention and gates, which
# are new, learn at 5e-4, what is loaded at 0.2 of it, 1e-4; word dropout 0.1.
set -euo pipefail
NAME=run-finetune
SUMMARY="Train a sentence Transformer, fine-tune a G-Transformer from it, test both: preparation (if
OUT/data is not complete), training into OUT/sentence and OUT/finetune (OUT/finetune-lossless with
--start lossless), translation to OUT/test.MODEL.LANG, scores."
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

parse "$@"
begin gtransformer/prepare-finetune.sh

sentence=${OPTION[sentence-checkpoint]}
baseline=
if [[ -z $sentence ]]; then
  baseline=sentence
  sentence=${OPTION[out]}/sentence/checkpoint_best.pt
  train sentence "${OPTION[sentence-updates]}" --unit sentence --doc-mode full
  evaluate sentence "$sentence"
elif [[ $DRY_RUN == no && ! -f $sentence ]]; then
  die "$sentence: there is no such file (\`--sentence-checkpoint\`)."
fi

model=finetune
start=()
if [[ ${OPTION[start]} == lossless ]]; then
  # Positions restart in every sentence and gates begin on the side of group attention, so that the
  # document model begins by translating as the sentence model does.
  model=finetune-lossless
  start=(--positions sentence --gate-bias 10)
fi
train "$model" "${OPTION[document-updates]}" \
  --unit document --max-doc-tokens "${OPTION[max-doc-tokens]}" --word-dropout 0.1 \
  --init-from "$sentence" --lr-scale-pretrained 0.2 "${start[@]}"
evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt" "$baseline"
