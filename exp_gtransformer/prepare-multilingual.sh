#!/usr/bin/env bash
# Binarise a multilingual corpus with one vocabulary for all languages, in OUT/data: Moses tokens in BPE learnt
# from all languages together (Yang et al. 2022, III-A: 40,000 merges), or the subwords of XLM-R.
#   --langs M,L,L,..   M, which every pair has, and all others (default: those of the text)
#   --corpus NAME      text in DIR/NAME/{train,valid,test}.L-M.{L,M}[.gz], as gtrans get-corpus writes it;
#                      PREFIX.L-M.{L,M}[.gz] with --train-prefix, --valid-prefix, --test-prefix
#   --xlmr DIR         the subwords of the XLM-R in this folder (sentencepiece.bpe.model)
[[ -n ${HERE:-} ]] || source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" # run-multilingual.sh sources this file
CORPORA=(iwslt17-multi opus100)
OPTION[langs]="" OPTION[xlmr]="" OPTION[bpe-merges]=40000

# find_pairs: PREFIX of every split, LANGS, and PAIRS such as de-en.
declare -A PREFIX
find_pairs() {
  local split file name
  for split in train valid test; do
    PREFIX[$split]=${OPTION[$split-prefix]:-${OPTION[data]}/${OPTION[corpus]}/$split}
  done
  IFS=, read -ra LANGS <<<"${OPTION[langs]}"
  if ((${#LANGS[@]} == 0)); then
    for file in "${PREFIX[train]}".*-*.*; do
      [[ -f $file ]] || continue # no file has such a name
      name=${file#"${PREFIX[train]}".} && name=${name%.gz}
      [[ $name =~ ^([^.-]+)-([^.-]+)\.([^.]+)$ && ${BASH_REMATCH[2]} == "${BASH_REMATCH[3]}" ]] || continue
      [[ ${LANGS[0]:=${BASH_REMATCH[2]}} == "${BASH_REMATCH[2]}" ]] ||
        die "$file: all pairs must have one language in common, whose name stands last."
      LANGS+=("${BASH_REMATCH[1]}")
    done
  fi
  ((${#LANGS[@]} > 1)) || die "\`--langs\` is missing: the language of all pairs, such as en, then all others."
  PAIRS=("${LANGS[@]:1}") && PAIRS=("${PAIRS[@]/%/-${LANGS[0]}}")
}

# prepare_languages: text to OUT/data, by way of OUT/data/text.
prepare_languages() {
  local t=$DATA/text pair split lang texts=() train=()
  chosen prepare && [[ -z ${OPTION[prepared]} ]] || return 0
  for pair in "${PAIRS[@]}"; do
    for split in train valid test; do
      write_lines "$split" "$pair"
      for lang in ${pair/-/ }; do
        texts+=("$split.$pair.$lang")
        [[ $split != train ]] || train+=("train.$pair.$lang")
      done
    done
  done
  if [[ -n ${OPTION[xlmr]} ]]; then segment_for_xlmr; else learn_bpe; fi
  for pair in "${PAIRS[@]}"; do
    once prepare "$DATA/train.$pair.${pair%-*}.idx" "$t/dict.txt" "$t/train.$pair.${pair%-*}" -- \
      "$(program fairseq-preprocess)" --source-lang "${pair%-*}" --target-lang "${pair#*-}" \
      --trainpref "$t/train.$pair" --validpref "$t/valid.$pair" --testpref "$t/test.$pair" \
      --srcdict "$t/dict.txt" --tgtdict "$t/dict.txt" --destdir "$DATA" --workers "${OPTION[workers]}"
  done
}

# write_lines SPLIT PAIR: the sentences of a pair, without boundaries of documents, in text/plain.SPLIT.PAIR.LANG.
write_lines() {
  local plain=$t/plain.$1.$2 first=${2%-*} second=${2#*-} inputs=() lang
  for lang in "$first" "$second"; do inputs+=("$(text "${PREFIX[$1]}.$2" "$lang")"); done
  once prepare "$plain.$second" "${inputs[@]}" -- "$(program python3)" -m gtrans.text.lines pairs "${inputs[@]}" \
    "$plain.$first" "$plain.$second"
  [[ $1 == test ]] || return 0
  for lang in "$first" "$second"; do
    once prepare "$DATA/references/test.$2.$lang" "$plain.$lang" -- \
      cp "$plain.$lang" "$DATA/references/test.$2.$lang"
  done
}

# segment_for_xlmr: texts and dictionary in the subwords of XLM-R.
segment_for_xlmr() {
  local model=${OPTION[xlmr]}/sentencepiece.bpe.model lines=("$(program python3)" -m gtrans.text.lines) text
  for text in "${texts[@]}"; do
    once --stdout prepare "$t/$text" "$t/plain.$text" -- "${lines[@]}" subwords --model "$model" --input "$t/plain.$text"
  done
  once --stdout prepare "$t/dict.txt" "$model" -- "${lines[@]}" subwords --model "$model"
}

# learn_bpe: texts and dictionary in BPE of Moses' tokens, learnt from the training texts of all languages.
learn_bpe() {
  local subword text
  subword=$(program subword-nmt)
  for text in "${texts[@]}"; do # shellcheck disable=SC2016 # the words of that shell
    once --stdout prepare "$t/tok.$text" "$t/plain.$text" -- \
      bash -c '"$0" -l "$1" -q tokenize <"$2"' "$(program sacremoses)" "${text##*.}" "$t/plain.$text"
  done
  once --stdout prepare "$t/tok.train" "${train[@]/#/$t/tok.}" -- cat "${train[@]/#/$t/tok.}"
  once --stdout prepare "$DATA/codes.bpe" "$t/tok.train" -- \
    "$subword" learn-bpe -i "$t/tok.train" -s "${OPTION[bpe-merges]}"
  for text in "${texts[@]}"; do
    once --stdout prepare "$t/$text" "$DATA/codes.bpe" "$t/tok.$text" -- \
      "$subword" apply-bpe -c "$DATA/codes.bpe" -i "$t/tok.$text"
  done
  once --stdout prepare "$t/train" "${train[@]/#/$t/}" -- cat "${train[@]/#/$t/}"
  once --stdout prepare "$t/dict.txt" "$t/train" -- "$subword" get-vocab -i "$t/train"
}

if [[ $NAME == prepare-multilingual ]]; then
  read_options "$@"
  check_options
  find_pairs
  prepare_languages
fi

# ---- What it runs: the commands of
#   prepare-multilingual.sh --langs en,de --data corpus --corpus iwslt17-multi --out out --dry-run
#
#   python3 -m gtrans.text.lines pairs corpus/iwslt17-multi/train.de-en.de corpus/iwslt17-multi/train.de-en.en
#       out/data/text/plain.train.de-en.de out/data/text/plain.train.de-en.en
#   python3 -m gtrans.text.lines pairs corpus/iwslt17-multi/valid.de-en.de corpus/iwslt17-multi/valid.de-en.en
#       out/data/text/plain.valid.de-en.de out/data/text/plain.valid.de-en.en
#   python3 -m gtrans.text.lines pairs corpus/iwslt17-multi/test.de-en.de corpus/iwslt17-multi/test.de-en.en
#       out/data/text/plain.test.de-en.de out/data/text/plain.test.de-en.en
#   cp out/data/text/plain.test.de-en.de out/data/references/test.de-en.de
#   cp out/data/text/plain.test.de-en.en out/data/references/test.de-en.en
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses de out/data/text/plain.train.de-en.de
#       >out/data/text/tok.train.de-en.de
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses en out/data/text/plain.train.de-en.en
#       >out/data/text/tok.train.de-en.en
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses de out/data/text/plain.valid.de-en.de
#       >out/data/text/tok.valid.de-en.de
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses en out/data/text/plain.valid.de-en.en
#       >out/data/text/tok.valid.de-en.en
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses de out/data/text/plain.test.de-en.de
#       >out/data/text/tok.test.de-en.de
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses en out/data/text/plain.test.de-en.en
#       >out/data/text/tok.test.de-en.en
#   cat out/data/text/tok.train.de-en.de out/data/text/tok.train.de-en.en >out/data/text/tok.train
#   subword-nmt learn-bpe -i out/data/text/tok.train -s 40000 >out/data/codes.bpe
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.train.de-en.de >out/data/text/train.de-en.de
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.train.de-en.en >out/data/text/train.de-en.en
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.valid.de-en.de >out/data/text/valid.de-en.de
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.valid.de-en.en >out/data/text/valid.de-en.en
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.test.de-en.de >out/data/text/test.de-en.de
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.test.de-en.en >out/data/text/test.de-en.en
#   cat out/data/text/train.de-en.de out/data/text/train.de-en.en >out/data/text/train
#   subword-nmt get-vocab -i out/data/text/train >out/data/text/dict.txt
#   fairseq-preprocess --source-lang de --target-lang en --trainpref out/data/text/train.de-en --validpref
#       out/data/text/valid.de-en --testpref out/data/text/test.de-en --srcdict out/data/text/dict.txt --tgtdict
#       out/data/text/dict.txt --destdir out/data --workers 1
