#!/usr/bin/env bash
# G-Transformer fine-tuned from mBART25, and mBART itself fine-tuned on sentences and on documents
# (table 2, App. C.1): Adam, learning rate 3e-5 for all parameters, 2,500 updates of warm-up, no word
# dropout; as in the authors' program polynomial decay, label smoothing 0.2, dropout 0.3 and 0.1 on
# attention, batches of 2,048 tokens, two for an update, patience 5. Their script gives the decay no
# end, which is a constant rate of 3e-5 here; the 40,000 updates are those of Liu et al. (2020), whose
# settings the paper follows. mBART on documents has its language once a document, as in pretraining.
set -euo pipefail
NAME=run-mbart
SUMMARY="Fine-tune mBART25 and test it: preparation (what is left of it), training into
OUT/mbart-SYSTEM, translation to OUT/test.mbart-SYSTEM.LANG, scores.
  --mbart DIR           folder with mBART's model.pt, dict.txt and sentence.bpe.model (mbart.cc25)
  --trim WHETHER        yes: cut its vocabulary to the corpus, into OUT/mbart: less memory, and
                        another model, since label smoothing spreads over fewer pieces; no
                        (default: no)
  --systems NAMES       of sentence,document,gtransformer (default: all): mBART on sentences, mBART
                        on documents with plain attention, G-Transformer"
TRAINS=yes
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/training.sh
source "$ROOT/exp_gtransformer/lib/training.sh"

limits=(--max-len-a 1.2 --max-len-b 10) # the authors'

SYSTEMS=(sentence document gtransformer)
TRAINING_OPTION[arch]=gtransformer_mbart_large
TRAINING_OPTION[max-tokens]=2048 TRAINING_OPTION[update-freq]=2 TRAINING_OPTION[patience]=5
TRAINING_OPTION[sentence-updates]=40000 TRAINING_OPTION[document-updates]=40000
OPTION[mbart]="" OPTION[trim]=no
OPTION[systems]=$(IFS=, && printf '%s' "${SYSTEMS[*]}")
parse "$@"
check_mbart
for key in start sentence-checkpoint sentence-seed; do
  [[ -z ${GIVEN[$key]+given} ]] || die "\`--$key\` is for fine-tuning from a sentence model."
done
listed systems "${SYSTEMS[@]}"
[[ " ${LISTED[*]} " == *" sentence "* ]] || without sentence
trimmed=${DATA%/*}/mbart/model.pt # beside the corpus, which may be that of --prepared
made=()
[[ ${OPTION[trim]} == no ]] || made=("$trimmed")
begin gtransformer/prepare-mbart.sh "${made[@]}"

# The published file does not say which symbols it has; a trimmed or converted one does.
model=("${OPTION[mbart]}/model.pt")
if [[ ${OPTION[trim]} == yes ]]; then
  needs prepare "$trimmed"
  model=("$trimmed")
elif [[ $DRY_RUN == yes || -f ${OPTION[mbart]}/dict.txt ]]; then
  model+=(--init-dict "${OPTION[mbart]}/dict.txt")
fi
# The order is that of the symbols in mBART25.
LANGS=ar_AR,cs_CZ,de_DE,en_XX,es_XX,et_EE,fi_FI,fr_XX,gu_IN,hi_IN,it_IT,ja_XX,kk_KZ,ko_KR,lt_LT
LANGS+=,lv_LV,my_MM,ne_NP,nl_XX,ro_RO,ru_RU,si_LK,tr_TR,vi_VN,zh_CN
# shellcheck disable=SC2034 # of training.sh
COMMON_SETTINGS=(
  --langs "$LANGS"
  --init-from "${model[@]}" --lr-scale-pretrained 1
  --optimizer adam --adam-eps 1e-06 --adam-betas "(0.9, 0.98)"
  --lr 3e-5 --lr-scheduler polynomial_decay --warmup-updates 2500 --total-num-update 40000
  --criterion chunked_cross_entropy --label-smoothing 0.2
  --dropout 0.3 --attention-dropout 0.1
)
for system in "${LISTED[@]}"; do
  # shellcheck disable=SC2034 # of training.sh
  SEARCH=("${limits[@]}") updates=${OPTION[document-updates]}
  unit=(--unit document --max-doc-tokens "${OPTION[max-doc-tokens]}")
  case $system in
    sentence) unit=(--unit sentence --doc-mode full --sentence-marks mbart) updates=${OPTION[sentence-updates]} ;;
    # As in the paper it decides how many sentences it writes: d-BLEU only.
    document)
      unit+=(--doc-mode full --sentence-marks mbart-document)
      SEARCH+=(--free)
      ;;
    gtransformer) unit+=(--doc-mode partial --sentence-marks mbart) ;;
  esac
  name=$(document_model "mbart-$system" "$(several "$system")")
  # shellcheck disable=SC2004 # of stages.sh, by name
  [[ $system != sentence ]] || STAGE_OF[$name]=sentence
  train "$name" "$updates" "${unit[@]}"
  evaluate "$name" "${OPTION[out]}/$name/checkpoint_best.pt"
done
