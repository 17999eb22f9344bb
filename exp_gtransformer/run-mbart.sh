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

# ---- What it runs: the commands of
#   run-mbart.sh --mbart mbart.cc25 --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --sentencepiece mbart.cc25/sentence.bpe.model --dictionary mbart.cc25/dict.txt
#       --workers 1 --out out/data
#   gtrans train out/data --config mbart_sentence --source-lang en --target-lang de --seed 1 --save-dir
#       out/mbart-sentence --init-from mbart.cc25/model.pt --init-dict mbart.cc25/dict.txt
#   gtrans translate --path out/mbart-sentence/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en
#       --output out/test.mbart-sentence.de --max-len-a 1.2 --max-len-b 10 --beam 5
#   gtrans score --hyp out/test.mbart-sentence.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/data --json out/scores.mbart-sentence.json >out/scores.mbart-sentence.txt
#   gtrans train out/data --config mbart_document --source-lang en --target-lang de --seed 1 --save-dir
#       out/mbart-document --init-from mbart.cc25/model.pt --init-dict mbart.cc25/dict.txt
#   gtrans translate --path out/mbart-document/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en
#       --output out/test.mbart-document.de --max-len-a 1.2 --max-len-b 10 --free --beam 5
#   gtrans score --hyp out/test.mbart-document.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/data --json out/scores.mbart-document.json >out/scores.mbart-document.txt
#   gtrans train out/data --config gtransformer_mbart --source-lang en --target-lang de --seed 1 --save-dir
#       out/mbart-gtransformer --init-from mbart.cc25/model.pt --init-dict mbart.cc25/dict.txt
#   gtrans translate --path out/mbart-gtransformer/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en
#       --output out/test.mbart-gtransformer.de --max-len-a 1.2 --max-len-b 10 --beam 5
#   gtrans score --hyp out/test.mbart-gtransformer.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/data --json out/scores.mbart-gtransformer.json >out/scores.mbart-gtransformer.txt
