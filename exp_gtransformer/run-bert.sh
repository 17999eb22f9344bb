#!/usr/bin/env bash
# BERT-context Transformer (Guo Zhiyu's thesis, 2021) and what it is compared with. Chinese is segmented by
# jieba and encoded by bert-base-chinese.
#   --bert NAME_OR_DIR    a local folder or a name on the hub (default: bert-base-uncased)
#   --make-bert LxW       make a BERT of L layers of width W from the training text, in OUT/bert;
#   --bert-updates N      trained for N updates (default: 20000)
#   --system NAMES        of context,whitened,encoder,decoder,fused,fused-scratch,aware,aware-bert (default:
#                         context): BERT as context on both sides; its output whitened, which is this
#                         project's; on one side; BERT-fused from the sentence model or from random
#                         parameters; the document-aware Transformer on words or on BERT
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
OPTION[system]=context OPTION[bert]=bert-base-uncased OPTION[make-bert]="" OPTION[bert-updates]=20000
parse "$@"
listed system context whitened encoder decoder fused fused-scratch aware aware-bert
[[ -n ${GIVEN[bert]:-} || $SOURCE != zh ]] || OPTION[bert]=bert-base-chinese
[[ " $SOURCE $TARGET " != *" zh "* ]] || PREPARE+=(--segmenter jieba)

if [[ -n ${OPTION[make-bert]} ]]; then
  [[ ${OPTION[make-bert]} =~ ^([0-9]+)x([0-9]+)$ ]] || die "\`--make-bert\` must be LAYERSxWIDTH, such as 12x768."
  [[ -z ${OPTION[prepared]} ]] || die "\`--make-bert\` makes a BERT of the training text, but \`--prepared\` takes \
a folder that has its BERT; give one of them."
  layers=${BASH_REMATCH[1]} width=${BASH_REMATCH[2]} OPTION[bert]=$OUT/bert
  text=$(text "$TRAIN_TEXT" "$SOURCE")
  once prepare "$OUT/bert/model.safetensors" "$text" -- "$(program python3)" "$ROOT/scripts/make_bert.py" \
    --text "$text" --out "$OUT/bert" --layers "$layers" --dim "$width" --vocabulary 8000 --rate 1e-4 \
    --heads $((width < 64 ? 1 : width / 64)) --updates "${OPTION[bert-updates]}"
fi
PREPARE+=(--bert "${OPTION[bert]}")

prepare
sentence bert_context_sentence
models=()
for system in "${LISTED[@]}"; do
  model=$(named "$system" "$system") start=(--init-from "$SENTENCE") config=bert_context_$system
  case $system in
    context) config=bert_context_transformer ;;
    fused) config=bert_fused ;;
    fused-scratch) config=bert_fused_scratch start=() ;;
    aware) config=document_aware ;;
    aware-bert) config=document_aware_bert ;;
  esac
  train "$model" "$config" "${start[@]}"
  evaluate "$model" "$BASELINE"
  models+=("$model")
done
((${#models[@]} == 1)) || score "$(named systems)" "${models[@]}"

# ---- What it runs: the commands of
#   run-bert.sh --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/data --bert bert-base-uncased
#   gtrans train out/data --config bert_context_sentence --source-lang en --target-lang de --seed 1 --save-dir
#       out/sentence
#   gtrans translate --path out/sentence/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.sentence.de --beam 5
#   gtrans score --hyp out/test.sentence.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/data --json out/scores.sentence.json >out/scores.sentence.txt
#   gtrans train out/data --config bert_context_transformer --source-lang en --target-lang de --seed 1 --save-dir
#       out/context --init-from out/sentence/checkpoint_best.pt
#   gtrans translate --path out/context/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.context.de --beam 5
#   gtrans score --hyp sentence=out/test.sentence.de context=out/test.context.de --ref corpus/europarl7/test.de --src
#       corpus/europarl7/test.en --target-lang de --data out/data --json out/scores.context.json
#       >out/scores.context.txt
