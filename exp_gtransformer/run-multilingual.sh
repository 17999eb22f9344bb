#!/usr/bin/env bash
# GTRANS layer fusion for several languages in one model (Yang et al. 2022), tested in every direction: the
# average of the last 5 of 15 epochs. fairseq's own tasks train it on a binarised folder.
#   --corpus NAME      iwslt17-multi (En <-> De, It, Nl, Ro), opus100 (En <-> 94, from XLM-R)
#   --langs M,L,..     the language of every pair, and all others (default: those of the text)
#   --xlmr DIR         opus100: the folder of XLM-R base
#   --system NAME      gtrans (default), post-norm, pre-norm, ta, dlcl, rezero, mlrf
#   --average N        epochs whose mean is tested; 0: the best model (default: 5)
#   --directions L-M,..   translate and score these only (default: all)
#   --references DIR   the original test text of a --prepared folder: DIR/test.L-M.M
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
OPTION[system]=gtrans OPTION[average]=5 OPTION[directions]="" OPTION[references]="" OPTION[beam]=8
source "$HERE/prepare-multilingual.sh"

read_options "$@"
config=gtrans_fusion_iwslt17_multi subwords=(--remove-bpe) lengths=()
case ${OPTION[corpus]} in
  iwslt17-multi) [[ -n ${OPTION[prepared]}${OPTION[langs]} ]] || OPTION[langs]=en,de,it,nl,ro ;;
  opus100)
    config=gtrans_fusion_opus100 subwords=(--remove-bpe sentencepiece)
    lengths=(--max-source-positions 256 --truncate-source --skip-invalid-size-inputs-valid-test)
    [[ -n ${OPTION[xlmr]}${OPTION[prepared]} ]] || die "\`--xlmr\` is missing: the folder of XLM-R base."
    ;;
  *) one_of corpus "${OPTION[corpus]}" iwslt17-multi opus100 ;;
esac
check_options
find_pairs

model=$(named "fusion-${OPTION[system]}") all=()
for lang in "${LANGS[@]:1}"; do all+=("${LANGS[0]}-$lang" "$lang-${LANGS[0]}"); done
joined() { local IFS=, && echo "$*"; }
languages=(--langs "$(joined "${LANGS[@]}")" --lang-pairs "$(joined "${all[@]}")")
start=() && [[ -z ${OPTION[xlmr]} ]] || start=(--init-xlmr "${OPTION[xlmr]}")
gtrans=$(program gtrans) checkpoint=$OUT/$model/checkpoint_best.pt

prepare_languages
run_training document "$OUT/$model" "${LAUNCH[@]}" "$gtrans" train "$DATA" --config "$config" "${languages[@]}" \
  "${start[@]}" --system "${OPTION[system]}" --seed "${OPTION[seed]}" --save-dir "$OUT/$model" "${DEVICE[@]}" \
  "${EXTRA[@]}" "${FOR_DOCUMENT[@]}"
first_machine || exit 0
if ((OPTION[average])); then
  average=$OUT/$model/average${OPTION[average]}.pt
  once document "$average" "$checkpoint" -- "$gtrans" average --last-epochs "${OPTION[average]}" \
    --output "$average" "$OUT/$model"
  checkpoint=$average
fi

