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
