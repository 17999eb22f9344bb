#!/usr/bin/env bash
# GTRANS layer fusion with the settings of its paper (III-B, III-C). Bilingual corpora are prepared
# from text and trained as sentences; multilingual ones are trained by fairseq's own
# translation_multi_simple_epoch on a binarised folder. What the paper leaves open is chosen here:
# Adam with 5e-4, 4,000 updates of warm-up and label smoothing 0.1, BPE of 10,000 for iwslt14 and
# 40,000 for ldc, batches of 4,096 tokens, and the sampling temperature of languages.
set -euo pipefail
NAME=run-fusion
SUMMARY="Train GTRANS layer fusion and test it, into OUT/MODEL."
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"
CORPORA=(iwslt14 wmt14 ldc iwslt17 opus100)
OPTION[system]=gtrans OPTION[langs]="" OPTION[xlmr]="" OPTION[dropout]=""
OPTION[updates]=0 OPTION[epochs]=0

usage() {
  cat <<EOF
usage: exp_gtransformer/$NAME.sh --corpus NAME --data DIR --out DIR [options] [-- ...]

$SUMMARY The tested model is the one with the best validation loss in 80 epochs (bilingual), or the
average of the last 5 of 15 epochs (multilingual). Beam 8; tokenised BLEU, as in the paper, and
sacreBLEU.

  --corpus NAME         iwslt14 (De-En, small), wmt14 (En-De, big), ldc (Zh-En, base): text in
                        DIR/NAME/{train,dev,test}.LANG;
                        iwslt17 (En <-> De, It, Nl, Ro, base), opus100 (En <-> 94, 12 + 6 layers
                        from XLM-R): DIR/NAME is binarised, one dictionary for all languages
  --data DIR            folder of the corpora
  --train-prefix, --valid-prefix, --test-prefix PREFIX
                        bilingual text in another place: PREFIX.LANG[.gz]
  --source-lang LANG, --target-lang LANG
                        another pair than that of the corpus
  --langs L,L,..        multilingual: English first, then all others (opus100 needs it)
  --xlmr DIR            opus100: the folder of XLM-R base
  --out DIR             folder to write; run a script again to continue where it stopped
  --system NAME         gtrans, post-norm, pre-norm, ta, dlcl, rezero, mlrf (default: gtrans)
  --bpe-merges N        joint BPE merges of bilingual text
  --arch NAME, --dropout P, --max-tokens N, --update-freq N, --epochs N
                        other settings than those of the corpus
  --updates N           at most N updates; 0: no limit (default: 0)
  --gpus N              GPUs; 0: the CPU (default: ${TRAINING_OPTION[gpus]}, or as many as
                        CUDA_VISIBLE_DEVICES names)
  --workers N           processes of the preparation (default: ${OPTION[workers]})
  --beam N              (default: 8)
  --seed N              (default: ${TRAINING_OPTION[seed]})
  --name NAME           a variant, beside other models in OUT: name of the model, its translations
                        and scores (default: fusion-SYSTEM)
  --dry-run             print the commands only, check no file
  --help                this text

What follows -- goes to gtrans train. OUT/MODEL goes on only with the settings that it began with;
for others give a --name, or -- --restart to start anew.
EOF
}

# defaults KEY VALUE ...: options that the command line has left open.
defaults() {
  while (($#)); do
    [[ -n ${GIVEN[$1]+given} ]] || OPTION[$1]=$2
    shift 2
  done
}

# settings: those of the paper for the corpus.
settings() {
  local corpus=${OPTION[corpus]}
  WARMUP=4000 TEMPERATURE=1 MULTILINGUAL=no PIECES=(--remove-bpe)
  defaults beam 8 epochs 80
  case $corpus in
    iwslt14) defaults source-lang de target-lang en arch gtrans_fusion_small dropout 0.3 \
      bpe-merges 10000 ;;
    wmt14) defaults source-lang en target-lang de arch gtrans_fusion_big dropout 0.3 \
      update-freq 16 bpe-merges 40000 ;;
    ldc) defaults source-lang zh target-lang en arch gtrans_fusion_base dropout 0.1 \
      max-tokens 1024 bpe-merges 40000 ;;
    iwslt17) defaults langs en,de,it,nl,ro arch gtrans_fusion_base dropout 0.2 epochs 15 &&
      WARMUP=8000 MULTILINGUAL=yes ;;
    opus100) defaults arch gtrans_fusion_xlmr_base dropout 0.1 epochs 15 &&
      TEMPERATURE=5 MULTILINGUAL=yes PIECES=(--remove-bpe sentencepiece) ;;
    *) die "\`--corpus\` '$corpus' is unknown; known are ${CORPORA[*]}." ;;
  esac
  one_of system gtrans post-norm pre-norm ta dlcl rezero mlrf
  at_least 0 updates
  at_least 1 epochs
  local key
  for key in max-doc-tokens sentence-updates document-updates start sentence-checkpoint \
    sentence-data patience; do
    [[ -z ${GIVEN[$key]+given} ]] || die "\`--$key\` is for the G-Transformer (run-finetune.sh)."
  done
  if [[ $MULTILINGUAL == yes ]]; then
    [[ ${OPTION[langs]} == *,* ]] || die "\`--langs\` is missing: English, then all others."
    [[ $corpus != opus100 || -n ${OPTION[xlmr]} ]] ||
      die "\`--xlmr\` is missing: the folder of XLM-R base."
    [[ -n ${OPTION[data]} ]] || die "\`--data\` is missing: the folder that holds $corpus/."
  fi
}

