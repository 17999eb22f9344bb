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

# ---- What it runs: the commands of
#   run-han.sh --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/data
#   gtrans train out/data --config han_sentence --source-lang en --target-lang de --seed 1 --save-dir out/sentence
#   gtrans translate --path out/sentence/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.sentence.de --beam 5
#   gtrans score --hyp out/test.sentence.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/data --json out/scores.sentence.json >out/scores.sentence.txt
#   gtrans train out/data --config han_encoder --source-lang en --target-lang de --seed 1 --save-dir out/han-encoder
#       --init-from out/sentence/checkpoint_best.pt
#   gtrans translate --path out/han-encoder/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en
#       --output out/test.han-encoder.de --beam 5
#   gtrans score --hyp sentence=out/test.sentence.de han-encoder=out/test.han-encoder.de --ref
#       corpus/europarl7/test.de --src corpus/europarl7/test.en --target-lang de --data out/data --json
#       out/scores.han-encoder.json >out/scores.han-encoder.txt
#   gtrans train out/data --config han_transformer --source-lang en --target-lang de --seed 1 --save-dir out/han-joint
#       --init-from out/han-encoder/checkpoint_best.pt
#   gtrans translate --path out/han-joint/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.han-joint.de --beam 5
#   gtrans score --hyp sentence=out/test.sentence.de han-joint=out/test.han-joint.de --ref corpus/europarl7/test.de
#       --src corpus/europarl7/test.en --target-lang de --data out/data --json out/scores.han-joint.json
#       >out/scores.han-joint.txt
