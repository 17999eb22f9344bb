#!/usr/bin/env bash
# Prepare a corpus for mBART: its own SentencePiece model and vocabulary, no Moses steps, into OUT/data.
#   --mbart DIR   folder with mBART's model.pt, sentence.bpe.model and dict.txt: mbart.cc25 of fairseq, or
#                 a checkpoint that gtrans convert made of Hugging Face's files, without dict.txt
#   --trim        cut the vocabulary to the corpus first, into OUT/mbart, for small GPUs; another model,
#                 since label smoothing spreads over fewer subwords
[[ -n ${HERE:-} ]] || source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" # run-mbart.sh sources this file
OPTION[mbart]="" OPTION[trim]=no
parse "$@"
[[ $NAME != prepare-mbart ]] || PREPARE+=("${EXTRA[@]}")
MBART=${OPTION[mbart]}
[[ -n $MBART ]] || die "\`--mbart\` is missing: the folder of mBART's files."
[[ $DRY_RUN == yes || -f $MBART/model.pt ]] || die "$MBART/model.pt: there is no such file; unpack \
https://dl.fbaipublicfiles.com/fairseq/models/mbart/mbart.cc25.v2.tar.gz there."

# segment: the text in the subwords of MBART, to DATA.
segment() {
  VOCABULARY=(--sentencepiece "$MBART/sentence.bpe.model")
  [[ $DRY_RUN == no && ! -f $MBART/dict.txt ]] || VOCABULARY+=(--dictionary "$MBART/dict.txt")
  prepare
}

if [[ ${OPTION[trim]} == yes && -z ${OPTION[prepared]} ]]; then
  DATA=$OUT/data-full && segment
  once prepare "$OUT/mbart/model.pt" "$MBART/model.pt" "$DATA/prepare.json" -- "$(program gtrans)" trim-vocab \
    --data "$DATA" --out "$OUT/mbart" "$MBART/model.pt"
  DATA=$OUT/data MBART=$OUT/mbart
fi
segment

# ---- What it runs: the commands of
#   prepare-mbart.sh --mbart mbart.cc25 --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --sentencepiece mbart.cc25/sentence.bpe.model --dictionary mbart.cc25/dict.txt
#       --workers 1 --out out/data