task=$(sed -n 's/^  _name: \(translation_.*\)/\1/p' "$ROOT/configs/$config.yaml")
IFS=, read -ra directions <<<"${OPTION[directions]:-$(joined "${all[@]}")}"
for direction in "${directions[@]}"; do
  one_of directions "$direction" "${all[@]}"
  source=${direction%-*} target=${direction#*-} stem=$OUT/test.$model.$direction
  reference=${OPTION[references]:-$DATA/references}/test.$direction.$target
  [[ -f $reference ]] || reference=${reference%/*}/test.$target-$source.$target
  once --stdout translate "$stem.log" "$checkpoint" -- "$gtrans" generate "$DATA" --task "$task" "${languages[@]}" \
    --encoder-langtok tgt --source-lang "$source" --target-lang "$target" --path "$checkpoint" "${subwords[@]}" \
    --required-batch-size-multiple 1 "${lengths[@]}" "${DEVICE[@]}" "${FOR_TRANSLATE[@]}"
  detokenise=("$(program sacremoses)" -l "$target" -q detokenize)
  [[ ${#subwords[@]} == 1 ]] || detokenise=(cat)
  # In the lines of the reference; a sentence that is too long for the model has no translation. An unknown
  # subword is no markup.
  # shellcheck disable=SC2016 # the words of that shell
  once --stdout translate "$stem.$target" "$stem.log" "$reference" -- bash -c 'sed -n "s/<unk>/⁇/g; s/^D-//p" "$0" |
    awk -F "\t" "FILENAME == \"-\" { if (!(\$1 in text)) text[\$1] = \$3; next }
      /^[ \t]*(<d>)?[ \t]*\$/ { print \"\"; next } { print text[n++ + 0] }" - "$1" | "${@:2}"' \
    "$stem.log" "$reference" "${detokenise[@]}"
  run_score "$OUT/scores.$model.$direction.txt" "$stem.$target" "$reference" -- \
    "$gtrans" score --hyp "$stem.$target" --ref "$reference" --metrics s_bleu --target-lang "$target" \
    --resample none --json "$OUT/scores.$model.$direction.json" "${FOR_SCORE[@]}"
  run_score "$OUT/tokenised.$model.$direction.txt" "$stem.$target" "$reference" -- \
    "$HERE/tokenised-bleu.sh" "$stem.$target" "$reference" "$target" "$OUT/tokenised.$model.$direction.json"
done

# ---- What it runs: the commands of
#   run-multilingual.sh --langs en,de --data corpus --corpus iwslt17-multi --out out --dry-run
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
#   gtrans train out/data --config gtrans_fusion_iwslt17_multi --langs en,de --lang-pairs en-de,de-en --system gtrans
#       --seed 1 --save-dir out/fusion-gtrans
#   gtrans average --last-epochs 5 --output out/fusion-gtrans/average5.pt out/fusion-gtrans
#   gtrans generate out/data --task translation_multi_simple_epoch --langs en,de --lang-pairs en-de,de-en
#       --encoder-langtok tgt --source-lang en --target-lang de --path out/fusion-gtrans/average5.pt --remove-bpe
#       --required-batch-size-multiple 1 --beam 8 >out/test.fusion-gtrans.en-de.log
#   bash -c $'sed -n "s/<unk>/⁇/g; s/^D-//p" "$0" |\n    awk -F "\\t" "FILENAME == \\"-\\" { if (!(\\$1 in text))
#       text[\\$1] = \\$3; next }\n      /^[ \\t]*(<d>)?[ \\t]*\\$/ { print \\"\\"; next } { print text[n++ + 0] }" -
#       "$1" | "${@:2}"' out/test.fusion-gtrans.en-de.log out/data/references/test.de-en.de sacremoses -l de -q
#       detokenize >out/test.fusion-gtrans.en-de.de
#   gtrans score --hyp out/test.fusion-gtrans.en-de.de --ref out/data/references/test.de-en.de --metrics s_bleu
#       --target-lang de --resample none --json out/scores.fusion-gtrans.en-de.json
#       >out/scores.fusion-gtrans.en-de.txt
#   exp_gtransformer/tokenised-bleu.sh out/test.fusion-gtrans.en-de.de out/data/references/test.de-en.de de
#       out/tokenised.fusion-gtrans.en-de.json >out/tokenised.fusion-gtrans.en-de.txt
#   gtrans generate out/data --task translation_multi_simple_epoch --langs en,de --lang-pairs en-de,de-en
#       --encoder-langtok tgt --source-lang de --target-lang en --path out/fusion-gtrans/average5.pt --remove-bpe
#       --required-batch-size-multiple 1 --beam 8 >out/test.fusion-gtrans.de-en.log
#   bash -c $'sed -n "s/<unk>/⁇/g; s/^D-//p" "$0" |\n    awk -F "\\t" "FILENAME == \\"-\\" { if (!(\\$1 in text))
#       text[\\$1] = \\$3; next }\n      /^[ \\t]*(<d>)?[ \\t]*\\$/ { print \\"\\"; next } { print text[n++ + 0] }" -
#       "$1" | "${@:2}"' out/test.fusion-gtrans.de-en.log out/data/references/test.en-de.en sacremoses -l en -q
#       detokenize >out/test.fusion-gtrans.de-en.en
#   gtrans score --hyp out/test.fusion-gtrans.de-en.en --ref out/data/references/test.en-de.en --metrics s_bleu
#       --target-lang en --resample none --json out/scores.fusion-gtrans.de-en.json
#       >out/scores.fusion-gtrans.de-en.txt
#   exp_gtransformer/tokenised-bleu.sh out/test.fusion-gtrans.de-en.en out/data/references/test.en-de.en en
#       out/tokenised.fusion-gtrans.de-en.json >out/tokenised.fusion-gtrans.de-en.txt
