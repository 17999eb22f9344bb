# What trains: devices, processes and machines. Needs common.sh.
# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # names that the files here share

# Status of a training that a signal has ended with a checkpoint (gtrans/training/stopping.py).
STOPPED=75
# Tokens of an update in the paper, if a script keeps them on any number of GPUs.
BATCH=
# What stands before `gtrans train`, and what is added to it.
LAUNCH=() PROCESSES=()

check_launcher() {
  local nodes=${OPTION[nodes]} launcher=${OPTION[launcher]}
  at_least 1 nodes
  at_least 0 node-rank
  [[ -z ${GIVEN[launcher]+given} ]] || one_of launcher torchrun srun
  [[ -n $launcher || $nodes == 1 ]] ||
    die "\`--nodes $nodes\` needs \`--launcher torchrun\` or \`--launcher srun\`."
  ((OPTION[node-rank] < nodes)) ||
    die "\`--node-rank\` must be below \`--nodes\` $nodes, but is '${OPTION[node-rank]}'."
  if [[ $launcher == torchrun ]] && ((nodes > 1)); then
    [[ ${OPTION[master]} =~ ^[A-Za-z0-9._-]+:[0-9]+$ ]] ||
      die "\`--master\` must be HOST:PORT of the first machine, but is '${OPTION[master]}'."
  else
    [[ -z ${GIVEN[master]+given}${GIVEN[node-rank]+given} ]] ||
      die "\`--master\` and \`--node-rank\` are for \`--launcher torchrun\` with several \`--nodes\`."
  fi
}

