# What the scripts of exp_gtransformer/ share: their options, and the steps of an experiment.
#
# A script begins with its help, the comment at its head; it calls `parse "$@"`, then prepare, sentence, train
# and evaluate. The commands that a script runs stand at its end (scripts/show_commands.py).
#
# A script that runs again gives the same commands. `gtrans prepare`, `train` and `translate` know what they have
# finished: they do what is left, or nothing, or end with an error where a setting has changed. `once` keeps a record
# of the others.
# shellcheck shell=bash disable=SC2034,SC2154
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=${HERE%/*}
NAME=$(basename "$0" .sh)
source "$HERE/options.sh"
# What a script adds: options of `gtrans prepare`, those instead of BPE, and options of `gtrans translate`.
PREPARE=() VOCABULARY=() SEARCH=()

# program NAME: a command of the environment of this clone, or on PATH.
program() { if [[ -x $ROOT/.venv/bin/$1 ]]; then echo "$ROOT/.venv/bin/$1"; else echo "$1"; fi; }
# named DEFAULT [SYSTEM]: the name of a model, with --name NAME or NAME-SYSTEM.
named() { if [[ -z ${OPTION[name]} ]]; then echo "$1"; else echo "${OPTION[name]}${2:+-$2}"; fi; }
chosen() { [[ ,${OPTION[stage]}, == *,$1,* ]]; }
first_machine() { [[ ${OPTION[node-rank]} == 0 ]]; }

# ---- running a command ---------------------------------------------------------------------------

# run STAGE COMMAND...: print a command and run it, if its stage is chosen.
run() { if to_run "$@"; then "${@:2}"; fi; }

# to_run STAGE COMMAND...: print a command if its stage is chosen; true if it is to be run.
to_run() {
  local word
  chosen "$1" || return 1
  [[ $1 == sentence || $1 == document ]] || first_machine || return 1 # all machines train, nothing else
  printf '$ ' && quoted "${@:2}" && echo
  [[ $DRY_RUN == no ]] || return 1
  for word in "${@:2}"; do check_trained "$word"; done
}

# quoted WORD...: the words as they can be typed.
quoted() {
  local word
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]] || word=${word@Q}
    printf '%s ' "$word"
  done
}

# check_trained WORD: end if the word is the checkpoint of a training here that is not finished, as its log says.
check_trained() {
  [[ $1 == "$OUT"/*/checkpoint_best.pt ]] || return 0
  first_machine || return 0 # the others wait in torchrun
  [[ -f $1 ]] || die "$1: there is no such file; an earlier \`--stage\` makes it."
  tail -n 3 "${1%/*}/train.log" 2>/dev/null | grep -Eq 'done training in|: the run is finished' ||
    die "$1: the training is not finished; \`--stage sentence\` or \`document\` goes on with it."
}

# run_training STAGE FOLDER COMMAND...: run a training, whose output is added to FOLDER/output.log; status 75
# where a signal has ended it with a checkpoint, also under a launcher, which has a status of its own.
run_training() {
  local log=$2/output.log lines=0 status=0
  to_run "$1" "${@:3}" || return 0
  mkdir -p "$2"
  [[ ! -f $log ]] || lines=$(wc -l <"$log")
  trap : TERM USR1 # the training gets the signal, too, and saves
  "${@:3}" 2>&1 | (trap '' INT TERM USR1 && exec tee -a "$log") || status=$?
  trap - TERM USR1
  if tail -n "+$((lines + 1))" "$log" | grep '^gtrans: SIG.*: stopped after ' >/dev/null; then status=75; fi
  ((status == 0)) || exit "$status"
}

