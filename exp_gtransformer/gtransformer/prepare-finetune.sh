#!/usr/bin/env bash
# What fine-tuning from a sentence model needs. When that model is trained on the same corpus
# (run-finetune.sh does it), sentences and documents come from one folder, that of prepare-bpe.sh.
# When it exists already, its vocabulary decides: with --sentence-data, truecasers, BPE and
# dictionary come from the folder it was trained on.
set -euo pipefail
NAME=prepare-finetune
SUMMARY="Prepare a corpus for fine-tuning: what prepare-bpe.sh does, or with --sentence-data in the
vocabulary of an existing sentence model, and a check."
TRAINS=no
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

parse "$@"
if [[ -n ${OPTION[sentence-data]} && $DRY_RUN == no ]]; then
  [[ -s ${OPTION[sentence-data]}/prepare.json ]] ||
    die "${OPTION[sentence-data]}/prepare.json: there is no such file; \`--sentence-data\` names a \
folder made by gtrans prepare."
fi
find_text
prepare "${EXTRA[@]}"
check_prepared
for lang in "${OPTION[source-lang]}" "${OPTION[target-lang]}"; do
  if [[ -n ${OPTION[sentence-data]} && $DRY_RUN == no ]]; then
    cmp -s "${OPTION[sentence-data]}/dict.$lang.txt" "${OPTION[out]}/data/dict.$lang.txt" ||
      die "${OPTION[out]}/data/dict.$lang.txt: it is not that of ${OPTION[sentence-data]}."
  fi
done
