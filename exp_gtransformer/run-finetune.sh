#!/usr/bin/env bash
# G-Transformer fine-tuned from a sentence Transformer (Bao et al., ACL 2021, App. C.1).
#   --start KIND    paper (default); open, lossless: begin nearly or exactly as the sentence model, which
#                   is this project's (docs/starting-from-a-sentence-model.md)
#   --system NAME   gtransformer (default); document: the document Transformer, d-BLEU only
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
OPTION[start]=paper OPTION[system]=gtransformer
parse "$@"
SEARCH=(--max-len-a 1.2 --max-len-b 10) # the limit of the authors' scripts

case ${OPTION[system]}:${OPTION[start]} in
  gtransformer:paper) model=finetune config=gtransformer_finetune ;;
  gtransformer:open | gtransformer:lossless)
    model=finetune-${OPTION[start]} config=gtransformer_${OPTION[start]} ;;
  document:paper) model=finetune-document config=document_transformer_finetune ;;
  *) die "\`--start\` is paper, open or lossless, \`--system\` gtransformer or document." ;;
esac
model=$(named "$model")

prepare
sentence gtransformer_sentence
train "$model" "$config" --init-from "$SENTENCE"
[[ ${OPTION[system]} != document ]] || SEARCH+=(--free) # it decides how many sentences it writes
evaluate "$model" "$BASELINE"
