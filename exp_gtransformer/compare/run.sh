#!/usr/bin/env bash
# All systems under one roof: they start from one sentence model and are trained on for the same
# number of updates, with the same sentences a batch, rates and dropout. What a system needs besides is as in
# the recipe of its paper; where the papers differ in what they share, one value is for all.
# `gtrans reproduce results-debian` runs it (docs/reproducing.md).
set -euo pipefail
NAME=run-compare
SUMMARY="Train a sentence Transformer, and from it any system with the same settings; test both:
preparation (what is left of it), training into OUT/sentence and OUT/SYSTEM, translation to
OUT/test.MODEL.LANG, scores.
  --system NAME         continued     the sentence model itself, trained on: the baseline (default)
                        concat        two sentences as one text (2-to-2)
                        document      document Transformer, one line for each sentence (forced)
                        finetune      G-Transformer with its paper's start
                        lossless      G-Transformer that begins as the sentence model
                        groups        the same without global attention: batches of documents, no context
                        memory-instances  lossless with a memory that goes from instance to instance, each of
                                      128 tokens if there is no --max-doc-tokens
                        lossless-fusion   lossless with fusion of all layers
                        random        G-Transformer from random parameters, for as many updates as
                                      the sentence model and a document model together
                        flat          Flat-Transformer
                        memory        recurrent memory
                        context       BERT as context, as printed; needs --bert, or --prepared with the
                                      folder of a run-bert.sh
                        whitened      the same on whitened output of BERT
                        aware         document-aware Transformer; all parameters are trained
                        han           HAN: half of the updates (and of their warm-up) the encoder, then
                                      as many both sides
                        fusion        GTRANS layer fusion of sentences
  --bert NAME_OR_DIR    the BERT: a local folder or a name on the hub
  --pairs PREFIX        the document model also reads these sentence pairs, PREFIX.LANG[.gz], each as a
                        document of its own, mixed into every epoch; they go to OUT/data-pairs.MODEL
  --pairs-weight W      how often they are read in an epoch (default: 1)"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

SYSTEMS=(continued concat document finetune lossless groups memory-instances lossless-fusion random
  flat memory context whitened aware han fusion)
OPTION[system]=continued OPTION[bert]="" OPTION[pairs]="" OPTION[pairs-weight]=1
FOLDERS+="|data-pairs.*"
TRAINING_OPTION[gpus]=1
parse "$@"
one_of system "${SYSTEMS[@]}"
system=${OPTION[system]}
[[ -z ${GIVEN[start]+given} ]] || die "\`--start\` is for run-finetune.sh; \`--system\` says it here."
case $system in
  context | whitened)
    [[ -n ${OPTION[bert]} || -n ${OPTION[prepared]} ]] ||
      die "\`--bert\` is missing: the BERT of \`--system $system\`."
    ;;
  *) [[ -z ${OPTION[bert]} ]] || die "\`--bert\` is for \`--system context\` and \`whitened\`." ;;
esac
[[ -n ${OPTION[bert]} ]] || unset 'OPTION[bert]' # `begin` prepares for a BERT if it is set
[[ -n ${OPTION[pairs]} || -z ${GIVEN[pairs-weight]+given} ]] || die "\`--pairs-weight\` needs \`--pairs\`."
[[ -z ${OPTION[pairs]} || $system != memory* ]] ||
  die "\`--pairs\` is not for \`--system $system\`, which reads whole documents in order."
# HAN is trained in two parts, which read the same.
model=$(document_model "$system") encoder=$(document_model han-encoder encoder)
trained=("$model") reads_pairs=no
[[ $system != han ]] || trained+=("$encoder")
if [[ -n ${OPTION[pairs]} ]]; then
  above_zero pairs-weight
  for part in "${trained[@]}"; do
    ! makes document "$part" || reads_pairs=yes
  done
fi
if [[ $reads_pairs == yes ]]; then # said before the sentence model is trained
  text_file "${OPTION[pairs]}" "${OPTION[source-lang]}" >/dev/null
  text_file "${OPTION[pairs]}" "${OPTION[target-lang]}" >/dev/null
fi
begin gtransformer/prepare-bpe.sh

COMMON_SETTINGS=(
  --share-all-embeddings
  --optimizer adam --adam-betas "(0.9, 0.98)"
  --lr 1e-3 --lr-scheduler inverse_sqrt --warmup-updates 400
  --criterion chunked_cross_entropy --label-smoothing 0.1
  --dropout 0.1
)
arch=${OPTION[arch]} instances=${OPTION[max-doc-tokens]}
start_from sentence "$SENTENCE_SEED" --unit sentence --doc-mode full

updates=${OPTION[document-updates]} start=(--init-from "$SENTENCE" --lr-scale-pretrained 0.2)
# prepare_pairs DIR: the sentence pairs to DIR, in the vocabulary of the corpus, and as text beside it.
prepare_pairs() {
  local source=${OPTION[source-lang]} target=${OPTION[target-lang]} one two
  one=$(text_file "${OPTION[pairs]}" "$source")
  two=$(text_file "${OPTION[pairs]}" "$target")
  run "$(interpreter)" -m gtrans.text.sentence_pairs --documents "$one" "$two" \
    "$1.text.$source" "$1.text.$target"
  run "$(program gtrans)" prepare --source-lang "$source" --target-lang "$target" \
    --train "$1.text" --reuse "$DATA" --workers "${OPTION[workers]}" --out "$1"
}

