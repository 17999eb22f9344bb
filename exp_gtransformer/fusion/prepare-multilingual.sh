#!/usr/bin/env bash
# One binarised folder for the languages of a multilingual corpus, as the task of fairseq reads it:
# Moses tokens, BPE learned from all languages together, one dictionary for all of them (Yang et al.
# 2022, III-A: 40,000 merges). The task translates sentences, so boundaries of documents are left out.
set -euo pipefail
NAME=prepare-multilingual
SUMMARY="Binarise a multilingual corpus with one BPE and one dictionary for all languages."
TRAINS=no
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
OPTION[text]="" OPTION[bpe-merges]=40000

usage() {
  cat <<EOF
usage: exp_gtransformer/fusion/$NAME.sh --text DIR --out DIR [options]

$SUMMARY

  --text DIR        text of \`gtrans get-corpus iwslt17-multi\`: DIR/{train,dev,test}.L-en.{L,en}
  --out DIR         folder to write, DATA/iwslt17 of run-fusion.sh: the binarised splits, dict.L.txt,
                    codes.bpe, references/
  --bpe-merges N    merges of all languages together (default: ${OPTION[bpe-merges]})
  --workers N       processes of fairseq-preprocess (default: ${OPTION[workers]})
  --dry-run         print the commands only, check no file
  --help            this text
EOF
}

# made FILE COMMAND...: FILE from the command's output; it is there only when it is complete.
made() {
  printf '$ %s > %s\n' "$(quoted "${@:2}")" "$1"
  [[ $DRY_RUN == no ]] || return 0
  "${@:2}" >"$1.partial"
  mv "$1.partial" "$1"
}

# Both sides have boundaries of documents, empty lines, at the same lines.
SENTENCES=(grep -v '^[[:space:]]*$')

parse "$@"
[[ -n ${OPTION[text]} ]] || die "\`--text\` is missing: the folder that gtrans get-corpus has written."
TEXT=${OPTION[text]} OUT=${OPTION[out]}
pairs=()
for file in "$TEXT"/train.*-*.en; do
  name=${file##*/train.}
  [[ ! -f $file ]] || pairs+=("${name%.en}")
done
((${#pairs[@]})) || die "$TEXT: there is no file train.L-en.en, such as train.de-en.en."
for pair in "${pairs[@]}"; do
  for split in train dev test; do
    for lang in "${pair%-*}" "${pair#*-}"; do
      [[ -f $TEXT/$split.$pair.$lang ]] || die "$TEXT/$split.$pair.$lang: there is no such file."
    done
  done
done

[[ $DRY_RUN == yes ]] || mkdir -p "$OUT/text" "$OUT/references"
trained=()
for pair in "${pairs[@]}"; do
  for lang in "${pair%-*}" "${pair#*-}"; do
    for split in train dev test; do
      made "$OUT/text/$split.tok.$pair.$lang" bash -c \
        "$(quoted "${SENTENCES[@]}") \"\$0\" | $(quoted "$(program sacremoses)") -l $lang -q tokenize" \
        "$TEXT/$split.$pair.$lang"
    done
    trained+=("$OUT/text/train.tok.$pair.$lang")
    made "$OUT/references/test.$pair.$lang" "${SENTENCES[@]}" "$TEXT/test.$pair.$lang"
  done
done
made "$OUT/text/train.tok" cat "${trained[@]}"
made "$OUT/codes.bpe" "$(program subword-nmt)" learn-bpe -i "$OUT/text/train.tok" \
  -s "${OPTION[bpe-merges]}"
for pair in "${pairs[@]}"; do
  for lang in "${pair%-*}" "${pair#*-}"; do
    for split in train dev test; do
      made "$OUT/text/$split.$pair.$lang" "$(program subword-nmt)" apply-bpe -c "$OUT/codes.bpe" \
        -i "$OUT/text/$split.tok.$pair.$lang"
    done
  done
done
made "$OUT/text/train.bpe" cat "${trained[@]/train.tok./train.}"
made "$OUT/text/dict.txt" "$(program subword-nmt)" get-vocab -i "$OUT/text/train.bpe"
for pair in "${pairs[@]}"; do
  run "$(program fairseq-preprocess)" --source-lang "${pair%-*}" --target-lang "${pair#*-}" \
    --trainpref "$OUT/text/train.$pair" --validpref "$OUT/text/dev.$pair" \
    --testpref "$OUT/text/test.$pair" --srcdict "$OUT/text/dict.txt" --tgtdict "$OUT/text/dict.txt" \
    --destdir "$OUT" --workers "${OPTION[workers]}"
done
say "$OUT: ${pairs[*]} with one dictionary"
