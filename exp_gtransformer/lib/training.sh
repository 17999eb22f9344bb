# Stages of the run scripts: training, translation, scores. Needs common.sh.
# shellcheck shell=bash

# The settings of all models (App. B.2).
COMMON_SETTINGS=(
  --share-all-embeddings
  --optimizer adam --adam-betas "(0.9, 0.98)"
  --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1
  --dropout 0.3
)

# begin: devices, text, and the corpus in OUT/data, prepared if it is not.
begin() {
  local prepare_script=$1
  [[ -z ${OPTION[sentence-data]} || -n ${OPTION[sentence-checkpoint]} ]] ||
    die "\`--sentence-data\` needs \`--sentence-checkpoint\`, the model of that vocabulary."
  find_text
  use_devices
  if [[ $DRY_RUN == no && -z ${GIVEN[bpe-merges]+given} ]] && prepared >/dev/null; then
    say "the corpus in ${OPTION[out]}/data is prepared"
    return
  fi
  local key arguments=()
  for key in train-prefix valid-prefix test-prefix source-lang target-lang out data corpus \
    bpe-merges workers sentence-data mbart trim; do
    [[ -z ${GIVEN[$key]+given} ]] || arguments+=("--$key" "${OPTION[$key]}")
  done
  [[ $DRY_RUN == no ]] || arguments+=(--dry-run)
  # What follows -- goes to gtrans prepare.
  [[ -z ${OPTION[bert]+known} ]] || arguments+=(-- --bert "${OPTION[bert]}")
  bash "$ROOT/exp_gtransformer/$prepare_script" "${arguments[@]}"
}

# train MODEL MAX-UPDATE OPTION...: fairseq-train into OUT/MODEL. It goes on from the model's last
# checkpoint; when the same command has ended before, by early stopping for example, it does not
# run again.
train() {
  local folder=${OPTION[out]}/$1 command
  command=("$(program fairseq-train)" "${OPTION[out]}/data" --user-dir "$ROOT/gtrans"
    --task document_translation
    --source-lang "${OPTION[source-lang]}" --target-lang "${OPTION[target-lang]}"
    --arch "${OPTION[arch]}" "${@:3}" "${COMMON_SETTINGS[@]}"
    --max-tokens "${OPTION[max-tokens]}" --update-freq "${OPTION[update-freq]}"
    --max-update "$2" --best-checkpoint-metric loss --patience "${OPTION[patience]}"
    --no-epoch-checkpoints --save-dir "$folder" --seed "${OPTION[seed]}"
    "${DEVICE[@]}" "${EXTRA[@]}")
  if finished "$folder/trained" "${command[@]}"; then
    say "$folder is trained"
    return
  fi
  if [[ $DRY_RUN == yes ]]; then
    run "${command[@]}"
  else
    mkdir -p "$folder"
    rm -f "$folder/trained" "$folder/translated"
    run "${command[@]}" 2>&1 | tee -a "$folder/train.log"
    [[ -f $folder/checkpoint_best.pt ]] ||
      die "$folder/checkpoint_best.pt: the training has not written it, see $folder/train.log."
    finish "$folder/trained" "${command[@]}"
  fi
}

# evaluate MODEL CHECKPOINT [BASELINE]: translate the test documents with it and score them; with
# BASELINE, a model evaluated before, both stand in one table, with tests of their difference.
evaluate() {
  local source target command gtrans folder=${OPTION[out]}/$1
  local hypothesis=${OPTION[out]}/test.$1.${OPTION[target-lang]}
  local systems=("$hypothesis")
  [[ -z ${3:-} ]] || systems=("$3=${OPTION[out]}/test.$3.${OPTION[target-lang]}" "$1=$hypothesis")
  local scores=${OPTION[out]}/scores.$1.txt
  source=$(text_file "$TEST_TEXT" "${OPTION[source-lang]}")
  target=$(text_file "$TEST_TEXT" "${OPTION[target-lang]}")
  gtrans=$(program gtrans)
  command=("$gtrans" translate --path "$2" --data "${OPTION[out]}/data" --input "$source"
    --output "$hypothesis" --beam "${OPTION[beam]}" "${DEVICE[@]}")
  if finished "$folder/translated" "${command[@]}" && [[ -f $hypothesis ]]; then
    say "$hypothesis is translated"
  else
    run "${command[@]}"
    [[ $DRY_RUN == yes ]] || finish "$folder/translated" "${command[@]}"
  fi
  command=("$gtrans" score --hyp "${systems[@]}" --ref "$target" --src "$source"
    --target-lang "${OPTION[target-lang]}" --data "${OPTION[out]}/data"
    --max-doc-tokens "${OPTION[max-doc-tokens]}")
  if [[ $DRY_RUN == yes ]]; then run "${command[@]}"; else run "${command[@]}" | tee "$scores"; fi
}
