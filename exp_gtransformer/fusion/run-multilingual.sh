#!/usr/bin/env bash
# GTRANS layer fusion for several languages in one model, with the settings of its paper (III-B, III-C)
# and, where they differ, of the authors' program (YuweiYin/GTrans); docs/fidelity.md compares them one
# by one. fairseq's own tasks train it on a binarised folder. Both leave open, and so chosen here:
# batches of 4,096 tokens for opus100, sampling of languages by size for iwslt17-multi.
set -euo pipefail
NAME=run-multilingual
SUMMARY="Train GTRANS layer fusion from and to several languages, and test every direction, into OUT/MODEL."
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"
# shellcheck source=../lib/fusion.sh
source "$ROOT/exp_gtransformer/lib/fusion.sh"
# shellcheck source=../lib/multilingual.sh
source "$ROOT/exp_gtransformer/lib/multilingual.sh"
CORPORA=(iwslt17-multi opus100)
OPTION[directions]="" OPTION[references]="" OPTION[average]=5

usage() {
  cat <<EOF
usage: exp_gtransformer/$NAME.sh --corpus NAME --data DIR --out DIR [options] [-- ...]

$SUMMARY
The tested model is the average of the last 5 of 15 epochs. Beam 8; BLEU of what Moses makes of
translation and reference, as in the paper, and sacreBLEU.

  --corpus NAME         iwslt17-multi (En <-> De, It, Nl, Ro, base), opus100 (En <-> 94, 12 + 6 layers
                        from XLM-R)
$(multilingual_usage)
  --out DIR             folder to write; run a script again to continue where it stopped
  --bpe-merges N        of all languages together (default: 40000); opus100 has the pieces of XLM-R
  --xlmr DIR            opus100: the folder of XLM-R base; none: random parameters, on data that is
                        --prepared
  --average N           epochs whose mean is tested; 0: the model with the best validation loss
                        (default: ${OPTION[average]})
  --directions L-M,M-L,..
                        translate and score these only (default: all)
$(fusion_usage)
  --prepared DIR        take OUT/data of another run, or any folder that is binarised with one
                        dictionary for all languages; needs --langs
  --references DIR      the original test text, DIR/test.L-M.M (or DIR/test.M-L.M) for every direction
                        (default: references/ in the prepared folder)

What follows -- goes to gtrans train. OUT/MODEL goes on only with the settings that it began with;
for others give a --name, or -- --restart to start anew.
$(stage_words_usage)
EOF
}

# settings: those of the paper for the corpus.
settings() {
  local corpus=${OPTION[corpus]}
  PIECES=(--remove-bpe) LENGTHS=() TASK=(--task translation_multi_simple_epoch)
  SAMPLING=(--sampling-method temperature --sampling-temperature 1)
  defaults beam 8 epochs 15
  # shellcheck disable=SC2034 # BATCH: see launching.sh.
  case $corpus in
    iwslt17-multi) defaults langs en,de,it,nl,ro arch gtrans_fusion_base dropout 0.2 gpus 1 &&
      BATCH=4096 WARMUP=8000 ;;
    opus100) defaults arch gtrans_fusion_xlmr_base dropout 0.1 gpus 8 &&
      BATCH=$((8 * 4096)) PIECES=(--remove-bpe sentencepiece) &&
      MODEL_PARTS=(--two-feed-forwards) TASK=(--task translation_multi_linear) &&
      SAMPLING=(--sampling-temperature 5 --min-sampling-temperature 1 \
        --sampling-warmup-epochs 5) &&
      LENGTHS=(--max-source-positions 256 --truncate-source
        --skip-invalid-size-inputs-valid-test) ;;
    *) die "\`--corpus\` '$corpus' is unknown; known are ${CORPORA[*]} (one pair of languages: \
run-fusion.sh)." ;;
  esac
  check_fusion
  check_text_options
  at_least 0 average
  without prepare
  if [[ $corpus == opus100 ]]; then
    [[ -n ${OPTION[xlmr]} || $OUTPUTS_ONLY == yes ]] ||
      die "\`--xlmr\` is missing: the folder of XLM-R base (none: random parameters)."
    [[ ${OPTION[xlmr]} != none || -n ${OPTION[prepared]} ]] ||
      die "\`--xlmr none\` needs \`--prepared\`: the text is prepared in the pieces of XLM-R."
  else
    [[ -z ${OPTION[xlmr]} ]] || die "\`--xlmr\` is for opus100."
  fi
}

