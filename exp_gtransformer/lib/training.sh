# Stages of the run scripts: training, translation, scores. Needs common.sh.
# shellcheck shell=bash

# The settings of all models (App. B.2).
COMMON_SETTINGS=(
  --share-all-embeddings
  --optimizer adam --adam-betas "(0.9, 0.98)"
  --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000
  --criterion chunked_cross_entropy --label-smoothing 0.1
  --dropout 0.3
)

# Options of gtrans translate.
SEARCH=()
# What else the preparation is told by a script.
PREPARE=()

# begin PREPARE-SCRIPT: devices, text, and the corpus in OUT/data; what is prepared already is skipped
# by `gtrans prepare`, which sees by itself whether it is made from the same.
begin() {
  local prepare_script=$1
  [[ -z ${OPTION[sentence-data]} || -n ${OPTION[sentence-checkpoint]} ]] ||
    die "\`--sentence-data\` needs \`--sentence-checkpoint\`, the model of that vocabulary."
  find_text
  use_devices
  local key arguments=()
  for key in train-prefix valid-prefix test-prefix source-lang target-lang out data corpus \
    bpe-merges bpe-symbols workers sentence-data normalise mbart trim; do
    [[ -z ${GIVEN[$key]+given} ]] || arguments+=("--$key" "${OPTION[$key]}")
  done
  ((OPTION[node-rank] == 0)) || return 0 # the first machine prepares
  [[ $DRY_RUN == no ]] || arguments+=(--dry-run)
  # What follows -- goes to gtrans prepare; --sentence-data decides all of it.
  if [[ -z ${OPTION[sentence-data]} ]]; then
    [[ -z ${OPTION[bert]+known} ]] || PREPARE+=(--bert "${OPTION[bert]}")
    ((${#PREPARE[@]} == 0)) || arguments+=(-- "${PREPARE[@]}")
  fi
  bash "$ROOT/exp_gtransformer/$prepare_script" "${arguments[@]}"
}

# document_model DEFAULT [PART]: print the name of a document model: DEFAULT, or that of --name, with
# PART after it if several models share the name.
document_model() {
  if [[ -z ${OPTION[name]} ]]; then
    printf '%s\n' "$1"
  else
    printf '%s\n' "${OPTION[name]}${2:+-$2}"
  fi
}

# several: print SYSTEM if --systems (LISTED) names more than one: the PART of their names.
several() {
  ((${#LISTED[@]} == 1)) || printf '%s\n' "$1"
}

# finished FOLDER: whether the training in it has come to its end.
finished() {
  [[ -f $1/checkpoint_last.pt ]] && "$(interpreter)" -m gtrans.training.finished "$1"
}

# train MODEL MAX-UPDATE OPTION...: gtrans train into OUT/MODEL.
train() {
  local folder=${OPTION[out]}/$1
  fit "$folder" "$(program gtrans)" train "${OPTION[out]}/data" \
    --source-lang "${OPTION[source-lang]}" --target-lang "${OPTION[target-lang]}" \
    --arch "${OPTION[arch]}" "${@:3}" "${COMMON_SETTINGS[@]}" \
    --max-tokens "${OPTION[max-tokens]}" --update-freq "${OPTION[update-freq]}" \
    --max-update "$2" --best-checkpoint-metric loss --patience "${OPTION[patience]}" \
    --no-epoch-checkpoints --save-dir "$folder" --seed "${OPTION[seed]}" \
    "${DEVICE[@]}" "${EXTRA[@]}"
}

# start_from MODEL SEED OPTION...: set SENTENCE, the checkpoint that document models start from: that
# of --sentence-checkpoint, or the best of OUT/MODEL, which is then trained and tested. BASELINE is
# its name, if it is tested here.
# shellcheck disable=SC2034 # the scripts use both
start_from() {
  local seed=${OPTION[seed]}
  SENTENCE=${OPTION[sentence-checkpoint]} BASELINE=
  if [[ -n $SENTENCE ]]; then
    [[ $DRY_RUN == yes || -f $SENTENCE ]] ||
      die "$SENTENCE: there is no such file (\`--sentence-checkpoint\`)."
    return
  fi
  SENTENCE=${OPTION[out]}/$1/checkpoint_best.pt BASELINE=$1
  if [[ -n ${OPTION[name]} ]]; then
    local EXTRA=() # for the document model only
  fi
  if [[ -n ${OPTION[name]} && $PRINT_ONLY == no ]] && finished "${OPTION[out]}/$1"; then
    say "${OPTION[out]}/$1 is finished and used as it is"
  else
    OPTION[seed]=$2
    train "$1" "${OPTION[sentence-updates]}" "${@:3}"
    OPTION[seed]=$seed
  fi
  evaluate "$1" "$SENTENCE"
}

# evaluate MODEL CHECKPOINT [BASELINE]: translate the test documents with it and score them; with
# BASELINE, a model evaluated before, both stand in one table, with tests of their difference.
# `gtrans translate` does nothing when the translation is there and made from the same.
evaluate() {
  local hypothesis=${OPTION[out]}/test.$1.${OPTION[target-lang]}
  run "$(program gtrans)" translate --path "$2" --data "${OPTION[out]}/data" \
    --input "$(text_file "$TEST_TEXT" "${OPTION[source-lang]}")" \
    --output "$hypothesis" --beam "${OPTION[beam]}" "${SEARCH[@]}" "${DEVICE[@]}"
  if [[ -n ${3:-} ]]; then compare "$1" "$3" "$1"; else score "$1" "$hypothesis"; fi
}

# compare NAME MODEL...: score the translations of these models in one table, OUT/scores.NAME.txt,
# with tests of their differences from the first.
compare() {
  local model systems=()
  for model in "${@:2}"; do
    systems+=("$model=${OPTION[out]}/test.$model.${OPTION[target-lang]}")
  done
  score "$1" "${systems[@]}"
}

# score NAME SYSTEM...: score translations, FILE or MODEL=FILE, in OUT/scores.NAME.txt.
score() {
  local source target
  source=$(text_file "$TEST_TEXT" "${OPTION[source-lang]}")
  target=$(text_file "$TEST_TEXT" "${OPTION[target-lang]}")
  keep "${OPTION[out]}/scores.$1.txt" run "$(program gtrans)" score --hyp "${@:2}" \
    --ref "$target" --src "$source" --target-lang "${OPTION[target-lang]}" \
    --data "${OPTION[out]}/data" --max-doc-tokens "${OPTION[max-doc-tokens]}"
}
