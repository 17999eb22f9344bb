# What the recipes of GTRANS layer fusion share: settings, training, BLEU as in the paper. Needs
# common.sh and training.sh.
# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # names that the files here share

OPTION[system]=gtrans OPTION[dropout]="" OPTION[updates]=0 OPTION[epochs]=0
# Updates of warm-up, other parts of the model, and whether BLEU splits words at hyphens.
WARMUP=4000 MODEL_PARTS=() HYPHENS=no

# fusion_usage: print the help of the options that the recipes share.
fusion_usage() {
  cat <<EOF
  --system NAME         gtrans, post-norm, pre-norm, ta, dlcl, rezero, mlrf (default: gtrans)
  --arch NAME, --dropout P, --max-tokens N, --update-freq N, --epochs N
                        other settings than those of the corpus; without --update-freq, it is what
                        keeps the batch of the corpus on these GPUs
  --updates N           at most N updates; 0: no limit (default: 0)
  --gpus N              GPUs; 0: the CPU (default: that of the paper, or as many as
                        CUDA_VISIBLE_DEVICES names)
  --workers N           processes of the preparation (default: ${OPTION[workers]})
  --beam N              (default: 8)
  --seed N              (default: ${TRAINING_OPTION[seed]})
  --name NAME           a variant, beside other models in OUT: name of the model, its translations
                        and scores (default: fusion-SYSTEM)
  --dry-run             print the commands only, check no file
  --help                this text

$(stage_usage)
EOF
}

# defaults KEY VALUE ...: options that the command line has left open.
defaults() {
  while (($#)); do
    [[ -n ${GIVEN[$1]+given} ]] || OPTION[$1]=$2
    shift 2
  done
}

# check_fusion: the options of the recipes; those of the G-Transformer are refused.
check_fusion() {
  local key
  one_of system gtrans post-norm pre-norm ta dlcl rezero mlrf
  at_least 0 updates
  at_least 1 epochs
  for key in max-doc-tokens sentence-updates document-updates start sentence-checkpoint \
    sentence-data sentence-seed patience; do
    [[ -z ${GIVEN[$key]+given} ]] || die "\`--$key\` is for the G-Transformer (run-finetune.sh)."
  done
  without sentence
}

# train_fusion TASK-OPTION...: gtrans train into OUT/MODEL.
train_fusion() {
  local folder=${OPTION[out]}/$MODEL
  words_of document
  fit "$folder" "$(program gtrans)" train "$DATA" "$@" \
    --arch "${OPTION[arch]}" --system "${OPTION[system]}" --share-all-embeddings \
    --ffn-init linear --decoder-group-fusion last --probability-fusion geometric \
    "${MODEL_PARTS[@]}" --dropout "${OPTION[dropout]}" --optimizer adam --adam-betas "(0.9, 0.98)" --lr 5e-4 \
    --lr-scheduler inverse_sqrt --warmup-updates "$WARMUP" \
    --criterion multi_level_cross_entropy --label-smoothing 0.1 \
    --max-tokens "${OPTION[max-tokens]}" --update-freq "${OPTION[update-freq]}" \
    --max-epoch "${OPTION[epochs]}" --max-update "${OPTION[updates]}" \
    --best-checkpoint-metric loss --save-dir "$folder" --seed "${OPTION[seed]}" "${DEVICE[@]}" "${WORDS[@]}"
  # shellcheck disable=SC2004,SC2034 # of stages.sh, by name
  TRAINED[$MODEL]=yes
}

# tokens LANG FILE: print its lines as Moses tokenises them, for wmt14 without hyphens in words, as
# the authors' script does. A boundary of documents, empty or `<d>`, becomes an empty line.
tokens() {
  local split=(cat)
  [[ $HYPHENS == no ]] || split=(sed 's/-/ - /g; s/  */ /g')
  gzip -dcf "$2" | sed 's/^<d>[[:space:]]*$//' | "$(program sacremoses)" -l "$1" -q tokenize | "${split[@]}"
}

# as_in_the_paper LANG HYPOTHESIS REFERENCE STEM SCORES: BLEU of the tokens of both texts, to SCORES.txt
# and SCORES.json. Tokens of our own preparation would not do: they keep case and spaces as marks
# (@lower@, @/@), which would count as words.
as_in_the_paper() {
  local scores=$5
  makes score "$MODEL" "$scores.txt" "$scores.json" || return 0
  needs translate "$2"
  if [[ $DRY_RUN == no ]]; then
    tokens "$1" "$2" >"$4.hypothesis.tokens"
    tokens "$1" "$3" >"$4.reference.tokens"
  fi
  keep "$scores.txt" run "$(program gtrans)" score --hyp "$4.hypothesis.tokens" \
    --ref "$4.reference.tokens" --metrics s_bleu --tokenize none --resample none --json "$scores.json"
}
