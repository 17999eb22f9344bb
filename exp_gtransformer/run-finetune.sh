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

# ---- What it runs: the commands of
#   run-finetune.sh --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/data
#   gtrans train out/data --config gtransformer_sentence --source-lang en --target-lang de --seed 1 --save-dir
#       out/sentence
#   gtrans translate --path out/sentence/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.sentence.de --max-len-a 1.2 --max-len-b 10 --beam 5
#   gtrans score --hyp out/test.sentence.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/data --json out/scores.sentence.json >out/scores.sentence.txt
#   gtrans train out/data --config gtransformer_finetune --source-lang en --target-lang de --seed 1 --save-dir
#       out/finetune --init-from out/sentence/checkpoint_best.pt
#   gtrans translate --path out/finetune/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.finetune.de --max-len-a 1.2 --max-len-b 10 --beam 5
#   gtrans score --hyp sentence=out/test.sentence.de finetune=out/test.finetune.de --ref corpus/europarl7/test.de
#       --src corpus/europarl7/test.en --target-lang de --data out/data --json out/scores.finetune.json
#       >out/scores.finetune.txt
