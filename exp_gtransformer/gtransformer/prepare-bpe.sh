#!/usr/bin/env bash
# Plain text to a binarised corpus: Moses tokenisation and truecasing, joint BPE,
# fairseq-preprocess; punctuation is normalised only with --normalise yes. One corpus serves sentence
# and document models, so this is all the preparation that a random start needs.
set -euo pipefail
NAME=prepare-bpe
SUMMARY="Prepare a corpus: text to OUT/data, joint BPE of 30,000 merges, binarised."
TRAINS=no
# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

parse "$@"
find_text
prepare "${EXTRA[@]}"
check_prepared
