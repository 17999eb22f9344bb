#!/usr/bin/env bash
# G-Transformer on all corpora of its paper: run-randinit.sh and run-finetune.sh for every corpus, with one
# preparation, into OUT/CORPUS.
#   --corpus NAMES    joined by commas (default: iwslt17,nc2016,europarl7)
#   --script NAMES    of randinit,finetune, joined by commas (default: both)
# All other options are those of run-finetune.sh.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
corpora=iwslt17,nc2016,europarl7 scripts=randinit,finetune out="" rest=()
while (($#)); do
  case $1 in
    --corpus=* | --script=* | --out=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;; # --key=value is --key value
    --corpus | --script | --out) (($# > 1)) || { echo "run-all: error: \`$1\` needs a value." >&2 && exit 1; } ;;&
    -h | --help)
      sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
      echo
      sed s/SCRIPT/run-all.sh/ "$here/options.txt"
      exit
      ;;
    --corpus) corpora=$2 && shift 2 ;;
    --script) scripts=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --) rest+=("$@") && break ;;
    *) rest+=("$1") && shift ;;
  esac
done
[[ -n $out ]] || { echo "run-all: error: \`--out\` is missing: where everything is to be written." >&2 && exit 1; }
[[ $corpora == *[!,]* && $scripts == *[!,]* ]] ||
  { echo "run-all: error: \`--corpus\` and \`--script\` must name at least one." >&2 && exit 1; }

for corpus in ${corpora//,/ }; do
  for script in ${scripts//,/ }; do
    "$here/run-$script.sh" --corpus "$corpus" --out "$out/$corpus" "${rest[@]}"
  done
done

# ---- What it runs: the commands of
#   run-all.sh --corpus europarl7 --data corpus --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/europarl7/data
#   gtrans train out/europarl7/data --config gtransformer_randinit --source-lang en --target-lang de --seed 1
#       --save-dir out/europarl7/randinit
#   gtrans translate --path out/europarl7/randinit/checkpoint_best.pt --data out/europarl7/data --input
#       corpus/europarl7/test.en --output out/europarl7/test.randinit.de --max-len-a 1.2 --max-len-b 10 --beam 5
#   gtrans score --hyp out/europarl7/test.randinit.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/europarl7/data --json out/europarl7/scores.randinit.json
#       >out/europarl7/scores.randinit.txt
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/europarl7/data
#   gtrans train out/europarl7/data --config gtransformer_sentence --source-lang en --target-lang de --seed 1
#       --save-dir out/europarl7/sentence
#   gtrans translate --path out/europarl7/sentence/checkpoint_best.pt --data out/europarl7/data --input
#       corpus/europarl7/test.en --output out/europarl7/test.sentence.de --max-len-a 1.2 --max-len-b 10 --beam 5
#   gtrans score --hyp out/europarl7/test.sentence.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/europarl7/data --json out/europarl7/scores.sentence.json
#       >out/europarl7/scores.sentence.txt
#   gtrans train out/europarl7/data --config gtransformer_finetune --source-lang en --target-lang de --seed 1
#       --save-dir out/europarl7/finetune --init-from out/europarl7/sentence/checkpoint_best.pt
#   gtrans translate --path out/europarl7/finetune/checkpoint_best.pt --data out/europarl7/data --input
#       corpus/europarl7/test.en --output out/europarl7/test.finetune.de --max-len-a 1.2 --max-len-b 10 --beam 5
#   gtrans score --hyp sentence=out/europarl7/test.sentence.de finetune=out/europarl7/test.finetune.de --ref
#       corpus/europarl7/test.de --src corpus/europarl7/test.en --target-lang de --data out/europarl7/data --json
#       out/europarl7/scores.finetune.json >out/europarl7/scores.finetune.txt
