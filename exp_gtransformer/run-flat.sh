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

# ---- What it runs: the commands of
#   run-flat.sh --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/data
#   gtrans train out/data --config flat_transformer --source-lang en --target-lang de --seed 1 --save-dir out/flat
#   gtrans translate --path out/flat/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.flat.de --beam 5
#   gtrans score --hyp out/test.flat.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en --target-lang de
#       --data out/data --json out/scores.flat.json >out/scores.flat.txt
