#!/usr/bin/env bash
# GTRANS layer fusion with the settings of its paper (III-B, III-C) and, where they differ, of the
# authors' program (YuweiYin/GTrans); docs/fidelity.md compares them one by one. Bilingual corpora
# are prepared from text and trained as sentences; multilingual ones are trained by fairseq's own
# task on a binarised folder. The program has Adam with 5e-4, 4,000 updates of warm-up and label
# smoothing 0.1. Both leave open, and so chosen here: BPE of 10,000 merges for iwslt14 and 40,000 for
# ldc, batches of 4,096 tokens for iwslt14 and opus100, sampling of languages by size for iwslt17.
set -euo pipefail
NAME=run-fusion
SUMMARY="Train GTRANS layer fusion and test it, into OUT/MODEL."
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"
CORPORA=(iwslt14 wmt14 ldc iwslt17 opus100)
OPTION[system]=gtrans OPTION[langs]="" OPTION[xlmr]="" OPTION[dropout]="" OPTION[references]=""
OPTION[updates]=0 OPTION[epochs]=0

usage() {
  cat <<EOF
usage: exp_gtransformer/$NAME.sh --corpus NAME --data DIR --out DIR [options] [-- ...]

$SUMMARY The tested model is the one
with the best validation loss (Eq 7) in 80 epochs (bilingual), or the average of the last 5 of 15 epochs
(multilingual). Beam 8, bilingual without length penalty and without repeated 4-grams; BLEU of what Moses
makes of translation and reference, as in the paper, and sacreBLEU.

  --corpus NAME         iwslt14 (De-En, small), wmt14 (En-De, big), ldc (Zh-En, base): text in
                        DIR/NAME/{train,dev,test}.LANG;
                        iwslt17 (En <-> De, It, Nl, Ro, base), opus100 (En <-> 94, 12 + 6 layers
                        from XLM-R): DIR/NAME is binarised, one dictionary for all languages
  --references DIR      multilingual: the original test text, DIR/test.SRC-TGT.TGT (or
                        DIR/test.TGT-SRC.TGT) for every pair (default: DIR/NAME/references)
  --data DIR            folder of the corpora
  --train-prefix, --valid-prefix, --test-prefix PREFIX
                        bilingual text in another place: PREFIX.LANG[.gz]
  --source-lang LANG, --target-lang LANG
                        another pair than that of the corpus
  --langs L,L,..        multilingual: English first, then all others (opus100 needs it)
  --xlmr DIR            opus100: the folder of XLM-R base, or none: random parameters
  --out DIR             folder to write; run a script again to continue where it stopped
  --system NAME         gtrans, post-norm, pre-norm, ta, dlcl, rezero, mlrf (default: gtrans)
  --bpe-merges N, --bpe-symbols N
                        joint BPE of bilingual text: merges, or the size of the vocabulary
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
  --prepared DIR        bilingual: take OUT/data of another run

What follows -- goes to gtrans train. OUT/MODEL goes on only with the settings that it began with;
for others give a --name, or -- --restart to start anew.
$(stage_words_usage)
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
  WARMUP=4000 MULTILINGUAL=no PIECES=(--remove-bpe) LENGTHS=() MODEL_PARTS=() HYPHENS=no
  TASK=(--task translation_multi_simple_epoch)
  SAMPLING=(--sampling-method temperature --sampling-temperature 1)
  defaults beam 8 epochs 80
  # shellcheck disable=SC2034 # BATCH: see launching.sh.
  case $corpus in
    iwslt14) defaults source-lang de target-lang en arch gtrans_fusion_small dropout 0.3 gpus 1 \
      bpe-merges 10000 && BATCH=4096 ;;
    wmt14) defaults source-lang en target-lang de arch gtrans_fusion_big dropout 0.3 gpus 8 \
      max-tokens 1024 && BATCH=$((8 * 16 * 1024)) HYPHENS=yes &&
      { [[ -n ${GIVEN[bpe-merges]+given} ]] || defaults bpe-symbols 40000; } ;;
    ldc) defaults source-lang zh target-lang en arch gtrans_fusion_base dropout 0.1 gpus 1 \
      max-tokens 1024 bpe-merges 40000 && BATCH=1024 ;;
    iwslt17) defaults langs en,de,it,nl,ro arch gtrans_fusion_base dropout 0.2 epochs 15 gpus 1 &&
      BATCH=4096 WARMUP=8000 MULTILINGUAL=yes ;;
    opus100) defaults arch gtrans_fusion_xlmr_base dropout 0.1 epochs 15 gpus 8 &&
      BATCH=$((8 * 4096)) MULTILINGUAL=yes PIECES=(--remove-bpe sentencepiece) &&
      MODEL_PARTS=(--two-feed-forwards) TASK=(--task translation_multi_linear) &&
      SAMPLING=(--sampling-temperature 5 --min-sampling-temperature 1 \
        --sampling-warmup-epochs 5) &&
      LENGTHS=(--max-source-positions 256 --truncate-source
        --skip-invalid-size-inputs-valid-test) ;;
    *) die "\`--corpus\` '$corpus' is unknown; known are ${CORPORA[*]}." ;;
  esac
  [[ $MULTILINGUAL == yes ]] || SEARCH=(--lenpen 0 --no-repeat-ngram-size 4)
  one_of system gtrans post-norm pre-norm ta dlcl rezero mlrf
  at_least 0 updates
  at_least 1 epochs
  local key
  for key in max-doc-tokens sentence-updates document-updates start sentence-checkpoint \
    sentence-data sentence-seed patience; do
    [[ -z ${GIVEN[$key]+given} ]] || die "\`--$key\` is for the G-Transformer (run-finetune.sh)."
  done
  without sentence
  if [[ $MULTILINGUAL == yes ]]; then
    without prepare
    [[ ${OPTION[langs]} == *,* ]] || die "\`--langs\` is missing: English, then all others."
    [[ $corpus != opus100 || -n ${OPTION[xlmr]} ]] ||
      die "\`--xlmr\` is missing: the folder of XLM-R base (none: random parameters)."
    [[ -n ${OPTION[data]} ]] || die "\`--data\` is missing: the folder that holds $corpus/."
    [[ -z ${GIVEN[prepared]+given} ]] ||
      die "\`--prepared\` is for bilingual corpora; \`--data\` names what is binarised."
    defaults references "${OPTION[data]}/$corpus/references"
  fi
}

