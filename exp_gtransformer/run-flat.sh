#!/usr/bin/env bash
# Flat-Transformer (Ma et al., ACL 2020), its ablations and what its paper compares it with.
#   --system NAMES       of flat,nosegment,sentence,concat,zhang,bert (default: flat): the model, the two
#                        ablations of table 3, concatenation of two sentences, the document-aware Transformer
#                        of Zhang et al. (2018) (and its sentence model), the model started from a BERT
#   --bert NAME_OR_DIR   that BERT: a local folder or a name on the hub (default: bert-base-uncased)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
OPTION[system]=flat OPTION[bert]=bert-base-uncased
parse "$@"
listed system flat nosegment sentence concat zhang bert
[[ ,${OPTION[system]}, != *,bert,* ]] || PREPARE+=(--bert "${OPTION[bert]}")

prepare
for system in "${LISTED[@]}"; do
  model=$(named "$system" "$system")
  case $system in
    flat) train "$model" flat_transformer ;;
    bert) train "$model" flat_transformer_bert ;;
    zhang)
      sentence flat_sentence
      train "$model" flat_zhang --init-from "$SENTENCE"
      ;;
    sentence)
      sentence flat_sentence
      continue
      ;;
    *) train "$model" "flat_$system" ;;
  esac
  evaluate "$model"
done
