"""Finished run folders as the recipes leave them, without a training."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from support.score_corpus import HYPOTHESES, REFERENCES, text, write

HOSTILE = "<script>alert(1)</script> & </script><!-- \"'"
SOURCE = [
    [f"Die Katze {HOSTILE}", "Sie war schwarz.", "Dann lief sie in den Garten."],
    ["Ein Hund sah die Katze.", "Er bellte den ganzen Tag."],
]
# A sentence with a letter outside the basic plane, and one that is written from right to left.
BASELINE = [
    ["The 🐈 sat on the mat.", "", f"Then it ran {HOSTILE}"],
    ["חתול ראה את הכלב", "It barked at the cat all day long."],
]
LOG = """\
$ /bin/gtrans train out/data --source-lang de --target-lang en --arch {arch} --lr 1e-3 --lr 5e-4 \
--adam-betas '(0.9, 0.98)' --seed 1 --save-dir out/{model} --cpu
2026-01-01 00:00:00 | INFO | fairseq_cli.train | num. shared model params: 1,234 (num. trained: 1)
2026-01-01 00:00:00 | INFO | fairseq_cli.train | training on 1 devices (GPUs/TPUs)
2026-01-01 00:00:00 | INFO | fairseq.trainer | begin training epoch 1
2026-01-01 00:00:01 | INFO | train_inner | epoch 001:      1 / 2 loss=5.9, num_updates=1, \
weight_group_1=0.3, weight_group_2=0.7, wall=2
2026-01-01 00:00:02 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 4 | num_updates 2
2026-01-01 00:00:02 | INFO | train | epoch 001 | loss 5.5 | num_updates 2 | wall 65
{end}
"""
END = "2026-01-01 00:00:03 | INFO | fairseq_cli.train | done training in 3.0 seconds"


def finished_run(
    folder: Path, systems: Mapping[str, list[list[str]]] | None = None, end: str = END
) -> Path:
    """A run folder with a model for each system, the first one the baseline of one table.

    Args:
        folder: the folder to make.
        systems: the translations (default: two).
        end: the last line of the logs.
    """
    systems = systems or {"sentence": BASELINE, "finetune": HYPOTHESES}
    (folder / "data").mkdir(parents=True)
    write(folder / "data" / "prepare.json", '{"source_lang": "de", "target_lang": "en"}')
    reference = write(folder.parent / "test.en", text(REFERENCES))
    source = write(folder.parent / "test.de", text(SOURCE))
    words = ["/bin/gtrans", "score", "--hyp"]
    for model, documents in systems.items():
        (folder / model).mkdir()
        log = LOG.format(model=model, arch=f"{model}_tiny", end=end)
        write(folder / model / "train.log", log)
        write(folder / f"test.{model}.en", text(documents))
        words.append(f"{model}=out/test.{model}.en")
    words += ["--ref", reference, "--src", source, "--target-lang", "en", "--metrics", "s_bleu"]
    words += ["chrf", "--bootstrap-trials", "40", "--randomisation-trials", "40"]
    write(folder / f"scores.{next(reversed(systems))}.txt", f"$ {shlex.join(words)}\nscores\n")
    return folder


def contrastive_set(folder: Path) -> tuple[str, str, str]:
    """A set of two items, and what two systems make of them: the files."""
    items = [
        {"id": f"item-{n}", "phenomenon": "pronoun", "distance": 1, "cue": "source",
         "source": ["Ein Tisch.", f"Er ist {n}."], "target": ["A table.", f"It is {n}."],
         "contrastive": [["A table.", f"He is {n}."]]}
        for n in (1, 2)
    ]  # fmt: skip
    found = [write(folder / "set.jsonl", "".join(f"{json.dumps(item)}\n" for item in items))]
    for name, verdicts in (("a", (True, True)), ("b", (True, False))):
        lines = [
            {"id": item["id"], "phenomenon": "pronoun", "distance": 1, "scores": [-1.0, -2.0],
             "right": 0, "chosen": 0, "correct": correct}
            for item, correct in zip(items, verdicts, strict=True)
        ]  # fmt: skip
        content = "".join(f"{json.dumps(line)}\n" for line in lines)
        found.append(write(folder / f"{name}.items", content))
    return found[0], found[1], found[2]
