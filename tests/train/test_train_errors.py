"""One-line errors of ``gtrans train``: options that fit neither each other, data nor machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.runs import GROUPS, refusal, train
from support.tiny_models import StockCommands, TinyWorld

BEST = ("--best-checkpoint-metric", "chrf")
SCORED = ("--patience", "9", "--eval-bleu")
SEARCH = (*SCORED, "--eval-bleu-args")
REFERENCE = (*SCORED, "--eval-bleu-reference")
MEMORY = ("--arch", "memory_transformer_tiny")
CHUNKS = ("--arch", "gtransformer_memory_tiny", *GROUPS, "--max-doc-tokens", "30")
RANKS = (
    *("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"),
    *("--distributed-world-size", "2", "--distributed-rank", "0"),
)
NO_GPUS = "`--distributed-world-size 2`: a process is started for each GPU, "

MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    # ---- a start, and its rates
    "copy without start": (
        ("--copy-local-to-global",),
        "`--copy-local-to-global` needs `--init-from`",
    ),
    "other vocabulary without start": (
        ("--init-other-vocabulary",),
        "`--init-other-vocabulary` needs `--init-from`",
    ),
    "dictionary without start": (
        ("--init-dict", "d.txt"),
        "`--init-dict d.txt` needs `--init-from`",
    ),
    "rate without start": (
        ("--lr-scale-pretrained", "1"),
        "`--lr-scale-pretrained 1` needs `--init-from`",
    ),
    "rate without optimizer": (
        ("--init-from", "x", "--lr-scale-pretrained", "0.5"),
        "`--lr-scale-pretrained 0.5` needs the optimizer two_rate_adam, but this is adam",
    ),
    "two rates of one flat parameter": (
        ("--init-from", "{sentence}", "--fp16", "--optimizer", "two_rate_adam"),
        "`--fp16` alone flattens all parameters into one, which cannot have two learning rates; "
        "add --fp16-no-flatten-grads",
    ),
    # ---- numbers
    "not a number": (("--gate-bias", "nan"), "`--gate-bias` must be a finite number, but is nan"),
    "too many workers": (("--num-workers", "100000"), "argument --num-workers: must be at most "),
    "documents too long": (
        ("--min-doc-tokens", "9999"),
        "`--min-doc-tokens` 9999: no document of ",
    ),
    # ---- memory, streams and chunks
    "window of one": ((*MEMORY, "--max-window", "1"), "`--max-window` must be at least 2, or 0"),
    "window too small": (
        (*MEMORY, "--min-window", "11"),
        "`--min-window` must be between 1 and `--max-window` 10",
    ),
    "no such layer": (
        (*MEMORY, "--memory-layers", "7"),
        "`--memory-layers` must be top, all, or layers between 0 and 1",
    ),
    "negative memory": (
        (*MEMORY, "--memory-size", "-1"),
        "`--memory-size` must be at least 0, but is -1",
    ),
    "window of one chunk": ((*CHUNKS, "--max-window", "1"), "`--max-window` must be at least 2"),
    "stream of sentences": (
        (*CHUNKS, "--stream-of", "sentences"),
        "`--stream-of sentences`: this model takes",
    ),
    "no stream": (
        (*CHUNKS, "--unit", "document", "--stream-of", "instances"),
        "`--stream-of instances`: this is no stream",
    ),
    "stream of chunks": (
        (*MEMORY, "--stream-of", "instances"),
        "`--stream-of instances`: this model takes streams of sentences",
    ),
    "overlap in training": ((*CHUNKS, "--overlap", "1"), "`--overlap 1` is for decoding"),
    # ---- validation by translations
    "score without translations": (
        ("--patience", "9", *BEST, "--maximize-best-checkpoint-metric"),
        "`--best-checkpoint-metric chrf` is a score of `--eval-bleu`, which is missing.",
    ),
    "lowest score": (
        (*SCORED, *BEST),
        "`--best-checkpoint-metric chrf` needs `--maximize-best-checkpoint-metric`: the highest "
        "score is the best.",
    ),
    "no JSON": (
        (*SEARCH, "beam 3"),
        "`--eval-bleu-args` must be JSON such as '{\"beam\": 1}', but is beam 3.",
    ),
    "no such flag of a search": (
        (*SEARCH, '{"beams": 3}'),
        "`--eval-bleu-args`: there is no 'beams', only beam, max_len_a, max_len_b, min_len, "
        "lenpen, unkpen, no_repeat_ngram_size, max_tokens.",
    ),
    "no beam": (
        (*SEARCH, '{"beam": 0}'),
        '`--eval-bleu-args` {"beam": 0}: `--beam` must be from 1 to 1000, but is 0.',
    ),
    "no such reference": ((*REFERENCE, "none.de"), "there is no file 'none.de'; check"),
    "another reference": ((*REFERENCE, "{text}/test.de"), "{text}/test.de: it has "),
    # ---- processes
    "more processes than GPUs": (RANKS, NO_GPUS),
    "more processes than GPUs, with an address": (
        (*RANKS, "--distributed-init-method", "tcp://127.0.0.1:29777"),
        NO_GPUS,
    ),
}


@pytest.mark.parametrize(("options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(
    options: tuple[str, ...], message: str, tiny: TinyWorld, stock: StockCommands, tmp_path: Path
) -> None:
    """Found before anything is saved."""
    places = {"{sentence}": str(tiny.checkpoints["sentence"]), "{text}": str(tiny.text)}
    for name, path in places.items():
        options = tuple(option.replace(name, path) for option in options)
        message = message.replace(name, path)
    line = refusal(train(stock, tiny.data, tmp_path / "run", *options, updates=1))
    assert line.startswith(message)
    assert not list(tmp_path.glob("run/*.pt"))


@pytest.mark.parametrize("end", ["", "/"])
def test_a_folder_that_is_named_twice(end, tiny, stock, tmp_path):
    data = f"{tiny.data}:{tiny.data}{end}"
    line = refusal(train(stock, data, tmp_path, updates=1))
    assert "this is the same data folder twice; name it once" in line