# Without word dropout, which puts such a model behind its sentence model (docs/results.md).
lossless=(--positions sentence --gate-bias 10)
# of_system NAME: the architecture of another system, of the same size.
of_system() {
  OPTION[arch]=${arch/gtransformer/$1}
}
# of_windows TENTHS: so many tenths of the tokens a batch. A window counts with the sentences that are
# read beside its own, and an update should have as many sentences as that of the sentence model.
# Of debian-web-ende: 135 in 4,096 tokens; with one sentence before them 70 as one text and 82 as two
# (aware, context), with one before and one behind 54 (flat), with three before on both sides 35 (han).
of_windows() {
  OPTION[max-tokens]=$((OPTION[max-tokens] * $1 / 10))
}
# of_layer_groups: what fusion in groups of one layer needs; the models are shallow. With groups that are
# all alike, the loss of a sentence model doubles at the start (docs/results.md).
of_layer_groups() {
  parts+=(--encoder-group-size 1 --decoder-group-size 1 --decoder-group-fusion last
    --probability-fusion geometric --fusion-bias 5)
  COMMON_SETTINGS=("${COMMON_SETTINGS[@]/chunked_cross_entropy/multi_level_cross_entropy}")
}
# halve_warmup: half of the warm-up of document models, for two trainings of half of their updates.
halve_warmup() {
  local word before="" updates=0
  words_of document
  for word in "${COMMON_SETTINGS[@]}" "${WORDS[@]}"; do
    [[ $before != --warmup-updates ]] || updates=$word
    [[ $word != --warmup-updates=* ]] || updates=${word#*=}
    before=$word
  done
  [[ ! $updates =~ ^[0-9]+$ ]] || FOR_DOCUMENT+=(--warmup-updates $(((10#$updates + 1) / 2)))
}
data=$DATA
if [[ -n ${OPTION[pairs]} ]]; then
  COMMON_SETTINGS+=(--mix "1:${OPTION[pairs-weight]}")
  pairs=${OPTION[out]}/data-pairs.$model
  [[ $reads_pairs == no ]] || prepare_pairs "$pairs"
  DATA+=:$pairs
fi
case $system in
  continued) parts=(--unit sentence --doc-mode full) ;;
  concat) of_system concat_transformer && of_windows 19 && parts=(--unit window) ;;
  document) parts=(--unit document --doc-mode full) ;;
  finetune) parts=(--unit document --word-dropout 0.1 --word-dropout-epochs 40) ;;
  lossless | groups | lossless-fusion)
    parts=(--unit document "${lossless[@]}")
    [[ $system != groups ]] ||
      parts+=(--encoder-global-layers 0 --decoder-global-layers 0 --cross-global-layers 0)
    [[ $system != lossless-fusion ]] || of_layer_groups
    ;;
  memory-instances)
    of_system gtransformer_memory
    # What an instance leaves is of use only if another one follows. Of the documents of debian-web
    # 14% have more than 512 words (train; dev: 43%), 42% more than 128 (dev: 85%).
    [[ -n ${GIVEN[max-doc-tokens]+given} ]] || instances=128
    parts=(--unit stream --max-doc-tokens "$instances" "${lossless[@]}")
    ;;
  random)
    parts=(--unit document --word-dropout 0.3 --word-dropout-epochs 30) start=()
    ((updates == 0 || OPTION[sentence-updates] == 0)) ||
      updates=$((updates + OPTION[sentence-updates]))
    ;;
  flat)
    # Segment vectors as large as words cost a sentence model much of its start (docs/training.md).
    of_system flat_transformer && of_windows 25 && parts=(--unit window --segment-size 0.0884)
    ;;
  # Windows of 5 to 10 sentences, of as many documents as fill a batch.
  memory) of_system memory_transformer && parts=(--unit stream --min-window 5 --max-window 10) ;;
  context)
    of_system bert_context_transformer && of_windows 16
    parts=(--unit window --context-before 1 --raw-bert-states)
    ;;
  whitened)
    of_system bert_context_transformer && of_windows 16 && parts=(--unit window --context-before 1)
    ;;
  aware)
    of_system document_aware_transformer && of_windows 16 && parts=(--unit window --context-before 1)
    ;;
  han)
    of_system han_transformer && of_windows 38
    if ((updates > 0)); then
      updates=$(((updates + 1) / 2))
      halve_warmup
    fi
    parts=(--unit window --context-before 3 --context-after 0 --context-sides history)
    train "$encoder" "$updates" "${parts[@]}" --han-side encoder "${start[@]}"
    # Both sides begin where the encoder's model ends.
    start=(--init-from "${OPTION[out]}/$encoder/checkpoint_best.pt" --lr-scale-pretrained 0.2)
    parts+=(--han-side both)
    ;;
  fusion)
    of_system gtrans_fusion
    parts=(--unit sentence --system gtrans --ffn-init linear)
    of_layer_groups
    ;;
esac
[[ " ${parts[*]} " != *" --unit document "* ]] ||
  parts+=(--max-doc-tokens "$instances")
train "$model" "$updates" "${parts[@]}" "${start[@]}"
DATA=$data
evaluate "$model" "${OPTION[out]}/$model/checkpoint_best.pt" "$BASELINE"