# use_devices: the GPUs that gtrans train is to see, and the processes that use them.
use_devices() {
  local gpus visible found tokens workers
  if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    IFS=, read -ra visible <<<"$CUDA_VISIBLE_DEVICES"
    [[ -n ${GIVEN[gpus]+given} ]] || OPTION[gpus]=${#visible[@]}
    gpus=${OPTION[gpus]}
    ((gpus == 0 || gpus == ${#visible[@]})) ||
      die "\`--gpus\` is $gpus, but CUDA_VISIBLE_DEVICES='$CUDA_VISIBLE_DEVICES' names \
${#visible[@]}."
  fi
  gpus=${OPTION[gpus]}
  workers=$(((gpus ? gpus : 1) * ${OPTION[nodes]}))
  if ((gpus == 0)); then
    DEVICE=(--cpu)
    export CUDA_VISIBLE_DEVICES=""
  else
    [[ -n ${CUDA_VISIBLE_DEVICES+set} ]] ||
      CUDA_VISIBLE_DEVICES=$(seq -s , 0 $((gpus - 1)))
    export CUDA_VISIBLE_DEVICES
    if [[ $PRINT_ONLY == no ]] && { chosen sentence || chosen document || chosen translate; }; then
      found=$("$(interpreter)" -c "import torch; print(torch.cuda.device_count())")
      ((found == gpus)) ||
        die "\`--gpus\` is $gpus, but torch sees $found here; give the number (0: the CPU), and an \
\`--update-freq\` that keeps the effective batch."
    fi
  fi
  keep_batch "$workers"
  use_launcher "$((gpus ? gpus : 1))"
  tokens=$((${OPTION[max-tokens]} * workers * ${OPTION[update-freq]}))
  say "CUDA_VISIBLE_DEVICES='$CUDA_VISIBLE_DEVICES', effective batch $tokens tokens"
}

# keep_batch WORKERS: with BATCH or a launcher, the --update-freq, and with a launcher also the
# --max-tokens, with which an update has as many tokens as in the paper.
keep_batch() {
  local workers=$1 tokens=${OPTION[max-tokens]} batch=$BATCH batches each
  [[ -z ${GIVEN[update-freq]+given} && -n $BATCH${OPTION[launcher]} ]] || return 0
  [[ -n $batch ]] ||
    batch=$((tokens * ${TRAINING_OPTION[gpus]} * ${TRAINING_OPTION[update-freq]}))
  batches=$(((batch + tokens * workers - 1) / (tokens * workers)))
  OPTION[update-freq]=$batches
  [[ -n ${OPTION[launcher]} ]] || return 0
  each=$((batch / (workers * batches)))
  ((each * workers * batches == batch)) ||
    die "$workers processes cannot share an update of $batch tokens; give a number that divides \
it, or \`--update-freq\` and \`--max-tokens\` for another."
  ((each == tokens || each >= ${OPTION[max-doc-tokens]})) ||
    die "$workers processes have $each tokens each of an update of $batch, less than a document \
of \`--max-doc-tokens\` ${OPTION[max-doc-tokens]}; take fewer, or give \`--update-freq\` and \
\`--max-tokens\` for a larger update."
  OPTION[max-tokens]=$each
}

# use_launcher PER-NODE: what starts the processes.
use_launcher() {
  local each=$1 nodes=${OPTION[nodes]} master=${OPTION[master]}
  case ${OPTION[launcher]} in
    torchrun)
      LAUNCH=("$(program torchrun)" --standalone)
      # The others wait for the first while it prepares, translates and scores.
      ((nodes == 1)) || LAUNCH=("$(program torchrun)" --nnodes "$nodes"
        --node-rank "${OPTION[node-rank]}" --master-addr "${master%:*}"
        --master-port "${master##*:}" --rdzv-conf timeout=86400)
      LAUNCH+=(--nproc-per-node "$each" --no-python)
      # torchrun itself passes these on; SIGUSR1 would end it alone (its option --signals-to-handle).
      export PET_SIGNALS_TO_HANDLE=${PET_SIGNALS_TO_HANDLE:-SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1}
      # Time to save a checkpoint, instead of 30 seconds.
      export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-600}
      ;;
    srun)
      # When one process is lost, the others end, and the job can be requeued.
      LAUNCH=(srun --nodes "$nodes" --ntasks "$((nodes * each))" --ntasks-per-node "$each"
        --kill-on-bad-exit=1)
      ;;
  esac
  if ((nodes * each > 1 && OPTION[gpus] == 0)); then
    PROCESSES=(--distributed-backend gloo --ddp-backend legacy_ddp)
  fi
}

# fit FOLDER COMMAND...: run a training command, whose output also goes to FOLDER/train.log. The
# command compares its settings with those of the run in FOLDER, goes on, or ends at once when that
# run is finished. A signal that ends it ends the script, with the same status.
fit() {
  local folder=$1 log=$1/train.log status=0 before=0 asked=no command new
  ((OPTION[node-rank] == 0)) || log=$1/train.${OPTION[node-rank]}.log
  command=("${LAUNCH[@]}" "${@:2}" "${PROCESSES[@]}")
  printf '$ %s\n' "$(quoted "${command[@]}")"
  [[ $PRINT_ONLY == no ]] || return 0
  mkdir -p "$folder"
  [[ ! -f $log ]] || before=$(wc -l <"$log")
  trap 'asked=yes' TERM USR1 INT
  { printf '$ %s\n' "$(quoted "${command[@]}")" >>"$log" && exec "${command[@]}"; } 2>&1 |
    { trap '' TERM USR1 INT && exec tee -a "$log"; } || status=$?
  trap - TERM USR1 INT
  new=$(tail -n "+$((before + 1))" "$log")
  if ((status == STOPPED)) || [[ $asked == yes ]] ||
    grep -q '^gtrans: SIG.*: stopped after ' <<<"$new"; then
    say "$folder: stopped by a signal; the same command goes on"
    exit "$STOPPED"
  fi
  if ((status)); then
    if tail -n 20 <<<"$new" | grep -q 'gtrans: error: .*--restart'; then
      die "$folder: for other settings, \`--name NAME\` makes a variant beside it; \
\`-- --restart\` starts it anew."
    fi
    die "$folder: the training has failed, see $log."
  fi
  [[ -f $folder/checkpoint_best.pt || -f $folder/checkpoint_last.pt ]] ||
    die "$folder: the training has written no checkpoint, see $log."
}
