#!/usr/bin/env bash
# All systems under the same conditions (configs/compare.yaml): one sentence model, and from it any system with
# the same number of updates, sentences a batch, rates and dropout (`gtrans reproduce results-debian`).
#   --system NAME        continued (default): continued training of the sentence model, the baseline; concat,
#                        document, finetune (the paper's start), lossless, groups (document batches without
#                        context), memory-instances, lossless-fusion, random, flat, memory, context, whitened,
#                        aware, han, fusion
#   --bert NAME_OR_DIR   the BERT of context and whitened, if the corpus is not --prepared with one
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
OPTION[system]=continued OPTION[bert]="" OPTION[arch]=gtransformer_base OPTION[max-tokens]=4096

read_options "$@"
# Architecture and batch of a document model depend on its system (below), also if they are given.
GIVEN[arch]="" GIVEN[max-tokens]=""
FOR_SENTENCE=(--arch "${OPTION[arch]}" --max-tokens "${OPTION[max-tokens]}" "${FOR_SENTENCE[@]}")
check_options
find_text
[[ -z ${OPTION[bert]} ]] || PREPARE+=(--bert "${OPTION[bert]}")
system=${OPTION[system]} model=$(named "${OPTION[system]}")

prepare
sentence compare
start=(--init-from "$SENTENCE" --optimizer two_rate_adam --lr-scale-pretrained 0.2)

# of ARCHITECTURE TENTHS: another system of this size. A window counts with the sentences beside its own, and
# an update has as many sentences as one of the sentence model in TENTHS of the tokens (debian-web-ende).
of() {
  arch=(--arch "${OPTION[arch]/gtransformer/$1}" --max-tokens $((OPTION[max-tokens] * $2 / 10)))
}
of gtransformer 10
# A start close to the sentence model, without word dropout.
lossless=(--doc-mode partial --positions sentence --gate-bias 10)
# Fusion in groups of one layer, which begins near the plain stack.
fusion=(--encoder-group-size 1 --decoder-group-size 1 --decoder-group-fusion last
  --probability-fusion geometric --fusion-bias 5 --criterion multi_level_cross_entropy)
alone=(--encoder-global-layers 0 --decoder-global-layers 0 --cross-global-layers 0)
case $system in
  continued) parts=() ;;
  concat) of concat_transformer 19 && parts=(--unit window) ;;
  document) parts=(--unit document) ;;
  finetune) parts=(--unit document --doc-mode partial --word-dropout 0.1 --word-dropout-epochs 40) ;;
  lossless) parts=(--unit document "${lossless[@]}") ;;
  groups) parts=(--unit document "${lossless[@]}" "${alone[@]}") ;;
  lossless-fusion) parts=(--unit document "${lossless[@]}" "${fusion[@]}") ;;
  memory-instances) # short chunks, so that another one follows
    of gtransformer_memory 10 && parts=(--unit stream --max-doc-tokens 128 "${lossless[@]}") ;;
  random) parts=(--unit document --doc-mode partial --word-dropout 0.3 --word-dropout-epochs 30) start=() ;;
  # Segment vectors as large as words cost a sentence model much of its start.
  flat) of flat_transformer 25 && parts=(--unit window --segment-size 0.0884) ;;
  memory) of memory_transformer 10 && parts=(--unit stream --min-window 5 --max-window 10) ;;
  context) of bert_context_transformer 16 && parts=(--unit window --context-before 1 --raw-bert-states) ;;
  whitened) of bert_context_transformer 16 && parts=(--unit window --context-before 1) ;;
  aware) of document_aware_transformer 16 && parts=(--unit window --context-before 1) ;;
  fusion) of gtrans_fusion 10 && parts=(--system gtrans --ffn-init linear "${fusion[@]}") ;;
  han) # half of the updates the encoder, then as many both sides
    of han_transformer 38 && parts=(--unit window --context-before 3 --context-after 0 --context-sides history)
    half=() && [[ -z ${OPTION[document-updates]} ]] || half=(--max-update $(((OPTION[document-updates] + 1) / 2)))
    FOR_DOCUMENT+=("${half[@]}")
    encoder=$(named han-encoder encoder)
    train "$encoder" compare "${arch[@]}" "${parts[@]}" --han-side encoder "${start[@]}"
    start=(--init-from "$OUT/$encoder/checkpoint_best.pt" --optimizer two_rate_adam --lr-scale-pretrained 0.2)
    parts+=(--han-side both)
    ;;
  *) die "\`--system\` '$system' is unknown; --help lists them." ;;
esac
[[ $system != random || -z ${OPTION[document-updates]}${OPTION[sentence-updates]} ]] ||
  FOR_DOCUMENT+=(--max-update $((${OPTION[document-updates]:-0} + ${OPTION[sentence-updates]:-0})))
train "$model" compare "${arch[@]}" "${parts[@]}" "${start[@]}"
evaluate "$model" "$BASELINE"

# ---- What it runs: the commands of
#   run-compare.sh --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/data
#   gtrans train out/data --config compare --source-lang en --target-lang de --seed 1 --save-dir out/sentence --arch
#       gtransformer_base --max-tokens 4096
#   gtrans translate --path out/sentence/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.sentence.de --beam 5
#   gtrans score --hyp out/test.sentence.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/data --json out/scores.sentence.json >out/scores.sentence.txt
#   gtrans train out/data --config compare --source-lang en --target-lang de --seed 1 --save-dir out/continued --arch
#       gtransformer_base --max-tokens 4096 --init-from out/sentence/checkpoint_best.pt --optimizer two_rate_adam
#       --lr-scale-pretrained 0.2
#   gtrans translate --path out/continued/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.continued.de --beam 5
#   gtrans score --hyp sentence=out/test.sentence.de continued=out/test.continued.de --ref corpus/europarl7/test.de
#       --src corpus/europarl7/test.en --target-lang de --data out/data --json out/scores.continued.json
#       >out/scores.continued.txt