# original PAIR: print the name of the file with the references of a pair.
original() {
  local source=${1%-*} target=${1#*-} file
  for file in "${OPTION[references]}/test.$1.$target" \
    "${OPTION[references]}/test.$target-$source.$target"; do
    [[ ! -f $file && $DRY_RUN == no ]] || { printf '%s\n' "$file" && return; }
  done
  die "${OPTION[references]}/test.$1.$target: there is no such file, nor \
test.$target-$source.$target; \`--references\` names the folder of the original test text."
}

# train_fusion TASK-OPTION...: gtrans train into OUT/MODEL.
train_fusion() {
  local folder=${OPTION[out]}/$MODEL
  words_of document
  fit "$folder" "$(program gtrans)" train "$BINARISED" "$@" \
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

# generate PAIR CHECKPOINT TASK-OPTION...: translations of the binarised test split, as they come.
generate() {
  local log=${OPTION[out]}/generated.$MODEL.$1.txt command
  command=("$(program gtrans)" generate "$BINARISED" "${@:3}"
    --source-lang "${1%-*}" --target-lang "${1#*-}" --path "$2" --beam "${OPTION[beam]}"
    "${PIECES[@]}" --required-batch-size-multiple 1 "${LENGTHS[@]}" "${DEVICE[@]}"
    "${FOR_TRANSLATE[@]}")
  if [[ $DRY_RUN == yes ]]; then
    run "${command[@]}"
  else
    run "${command[@]}" >"$log.partial"
    mv "$log.partial" "$log"
  fi
}

# in_order PAIR REFERENCE: the translations that `generate` has written as text, one for every line
# of the reference; a sentence that was too long for the model has an empty one.
in_order() {
  local lang=${1#*-} stem=${OPTION[out]}/generated.$MODEL.$1 lines found last
  lines=$(gzip -dcf "$2" | wc -l)
  LC_ALL=C sed -n 's/^D-\([0-9]*\)\t[^\t]*\t\{0,1\}/\1\t/p' "$stem.txt" >"$stem.numbered"
  found=$(wc -l <"$stem.numbered")
  last=$(cut -f 1 "$stem.numbered" | sort -n | tail -n 1)
  ((lines > ${last:--1})) ||
    die "$2: it has $lines lines, but the binarised test split has more sentences."
  ((lines == found)) || say "$1: $((lines - found)) of $lines sentences have no translation"
  awk -F '\t' -v "lines=$lines" '{ text[$1] = $2 }
    END { for (line = 0; line < lines; line++) print text[line] }' "$stem.numbered" >"$stem.raw"
  if [[ ${PIECES[*]} == *sentencepiece ]]; then
    mv "$stem.raw" "$stem.$lang"
  else
    "$(program sacremoses)" -l "$lang" -q detokenize <"$stem.raw" >"$stem.$lang"
  fi
}

parse "$@"
settings
MODEL=$(document_model "fusion-${OPTION[system]}")
if [[ $MULTILINGUAL == no ]]; then
  [[ -n ${OPTION[bpe-symbols]} ]] || GIVEN[bpe-merges]=yes
  GIVEN[source-lang]=yes GIVEN[target-lang]=yes
  find_text
  use_devices
  if [[ -z ${OPTION[prepared]} ]] && makes prepare data "$DATA/prepare.json"; then
    prepare "${FOR_PREPARE[@]}"
    check_prepared
  fi
  has_corpus
  BINARISED=$DATA checkpoint=${OPTION[out]}/$MODEL/checkpoint_best.pt
  if makes document "$MODEL" "$checkpoint"; then
    train_fusion --unit sentence --source-lang "${OPTION[source-lang]}" \
      --target-lang "${OPTION[target-lang]}" --no-epoch-checkpoints
  fi
  evaluate "$MODEL" "$checkpoint"
  lang=${OPTION[target-lang]}
  as_in_the_paper "$lang" "${OPTION[out]}/test.$MODEL.$lang" "$(text_file "$TEST_TEXT" "$lang")" \
    "${OPTION[out]}/test.$MODEL" "${OPTION[out]}/tokenised.$MODEL"
else
  BINARISED=${OPTION[data]}/${OPTION[corpus]}
  IFS=, read -ra langs <<<"${OPTION[langs]}"
  pairs=()
  for lang in "${langs[@]:1}"; do pairs+=("${langs[0]}-$lang" "$lang-${langs[0]}"); done
  for pair in "${pairs[@]}"; do original "$pair" >/dev/null; done
  use_devices
  task=("${TASK[@]}" --langs "${OPTION[langs]}" --lang-pairs "$(IFS=, && printf '%s' "${pairs[*]}")"
    --encoder-langtok tgt)
  start=()
  [[ -z ${OPTION[xlmr]} || ${OPTION[xlmr]} == none ]] || start=(--init-xlmr "${OPTION[xlmr]}")
  limits=("${LENGTHS[@]}")
  ((${#LENGTHS[@]} == 0)) || limits+=(--max-target-positions 256)
  checkpoint=${OPTION[out]}/$MODEL/average5.pt
  if makes document "$MODEL" "$checkpoint"; then
    train_fusion "${task[@]}" "${SAMPLING[@]}" "${limits[@]}" --keep-last-epochs 5 "${start[@]}"
    run "$(program gtrans)" average --last-epochs 5 --output "$checkpoint" "${OPTION[out]}/$MODEL"
  fi
  for pair in "${pairs[@]}"; do
    lang=${pair#*-}
    reference=$(original "$pair")
    stem=${OPTION[out]}/generated.$MODEL.$pair
    if makes translate "$MODEL" "$stem.$lang"; then
      needs_model "$MODEL" "$checkpoint"
      generate "$pair" "$checkpoint" "${task[@]}"
      [[ $DRY_RUN == yes ]] || in_order "$pair" "$reference"
    fi
    table=${OPTION[out]}/scores.$MODEL.$pair
    if makes score "$MODEL" "$table.txt" "$table.json"; then
      needs translate "$stem.$lang"
      keep "$table.txt" run "$(program gtrans)" score --hyp "$stem.$lang" --ref "$reference" \
        --metrics s_bleu --target-lang "$lang" --resample none --json "$table.json" "${FOR_SCORE[@]}"
    fi
    as_in_the_paper "$lang" "$stem.$lang" "$reference" "$stem" \
      "${OPTION[out]}/tokenised.$MODEL.$pair"
  done
fi
