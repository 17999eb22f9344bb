#!/usr/bin/env bash
# What a randomly initialised G-Transformer needs: the corpus of prepare-bpe.sh. Documents are
# formed from it when it is loaded, so that nothing is cut or marked here; the script checks that
# the corpus is complete.
set -euo pipefail
NAME=prepare-randinit
SUMMARY="Prepare a corpus for random initialisation: what prepare-bpe.sh does, and a check."
TRAINS=no
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

parse "$@"
[[ -z ${OPTION[sentence-data]} ]] ||
  die "\`--sentence-data\` is for fine-tuning; a random start has no sentence model."
find_text
prepare "${EXTRA[@]}"
check_prepared