# train_fusion TASK-OPTION...: gtrans train into OUT/MODEL.
train_fusion() {
  local folder=${OPTION[out]}/$MODEL
  fit "$folder" "$(program gtrans)" train "$BINARISED" "$@" \
    --arch "${OPTION[arch]}" --system "${OPTION[system]}" --share-all-embeddings \
    --dropout "${OPTION[dropout]}" --optimizer adam --adam-betas "(0.9, 0.98)" --lr 5e-4 \
    --lr-scheduler inverse_sqrt --warmup-updates "$WARMUP" \
    --criterion multi_level_cross_entropy --label-smoothing 0.1 \
    --max-tokens "${OPTION[max-tokens]}" --update-freq "${OPTION[update-freq]}" \
    --max-epoch "${OPTION[epochs]}" --max-update "${OPTION[updates]}" \
    --save-dir "$folder" --seed "${OPTION[seed]}" "${DEVICE[@]}" "${EXTRA[@]}"
}

# tokenised PAIR CHECKPOINT TASK-OPTION...: BLEU of the tokens, printed by gtrans generate.
tokenised() {
  local log=${OPTION[out]}/tokenised.$MODEL.$1.txt command
  command=("$(program gtrans)" generate "$BINARISED" "${@:3}"
    --source-lang "${1%-*}" --target-lang "${1#*-}" --path "$2" --beam "${OPTION[beam]}"
    "${PIECES[@]}" --required-batch-size-multiple 1 "${DEVICE[@]}")
  if [[ $DRY_RUN == yes ]]; then
    run "${command[@]}"
  else
    run "${command[@]}" >"$log.partial"
    mv "$log.partial" "$log"
    tail -n 1 "$log"
  fi
}

# sacre PAIR: sacreBLEU of what `tokenised` has written, both sides detokenised; text in
# sentencepieces is not tokenised, and gets its tokenised BLEU here as well.
sacre() {
  local lang=${1#*-} stem=${OPTION[out]}/tokenised.$MODEL.$1 kind
  local gtrans moses
  [[ $DRY_RUN == no ]] || return 0
  gtrans=$(program gtrans) moses=$(program sacremoses)
  for kind in D T; do
    LC_ALL=C sed -n "s/^$kind-//p" "$stem.txt" | sort -n | sed 's/.*\t//' >"$stem.$kind.raw"
    if [[ ${PIECES[*]} == *sentencepiece ]]; then
      mv "$stem.$kind.raw" "$stem.$kind.$lang"
      "$moses" -l "$lang" -q tokenize <"$stem.$kind.$lang" >"$stem.$kind.tokens"
    else
      "$moses" -l "$lang" -q detokenize <"$stem.$kind.raw" >"$stem.$kind.$lang"
      mv "$stem.$kind.raw" "$stem.$kind.tokens"
    fi
  done
  scored() {
    run "$gtrans" score --hyp "$stem.D.tokens" --ref "$stem.T.tokens" --metrics s_bleu \
      --tokenize none --resample none
    run "$gtrans" score --hyp "$stem.D.$lang" --ref "$stem.T.$lang" --metrics s_bleu \
      --target-lang "$lang" --resample none
  }
  keep "${OPTION[out]}/scores.$MODEL.$1.txt" scored
}

parse "$@"
settings
MODEL=$(document_model "fusion-${OPTION[system]}")
if [[ $MULTILINGUAL == no ]]; then
  GIVEN[bpe-merges]=yes GIVEN[source-lang]=yes GIVEN[target-lang]=yes
  find_text
  use_devices
  prepare
  check_prepared
  BINARISED=${OPTION[out]}/data
  train_fusion --unit sentence --source-lang "${OPTION[source-lang]}" \
    --target-lang "${OPTION[target-lang]}" --no-epoch-checkpoints
  checkpoint=${OPTION[out]}/$MODEL/checkpoint_best.pt
  tokenised "${OPTION[source-lang]}-${OPTION[target-lang]}" "$checkpoint"
  evaluate "$MODEL" "$checkpoint"
else
  use_devices
  BINARISED=${OPTION[data]}/${OPTION[corpus]}
  IFS=, read -ra langs <<<"${OPTION[langs]}"
  pairs=()
  for lang in "${langs[@]:1}"; do pairs+=("${langs[0]}-$lang" "$lang-${langs[0]}"); done
  task=(--task translation_multi_simple_epoch --langs "${OPTION[langs]}"
    --lang-pairs "$(IFS=, && printf '%s' "${pairs[*]}")" --encoder-langtok tgt)
  start=()
  [[ -z ${OPTION[xlmr]} ]] || start=(--init-xlmr "${OPTION[xlmr]}")
  train_fusion "${task[@]}" --sampling-method temperature --sampling-temperature "$TEMPERATURE" \
    --keep-last-epochs 5 "${start[@]}"
  checkpoint=${OPTION[out]}/$MODEL/average5.pt
  run "$(program gtrans)" average --last-epochs 5 --output "$checkpoint" "${OPTION[out]}/$MODEL"
  for pair in "${pairs[@]}"; do
    tokenised "$pair" "$checkpoint" "${task[@]}"
    sacre "$pair"
  done
fi
