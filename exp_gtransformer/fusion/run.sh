#!/usr/bin/env bash
# GTRANS layer fusion with the settings of its paper (III-B, III-C) and, where they differ, of the
# authors' program (YuweiYin/GTrans); docs/fidelity.md compares them one by one. Corpora of one pair
# of languages are trained as sentences; those of several are for run-multilingual.sh. The program has
# Adam with 5e-4, 4,000 updates of warm-up and label smoothing 0.1. Both leave open, and so chosen
# here: BPE of 10,000 merges for iwslt14 and 40,000 for ldc, batches of 4,096 tokens for iwslt14.
set -euo pipefail
NAME=run-fusion
SUMMARY="Train GTRANS layer fusion and test it, into OUT/MODEL."
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"
# shellcheck source=../lib/fusion.sh
source "$ROOT/exp_gtransformer/lib/fusion.sh"
CORPORA=(iwslt14 wmt14 ldc)

usage() {
  cat <<EOF
usage: exp_gtransformer/$NAME.sh --corpus NAME --data DIR --out DIR [options] [-- ...]

$SUMMARY The tested model is the one
with the best validation loss (Eq 7) in 80 epochs. Beam 8, no length penalty, no repeated 4-grams;
BLEU of what Moses makes of translation and reference, as in the paper, and sacreBLEU.

  --corpus NAME         iwslt14 (De-En, small), wmt14 (En-De, big), ldc (Zh-En, base): text in
                        DIR/NAME/{train,dev,test}.LANG
  --data DIR            folder of the corpora
  --train-prefix, --valid-prefix, --test-prefix PREFIX
                        text in another place: PREFIX.LANG[.gz]
  --source-lang LANG, --target-lang LANG
                        another pair than that of the corpus
  --out DIR             folder to write; run a script again to continue where it stopped
  --bpe-merges N, --bpe-symbols N
                        joint BPE: merges, or the size of the vocabulary
$(fusion_usage)
  --prepared DIR        take OUT/data of another run

What follows -- goes to gtrans train. OUT/MODEL goes on only with the settings that it began with;
for others give a --name, or -- --restart to start anew.
$(stage_words_usage)
EOF
}

# settings: those of the paper for the corpus.
settings() {
  SEARCH=(--lenpen 0 --no-repeat-ngram-size 4)
  defaults beam 8 epochs 80
  # shellcheck disable=SC2034 # BATCH: see launching.sh.
  case ${OPTION[corpus]} in
    iwslt14) defaults source-lang de target-lang en arch gtrans_fusion_small dropout 0.3 gpus 1 \
      bpe-merges 10000 && BATCH=4096 ;;
    wmt14) defaults source-lang en target-lang de arch gtrans_fusion_big dropout 0.3 gpus 8 \
      max-tokens 1024 && BATCH=$((8 * 16 * 1024)) HYPHENS=yes &&
      { [[ -n ${GIVEN[bpe-merges]+given} ]] || defaults bpe-symbols 40000; } ;;
    ldc) defaults source-lang zh target-lang en arch gtrans_fusion_base dropout 0.1 gpus 1 \
      max-tokens 1024 bpe-merges 40000 && BATCH=1024 ;;
    *) die "\`--corpus\` '${OPTION[corpus]}' is unknown; known are ${CORPORA[*]} (several \
languages: run-multilingual.sh)." ;;
  esac
  check_fusion
}

parse "$@"
settings
MODEL=$(document_model "fusion-${OPTION[system]}")
[[ -n ${OPTION[bpe-symbols]} ]] || GIVEN[bpe-merges]=yes
GIVEN[source-lang]=yes GIVEN[target-lang]=yes
find_text
use_devices
if [[ -z ${OPTION[prepared]} ]] && makes prepare data "$DATA/prepare.json"; then
  prepare "${FOR_PREPARE[@]}"
  check_prepared
fi
has_corpus
checkpoint=${OPTION[out]}/$MODEL/checkpoint_best.pt
if makes document "$MODEL" "$checkpoint"; then
  train_fusion --unit sentence --source-lang "${OPTION[source-lang]}" \
    --target-lang "${OPTION[target-lang]}" --no-epoch-checkpoints
fi
evaluate "$MODEL" "$checkpoint"
lang=${OPTION[target-lang]}
as_in_the_paper "$lang" "${OPTION[out]}/test.$MODEL.$lang" "$(text_file "$TEST_TEXT" "$lang")" \
  "${OPTION[out]}/test.$MODEL" "${OPTION[out]}/tokenised.$MODEL"
