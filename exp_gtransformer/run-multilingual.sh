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

defaults() {
  config=gtrans_fusion_iwslt17_multi pieces=(--remove-bpe) lengths=()
  case ${OPTION[corpus]} in
    iwslt17-multi) [[ -n ${OPTION[prepared]}${OPTION[langs]} ]] || OPTION[langs]=en,de,it,nl,ro ;;
    opus100)
      config=gtrans_fusion_opus100 pieces=(--remove-bpe sentencepiece)
      lengths=(--max-source-positions 256 --truncate-source --skip-invalid-size-inputs-valid-test)
      [[ -n ${OPTION[xlmr]}${OPTION[prepared]} ]] || die "\`--xlmr\` is missing: the folder of XLM-R base."
      ;;
    *) one_of corpus "${OPTION[corpus]}" iwslt17-multi opus100 ;;
  esac
}
parse "$@"
model=$(named "fusion-${OPTION[system]}") all=()
for lang in "${LANGS[@]:1}"; do all+=("${LANGS[0]}-$lang" "$lang-${LANGS[0]}"); done
joined() { local IFS=, && echo "$*"; }
languages=(--langs "$(joined "${LANGS[@]}")" --lang-pairs "$(joined "${all[@]}")")
start=() && [[ -z ${OPTION[xlmr]} ]] || start=(--init-xlmr "${OPTION[xlmr]}")
gtrans=$(program gtrans) checkpoint=$OUT/$model/checkpoint_best.pt

prepare_languages
step document "$checkpoint" "$DATA/dict.${LANGS[0]}.txt" -- "${LAUNCH[@]}" "$gtrans" train "$DATA" --config "$config" \
  "${languages[@]}" "${start[@]}" --system "${OPTION[system]}" --seed "${OPTION[seed]}" --save-dir "$OUT/$model" \
  "${DEVICE[@]}" "${EXTRA[@]}" "${FOR_DOCUMENT[@]}"
first_machine || exit 0
if ((OPTION[average])); then
  average=$OUT/$model/average${OPTION[average]}.pt
  RUN=prepare step document "$average" "$checkpoint" -- "$gtrans" average --last-epochs "${OPTION[average]}" \
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
  RUN=text step translate "$stem.log" "$checkpoint" -- "$gtrans" generate "$DATA" --task "$task" "${languages[@]}" \
    --encoder-langtok tgt --source-lang "$source" --target-lang "$target" --path "$checkpoint" "${pieces[@]}" \
    --required-batch-size-multiple 1 "${lengths[@]}" "${DEVICE[@]}" "${FOR_TRANSLATE[@]}"
  detokenise=("$(program sacremoses)" -l "$target" -q detokenize)
  [[ ${#pieces[@]} == 1 ]] || detokenise=(cat)
  # In the lines of the reference; a sentence that is too long for the model has no translation. An unknown
  # subword is no markup.
  # shellcheck disable=SC2016 # the words of that shell
  RUN=text step translate "$stem.$target" "$stem.log" "$reference" -- bash -c 'sed -n "s/<unk>/⁇/g; s/^D-//p" "$0" |
    awk -F "\t" "FILENAME == \"-\" { if (!(\$1 in text)) text[\$1] = \$3; next }
      /^[ \t]*(<d>)?[ \t]*\$/ { print \"\"; next } { print text[n++ + 0] }" - "$1" | "${@:2}"' \
    "$stem.log" "$reference" "${detokenise[@]}"
  step score "$OUT/scores.$model.$direction.txt" "$stem.$target" "$reference" -- "$gtrans" score --hyp "$stem.$target" \
    --ref "$reference" --metrics s_bleu --target-lang "$target" --resample none \
    --json "$OUT/scores.$model.$direction.json" "${FOR_SCORE[@]}"
  step score "$OUT/tokenised.$model.$direction.txt" "$stem.$target" "$reference" -- "$HERE/tokenised-bleu.sh" \
    "$stem.$target" "$reference" "$target" "$OUT/tokenised.$model.$direction.json"
done