# prepare_all: text to OUT/data.
prepare_all() {
  local key arguments=(--langs "$(IFS=, && printf '%s' "${LANGS[*]}")")
  for key in data corpus train-prefix valid-prefix test-prefix bpe-merges xlmr workers; do
    [[ -z ${GIVEN[$key]+given} ]] || arguments+=("--$key" "${OPTION[$key]}")
  done
  [[ $PRINT_ONLY == no ]] || arguments+=(--dry-run)
  bash "$ROOT/exp_gtransformer/fusion/prepare-multilingual.sh" --out "${OPTION[out]}" "${arguments[@]}"
}

# has_dictionaries: end if the prepared folder is not complete.
has_dictionaries() {
  local lang
  for lang in "${LANGS[@]}"; do
    [[ $DRY_RUN == yes || -s $DATA/dict.$lang.txt || -z ${OPTION[prepared]} ]] ||
      die "$DATA/dict.$lang.txt: there is no such file (\`--prepared\`)."
    needs prepare "$DATA/dict.$lang.txt"
  done
}

# find_directions: set DIRECTIONS, those of --directions or all.
find_directions() {
  local lang all=()
  for lang in "${LANGS[@]:1}"; do all+=("${LANGS[0]}-$lang" "$lang-${LANGS[0]}"); done
  LANG_PAIRS=$(IFS=, && printf '%s' "${all[*]}")
  DIRECTIONS=("${all[@]}")
  [[ -z ${GIVEN[directions]+given} ]] || { listed directions "${all[@]}" && DIRECTIONS=("${LISTED[@]}"); }
}

