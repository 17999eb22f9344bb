#!/usr/bin/env bash
# HAN (Miculicich et al., EMNLP 2018): a sentence model, from it attention to the three sentences before in
# the encoder or the decoder, and from the encoder's model in both.
#   --system NAMES    of encoder,decoder,joint (default: joint, which trains the encoder's model first)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
OPTION[system]=joint
parse "$@"
listed system encoder decoder joint
[[ ,${OPTION[system]}, != *,joint,* || ,${OPTION[system]}, == *,encoder,* ]] || LISTED=(encoder "${LISTED[@]}")

prepare
sentence han_sentence
for system in "${LISTED[@]}"; do
  model=$(named "han-$system" "$system")
  case $system in
    encoder) train "$model" han_encoder --init-from "$SENTENCE" ;;
    decoder) train "$model" han_decoder --init-from "$SENTENCE" ;;
    joint) train "$model" han_transformer --init-from "$OUT/$(named han-encoder encoder)/checkpoint_best.pt" ;;
  esac
  evaluate "$model" "$BASELINE"
done
