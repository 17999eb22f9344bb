#!/usr/bin/env bash
# BLEU of what Moses makes of two texts, as in the paper of GTRANS: tokens of our own preparation have tokens of
# case and joints, which would count as words.
#
# usage: tokenised-bleu.sh HYPOTHESIS REFERENCE LANG JSON [SED]
#   SED: changes the tokens of both, such as s/-/ - /g; without it words keep their hyphens
set -euo pipefail
if (($# < 4)); then
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
  [[ ${1:-} == -h || ${1:-} == --help ]] || exit 1
  exit
fi
PATH=$(dirname "${BASH_SOURCE[0]}")/../.venv/bin:$PATH
for kind in hyp ref; do # a boundary of documents, empty or <d>, is no word
  if [[ $kind == hyp ]]; then file=$1; else file=$2; fi
  gzip -dcf "$file" | sed 's/^<d>[[:space:]]*$//' | sacremoses -l "$3" -q tokenize | sed "${5:-}" >"$4.$kind"
done
gtrans score --hyp "$4.hyp" --ref "$4.ref" --metrics s_bleu --tokenize none --resample none --json "$4"
rm "$4.hyp" "$4.ref"
