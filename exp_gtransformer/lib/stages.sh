# The stages of a run script, and what each of them makes. Needs common.sh.
# shellcheck shell=bash disable=SC2034,SC2178 # names that the files here share

STAGES=(prepare sentence document translate score)
# OUTPUTS_ONLY: --outputs.
OUTPUTS_ONLY=no
# By model: the stage that trains it, if it is not `document`, and the seed that it must have, if
# --sentence-seed asks for one; whether its training is known to be finished. By file: what --outputs
# has printed.
declare -A STAGE_OF=() SEED_OF=() TRAINED=() PRINTED=()

# Words that follow --: for every training, and those behind a word `STAGE:`, for that stage alone.
EXTRA=() FOR_PREPARE=() FOR_SENTENCE=() FOR_DOCUMENT=() FOR_TRANSLATE=() FOR_SCORE=()
# Options of documents and of their models, which are not for a sentence model.
DOCUMENT_ONLY="--(context-.*|han-.*|bert-.*|memory-(bptt|layers|output|side|size|slots)|combine|drop-net|\
raw-bert-states|sentence-marks|doc-mode|max-doc-tokens|min-doc-tokens|min-window|max-window|\
lr-scale-pretrained|copy-local-to-global)"

# stage_usage: print the help of the options of stages.
stage_usage() {
  cat <<EOF
stages: a run can be made in parts
  --stage NAMES         of ${STAGES[*]}, joined by commas (default: all)
  --only NAMES          of the stages, only what --outputs lists under these names
  --outputs             print what this call makes, a line each: stage, name, file, divided by tabs;
                        do nothing else
EOF
}

# stage_words_usage: print what the help says of words that stand before options behind --.
stage_words_usage() {
  cat <<EOF
Behind one of the words prepare: sentence: document: translate: score: options are for that stage
alone, such as -- --warmup-updates 400 document: --dropout 0.2 translate: --lenpen 0.8
EOF
}

# share_out WORD...: what follows --.
share_out() {
  local word name
  local -n words=EXTRA
  for word in "$@"; do
    name=${word%:}
    if [[ $TRAINS == yes && $word == *: && " ${STAGES[*]} " == *" $name "* ]]; then
      local -n words=FOR_${name^^}
    else
      words+=("$word")
    fi
  done
}

# words_of STAGE: set WORDS, what follows -- for the training of this stage. Options that a sentence
# model does not have are left out for it, with their values.
words_of() {
  local -n own=FOR_${1^^}
  local word belongs=yes
  WORDS=()
  for word in "${EXTRA[@]}"; do
    if [[ $1 == sentence && $word == --* ]]; then
      belongs=yes
      [[ ! ${word%%=*} =~ ^$DOCUMENT_ONLY$ ]] || belongs=no
    fi
    [[ $belongs == no ]] || WORDS+=("$word")
  done
  WORDS+=("${own[@]}")
}

# without STAGE: end if words behind -- are for this stage, which a call does not have.
without() {
  local -n words=FOR_${1^^}
  ((${#words[@]} == 0)) || die "'$1:' stands behind --, but this call has no such stage."
}

# check_stages ARGUMENT...: the values of --stage and --only; the arguments are those of the script.
check_stages() {
  local made name
  listed stage "${STAGES[@]}"
  [[ $OUTPUTS_ONLY == no && -n ${GIVEN[stage]+given}${GIVEN[only]+given} ]] || return 0
  made=$(bash "$0" --outputs "$@" | cut -f 2)
  for name in ${OPTION[only]//,/ }; do
    grep -Fxq -e "$name" <<<"$made" ||
      die "\`--only\` names '$name', which \`--stage ${OPTION[stage]}\` does not make; \
\`--outputs\` lists what there is."
  done
  [[ -n $made ]] || say "nothing belongs to \`--stage ${OPTION[stage]}\` here"
}

# chosen STAGE: whether it is one of --stage.
chosen() {
  [[ ",${OPTION[stage]}," == *",$1,"* ]]
}

# makes STAGE NAME FILE...: whether to make these files now; with --outputs they are only printed.
makes() {
  local file
  chosen "$1" || return 1
  [[ -z ${OPTION[only]} || ",${OPTION[only]}," == *",$2,"* ]] || return 1
  [[ $OUTPUTS_ONLY == yes ]] || return 0
  for file in "${@:3}"; do
    [[ -n ${PRINTED[$file]+printed} ]] || printf '%s\t%s\t%s\n' "$1" "$2" "$file"
    PRINTED[$file]=yes
  done
  return 1
}

# needs STAGE FILE...: end if a file is missing that this stage makes.
needs() {
  local file
  [[ $DRY_RUN == no ]] || return 0
  for file in "${@:2}"; do
    [[ -f $file ]] || die "$file: there is no such file; \`--stage $1\` makes it."
  done
}

# needs_model MODEL CHECKPOINT: end if a model of OUT is missing, or if an earlier call has left it in
# the middle of its training.
needs_model() {
  local stage=${STAGE_OF[$1]:-document}
  needs "$stage" "$2"
  [[ $DRY_RUN == no && -z ${TRAINED[$1]+trained} ]] || return 0
  finished "$1" ||
    die "${OPTION[out]}/$1: its training is not finished; \`--stage $stage\` goes on with it."
  TRAINED[$1]=yes # reading its checkpoint once is enough
}

# finished MODEL: whether the training of a model of OUT has come to its end; end if it has another
# seed than it must have.
finished() {
  local folder=${OPTION[out]}/$1 seed=${SEED_OF[$1]:-} status=0
  [[ -f $folder/checkpoint_last.pt ]] || return 1
  "$(interpreter)" -m gtrans.training.finished "$folder" ${seed:+"$seed"} || status=$?
  ((status != 2)) || die "$folder: this model has another seed than \`--sentence-seed\` asks for, \
$seed; take another \`--out\`."
  return "$status"
}
