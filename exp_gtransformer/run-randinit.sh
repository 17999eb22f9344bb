#!/usr/bin/env bash
# G-Transformer from random parameters (Bao et al., ACL 2021, App. C.1).
#   --system NAME        gtransformer (default); document: the document Transformer of table 2, d-BLEU only;
#                        bert: G-Transformer whose encoder begins as a BERT
#   --bert NAME_OR_DIR   that BERT: a local folder or a name on the hub (default: bert-base-uncased)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
OPTION[system]=gtransformer OPTION[bert]=bert-base-uncased
parse "$@"
SEARCH=(--max-len-a 1.2 --max-len-b 10) # the limit of the authors' scripts

case ${OPTION[system]} in
  gtransformer) model=randinit config=gtransformer_randinit ;;
  document) model=document config=document_transformer && SEARCH+=(--free) ;;
  bert) model=gtransformer-bert config=gtransformer_bert && PREPARE+=(--bert "${OPTION[bert]}") ;;
  *) one_of system "${OPTION[system]}" gtransformer document bert ;;
esac
model=$(named "$model")

prepare
train "$model" "$config"
evaluate "$model"

# ---- What it runs: the commands of
#   run-randinit.sh --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/data
#   gtrans train out/data --config gtransformer_randinit --source-lang en --target-lang de --seed 1 --save-dir
#       out/randinit
#   gtrans translate --path out/randinit/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.randinit.de --max-len-a 1.2 --max-len-b 10 --beam 5
#   gtrans score --hyp out/test.randinit.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/data --json out/scores.randinit.json >out/scores.randinit.txt