# original DIRECTION: print the name of the file with the references of a direction.
original() {
  local source=${1%-*} target=${1#*-} file
  for file in "$REFERENCES/test.$1.$target" "$REFERENCES/test.$target-$source.$target"; do
    [[ ! -f $file && $DRY_RUN == no ]] || { printf '%s\n' "$file" && return; }
  done
  die "$REFERENCES/test.$1.$target: there is no such file, nor \
test.$target-$source.$target; \`--references\` names the folder of the original test text."
}

# generate DIRECTION CHECKPOINT TASK-OPTION...: translations of the binarised test split, as they come.
generate() {
  local log=${OPTION[out]}/generated.$MODEL.$1.txt command
  command=("$(program gtrans)" generate "$DATA" "${@:3}"
    --source-lang "${1%-*}" --target-lang "${1#*-}" --path "$2" --beam "${OPTION[beam]}"
    "${PIECES[@]}" --required-batch-size-multiple 1 "${LENGTHS[@]}" "${DEVICE[@]}"
    "${FOR_TRANSLATE[@]}")
  if [[ $DRY_RUN == yes ]]; then
    run "${command[@]}"
  else
    run "${command[@]}" >"$log.partial"
    mv "$log.partial" "$log"
  fi
}

# in_order DIRECTION REFERENCE: the translations that `generate` has written as text, in the lines of
# the reference; boundaries of documents are empty, and so is a sentence that was too long for the
# model. Of several translations of a sentence the best is the first.
in_order() {
  local lang=${1#*-} stem=${OPTION[out]}/generated.$MODEL.$1 sentences found last
  local boundary='^[ \t\r]*(<d>)?[ \t\r]*$'
  sentences=$(gzip -dcf "$2" |
    LC_ALL=C awk -v "boundary=$boundary" '$0 !~ boundary { n++ } END { print n + 0 }')
  LC_ALL=C sed -n 's/^D-\([0-9]*\)\t[^\t]*\t\{0,1\}/\1\t/p' "$stem.txt" >"$stem.numbered"
  found=$(cut -f 1 "$stem.numbered" | sort -nu | wc -l)
  last=$(cut -f 1 "$stem.numbered" | sort -n | tail -n 1)
  ((sentences > ${last:--1})) ||
    die "$2: it has $sentences sentences, but the binarised test split has more."
  ((sentences == found)) ||
    say "$1: $((sentences - found)) of $sentences sentences have no translation"
  gzip -dcf "$2" | LC_ALL=C awk -F '\t' -v "boundary=$boundary" '
    FILENAME == ARGV[1] { if (!($1 in text)) text[$1] = $2; next }
    { if ($0 ~ boundary) print ""; else print text[n++ + 0] }' "$stem.numbered" - >"$stem.raw"
  if [[ ${PIECES[*]} == *sentencepiece ]]; then
    mv "$stem.raw" "$stem.$lang"
  else
    "$(program sacremoses)" -l "$lang" -q detokenize <"$stem.raw" >"$stem.$lang.partial"
    mv "$stem.$lang.partial" "$stem.$lang"
  fi
}

parse "$@"
settings
[[ -n ${OPTION[prepared]} ]] || find_prefixes
find_langs
find_directions
[[ -n ${OPTION[prepared]} ]] || find_texts
MODEL=$(document_model "fusion-${OPTION[system]}")
use_devices
if [[ -z ${OPTION[prepared]} ]] && makes prepare data "$DATA/pairs.json" &&
  ((OPTION[node-rank] == 0)); then # the first machine prepares
  prepare_all
fi
has_dictionaries
REFERENCES=${OPTION[references]:-$DATA/references}
if chosen translate || chosen score; then
  for direction in "${DIRECTIONS[@]}"; do original "$direction" >/dev/null; done
fi
task=("${TASK[@]}" --langs "$(IFS=, && printf '%s' "${LANGS[*]}")" --lang-pairs "$LANG_PAIRS"
  --encoder-langtok tgt)
start=()
[[ -z ${OPTION[xlmr]} || ${OPTION[xlmr]} == none ]] || start=(--init-xlmr "${OPTION[xlmr]}")
limits=("${LENGTHS[@]}")
((${#LENGTHS[@]} == 0)) || limits+=(--max-target-positions 256)
checkpoint=${OPTION[out]}/$MODEL/checkpoint_best.pt epochs=(--no-epoch-checkpoints)
if ((OPTION[average])); then
  checkpoint=${OPTION[out]}/$MODEL/average${OPTION[average]}.pt
  epochs=(--keep-last-epochs "${OPTION[average]}")
fi
if makes document "$MODEL" "$checkpoint"; then
  train_fusion "${task[@]}" "${SAMPLING[@]}" "${limits[@]}" "${epochs[@]}" "${start[@]}"
  ((OPTION[average] == 0)) || run "$(program gtrans)" average --last-epochs "${OPTION[average]}" \
    --output "$checkpoint" "${OPTION[out]}/$MODEL"
fi
for direction in "${DIRECTIONS[@]}"; do
  lang=${direction#*-}
  reference=$(original "$direction")
  stem=${OPTION[out]}/generated.$MODEL.$direction
  if makes translate "$MODEL" "$stem.$lang"; then
    needs_model "$MODEL" "$checkpoint"
    generate "$direction" "$checkpoint" "${task[@]}"
    [[ $DRY_RUN == yes ]] || in_order "$direction" "$reference"
  fi
  table=${OPTION[out]}/scores.$MODEL.$direction
  if makes score "$MODEL" "$table.txt" "$table.json"; then
    needs translate "$stem.$lang"
    keep "$table.txt" run "$(program gtrans)" score --hyp "$stem.$lang" --ref "$reference" \
      --metrics s_bleu --target-lang "$lang" --resample none --json "$table.json" "${FOR_SCORE[@]}"
  fi
  as_in_the_paper "$lang" "$stem.$lang" "$reference" "$stem" \
    "${OPTION[out]}/tokenised.$MODEL.$direction"
done
