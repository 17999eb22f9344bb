# What the scripts of exp_gtransformer/ share: options, and steps that are made once.
#
# A script begins with its help, the comment at its head; it calls `parse "$@"`, then prepare, sentence, train
# and evaluate. The commands that a script runs stand at its end (scripts/show_commands.py).
# shellcheck shell=bash disable=SC2034,SC2154
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) ROOT=${HERE%/*} NAME=$(basename "$0" .sh)
CORPORA=(iwslt17 nc2016 europarl7)
STAGES=(prepare sentence document translate score) DRY_RUN=no

# Options and their defaults, to which a script adds its own; GIVEN are those of the command line.
declare -A GIVEN=() OPTION=(
  [data]="" [corpus]="" [train-prefix]="" [valid-prefix]="" [test-prefix]="" [source-lang]=en
  [target-lang]=de [out]="" [prepared]="" [bpe-merges]=30000 [bpe-symbols]="" [normalise]=no [workers]=1
  [sentence-data]="" [sentence-checkpoint]="" [sentence-seed]="" [seed]=1 [name]="" [gpus]="" [beam]=5
  [stage]=prepare,sentence,document,translate,score [launcher]="" [nodes]=1 [node-rank]=0 [master]=""
  [sentence-updates]="" [document-updates]="" [max-tokens]="" [update-freq]="" [patience]="" [arch]=""
  [max-doc-tokens]=""
)
# What follows --: for all models, and behind `STAGE:` for a stage. Scripts add to PREPARE and SEARCH.
EXTRA=() FOR_PREPARE=() FOR_SENTENCE=() FOR_DOCUMENT=() FOR_TRANSLATE=() FOR_SCORE=() PREPARE=() SEARCH=()

die() { printf '%s: error: %s\n' "$NAME" "$1" >&2 && exit 1; }
# one_of KEY GIVEN VALUE...: end unless GIVEN is one of the values.
one_of() { [[ " ${*:3} " == *" $2 "* ]] || die "\`--$1\` must be one of ${*:3}, but is '$2'."; }
# listed KEY VALUE...: LISTED has the values of a list, each one of these.
listed() {
  local value
  IFS=, read -ra LISTED <<<"${OPTION[$1]}"
  for value in "${LISTED[@]}"; do one_of "$1" "$value" "${@:2}"; done
}
# named DEFAULT [SYSTEM]: the name of a model, with --name NAME or NAME-SYSTEM.
named() { if [[ -z ${OPTION[name]} ]]; then echo "$1"; else echo "${OPTION[name]}${2:+-$2}"; fi; }
# program NAME: a command of the environment of this clone, or on PATH.
program() { if [[ -x $ROOT/.venv/bin/$1 ]]; then echo "$ROOT/.venv/bin/$1"; else echo "$1"; fi; }
# text PREFIX LANG: the name of a file, gzipped or not.
text() {
  local file=$1.$2
  [[ -f $file || ! -f $file.gz ]] || file+=.gz
  [[ -f $file || $DRY_RUN == yes ]] || die "$file: there is no such file (nor $file.gz); \`gtrans get-corpus\` makes the papers' corpora."
  echo "$file"
}
# quoted WORD...: as it can be typed.
quoted() { for word in "$@"; do [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]] || word=${word@Q} && printf '%s ' "$word"; done; }
chosen() { [[ ,${OPTION[stage]}, == *,$1,* ]]; }
first_machine() { [[ ${OPTION[node-rank]} == 0 ]]; }
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" && echo && sed "s/SCRIPT/$NAME.sh/" "$HERE/options.txt"; }

# parse ARGUMENT...: read and check the options.
parse() {
  local key stage
  while (($#)); do
    case $1 in
      -h | --help) usage && exit ;;
      --dry-run) DRY_RUN=yes && shift ;;
      --) shift && share_out "$@" && break ;;
      --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
      *)
        key=${1#--}
        [[ $1 == --?* && -n ${OPTION[$key]+known} ]] || die "unknown argument '$1'; --help lists what there is."
        if [[ ${OPTION[$key]} == @(no|yes) ]]; then set -- "$1" yes "${@:2}"; fi # a switch
        (($# > 1)) || die "\`$1\` needs a value."
        OPTION[$key]=$2 GIVEN[$key]=yes && shift 2
        ;;
    esac
  done
  ! declare -F defaults >/dev/null || defaults
  OUT=${OPTION[out]} SOURCE=${OPTION[source-lang]} TARGET=${OPTION[target-lang]}
  [[ -n $OUT ]] || die "\`--out\` is missing: where everything is to be written."
  [[ $SOURCE != "$TARGET" ]] || die "\`--source-lang\` and \`--target-lang\` are both '$SOURCE'."
  DATA=${OPTION[prepared]:-$OUT/data}
  for stage in ${OPTION[stage]//,/ }; do one_of stage "$stage" "${STAGES[@]}"; done
  for key in gpus nodes node-rank seed sentence-seed workers beam; do
    [[ ${OPTION[$key]} =~ ^[0-9]*$ ]] || die "\`--$key\` must be a whole number, but is '${OPTION[$key]}'."
  done
  [[ ${OPTION[name]} =~ ^([A-Za-z0-9][A-Za-z0-9._-]*)?$ && ! ${OPTION[name]} =~ ^(data|sentence)$ ]] ||
    die "\`--name\` '${OPTION[name]}' is no name for a folder of a model."
  for key in arch max-tokens update-freq patience; do
    [[ -z ${GIVEN[$key]:-} ]] || EXTRA=("--$key" "${OPTION[$key]}" "${EXTRA[@]}")
  done
  [[ -z ${OPTION[sentence-updates]} ]] || FOR_SENTENCE=(--max-update "${OPTION[sentence-updates]}" "${FOR_SENTENCE[@]}")
  [[ -z ${OPTION[document-updates]} ]] || FOR_DOCUMENT=(--max-update "${OPTION[document-updates]}" "${FOR_DOCUMENT[@]}")
  key=${OPTION[max-doc-tokens]}
  [[ -z $key ]] || FOR_DOCUMENT+=(--max-doc-tokens "$key") FOR_SCORE+=(--max-doc-tokens "$key")
  FOR_TRANSLATE=(--beam "${OPTION[beam]}" "${FOR_TRANSLATE[@]}")
  use_devices && find_text
}

# share_out WORD...: what follows --.
share_out() {
  local word stage=EXTRA
  for word in "$@"; do
    local -n words=$stage
    if [[ " ${STAGES[*]/%/:} " == *" $word "* ]]; then stage=FOR_${word%:} stage=${stage^^}; else words+=("$word"); fi
  done
}

# use_devices: LAUNCH stands before gtrans train, DEVICE behind it.
use_devices() {
  local nodes=${OPTION[nodes]} gpus=${OPTION[gpus]} master=${OPTION[master]} each
  LAUNCH=() DEVICE=() each=$((${gpus:-1} > 1 ? gpus : 1))
  [[ $gpus != 0 ]] || DEVICE=(--cpu)
  [[ -z $gpus || -n ${CUDA_VISIBLE_DEVICES:-} ]] || CUDA_VISIBLE_DEVICES=$(seq -s , 0 $((gpus - 1)))
  [[ -z $gpus ]] || export CUDA_VISIBLE_DEVICES
  case ${OPTION[launcher]} in
    "") [[ $nodes == 1 ]] || die "\`--nodes $nodes\` needs \`--launcher torchrun\` or \`srun\`."; return ;;
    torchrun)
      LAUNCH=("$(program torchrun)" --standalone)
      [[ $nodes == 1 || $master == *:* ]] || die "\`--master\` must be HOST:PORT of the first machine."
      ((nodes == 1)) || LAUNCH=("$(program torchrun)" --nnodes "$nodes" --node-rank "${OPTION[node-rank]}"
        --master-addr "${master%:*}" --master-port "${master##*:}" --rdzv-conf timeout=86400)
      LAUNCH+=(--nproc-per-node "$each" --no-python)
      export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 TORCH_ELASTIC_SHUTDOWN_TIMEOUT=600
      ;;
    *)
      one_of launcher "${OPTION[launcher]}" torchrun srun
      LAUNCH=(srun --nodes "$nodes" --ntasks $((nodes * each)) --ntasks-per-node "$each" --kill-on-bad-exit=1)
      ;;
  esac
  [[ -n $gpus ]] || die "\`--launcher\` needs \`--gpus\`: how many each machine has."
  [[ $gpus != 0 ]] || DEVICE+=(--distributed-backend gloo --ddp-backend legacy_ddp)
}

# find_text: TRAIN_TEXT, VALID_TEXT, TEST_TEXT, prefixes of files that are there.
find_text() {
  local split prefix lang
  for split in train valid test; do
    [[ -z ${OPTION[prepared]} || $split == test ]] || continue
    prefix=${OPTION[$split-prefix]}
    if [[ -z $prefix ]]; then
      [[ -n ${OPTION[corpus]} ]] || die "\`--corpus\` is missing: ${CORPORA[*]}, or --$split-prefix."
      [[ " ${CORPORA[*]} " == *" ${OPTION[corpus]} "* ]] ||
        die "\`--corpus\` must be one of ${CORPORA[*]}, but is '${OPTION[corpus]}'; a corpus of your own is \
named by --train-prefix, --valid-prefix and --test-prefix."
      [[ -n ${OPTION[data]} ]] || die "\`--data\` is missing: the folder that holds ${OPTION[corpus]}/."
      prefix=${OPTION[data]}/${OPTION[corpus]}/$split
    fi
    for lang in $SOURCE $TARGET; do text "$prefix" "$lang" >/dev/null; done
    printf -v "${split^^}_TEXT" %s "$prefix"
  done
}

# step STAGE OUTPUT INPUT... -- COMMAND...: make OUTPUT by COMMAND. `gtrans translate` knows what it has finished; of
# other commands OUT/.made knows from which inputs they made OUTPUT. RUN=text: its output is the standard output.
step() {
  local stage=$1 output=$2 inputs=() file mark=$OUT/.made/${2//\//_} made skip=1
  shift 2
  while [[ $1 != -- ]]; do inputs+=("$1") && shift; done
  shift
  [[ "$1 $2" != *gtrans\ translate ]] || mark="" # it has a record of its own
  chosen "$stage" || return 0
  if [[ $DRY_RUN == yes ]]; then printf '$ %s\n' "$(quoted "$@")" && return; fi
  for file in "${inputs[@]}"; do # the other machines wait for them in torchrun
    [[ -f $file ]] || ! first_machine || die "$file: there is no such file; an earlier \`--stage\` makes it."
    [[ $file != "$OUT"/*/checkpoint_best.pt || -f $OUT/.made/${file//\//_} ]] || ! first_machine ||
      die "$file: the training is not finished; \`--stage sentence\` or \`document\` goes on with it."
  done
  mkdir -p "$OUT/.made" "$(dirname "$output")"
  [[ $1 != "${LAUNCH[0]:-}" ]] || skip=$((1 + ${#LAUNCH[@]}))
  made=$(quoted "${@:skip}" && echo && stat -c '%n %s %.Y' "${inputs[@]}" 2>/dev/null || true)
  if [[ -n $mark && -f $output && -f $mark && $(<"$mark") == "$made" ]]; then
    printf '%s: %s is there\n' "$NAME" "$output" && return
  fi
  printf '$ %s\n' "$(quoted "$@")"
  case ${RUN:-$stage} in
    score) "$@" | tee "$output.partial" && mv "$output.partial" "$output" ;;
    text) "$@" >"$output.partial" && mv "$output.partial" "$output" ;;
    prepare | translate) "$@" ;;
    *) logged "$(dirname "$output")/output.log" "$@" ;;
  esac || exit
  [[ -f $output ]] || die "$output: the command has ended without it."
  [[ -z $mark ]] || ! first_machine || echo "$made" >"$mark"
}

