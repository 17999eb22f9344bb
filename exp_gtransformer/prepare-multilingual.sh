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

# find_text: PREFIX of every split, LANGS, and PAIRS such as de-en.
declare -A PREFIX
find_text() {
  local split file name
  for split in train valid test; do
    PREFIX[$split]=${OPTION[$split-prefix]:-${OPTION[data]}/${OPTION[corpus]}/$split}
  done
  IFS=, read -ra LANGS <<<"${OPTION[langs]}"
  if ((${#LANGS[@]} == 0)); then
    for file in "${PREFIX[train]}".*-*.*; do
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

prepare_languages() {
  local t=$DATA/text model=${OPTION[xlmr]} pair split lang text one two python subword inputs pieces=() train=()
  [[ -z ${OPTION[prepared]} ]] && chosen prepare || return 0
  python=$(program python3) subword=$(program subword-nmt)
  for pair in "${PAIRS[@]}"; do
    for split in train valid test; do
      one=${pair%-*} two=${pair#*-} text=$t/plain.$split.$pair inputs=()
      for lang in $one $two; do inputs+=("$(text "${PREFIX[$split]}.$pair" "$lang")"); done
      step prepare "$text.$two" "${inputs[@]}" -- "$python" -m gtrans.text.lines pairs "${inputs[@]}" \
        "$text.$one" "$text.$two"
      for lang in $one $two; do
        pieces+=("$split.$pair.$lang")
        [[ $split != train ]] || train+=("$t/tok.train.$pair.$lang")
        if [[ -n $model ]]; then
          RUN=text step prepare "$t/$split.$pair.$lang" "$text.$lang" -- "$python" -m gtrans.text.lines subwords \
            --model "$model/sentencepiece.bpe.model" --input "$text.$lang"
        else # shellcheck disable=SC2016 # the words of that shell
          RUN=text step prepare "$t/tok.$split.$pair.$lang" "$text.$lang" -- \
            bash -c '"$0" -l "$1" -q tokenize <"$2"' "$(program sacremoses)" "$lang" "$text.$lang"
        fi
        [[ $split != test ]] || step prepare "$DATA/references/test.$pair.$lang" "$text.$lang" -- \
          cp "$text.$lang" "$DATA/references/test.$pair.$lang"
      done
    done
  done
  if [[ -n $model ]]; then
    RUN=text step prepare "$t/dict.txt" "$model/sentencepiece.bpe.model" -- "$python" -m gtrans.text.lines subwords \
      --model "$model/sentencepiece.bpe.model"
  else
    RUN=text step prepare "$t/tok.train" "${train[@]}" -- cat "${train[@]}"
    RUN=text step prepare "$DATA/codes.bpe" "$t/tok.train" -- "$subword" learn-bpe -i "$t/tok.train" \
      -s "${OPTION[bpe-merges]}"
    for text in "${pieces[@]}"; do
      RUN=text step prepare "$t/$text" "$DATA/codes.bpe" "$t/tok.$text" -- "$subword" apply-bpe \
        -c "$DATA/codes.bpe" -i "$t/tok.$text"
    done
    RUN=text step prepare "$t/train" "${train[@]/tok.train./train.}" -- cat "${train[@]/tok.train./train.}"
    RUN=text step prepare "$t/dict.txt" "$t/train" -- "$subword" get-vocab -i "$t/train"
  fi
  for pair in "${PAIRS[@]}"; do
    step prepare "$DATA/train.$pair.${pair%-*}.idx" "$t/dict.txt" "$t/train.$pair.${pair%-*}" -- \
      "$(program fairseq-preprocess)" --source-lang "${pair%-*}" --target-lang "${pair#*-}" \
      --trainpref "$t/train.$pair" --validpref "$t/valid.$pair" --testpref "$t/test.$pair" \
      --srcdict "$t/dict.txt" --tgtdict "$t/dict.txt" --destdir "$DATA" --workers "${OPTION[workers]}"
  done
}

[[ $NAME != prepare-multilingual ]] || { parse "$@" && prepare_languages; }

# ---- What it runs: the commands of
#   prepare-multilingual.sh --langs en,de --data corpus --corpus iwslt17-multi --out out --dry-run
#
#   python3 -m gtrans.text.lines pairs corpus/iwslt17-multi/train.de-en.de corpus/iwslt17-multi/train.de-en.en
#       out/data/text/plain.train.de-en.de out/data/text/plain.train.de-en.en
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses de out/data/text/plain.train.de-en.de
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses en out/data/text/plain.train.de-en.en
#   python3 -m gtrans.text.lines pairs corpus/iwslt17-multi/valid.de-en.de corpus/iwslt17-multi/valid.de-en.en
#       out/data/text/plain.valid.de-en.de out/data/text/plain.valid.de-en.en
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses de out/data/text/plain.valid.de-en.de
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses en out/data/text/plain.valid.de-en.en
#   python3 -m gtrans.text.lines pairs corpus/iwslt17-multi/test.de-en.de corpus/iwslt17-multi/test.de-en.en
#       out/data/text/plain.test.de-en.de out/data/text/plain.test.de-en.en
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses de out/data/text/plain.test.de-en.de
#   cp out/data/text/plain.test.de-en.de out/data/references/test.de-en.de
#   bash -c '"$0" -l "$1" -q tokenize <"$2"' sacremoses en out/data/text/plain.test.de-en.en
#   cp out/data/text/plain.test.de-en.en out/data/references/test.de-en.en
#   cat out/data/text/tok.train.de-en.de out/data/text/tok.train.de-en.en
#   subword-nmt learn-bpe -i out/data/text/tok.train -s 40000
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.train.de-en.de
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.train.de-en.en
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.valid.de-en.de
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.valid.de-en.en
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.test.de-en.de
#   subword-nmt apply-bpe -c out/data/codes.bpe -i out/data/text/tok.test.de-en.en
#   cat out/data/text/train.de-en.de out/data/text/train.de-en.en
#   subword-nmt get-vocab -i out/data/text/train
#   fairseq-preprocess --source-lang de --target-lang en --trainpref out/data/text/train.de-en --validpref
#       out/data/text/valid.de-en --testpref out/data/text/test.de-en --srcdict out/data/text/dict.txt --tgtdict
#       out/data/text/dict.txt --destdir out/data --workers 1
