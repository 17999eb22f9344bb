#!/usr/bin/env bash
# One binarised folder for the languages of a multilingual corpus, as the task of fairseq reads it:
# Moses tokens, BPE learned from all languages together, one dictionary for all of them (Yang et al.
# 2022, III-A: 40,000 merges); or the pieces and the dictionary of XLM-R. The task translates
# sentences, so boundaries of documents are left out.
set -euo pipefail
NAME=prepare-multilingual
SUMMARY="Binarise a multilingual corpus with one vocabulary for all languages, in OUT/data."
TRAINS=no
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/multilingual.sh
source "$ROOT/exp_gtransformer/lib/multilingual.sh"
OPTION[bpe-merges]=40000

usage() {
  cat <<EOF
usage: exp_gtransformer/$NAME.sh --data DIR --corpus NAME --out DIR [options]

$SUMMARY

  --corpus NAME         such as iwslt17-multi: the folder of the text
$(multilingual_usage)
  --out DIR             OUT/data is written: the binarised splits, dict.L.txt, codes.bpe or
                        sentencepiece.model, the test text as references/, and pairs.json, the
                        number of training pairs of each pair of languages; what is finished stays
  --bpe-merges N        merges of all languages together (default: ${OPTION[bpe-merges]})
  --xlmr DIR            the pieces of the XLM-R in this folder instead (sentencepiece.bpe.model)
  --workers N           processes of fairseq-preprocess (default: ${OPTION[workers]})
  --dry-run             print the commands only, check no file
  --help                this text
EOF
}

# made FILE COMMAND...: FILE from the command's output; it is there only when it is complete.
made() {
  printf '$ %s > %s\n' "$(quoted "${@:2}")" "$1"
  [[ $DRY_RUN == no ]] || return 0
  "${@:2}" >"$1.partial"
  mv "$1.partial" "$1"
}

# made_from: print what the folder is made from.
made_from() {
  local split pair lang
  printf 'langs %s\n' "${LANGS[*]}"
  if [[ -n $MODEL ]]; then sha256sum <"$MODEL"; else printf 'merges %s\n' "${OPTION[bpe-merges]}"; fi
  for split in train valid test; do
    for pair in "${PAIRS[@]}"; do
      for lang in "${pair%-*}" "${pair#*-}"; do
        sha256sum <"$(pair_text "$split" "$pair" "$lang")"
      done
    done
  done
}

# in_pieces: all texts in the pieces of MODEL, whose dictionary they share.
in_pieces() {
  local file
  run cp "$MODEL" "$DATA/sentencepiece.model"
  for file in "${TEXTS[@]}"; do
    made "$DATA/text/$file" "$(interpreter)" -m gtrans.text.pieces --model "$MODEL" \
      --input "$DATA/text/plain.$file"
  done
  made "$DATA/text/dict.txt" "$(interpreter)" -m gtrans.text.pieces --model "$MODEL"
}

# in_merges: all texts as Moses tokens, in BPE that is learnt from all training texts.
in_merges() {
  local file train=()
  for file in "${TEXTS[@]}"; do
    # shellcheck disable=SC2016 # the words of that shell
    made "$DATA/text/tok.$file" bash -c '"$0" -l "$1" -q tokenize <"$2"' \
      "$(program sacremoses)" "${file##*.}" "$DATA/text/plain.$file"
    [[ $file != train.* ]] || train+=("$DATA/text/tok.$file")
  done
  made "$DATA/text/tok.train" cat "${train[@]}"
  made "$DATA/codes.bpe" "$(program subword-nmt)" learn-bpe -i "$DATA/text/tok.train" \
    -s "${OPTION[bpe-merges]}"
  for file in "${TEXTS[@]}"; do
    made "$DATA/text/$file" "$(program subword-nmt)" apply-bpe -c "$DATA/codes.bpe" \
      -i "$DATA/text/tok.$file"
  done
  made "$DATA/text/train" cat "${train[@]/tok.train./train.}"
  made "$DATA/text/dict.txt" "$(program subword-nmt)" get-vocab -i "$DATA/text/train"
}

# training_pairs: print how many training pairs each pair of languages has, as JSON.
training_pairs() {
  local pair between="{"
  for pair in "${PAIRS[@]}"; do
    printf '%s"%s": %s' "$between" "$pair" "$(wc -l <"$DATA/text/plain.train.$pair.${pair%-*}")"
    between=", "
  done
  printf '}\n'
}

parse "$@"
check_text_options
((${#EXTRA[@]} == 0)) || die "'${EXTRA[0]}' stands behind --, but nothing here has such options."
find_prefixes
find_langs
find_texts
MODEL=
if [[ -n ${OPTION[xlmr]} ]]; then
  MODEL=${OPTION[xlmr]}/sentencepiece.bpe.model
  [[ -z ${GIVEN[bpe-merges]+given} ]] || die "\`--bpe-merges\` cannot be combined with \`--xlmr\`."
  [[ -f $MODEL || $DRY_RUN == yes ]] ||
    die "$MODEL: there is no such file; it is published with XLM-R (\`--xlmr\`)."
fi
if [[ $DRY_RUN == no ]]; then
  mkdir -p "$DATA/text" "$DATA/references"
  if [[ -f $DATA/made-from.txt ]]; then
    made_from | cmp -s - "$DATA/made-from.txt" ||
      die "$DATA: it is made from other text or with other settings; take another \`--out\`."
    [[ ! -f $DATA/pairs.json ]] || { say "$DATA is complete" && exit; }
  fi
  made_from >"$DATA/made-from.txt.partial"
  mv "$DATA/made-from.txt.partial" "$DATA/made-from.txt"
fi
TEXTS=()
for pair in "${PAIRS[@]}"; do
  one=${pair%-*} two=${pair#*-}
  for split in train valid test; do
    text=$DATA/text/plain.$split.$pair
    TEXTS+=("$split.$pair.$one" "$split.$pair.$two")
    run "$(interpreter)" -m gtrans.text.sentence_pairs "$(pair_text "$split" "$pair" "$one")" \
      "$(pair_text "$split" "$pair" "$two")" "$text.$one" "$text.$two"
  done
  for lang in "$one" "$two"; do
    run cp "$DATA/text/plain.test.$pair.$lang" "$DATA/references/test.$pair.$lang"
  done
done
if [[ -n $MODEL ]]; then in_pieces; else in_merges; fi
for pair in "${PAIRS[@]}"; do
  run "$(program fairseq-preprocess)" --source-lang "${pair%-*}" --target-lang "${pair#*-}" \
    --trainpref "$DATA/text/train.$pair" --validpref "$DATA/text/valid.$pair" \
    --testpref "$DATA/text/test.$pair" --srcdict "$DATA/text/dict.txt" --tgtdict "$DATA/text/dict.txt" \
    --destdir "$DATA" --workers "${OPTION[workers]}"
done
if [[ $DRY_RUN == no ]]; then
  training_pairs >"$DATA/pairs.json.partial"
  mv "$DATA/pairs.json.partial" "$DATA/pairs.json"
fi
say "$DATA: ${PAIRS[*]} with one vocabulary"