# logged LOG COMMAND...: a training; status 75 where a signal has ended it with a checkpoint.
logged() {
  local before status=0
  before=$(cat "$1" 2>/dev/null | wc -l)
  trap : TERM USR1 # the training is told, too, and saves
  "${@:2}" 2>&1 | (trap '' INT TERM USR1 && exec tee -a "$1") || status=$?
  trap - TERM USR1
  ! tail -n "+$((before + 1))" "$1" | grep -q '^gtrans: SIG.*: stopped after ' || status=75
  return "$status"
}

# prepare OPTION...: text to OUT/data.
prepare() {
  local merges=${OPTION[bpe-merges]} vocabulary lang split inputs=() state=$DATA/prepare.json
  [[ -z ${OPTION[prepared]} ]] && first_machine || return 0
  if [[ -z ${GIVEN[bpe-merges]:-} && -f $state ]]; then # variants share the corpus, with its merges
    merges=$(sed -n 's/.*"merges": *\([1-9][0-9]*\).*/\1/p' "$state" | head -n 1)
  fi
  vocabulary=(--bpe-merges "${merges:-${OPTION[bpe-merges]}}")
  [[ -z ${OPTION[bpe-symbols]} ]] || vocabulary=(--bpe-symbols "${OPTION[bpe-symbols]}")
  [[ ${OPTION[normalise]} == no ]] || vocabulary+=(--normalise)
  [[ -z ${OPTION[sentence-data]} ]] || vocabulary=(--reuse "${OPTION[sentence-data]}")
  (($# == 0)) || vocabulary=("$@")
  for split in "$TRAIN_TEXT" "$VALID_TEXT" "$TEST_TEXT"; do
    for lang in $SOURCE $TARGET; do inputs+=("$(text "$split" "$lang")"); done
  done
  step prepare "$state" "${inputs[@]}" -- "$(program gtrans)" prepare --source-lang "$SOURCE" \
    --target-lang "$TARGET" --train "$TRAIN_TEXT" --valid "$VALID_TEXT" --test "$TEST_TEXT" \
    "${vocabulary[@]}" --workers "${OPTION[workers]}" --out "$DATA" "${PREPARE[@]}" "${FOR_PREPARE[@]}"
}

# sentence CONFIG [MODEL]: train the sentence model, translate and score it; SENTENCE is its checkpoint.
sentence() {
  local EXTRA=("${EXTRA[@]}") seed=${OPTION[seed]}
  SENTENCE=${OPTION[sentence-checkpoint]} BASELINE=
  [[ -z $SENTENCE ]] || return 0
  BASELINE=${2:-sentence} SENTENCE=$OUT/$BASELINE/checkpoint_best.pt
  [[ -z ${OPTION[name]} ]] || EXTRA=() seed=1 # those of a variant are for its document model
  fit sentence "$BASELINE" "$1" "${OPTION[sentence-seed]:-$seed}"
  evaluate "$BASELINE"
}

# train MODEL CONFIG OPTION...: train a document model.
train() { fit document "$1" "$2" "${OPTION[seed]}" "${@:3}"; }
fit() { # STAGE MODEL CONFIG SEED OPTION...
  local -n own=FOR_${1^^}
  local inputs=("$DATA/prepare.json") word
  for word in "${@:5}"; do [[ $word != */checkpoint_best.pt ]] || inputs+=("$word"); done
  step "$1" "$OUT/$2/checkpoint_best.pt" "${inputs[@]}" -- "${LAUNCH[@]}" "$(program gtrans)" train "$DATA" \
    --config "$3" --source-lang "$SOURCE" --target-lang "$TARGET" "${@:5}" --seed "$4" \
    --save-dir "$OUT/$2" "${DEVICE[@]}" "${EXTRA[@]}" "${own[@]}"
}

# evaluate MODEL [BASELINE]: translate the test documents and score them, against the baseline's.
evaluate() {
  local output=$OUT/test.$1.$TARGET source
  first_machine || return 0
  source=$(text "$TEST_TEXT" "$SOURCE")
  step translate "$output" "$OUT/$1/checkpoint_best.pt" "$source" -- "$(program gtrans)" translate \
    --path "$OUT/$1/checkpoint_best.pt" --data "$DATA" --input "$source" --output "$output" "${SEARCH[@]}" \
    "${DEVICE[@]:0:1}" "${FOR_TRANSLATE[@]}"
  score "$1" ${2:+"$2"} "$1"
}

# score NAME MODEL...: s-BLEU, d-BLEU and more in OUT/scores.NAME.txt and .json, with tests of differences.
score() {
  local files=("${@:2}") systems=() reference model
  reference=$(text "$TEST_TEXT" "$TARGET")
  files=("${files[@]/#/$OUT/test.}") files=("${files[@]/%/.$TARGET}")
  for model in "${@:2}"; do systems+=("$model=$OUT/test.$model.$TARGET"); done
  ((${#systems[@]} > 1)) || systems=("${files[@]}")
  step score "$OUT/scores.$1.txt" "${files[@]}" "$reference" -- "$(program gtrans)" score \
    --hyp "${systems[@]}" --ref "$reference" --src "$(text "$TEST_TEXT" "$SOURCE")" \
    --target-lang "$TARGET" --data "$DATA" --json "$OUT/scores.$1.json" "${FOR_SCORE[@]}"
}
