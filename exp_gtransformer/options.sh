# The options of the run scripts (help: options.txt): `parse` reads them, and leaves them in OPTION.
#
# A script gives options of its own a default in OPTION before it calls `parse`. Where defaults depend on other
# options, it calls the steps of `parse` one by one and sets them in between.
# shellcheck shell=bash disable=SC2034,SC2054,SC2154
CORPORA=(iwslt17 nc2016 europarl7)
STAGES=(prepare sentence document translate score)
DRY_RUN=no

# Options and their defaults; no and yes are those of a switch.
declare -A OPTION=(
  [data]="" [corpus]="" [train-prefix]="" [valid-prefix]="" [test-prefix]="" [source-lang]=en
  [target-lang]=de [out]="" [prepared]="" [bpe-merges]=30000 [bpe-symbols]="" [normalise]=no [workers]=1
  [sentence-data]="" [sentence-checkpoint]="" [sentence-seed]="" [seed]=1 [name]="" [gpus]="" [beam]=5
  [stage]=prepare,sentence,document,translate,score [launcher]="" [nodes]=1 [node-rank]=0 [master]=""
  [sentence-updates]="" [document-updates]="" [max-tokens]="" [update-freq]="" [patience]="" [arch]=""
  [max-doc-tokens]=""
)
# Those of the command line.
declare -A GIVEN=()
# What follows --: for all models, and behind `STAGE:` for that stage.
EXTRA=() FOR_PREPARE=() FOR_SENTENCE=() FOR_DOCUMENT=() FOR_TRANSLATE=() FOR_SCORE=()

# parse ARGUMENT...: read and check the options of a script.
parse() {
  read_options "$@"
  check_options
  find_text
}

die() {
  printf '%s: error: %s\n' "$NAME" "$1" >&2
  exit 1
}

# one_of KEY GIVEN VALUE...: end unless GIVEN is one of the values.
one_of() {
  [[ " ${*:3} " == *" $2 "* ]] || die "\`--$1\` must be one of ${*:3}, but is '$2'."
}

# listed KEY VALUE...: split a list at its commas into LISTED; each must be one of the values.
listed() {
  local value
  IFS=, read -ra LISTED <<<"${OPTION[$1]}"
  ((${#LISTED[@]})) || LISTED=("") # an empty name, which is none of them
  for value in "${LISTED[@]}"; do one_of "$1" "$value" "${@:2}"; done
}

# usage: print the help of a script, which is the comment at its head, and of the options that all have; then end.
usage() {
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
  echo
  sed "s/SCRIPT/$NAME.sh/" "$HERE/options.txt"
  exit
}

# read_options ARGUMENT...: take the options of the command line into OPTION.
read_options() {
  local key
  while (($#)); do
    case $1 in
      -h | --help) usage ;;
      --dry-run) DRY_RUN=yes && shift && continue ;;
      --) shift && share_out "$@" && return ;;
      --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;; # --key=value is --key value
    esac
    key=${1#--}
    [[ $1 == --?* && -n ${OPTION[$key]+known} ]] || die "unknown argument '$1'; --help lists what there is."
    GIVEN[$key]=yes
    if [[ ${OPTION[$key]} == no || ${OPTION[$key]} == yes ]]; then
      OPTION[$key]=yes
      shift
    else
      (($# > 1)) || die "\`$1\` needs a value."
      OPTION[$key]=$2
      shift 2
    fi
  done
}

# share_out WORD...: give what follows -- to all models, or to the stage that is named before.
share_out() {
  local word stage=all
  for word in "$@"; do
    case $stage:$word in
      *:prepare: | *:sentence: | *:document: | *:translate: | *:score:) stage=${word%:} ;;
      all:*) EXTRA+=("$word") ;;
      prepare:*) FOR_PREPARE+=("$word") ;;
      sentence:*) FOR_SENTENCE+=("$word") ;;
      document:*) FOR_DOCUMENT+=("$word") ;;
      translate:*) FOR_TRANSLATE+=("$word") ;;
      score:*) FOR_SCORE+=("$word") ;;
    esac
  done
}

