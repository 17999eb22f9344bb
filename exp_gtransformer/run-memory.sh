#!/usr/bin/env bash
# Transformer with recurrent memory (Feng et al. 2022): a sentence model, the memory model fine-tuned from it,
# and the same again with the next seed; scores.memory.txt has the means. Corpora other than nc2016 and
# europarl7 have the settings of TED (iwslt17).
#   --runs N         runs whose scores are averaged (default: 2)
#   --batches NAME   what an update has: authors (default): 8 whole documents; printed: one, as the paper
#                    has it; filled: 5 to 10 sentences of as many documents as fill --max-tokens
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
OPTION[runs]=2 OPTION[batches]=authors
parse "$@"
one_of batches "${OPTION[batches]}" authors printed filled
((OPTION[runs] > 0)) || die "\`--runs\` must be at least 1, but is '${OPTION[runs]}'."

before=memory_sentence config=memory_transformer
case ${OPTION[corpus]}:${OPTION[batches]} in
  *:printed | *:filled) config=memory_${OPTION[batches]} ;;
  nc2016:*) config=memory_transformer_nc2016 ;;
  europarl7:*) before=memory_sentence_europarl7 config=memory_transformer_europarl7 ;;
esac

prepare
first=${OPTION[seed]} tables=() start=${OPTION[sentence-seed]:-}
[[ -n $start ]] || start=$([[ -n ${OPTION[name]} ]] && echo 1 || echo "$first")
for ((run = 0; run < OPTION[runs]; run++)); do
  OPTION[seed]=$((first + run)) OPTION[sentence-seed]=$((start + run))
  sentence "$before" "memory-sentence-${OPTION[sentence-seed]}"
  model=$(named "memory-${OPTION[seed]}" "${OPTION[seed]}")
  train "$model" "$config" --init-from "$SENTENCE"
  evaluate "$model" "$BASELINE"
  tables+=("$OUT/scores.$model.json")
done

# mean TABLE...: the means of both models over the runs.
if chosen score && [[ $DRY_RUN == no ]]; then
  "$(program python3)" - "${tables[@]}" <<'PYTHON' | tee "$OUT/scores.$(named memory).txt"
import json, sys
from statistics import mean

tables = [list(json.load(open(name, encoding="utf-8"))["systems"].values()) for name in sys.argv[1:]]
for place, name in enumerate(("sentence", "memory")[-len(tables[0]) :]):
    for metric, first in tables[0][place].items():
        if isinstance(first, dict) and "score" in first:
            values = [table[place][metric]["score"] for table in tables]
            print(f"{name:<10}{metric:<24}{mean(values):8.2f}  mean of {len(values)}")
PYTHON
fi

# ---- What it runs: the commands of
#   run-memory.sh --data corpus --corpus europarl7 --out out --dry-run
#
#   gtrans prepare --source-lang en --target-lang de --train corpus/europarl7/train --valid corpus/europarl7/valid
#       --test corpus/europarl7/test --bpe-merges 30000 --workers 1 --out out/data
#   gtrans train out/data --config memory_sentence_europarl7 --source-lang en --target-lang de --seed 1 --save-dir
#       out/memory-sentence-1
#   gtrans translate --path out/memory-sentence-1/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en
#       --output out/test.memory-sentence-1.de --beam 5
#   gtrans score --hyp out/test.memory-sentence-1.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/data --json out/scores.memory-sentence-1.json >out/scores.memory-sentence-1.txt
#   gtrans train out/data --config memory_transformer_europarl7 --source-lang en --target-lang de --seed 1 --save-dir
#       out/memory-1 --init-from out/memory-sentence-1/checkpoint_best.pt
#   gtrans translate --path out/memory-1/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.memory-1.de --beam 5
#   gtrans score --hyp memory-sentence-1=out/test.memory-sentence-1.de memory-1=out/test.memory-1.de --ref
#       corpus/europarl7/test.de --src corpus/europarl7/test.en --target-lang de --data out/data --json
#       out/scores.memory-1.json >out/scores.memory-1.txt
#   gtrans train out/data --config memory_sentence_europarl7 --source-lang en --target-lang de --seed 2 --save-dir
#       out/memory-sentence-2
#   gtrans translate --path out/memory-sentence-2/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en
#       --output out/test.memory-sentence-2.de --beam 5
#   gtrans score --hyp out/test.memory-sentence-2.de --ref corpus/europarl7/test.de --src corpus/europarl7/test.en
#       --target-lang de --data out/data --json out/scores.memory-sentence-2.json >out/scores.memory-sentence-2.txt
#   gtrans train out/data --config memory_transformer_europarl7 --source-lang en --target-lang de --seed 2 --save-dir
#       out/memory-2 --init-from out/memory-sentence-2/checkpoint_best.pt
#   gtrans translate --path out/memory-2/checkpoint_best.pt --data out/data --input corpus/europarl7/test.en --output
#       out/test.memory-2.de --beam 5
#   gtrans score --hyp memory-sentence-2=out/test.memory-sentence-2.de memory-2=out/test.memory-2.de --ref
#       corpus/europarl7/test.de --src corpus/europarl7/test.en --target-lang de --data out/data --json
#       out/scores.memory-2.json >out/scores.memory-2.txt
