# Shared by the scripts of exp_gtransformer/: options, checks, and the commands that they run.
#
# A script sets NAME (its own), SUMMARY (what --help says first) and TRAINS (yes, if it has the
# options of training), calls `parse "$@"`, and then the functions below.
# shellcheck shell=bash disable=SC2034,SC2153 # names that the files here share

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=launching.sh
source "$ROOT/exp_gtransformer/lib/launching.sh"
# shellcheck source=stages.sh
source "$ROOT/exp_gtransformer/lib/stages.sh"
CORPORA=(iwslt17 nc2016 europarl7)

# Options and their defaults; those of training are the paper's (App. B.2 and C.1).
declare -A OPTION=(
  [data]="" [corpus]="" [train-prefix]="" [valid-prefix]="" [test-prefix]=""
  [source-lang]=en [target-lang]=de [out]="" [bpe-merges]=30000 [workers]=1 [sentence-data]=""
  [bpe-symbols]="" [normalise]=no
)
declare -A TRAINING_OPTION=(
  [gpus]=4 [update-freq]=1 [max-tokens]=4096 [arch]=gtransformer_base [max-doc-tokens]=512
  [sentence-updates]=0 [document-updates]=0 [patience]=10 [seed]=1 [start]=paper
  [sentence-checkpoint]="" [beam]=5 [name]="" [launcher]="" [nodes]=1 [node-rank]=0 [master]=""
  [stage]=$(IFS=, && printf '%s' "${STAGES[*]}") [only]="" [prepared]="" [sentence-seed]=""
)
# Folders of OUT that no model may be named after.
FOLDERS="data|data-full|mbart|sentence|memory-sentence.*"
declare -A GIVEN=() # the options that are given on the command line
# PRINT_ONLY: --dry-run. DRY_RUN: it, or this is not the first machine, which alone prepares,
# translates and scores.
DRY_RUN=no PRINT_ONLY=no
# --cpu without a GPU
DEVICE=()
# The folder of the corpus: OUT/data, or that of --prepared.
DATA=

# die MESSAGE: end with one line.
die() {
  printf '%s: error: %s\n' "$NAME" "$1" >&2
  exit 1
}

say() {
  [[ $OUTPUTS_ONLY == yes ]] || printf '%s: %s\n' "$NAME" "$1" >&2
}

# ---- options -------------------------------------------------------------------------------------