# once [--stdout] STAGE OUTPUT INPUT... -- COMMAND...: make the file OUTPUT by a command that keeps no record, unless
# this command has made it from these inputs, as a file in OUT/.made says. --stdout: it is what the command prints.
once() {
  local to_file="" stage output inputs=() file record made
  [[ $1 != --stdout ]] || { to_file=yes && shift; }
  stage=$1 output=$2 record=$OUT/.made/${2//\//_}
  shift 2
  while [[ $1 != -- ]]; do inputs+=("$1") && shift; done
  shift
  chosen "$stage" && first_machine || return 0
  printf '$ %s%s\n' "$(quoted "$@")" "${to_file:+>$output}"
  [[ $DRY_RUN == no ]] || return 0

  for file in "${inputs[@]}"; do
    check_trained "$file"
    [[ -f $file ]] || die "$file: there is no such file; an earlier \`--stage\` makes it."
  done
  made="$(quoted "$@") $(stat -c '%n %s %.Y' "${inputs[@]}")"
  if [[ -f $output && -f $record && $(<"$record") == "$made" ]]; then
    printf '%s: %s is there\n' "$NAME" "$output"
    return
  fi
  mkdir -p "$OUT/.made" "$(dirname "$output")"
  if [[ -n $to_file ]]; then
    "$@" >"$output.partial"
    mv "$output.partial" "$output"
  else
    "$@"
  fi
  [[ -f $output ]] || die "$output: the command has ended without it."
  echo "$made" >"$record"
}

# run_score TABLE INPUT... -- COMMAND...: make a table of scores once, and print it.
run_score() {
  once --stdout score "$@"
  if [[ $DRY_RUN == no ]] && chosen score && first_machine; then cat "$1"; fi
}

# ---- the steps of an experiment ------------------------------------------------------------------

# prepare: text to OUT/data.
prepare() {
  local merges="" vocabulary=() state=$DATA/prepare.json
  [[ -z ${OPTION[prepared]} ]] || return 0
  if ((${#VOCABULARY[@]})); then
    vocabulary=("${VOCABULARY[@]}")
  elif [[ -n ${OPTION[sentence-data]} ]]; then
    vocabulary=(--reuse "${OPTION[sentence-data]}")
  else
    if [[ -z ${GIVEN[bpe-merges]:-} && -f $state ]]; then # variants share the corpus, with its merges
      merges=$(sed -n 's/.*"merges": *\([1-9][0-9]*\).*/\1/p' "$state" | head -n 1)
    fi
    vocabulary=(--bpe-merges "${merges:-${OPTION[bpe-merges]}}")
    [[ -z ${OPTION[bpe-symbols]} ]] || vocabulary=(--bpe-symbols "${OPTION[bpe-symbols]}")
    [[ ${OPTION[normalise]} == no ]] || vocabulary+=(--normalise)
  fi
  run prepare "$(program gtrans)" prepare --source-lang "$SOURCE" --target-lang "$TARGET" \
    --train "$TRAIN_TEXT" --valid "$VALID_TEXT" --test "$TEST_TEXT" "${vocabulary[@]}" \
    --workers "${OPTION[workers]}" --out "$DATA" "${PREPARE[@]}" "${FOR_PREPARE[@]}"
}

# sentence CONFIG [MODEL]: train the sentence model, translate and score it; SENTENCE is its checkpoint.
sentence() {
  local model=${2:-sentence} seed=${OPTION[seed]} extra=("${EXTRA[@]}")
  SENTENCE=${OPTION[sentence-checkpoint]} BASELINE=""
  [[ -z $SENTENCE ]] || return 0
  if [[ -n ${OPTION[name]} ]]; then # options of a variant are for its document model
    extra=() seed=1
  fi
  BASELINE=$model SENTENCE=$OUT/$model/checkpoint_best.pt
  fit sentence "$model" "$1" "${OPTION[sentence-seed]:-$seed}" "${extra[@]}" "${FOR_SENTENCE[@]}"
  evaluate "$model"
}

# train MODEL CONFIG OPTION...: train a document model.
train() { fit document "$1" "$2" "${OPTION[seed]}" "${@:3}" "${EXTRA[@]}" "${FOR_DOCUMENT[@]}"; }

# fit STAGE MODEL CONFIG SEED OPTION...: train a model in OUT/MODEL.
fit() {
  run_training "$1" "$OUT/$2" "${LAUNCH[@]}" "$(program gtrans)" train "$DATA" --config "$3" \
    --source-lang "$SOURCE" --target-lang "$TARGET" --seed "$4" --save-dir "$OUT/$2" "${DEVICE[@]}" "${@:5}"
}

# evaluate MODEL [BASELINE]: translate the test documents and score them, against the baseline's.
evaluate() {
  local source
  source=$(text "$TEST_TEXT" "$SOURCE")
  run translate "$(program gtrans)" translate --path "$OUT/$1/checkpoint_best.pt" --data "$DATA" \
    --input "$source" --output "$OUT/test.$1.$TARGET" "${SEARCH[@]}" "${DEVICE[@]:0:1}" "${FOR_TRANSLATE[@]}"
  score "$1" ${2:+"$2"} "$1"
}

# score NAME MODEL...: s-BLEU, d-BLEU and more in OUT/scores.NAME.txt and .json, with tests of differences.
score() {
  local name=$1 model files=() systems=() reference source
  shift
  source=$(text "$TEST_TEXT" "$SOURCE")
  reference=$(text "$TEST_TEXT" "$TARGET")
  for model in "$@"; do
    files+=("$OUT/test.$model.$TARGET")
    systems+=("$model=$OUT/test.$model.$TARGET")
  done
  (($# > 1)) || systems=("${files[@]}") # one has no name
  run_score "$OUT/scores.$name.txt" "${files[@]}" "$reference" "$source" -- \
    "$(program gtrans)" score --hyp "${systems[@]}" --ref "$reference" --src "$source" \
    --target-lang "$TARGET" --data "$DATA" --json "$OUT/scores.$name.json" "${FOR_SCORE[@]}"
}
