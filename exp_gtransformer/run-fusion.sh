#!/usr/bin/env bash
# GTRANS layer fusion (Yang et al. 2022) on one pair of languages. BLEU of what Moses makes of translation and
# reference, as in the paper (tokenised.MODEL.txt), and sacreBLEU. Several languages: run-multilingual.sh.
#   --corpus NAME   iwslt14 (De-En), wmt14 (En-De), ldc (Zh-En)
#   --system NAME   gtrans (default), post-norm, pre-norm, ta, dlcl, rezero, mlrf: the paper's baselines
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
CORPORA=(iwslt14 wmt14 ldc)
OPTION[system]=gtrans OPTION[source-lang]=de OPTION[target-lang]=en OPTION[beam]=8 OPTION[bpe-merges]=10000

read_options "$@"
# What the corpus decides unless the command line does.
config=gtrans_fusion source=de target=en hyphens=""
case ${OPTION[corpus]} in
  wmt14) # the authors' script splits words at hyphens
    config=gtrans_fusion_wmt14 source=en target=de hyphens='s/-/ - /g; s/  */ /g'
    [[ -n ${GIVEN[bpe-merges]:-}${GIVEN[bpe-symbols]:-} ]] || OPTION[bpe-symbols]=40000
    ;;
  ldc)
    config=gtrans_fusion_ldc source=zh
    [[ -n ${GIVEN[bpe-merges]:-} ]] || OPTION[bpe-merges]=40000
    ;;
esac
[[ -n ${GIVEN[source-lang]:-} ]] || OPTION[source-lang]=$source
[[ -n ${GIVEN[target-lang]:-} ]] || OPTION[target-lang]=$target
check_options
find_text

one_of system "${OPTION[system]}" gtrans post-norm pre-norm ta dlcl rezero mlrf
SEARCH=(--lenpen 0 --no-repeat-ngram-size 4) # the authors' script for WMT14
model=$(named "fusion-${OPTION[system]}")

prepare
train "$model" "$config" --system "${OPTION[system]}"
evaluate "$model"
hypothesis=$OUT/test.$model.$TARGET reference=$(text "$TEST_TEXT" "$TARGET")
run_score "$OUT/tokenised.$model.txt" "$hypothesis" "$reference" -- \
  "$HERE/tokenised-bleu.sh" "$hypothesis" "$reference" "$TARGET" "$OUT/tokenised.$model.json" "$hyphens"

# ---- What it runs: the commands of
#   run-fusion.sh --data corpus --corpus iwslt14 --out out --dry-run
#
#   gtrans prepare --source-lang de --target-lang en --train corpus/iwslt14/train --valid corpus/iwslt14/valid --test
#       corpus/iwslt14/test --bpe-merges 10000 --workers 1 --out out/data
#   gtrans train out/data --config gtrans_fusion --source-lang de --target-lang en --seed 1 --save-dir
#       out/fusion-gtrans --system gtrans
#   gtrans translate --path out/fusion-gtrans/checkpoint_best.pt --data out/data --input corpus/iwslt14/test.de
#       --output out/test.fusion-gtrans.en --lenpen 0 --no-repeat-ngram-size 4 --beam 8
#   gtrans score --hyp out/test.fusion-gtrans.en --ref corpus/iwslt14/test.en --src corpus/iwslt14/test.de
#       --target-lang en --data out/data --json out/scores.fusion-gtrans.json >out/scores.fusion-gtrans.txt
#   exp_gtransformer/tokenised-bleu.sh out/test.fusion-gtrans.en corpus/iwslt14/test.en en
#       out/tokenised.fusion-gtrans.json '' >out/tokenised.fusion-gtrans.txt