usage() {
  cat <<EOF
usage: exp_gtransformer/$NAME.sh --data DIR --corpus NAME --out DIR [options] [-- ...]

$SUMMARY

text: UTF-8, one sentence per line, an empty line between documents, both languages alike; the
files are DIR/NAME/{train,dev,test}.LANG, gzipped (.gz) or not
  --data DIR            folder of the corpora
  --corpus NAME         ${CORPORA[*]}
  --train-prefix PREFIX files PREFIX.LANG[.gz] instead of DIR/NAME/train.LANG; give all three
  --valid-prefix PREFIX   for another corpus (--data and --corpus are then not needed)
  --test-prefix PREFIX
  --source-lang LANG    source language (default: ${OPTION[source-lang]})
  --target-lang LANG    target language (default: ${OPTION[target-lang]})

output and preparation
  --out DIR             folder to write; run a script again to continue where it stopped
  --bpe-merges N        joint BPE merges (default: ${OPTION[bpe-merges]}); OUT/data keeps those that it
                        was prepared with unless this is given
  --bpe-symbols N       size of the joint vocabulary instead of --bpe-merges
  --normalise WHETHER   yes: Moses punctuation normalisation of both sides, which no paper here has;
                        no (default: ${OPTION[normalise]})
  --workers N           processes of the preparation (default: ${OPTION[workers]})
  --sentence-data DIR   take truecasers, BPE and vocabulary from this prepared folder, that of an
                        existing sentence model
  --dry-run             print the commands only, check no file
  --help                this text
EOF
  if [[ $TRAINS != yes ]]; then
    printf '\nWhat follows -- goes to gtrans prepare.\n'
    return
  fi
  cat <<EOF

training; the effective batch is --max-tokens x --gpus x --nodes x --update-freq
  --gpus N              GPUs of a machine; 0: the CPU (default: ${TRAINING_OPTION[gpus]}, or as
                        many as CUDA_VISIBLE_DEVICES names)
  --launcher NAME       torchrun or srun starts a process for each GPU; --update-freq and
                        --max-tokens, unless --update-freq is given, are then those with which an
                        update has as many tokens as in the paper (default: gtrans train does)
  --nodes N             machines (default: ${TRAINING_OPTION[nodes]}). Under srun the script runs in
                        the allocation (slurm.sbatch); with torchrun run it on each machine, with
  --node-rank K           the number of the machine, from 0, and
  --master HOST:PORT      the first machine and a free port of it; all share --out
  --update-freq N       batches of an update (default: ${TRAINING_OPTION[update-freq]})
  --max-tokens N        tokens of a batch on one GPU (default: ${TRAINING_OPTION[max-tokens]})
  --arch NAME           architecture; \`gtrans options\` lists them
                        (default: ${TRAINING_OPTION[arch]})
  --max-doc-tokens N    longest document unit (default: ${TRAINING_OPTION[max-doc-tokens]})
  --patience N          stop after N validations without a lower loss
                        (default: ${TRAINING_OPTION[patience]})
  --sentence-updates N  at most N updates of the sentence model; 0: no limit
                        (default: ${TRAINING_OPTION[sentence-updates]})
  --document-updates N  at most N updates of the document model; 0: no limit
                        (default: ${TRAINING_OPTION[document-updates]})
  --seed N              (default: ${TRAINING_OPTION[seed]})
  --start KIND          fine-tuning starts as in the paper; or open, from nearly what the sentence
                        model translates, with gates a little open; or lossless, from exactly
                        that, with gates that stay closed for long
                        (default: ${TRAINING_OPTION[start]})
  --sentence-checkpoint CKPT
                        fine-tune this model; no sentence model is trained
  --sentence-seed N     seed of the sentence model (default: --seed, for a variant
                        ${TRAINING_OPTION[seed]})
  --beam N              hypotheses kept in decoding (default: ${TRAINING_OPTION[beam]})
  --name NAME           a variant, beside other models in OUT: name of the document model, its
                        translations and scores (NAME-SYSTEM if several are trained). The corpus
                        and a finished sentence model are shared: --seed and what follows -- are
                        then for the document model only

$(stage_usage)
  --prepared DIR        use OUT/data of another run; nothing is prepared, and the options of the
                        preparation are left out

What follows -- goes to gtrans train, for every model that has such options. OUT/MODEL goes on only
with the settings that it began with; for others give a --name, or -- --restart to start anew.
$(stage_words_usage)
EOF
}

# parse ARGUMENT...: fill OPTION, GIVEN, EXTRA, DRY_RUN and check the values.
parse() {
  local key flag arguments=("$@")
  if [[ $TRAINS == yes ]]; then
    for key in "${!TRAINING_OPTION[@]}"; do OPTION[$key]=${TRAINING_OPTION[$key]}; done
  fi
  while (($#)); do
    case $1 in
      -h | --help) usage; exit ;;
      --dry-run) DRY_RUN=yes PRINT_ONLY=yes && shift ;;
      --outputs)
        [[ $TRAINS == yes ]] || die "\`--outputs\` is for the run scripts."
        OUTPUTS_ONLY=yes DRY_RUN=yes PRINT_ONLY=yes && shift
        ;;
      --) shift && share_out "$@" && break ;;
      --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
      *)
        flag=$1 key=${1#--}
        [[ $flag == --?* && -n ${OPTION[$key]+known} ]] ||
          die "unknown argument '$flag'; --help lists what there is."
        (($# > 1)) || die "\`$flag\` needs a value."
        OPTION[$key]=$2 GIVEN[$key]=yes
        shift 2
        ;;
    esac
  done
  check_options
  [[ $TRAINS == no ]] || check_stages "${arguments[@]}"
}

# at_least LEAST KEY...: these options are whole numbers.
at_least() {
  local least=$1 key value
  for key in "${@:2}"; do
    value=${OPTION[$key]}
    if [[ ! $value =~ ^(0|[1-9][0-9]{0,8})$ ]] || ((value < least)); then
      die "\`--$key\` must be a whole number of at least $least, but is '$value'."
    fi
  done
}

# above_zero KEY: the option is a number above 0, such as 0.5.
above_zero() {
  local value=${OPTION[$1]}
  if [[ ! $value =~ ^([0-9]+\.?[0-9]*|\.[0-9]+)$ || ! $value =~ [1-9] ]]; then
    die "\`--$1\` must be a number above 0, such as 0.5, but is '$value'."
  fi
}

# one_of KEY VALUE...: the option has one of these values.
one_of() {
  local key=$1 value
  for value in "${@:2}"; do [[ ${OPTION[$key]} == "$value" ]] && return; done
  die "\`--$key\` must be one of ${*:2}, but is '${OPTION[$key]}'."
}

# listed KEY VALUE...: the option is a list of these values, separated by commas; it goes to LISTED.
listed() {
  local key=$1 given=${OPTION[$1]} value
  IFS=, read -ra LISTED <<<"$given"
  ((${#LISTED[@]})) || die "\`--$key\` names nothing."
  for value in "${LISTED[@]}"; do
    OPTION[$key]=$value
    one_of "$key" "${@:2}"
  done
  OPTION[$key]=$given
}

check_options() {
  [[ -n ${OPTION[out]} ]] || die "\`--out\` is missing: where everything is to be written."
  at_least 1 bpe-merges workers
  one_of normalise yes no
  if [[ -n ${OPTION[bpe-symbols]} ]]; then
    at_least 1 bpe-symbols
    [[ -z ${GIVEN[bpe-merges]+given} ]] ||
      die "\`--bpe-symbols\` cannot be combined with \`--bpe-merges\`."
  fi
  [[ ${OPTION[source-lang]} != "${OPTION[target-lang]}" ]] ||
    die "\`--source-lang\` and \`--target-lang\` are both '${OPTION[source-lang]}'."
  if [[ $TRAINS == yes ]]; then
    at_least 0 gpus sentence-updates document-updates seed
    at_least 1 update-freq max-tokens max-doc-tokens patience beam
    one_of start paper open lossless
    [[ -z ${GIVEN[name]+given} || ${OPTION[name]} =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] ||
      die "\`--name\` must begin with a letter or digit, and have only these, '.', '_' and '-', but \
is '${OPTION[name]}'."
    check_launcher
    [[ ! ${OPTION[name]} =~ ^($FOLDERS)$ ]] ||
      die "\`--name\` is '${OPTION[name]}', a folder that the recipes use themselves; give another."
    ((OPTION[node-rank] == 0)) || DRY_RUN=yes
    SENTENCE_SEED=${OPTION[seed]} # a variant's --seed is not for the sentence model, which it shares
    [[ -z ${OPTION[name]} ]] || SENTENCE_SEED=${TRAINING_OPTION[seed]}
    if [[ -n ${GIVEN[sentence-seed]+given} ]]; then
      at_least 0 sentence-seed
      SENTENCE_SEED=${OPTION[sentence-seed]}
    fi
    [[ -z ${GIVEN[prepared]+given} ]] || check_prepared_elsewhere
  fi
  DATA=${OPTION[prepared]:-${OPTION[out]}/data}
}

# check_prepared_elsewhere: --prepared decides what the other options of the preparation do.
check_prepared_elsewhere() {
  local key
  [[ -n ${OPTION[prepared]} ]] || die "\`--prepared\` names no folder."
  for key in bpe-merges bpe-symbols normalise sentence-data bert make-bert bert-updates; do
    [[ -z ${GIVEN[$key]+given} ]] ||
      die "\`--$key\` cannot be combined with \`--prepared\`, which decides it."
  done
  without prepare
}

# find_text: set TRAIN_TEXT, VALID_TEXT, TEST_TEXT, prefixes of files that are there; with --prepared
# only TEST_TEXT, no other is needed.
find_text() {
  local corpus=${OPTION[corpus]} splits=(train valid test) split lang prefix
  [[ -z ${OPTION[prepared]:-} ]] || splits=(test)
  if [[ -n $corpus && " ${CORPORA[*]} " != *" $corpus "* ]]; then
    die "\`--corpus\` '$corpus' is unknown; known are ${CORPORA[*]} (any other corpus: \
--train-prefix, --valid-prefix, --test-prefix)."
  fi
  for split in "${splits[@]}"; do
    prefix=${OPTION[$split-prefix]}
    if [[ -z $prefix ]]; then
      [[ -n $corpus ]] || die "\`--corpus\` is missing; known are ${CORPORA[*]}."
      [[ -n ${OPTION[data]} ]] || die "\`--data\` is missing: the folder that holds $corpus/."
      prefix=${OPTION[data]}/$corpus/${split/valid/dev}
    fi
    printf -v "${split^^}_TEXT" '%s' "$prefix"
  done
  for lang in "${OPTION[source-lang]}" "${OPTION[target-lang]}"; do
    for split in "${splits[@]}"; do
      prefix=${split^^}_TEXT
      text_file "${!prefix}" "$lang" >/dev/null
    done
  done
}

# text_file PREFIX LANG: print the name of the file, gzipped or not.
text_file() {
  local file=$1.$2
  if [[ ! -f $file && -f $file.gz ]]; then
    printf '%s\n' "$file.gz"
  elif [[ -f $file || $DRY_RUN == yes ]]; then
    printf '%s\n' "$file"
  else
    die "$file: there is no such file (nor $file.gz)."
  fi
}

# check_mbart: --mbart and --trim of the scripts that have them.
check_mbart() {
  local file url=https://dl.fbaipublicfiles.com/fairseq/models/mbart/mbart.cc25.v2.tar.gz
  for file in bpe-merges bpe-symbols sentence-data normalise; do
    [[ -z ${GIVEN[$file]+given} ]] ||
      die "\`--$file\` is not for mBART, which has its own vocabulary."
  done
  one_of trim yes no
  [[ -n ${OPTION[mbart]} ]] || die "\`--mbart\` is missing: the folder of mBART's files."
  [[ $DRY_RUN == no ]] || return 0
  for file in model.pt dict.txt sentence.bpe.model; do
    [[ -f ${OPTION[mbart]}/$file ]] ||
      die "${OPTION[mbart]}/$file: there is no such file; download $url and unpack it to \
${OPTION[mbart]}."
  done
}

# ---- commands ------------------------------------------------------------------------------------

# program NAME: print the path of a command: that of the environment of a clone, or the one on PATH.
program() {
  if [[ -x $ROOT/.venv/bin/$1 ]]; then
    printf '%s\n' "$ROOT/.venv/bin/$1"
  elif ! type -P "$1"; then
    [[ $DRY_RUN == yes ]] || die "$1: there is no such command on PATH; activate the environment \
that gtrans is installed in (in a clone of the project: make env)."
    printf '%s\n' "$1"
  fi
}

# interpreter: print the path of the Python that gtrans is installed for.
interpreter() {
  local beside
  beside=$(dirname "$(program gtrans)")/python
  if [[ -x $beside ]]; then printf '%s\n' "$beside"; else program python3; fi
}

# quoted WORD...: print a command line that can be typed.
quoted() {
  local word line=""
  for word in "$@"; do
    if [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]]; then line+=" $word"; else line+=" ${word@Q}"; fi
  done
  printf '%s\n' "${line# }"
}

# run COMMAND...: print it and, unless --dry-run, run it; nothing but on the first machine.
run() {
  [[ ${OPTION[node-rank]:-0} == 0 ]] || return 0
  printf '$ %s\n' "$(quoted "$@")"
  [[ $DRY_RUN == yes ]] || "$@"
}

# keep FILE COMMAND...: run it and keep its output, in a file that is there only when it is complete.
keep() {
  if [[ $DRY_RUN == yes ]]; then
    "${@:2}"
  else
    "${@:2}" | tee "$1.partial"
    mv "$1.partial" "$1"
  fi
}

# prepare EXTRA...: plain text to OUT/data. `gtrans prepare` skips the steps that are finished.
prepare() {
  local vocabulary gtrans merges=${OPTION[bpe-merges]} state=$DATA/prepare.json
  # Models of OUT share its corpus, which changes only if that is asked for.
  if [[ $DRY_RUN == no && -z ${GIVEN[bpe-merges]+given} && -f $state ]]; then
    merges=$(sed -n 's/.*"merges": *\([1-9][0-9]*\).*/\1/p' "$state")
  fi
  vocabulary=(--bpe-merges "${merges:-${OPTION[bpe-merges]}}")
  [[ -z ${OPTION[bpe-symbols]} ]] || vocabulary=(--bpe-symbols "${OPTION[bpe-symbols]}")
  if [[ -n ${OPTION[sentence-data]} ]]; then
    [[ -z ${GIVEN[bpe-merges]+given} ]] ||
      die "\`--bpe-merges\` cannot be combined with \`--sentence-data\`, which decides it."
    vocabulary=(--reuse "${OPTION[sentence-data]}")
  elif [[ ${OPTION[normalise]} == no ]]; then
    vocabulary+=(--no-normalise)
  fi
  gtrans=$(program gtrans)
  run "$gtrans" prepare --source-lang "${OPTION[source-lang]}" \
    --target-lang "${OPTION[target-lang]}" \
    --train "$TRAIN_TEXT" --valid "$VALID_TEXT" --test "$TEST_TEXT" \
    "${vocabulary[@]}" --workers "${OPTION[workers]}" --out "$DATA" "$@"
}

# prepared_files: set PREPARED_FILES, the files of a corpus, in DATA; with a BERT its stream, too.
prepared_files() {
  local source=${OPTION[source-lang]} target=${OPTION[target-lang]} split lang stem kind
  PREPARED_FILES=("$DATA/prepare.json" "$DATA/dict.$source.txt" "$DATA/dict.$target.txt")
  for split in train valid test; do
    stem=$DATA/$split.$source-$target
    for kind in idx bin; do
      for lang in "$source" "$target" ${OPTION[bert]:+"$source.bert"}; do
        PREPARED_FILES+=("$stem.$lang.$kind")
      done
    done
  done
}

# check_prepared: end if the corpus in OUT/data is not complete.
check_prepared() {
  local file
  [[ $DRY_RUN == no ]] || return 0
  prepared_files
  for file in "${PREPARED_FILES[@]}"; do
    [[ -s $file ]] || die "$file: missing or empty after the preparation."
  done
  say "the corpus in $DATA is complete"
}
