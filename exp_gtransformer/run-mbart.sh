#!/usr/bin/env bash
# G-Transformer fine-tuned from mBART25, and mBART itself fine-tuned on sentences and on documents (Bao et
# al., ACL 2021, table 2 and App. C.1).
#   --mbart DIR       folder with mBART's model.pt, sentence.bpe.model and dict.txt (mbart.cc25)
#   --trim            cut its vocabulary to the corpus, for small GPUs
#   --system NAMES    of sentence,document,gtransformer (default: all)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
OPTION[system]=sentence,document,gtransformer
source "$HERE/prepare-mbart.sh"
listed system sentence document gtransformer

start=(--init-from "$MBART/model.pt")
# The published file does not say its vocabulary; a trimmed or converted one does.
if [[ ${OPTION[trim]} == no && ($DRY_RUN == yes || -f $MBART/dict.txt) ]]; then
  start+=(--init-dict "$MBART/dict.txt")
fi

for system in "${LISTED[@]}"; do
  SEARCH=(--max-len-a 1.2 --max-len-b 10) # the limit of the authors' scripts
  case $system in
    sentence) config=mbart_sentence ;;
    document) config=mbart_document && SEARCH+=(--free) ;; # it decides how many sentences it writes
    gtransformer) config=gtransformer_mbart ;;
  esac
  model=$(named "mbart-$system" "$system")
  train "$model" "$config" "${start[@]}"
  evaluate "$model"
done
