#!/usr/bin/env bash
# What fine-tuning mBART needs: the plain text in its SentencePiece pieces. With --trim yes its
# vocabulary is cut to the pieces of the corpus: a model of 25 languages then fits a GPU of 24 GB. The
# authors do not cut it.
set -euo pipefail
NAME=prepare-mbart
SUMMARY="Prepare a corpus for mBART: text to OUT/data with mBART's own SentencePiece model, no Moses
steps; with --trim yes its vocabulary is cut to the corpus first, into OUT/mbart.
  --mbart DIR           folder with mBART's model.pt and sentence.bpe.model (and dict.txt); the
                        folder mbart.cc25 of fairseq, or a checkpoint that gtrans convert made of
                        Hugging Face's files, as model.pt next to their SentencePiece model
  --trim WHETHER        yes or no (default: no)"
TRAINS=no
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

OPTION[mbart]="" OPTION[trim]=no
parse "$@"
check_mbart
find_text
gtrans=$(program gtrans)
out=${OPTION[out]}
# pieces FOLDER OUT: prepare the text with the model in FOLDER.
pieces() {
  local dictionary=()
  [[ ! -f $1/dict.txt && $DRY_RUN == no ]] || dictionary=(--dictionary "$1/dict.txt")
  run "$gtrans" prepare --source-lang "${OPTION[source-lang]}" \
    --target-lang "${OPTION[target-lang]}" \
    --train "$TRAIN_TEXT" --valid "$VALID_TEXT" --test "$TEST_TEXT" \
    --sentencepiece "$1/sentence.bpe.model" "${dictionary[@]}" \
    --workers "${OPTION[workers]}" --out "$2" "${EXTRA[@]}"
}
if [[ ${OPTION[trim]} == no ]]; then
  pieces "${OPTION[mbart]}" "$out/data"
else
  pieces "${OPTION[mbart]}" "$out/data-full"
  # The trimmed model is made from two files; prepare.json has the digests of the corpus.
  mark=$out/mbart/made-from.sha256 digests=
  if [[ $DRY_RUN == no ]]; then
    for file in "${OPTION[mbart]}/model.pt" "$out/data-full/prepare.json"; do
      digests+=$(sha256sum <"$file")
    done
  fi
  if [[ -f $mark && -f $out/mbart/model.pt && $(<"$mark") == "$digests" ]]; then
    say "$out/mbart is trimmed"
  else
    rm -f "$mark"
    run "$gtrans" trim-vocab --data "$out/data-full" --out "$out/mbart" "${OPTION[mbart]}/model.pt"
    [[ $DRY_RUN == yes ]] || printf '%s\n' "$digests" >"$mark"
  fi
  pieces "$out/mbart" "$out/data"
fi
check_prepared
