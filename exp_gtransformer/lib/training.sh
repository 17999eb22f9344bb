# Stages of the run scripts: training, translation, scores. Needs common.sh.
# shellcheck shell=bash disable=SC2034,SC2154 # names that the files here share

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
# The checkpoint that document models start from, and its name if it is a model of OUT.
SENTENCE="" BASELINE=""

# begin PREPARE-SCRIPT [FILE]: devices, text, and the corpus, which `gtrans prepare` makes in OUT/data
# unless it is there and made from the same; FILE: what the script makes besides.
begin() {
  local prepare_script=$1 sentence=${OPTION[sentence-checkpoint]}
  if [[ -n $sentence ]]; then
    without sentence
    [[ -z ${GIVEN[sentence-seed]+given} ]] ||
      die "\`--sentence-seed\` cannot be combined with \`--sentence-checkpoint\`, a model that exists."
    [[ $DRY_RUN == yes || -f $sentence ]] ||
      die "$sentence: there is no such file (\`--sentence-checkpoint\`)."
  fi
  [[ -z ${OPTION[sentence-data]} || -n $sentence || ${OPTION[stage]} == prepare ]] ||
    die "\`--sentence-data\` needs \`--sentence-checkpoint\`, the model of that vocabulary."
  find_text
  use_devices
  local key arguments=()
  if [[ -z ${OPTION[prepared]} ]] && makes prepare data "$DATA/prepare.json" "${@:2}" &&
    ((OPTION[node-rank] == 0)); then # the first machine prepares
    for key in train-prefix valid-prefix test-prefix source-lang target-lang out data corpus \
      bpe-merges bpe-symbols workers sentence-data normalise mbart trim; do
      [[ -z ${GIVEN[$key]+given} ]] || arguments+=("--$key" "${OPTION[$key]}")
    done
    [[ $PRINT_ONLY == no ]] || arguments+=(--dry-run)
    # --sentence-data decides all but the BERT that is asked for.
    [[ -z ${OPTION[sentence-data]} ]] || PREPARE=()
    [[ -z ${OPTION[bert]:-} || -n ${OPTION[sentence-data]} && -z ${GIVEN[bert]+given} ]] ||
      PREPARE+=(--bert "${OPTION[bert]}")
    PREPARE+=("${FOR_PREPARE[@]}")
    ((${#PREPARE[@]} == 0)) || arguments+=(-- "${PREPARE[@]}")
    bash "$ROOT/exp_gtransformer/$prepare_script" "${arguments[@]}"
  fi
  has_corpus
}

# has_corpus: end if a file of the corpus is missing, before anything is trained.
has_corpus() {
  local file
  [[ $DRY_RUN == no ]] || return 0
  prepared_files
  for file in "${PREPARED_FILES[@]}"; do
    [[ -s $file ]] || case $file in
      *.bert.*) die "$file: there is no such file, $DATA has no word pieces of a BERT; \`--bert\` of \
the preparation makes them." ;;
      *) [[ -z ${OPTION[prepared]} ]] || die "$file: there is no such file (\`--prepared\`)." ;;
    esac
  done
  needs prepare "${PREPARED_FILES[@]}"
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

# train MODEL MAX-UPDATE OPTION...: gtrans train into OUT/MODEL, if that belongs to this call.
train() {
  local folder=${OPTION[out]}/$1 stage=${STAGE_OF[$1]:-document} word start
  makes "$stage" "$1" "$folder/checkpoint_best.pt" || return 0
  for word in "${@:3}"; do # models of OUT that it starts from
    start=${word#"${OPTION[out]}/"}
    [[ $start == "$word" || $start != */checkpoint_best.pt || -n ${OPTION[sentence-checkpoint]} ]] ||
      needs_model "${start%/*}" "$word"
  done
  words_of "$stage"
  fit "$folder" "$(program gtrans)" train "$DATA" \
    --source-lang "${OPTION[source-lang]}" --target-lang "${OPTION[target-lang]}" \
    --arch "${OPTION[arch]}" "${@:3}" "${COMMON_SETTINGS[@]}" \
    --max-tokens "${OPTION[max-tokens]}" --update-freq "${OPTION[update-freq]}" \
    --max-update "$2" --best-checkpoint-metric loss --patience "${OPTION[patience]}" \
    --no-epoch-checkpoints --save-dir "$folder" --seed "${OPTION[seed]}" \
    "${DEVICE[@]}" "${WORDS[@]}"
  TRAINED[$1]=yes
}

# start_from MODEL SEED OPTION...: set SENTENCE, the checkpoint that document models start from: that
# of --sentence-checkpoint, or the best of OUT/MODEL, which is then trained and tested. BASELINE is
# its name, if it is tested here.
start_from() {
  local seed=${OPTION[seed]} folder=${OPTION[out]}/$1
  SENTENCE=${OPTION[sentence-checkpoint]} BASELINE=
  [[ -z $SENTENCE ]] || return 0
  SENTENCE=$folder/checkpoint_best.pt BASELINE=$1 STAGE_OF[$1]=sentence
  [[ -z ${GIVEN[sentence-seed]+given} ]] || SEED_OF[$1]=$2
  if [[ -n ${OPTION[name]} ]]; then
    local EXTRA=() FOR_TRANSLATE=() FOR_SCORE=() # for the document model only
  fi
  if [[ -n ${OPTION[name]} && $PRINT_ONLY == no && ${#FOR_SENTENCE[@]} == 0 ]] &&
    makes sentence "$1" "$SENTENCE" && finished "$1"; then
    say "$folder is finished and used as it is"
    TRAINED[$1]=yes
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
  local hypothesis
  hypothesis=$(translation "$1")
  if makes translate "$1" "$hypothesis"; then
    needs_model "$1" "$2"
    run "$(program gtrans)" translate --path "$2" --data "$DATA" \
      --input "$(text_file "$TEST_TEXT" "${OPTION[source-lang]}")" \
      --output "$hypothesis" --beam "${OPTION[beam]}" "${SEARCH[@]}" "${DEVICE[@]}" \
      "${FOR_TRANSLATE[@]}"
  fi
  if [[ -n ${3:-} ]]; then compare "$1" "$3" "$1"; else score "$1" "$hypothesis"; fi
}

# translation MODEL: print the name of its translation of the test documents.
translation() {
  printf '%s\n' "${OPTION[out]}/test.$1.${OPTION[target-lang]}"
}

# compare NAME MODEL...: score the translations of these models in one table, OUT/scores.NAME.txt,
# with tests of their differences from the first.
compare() {
  local model systems=()
  for model in "${@:2}"; do systems+=("$model=$(translation "$model")"); done
  score "$1" "${systems[@]}"
}

# score NAME SYSTEM...: score translations, FILE or MODEL=FILE, in OUT/scores.NAME.txt and .json.
score() {
  local source target system table=${OPTION[out]}/scores.$1
  makes score "$1" "$table.txt" "$table.json" || return 0
  for system in "${@:2}"; do
    [[ -f $system ]] || needs translate "${system#*=}"
  done
  source=$(text_file "$TEST_TEXT" "${OPTION[source-lang]}")
  target=$(text_file "$TEST_TEXT" "${OPTION[target-lang]}")
  keep "$table.txt" run "$(program gtrans)" score --hyp "${@:2}" \
    --ref "$target" --src "$source" --target-lang "${OPTION[target-lang]}" \
    --data "$DATA" --max-doc-tokens "${OPTION[max-doc-tokens]}" --json "$table.json" \
    "${FOR_SCORE[@]}"
}
