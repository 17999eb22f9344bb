#!/usr/bin/env bash
# G-Transformer fine-tuned from a sentence Transformer (App. C.1): global attention and gates, which
# are new, learn at 5e-4, what is loaded at 0.2 of it, 1e-4; word dropout 0.1, in the first 40 epochs
# as in the authors' script. The document Transformer from the same sentence model, which no paper here
# prints, has the rate of what is loaded and, as from random parameters, no word dropout.
set -euo pipefail
NAME=run-finetune
SUMMARY="Train a sentence Transformer, fine-tune a G-Transformer from it, test both: preparation
(what is left of it), training into OUT/sentence and OUT/finetune (OUT/finetune-KIND with
--start KIND), translation to OUT/test.MODEL.LANG, scores.
  --system NAME         gtransformer (default), or document: the document Transformer, into
                        OUT/finetune-document; one line a document (gtrans translate --free), d-BLEU
                        only"
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
[[ ${OPTION[system]}:${OPTION[start]} =~ ^(gtransformer:.*|document:paper)$ ]] ||
  die "\`--start ${OPTION[start]}\` is for \`--system gtransformer\`."
begin gtransformer/prepare-finetune.sh

start_from sentence "$SENTENCE_SEED" --unit sentence --doc-mode full

model=finetune
parts=(--word-dropout 0.1 --word-dropout-epochs 40) start=()
if [[ ${OPTION[system]} == document ]]; then
  model=finetune-document
  parts=(--word-dropout 0 --doc-mode full)
  SEARCH+=(--free)
elif [[ ${OPTION[start]} != paper ]]; then
  # Positions restart in every sentence and gates begin on the side of group attention, so that the
  # document model begins by translating as the sentence model does, or nearly so; without word
  # dropout it also trains as well (docs/results.md).
  model=finetune-${OPTION[start]}
  parts=(--word-dropout 0) start=(--positions sentence --gate-bias 10)
  [[ ${OPTION[start]} != open ]] || start=(--positions sentence --gate-bias 3 --copy-local-to-global)
fi
model=$(document_model "$model")
train "$model" "${OPTION[document-updates]}" \
  --unit document --max-doc-tokens "${OPTION[max-doc-tokens]}" "${parts[@]}" \
  --init-from "$SENTENCE" --lr-scale-pretrained 0.2 "${start[@]}"
evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt" "$BASELINE"