# check_options: end at a wrong value; set OUT, DATA, SOURCE and TARGET, and the words for the commands.
check_options() {
  local key
  OUT=${OPTION[out]} SOURCE=${OPTION[source-lang]} TARGET=${OPTION[target-lang]}
  [[ -n $OUT ]] || die "\`--out\` is missing: where everything is to be written."
  [[ $SOURCE != "$TARGET" ]] || die "\`--source-lang\` and \`--target-lang\` are both '$SOURCE'."
  DATA=${OPTION[prepared]:-$OUT/data}
  listed stage "${STAGES[@]}"
  for key in gpus nodes node-rank seed sentence-seed workers beam bpe-merges bpe-symbols max-tokens max-doc-tokens \
    sentence-updates document-updates runs bert-updates; do # some scripts alone have the last two
    [[ ${OPTION[$key]-} =~ ^(0|[1-9][0-9]*)?$ ]] ||
      die "\`--$key\` must be a whole number, but is '${OPTION[$key]}'."
  done
  [[ ${OPTION[name]} =~ ^([A-Za-z0-9][A-Za-z0-9._-]*)?$ && ! ${OPTION[name]} =~ ^(data|sentence)$ ]] ||
    die "\`--name\` '${OPTION[name]}' is no name for a folder of a model."

  # Before what follows --, which wins.
  for key in arch max-tokens update-freq patience; do
    [[ -z ${GIVEN[$key]:-} ]] || EXTRA=("--$key" "${OPTION[$key]}" "${EXTRA[@]}")
  done
  key=sentence-updates
  [[ -z ${OPTION[$key]} ]] || FOR_SENTENCE=(--max-update "${OPTION[$key]}" "${FOR_SENTENCE[@]}")
  key=document-updates
  [[ -z ${OPTION[$key]} ]] || FOR_DOCUMENT=(--max-update "${OPTION[$key]}" "${FOR_DOCUMENT[@]}")
  key=max-doc-tokens
  [[ -z ${OPTION[$key]} ]] || FOR_DOCUMENT+=(--max-doc-tokens "${OPTION[$key]}")
  [[ -z ${OPTION[$key]} ]] || FOR_SCORE+=(--max-doc-tokens "${OPTION[$key]}")
  FOR_TRANSLATE=(--beam "${OPTION[beam]}" "${FOR_TRANSLATE[@]}")
  choose_devices
}

# choose_devices: LAUNCH stands before `gtrans train`, DEVICE among its options.
choose_devices() {
  local nodes=${OPTION[nodes]} gpus=${OPTION[gpus]} master=${OPTION[master]} processes=1
  LAUNCH=() DEVICE=()
  if [[ -n $gpus ]]; then
    export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-$(seq -s , 0 $((gpus - 1)))}
    ((gpus <= 1)) || processes=$gpus
  fi
  if [[ $gpus == 0 ]]; then
    DEVICE=(--cpu)
    [[ -z ${OPTION[launcher]} ]] || DEVICE+=(--distributed-backend gloo --ddp-backend legacy_ddp)
  fi
  case ${OPTION[launcher]} in
    "")
      [[ $nodes == 1 ]] || die "\`--nodes $nodes\` needs \`--launcher torchrun\` or \`srun\`."
      return
      ;;
    torchrun)
      LAUNCH=("$(program torchrun)")
      if ((nodes == 1)); then
        LAUNCH+=(--standalone)
      else
        [[ $master == *:* ]] || die "\`--master\` must be HOST:PORT of the first machine."
        # The other machines wait a day while the first prepares and translates.
        LAUNCH+=(--nnodes "$nodes" --node-rank "${OPTION[node-rank]}" --master-addr "${master%:*}"
          --master-port "${master##*:}" --rdzv-conf timeout=86400)
      fi
      LAUNCH+=(--nproc-per-node "$processes" --no-python)
      # Signals reach the training, which has time to save.
      export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 TORCH_ELASTIC_SHUTDOWN_TIMEOUT=600
      ;;
    *)
      one_of launcher "${OPTION[launcher]}" torchrun srun
      LAUNCH=(srun --nodes "$nodes" --ntasks $((nodes * processes)) --ntasks-per-node "$processes"
        --kill-on-bad-exit=1)
      ;;
  esac
  [[ -n $gpus ]] || die "\`--launcher\` needs \`--gpus\`: how many each machine has."
}

# find_text: set TRAIN_TEXT, VALID_TEXT and TEST_TEXT, prefixes of files that are there.
find_text() {
  if [[ -z ${OPTION[prepared]} ]]; then
    TRAIN_TEXT=$(prefix_of train)
    VALID_TEXT=$(prefix_of valid)
  fi
  TEST_TEXT=$(prefix_of test)
}

# prefix_of SPLIT: PREFIX of its two files PREFIX.LANG.
prefix_of() {
  local prefix=${OPTION[$1-prefix]} corpus=${OPTION[corpus]} lang
  if [[ -z $prefix ]]; then
    [[ -n $corpus ]] || die "\`--corpus\` is missing: ${CORPORA[*]}, or --$1-prefix."
    [[ " ${CORPORA[*]} " == *" $corpus "* ]] ||
      die "\`--corpus\` must be one of ${CORPORA[*]}, but is '$corpus'; a corpus of your own is named by \
--train-prefix, --valid-prefix and --test-prefix."
    [[ -n ${OPTION[data]} ]] || die "\`--data\` is missing: the folder that holds $corpus/."
    prefix=${OPTION[data]}/$corpus/$1
  fi
  for lang in "$SOURCE" "$TARGET"; do text "$prefix" "$lang" >/dev/null; done
  echo "$prefix"
}

# text PREFIX LANG: the name of a file, gzipped or not.
text() {
  local file=$1.$2
  [[ -f $file || ! -f $file.gz ]] || file+=.gz
  [[ -f $file || $DRY_RUN == yes ]] ||
    die "$file: there is no such file (nor $file.gz); \`gtrans get-corpus\` makes the papers' corpora."
  echo "$file"
}
