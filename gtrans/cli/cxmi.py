"""Measure how much context raises the probability of the reference (CXMI).

Conditional cross-mutual information (Fernandes et al. 2021) is a difference of two
log-probabilities of the reference: that given source and context, minus that given the source
alone. It is in nats, averaged over sentences. Above 0, context helps.

Both come from the same model, which gets every sentence as a document of its own where it is
to do without context. With --without, the second comes from another model (usually a sentence
model). The 95% interval is over documents. --output writes the values of every sentence.

With --shuffled-context the model also sees every sentence in a context that is not its own, which
shows whether the true one helps more than any other would. See docs/context-use.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtrans.cli.shared.options import (
    add_choice,
    add_chunks,
    add_model_files,
    add_scoring,
    check_chunks,
    check_scoring,
    choice_of,
)
from gtrans.environment import ENGINE
from gtrans.errors import GtransError
from gtrans.evaluation.cxmi import Cxmi, Sentence, corpus_cxmi
from gtrans.evaluation.table import write_rows
from gtrans.files import begins_with, check_output, check_replaceable
from gtrans.messages import json_text, print_lines, print_message, with_schema
from gtrans.option_types import whole
from gtrans.text.plausibility import TextSample, implausible
from gtrans.text.reader import read_parallel

if TYPE_CHECKING:
    from torch import Tensor

    from gtrans.translating.force_decode import ScoredCorpus

EXAMPLE = (
    "gtrans cxmi --path checkpoints/checkpoint_best.pt --data data-bin "
    "--src corpus/test.en --ref corpus/test.de --output cxmi.tsv"
)
NEEDS = ENGINE
COLUMNS = ("document", "sentence", "tokens", "with_context", "without_context", "cxmi")
"""Of the file of sentences."""
OWN_FILES = ("\t".join(COLUMNS), '{"document": ')
"""How files begin that this command wrote, which it may replace."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans cxmi``."""
    files = parser.add_argument_group("files")
    add_model_files(files)
    files.add_argument(
        "--src",
        required=True,
        metavar="FILE",
        help="source: one sentence per line, an empty line between documents",
    )
    files.add_argument("--ref", required=True, metavar="FILE", help="reference, in the same lines")
    files.add_argument(
        "--without",
        metavar="CKPT[:CKPT..]",
        help="model without context (default: the model of --path, without its context)",
    )
    files.add_argument(
        "--without-data", metavar="DIR", help="data folder of --without (default: --data)"
    )
    files.add_argument(
        "--output",
        metavar="FILE",
        help="write one line per sentence: JSON if FILE ends in .jsonl, otherwise values separated "
        "by tabs",
    )
    files.add_argument(
        "--force",
        action="store_true",
        help="replace a file of --output that this command did not write",
    )
    add_choice(files, ("source", "reference"))
    parser.add_argument(
        "--context",
        type=whole(1),
        metavar="N",
        help="give each sentence only the N sentences before it as context (default: all that the "
        "model's unit contains)",
    )
    parser.add_argument(
        "--shuffled-context",
        action="store_true",
        help="also measure shuffled context: documents of the same lengths, whose sentences are "
        "drawn from all of the text (always the same ones)",
    )
    add_scoring(parser)
    add_chunks(parser.add_argument_group("chunks"), "the checkpoint's")


def run(args: argparse.Namespace) -> None:
    """Print the CXMI of the corpus, and write the CXMI of its sentences.

    Raises:
        GtransError: a file, a checkpoint or the data folder is missing or damaged, they do
            not fit each other, or an option has an impossible value.
    """
    check_scoring(args)
    check_chunks(args)
    for flag in ("max_doc_tokens", "overlap"):
        if args.context is not None and getattr(args, flag):
            shown = f"--{flag.replace('_', '-')} {getattr(args, flag)}"
            raise GtransError(
                f"`{shown}` cuts documents, but with `--context {args.context}` every sentence is "
                "scored with the sentences before it; leave one of them out."
            )
    if args.without_data is not None and args.without is None:
        raise GtransError("`--without-data` is the folder of `--without`, which is missing.")
    if args.output:
        check_output("--output", args.output, _inputs(args))
        check_replaceable(
            "--output",
            args.output,
            lambda path: begins_with(path, *OWN_FILES),
            args.force,
        )
    documents = read_parallel(args.src, args.ref, choice_of(args))

    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.search.options import split_paths
    from gtrans.translating.force_decode import (
        CorpusSide,
        ScoredCorpus,
        alone,
        in_shuffled_context,
        token_scores,
    )
    from gtrans.translating.loading import load_models, set_chunks

    def loaded(paths: str, data: str | None) -> tuple[list[Any], Any, ScoredCorpus]:
        models, task = load_models(split_paths(paths), data, cpu=args.cpu, fp16=args.fp16)
        set_chunks(task, args.max_doc_tokens, args.overlap)
        source = CorpusSide(task.source_encoder(), [source for source, _ in documents])
        pipeline = task.pipeline(str(task.cfg.target_lang))
        target = CorpusSide(pipeline, [target for _, target in documents])
        return models, task, ScoredCorpus(source, target, args.context)

    models, task, text = loaded(args.path, args.data)
    _warn(args, documents, task.cfg)
    scores = token_scores(models, task, text, args.max_tokens)
    bare, bare_task, bare_text = models, task, text
    if args.without is not None:
        bare, bare_task, bare_text = loaded(args.without, args.without_data or args.data)
    without = alone(bare, bare_task, bare_text, args.max_tokens)
    sentences = _sentences(scores, without)
    result = corpus_cxmi(sentences)
    report = with_schema("cxmi", {**asdict(result), "unit": str(task.cfg.unit)})
    rows = [{name: getattr(sentence, name) for name in COLUMNS} for sentence in sentences]
    interval = _interval(result, "95% interval ", f", {result.resampled} resampled")
    lines = [
        f"CXMI {result.value:.4f} nats, mean over sentences{interval}; "
        f"{result.per_token:.5f} per token; {result.sentences} sentences, {result.documents} "
        "documents"
    ]
    if args.shuffled_context:
        found_shuffled = in_shuffled_context(models, task, text, args.max_tokens)
        in_shuffled = _sentences(found_shuffled, without)
        shuffled, true = corpus_cxmi(in_shuffled), corpus_cxmi(_sentences(scores, found_shuffled))
        report |= {"shuffled_context": asdict(shuffled), "above_shuffled_context": asdict(true)}
        rows = [
            row | {"shuffled_context": sentence.with_context}
            for row, sentence in zip(rows, in_shuffled, strict=True)
        ]
        lines.append(
            f"shuffled context: {shuffled.value:.4f} nats{_interval(shuffled)}; the "
            f"true one has {true.value:.4f} more{_interval(true)}"
        )
    if args.output:
        write_rows(args.output, rows)
    if args.json:
        print(json_text(report))
    else:
        print_lines(*lines)


def _warn(
    args: argparse.Namespace,
    documents: Sequence[tuple[list[str], list[str]]],
    cfg: Any,
) -> None:
    """Print warnings about texts that are probably not what the user meant."""
    sources = [source for source, _ in documents]
    targets = [target for _, target in documents]
    left = TextSample.of(str(args.src), str(cfg.source_lang), sources)
    right = TextSample.of(str(args.ref), str(cfg.target_lang), targets)
    for warning in implausible(left, right, plain=False):
        print_message(f"warning: {warning}")


def _sentences(
    scores: Sequence[Sequence[Tensor]],
    without: Sequence[Sequence[Tensor]],
) -> list[Sentence]:
    """The sentences of all documents, from the scores of their tokens in two readings."""
    return [
        Sentence(document, place, len(tokens), float(tokens[:, 0].sum()), float(other[:, 0].sum()))
        for document, both in enumerate(zip(scores, without, strict=True), start=1)
        for place, (tokens, other) in enumerate(zip(*both, strict=True), start=1)
    ]


def _interval(result: Cxmi, before: str = "", behind: str = "") -> str:
    if result.interval is None:
        return ""
    low, high = result.interval
    return f" ({before}{low:.4f} to {high:.4f}{behind})"


def _inputs(args: argparse.Namespace) -> list[str | Path]:
    """The files that the command reads."""
    from gtrans.text.prepared_folder import prepared_files

    models = [path for paths in (args.path, args.without) if paths for path in paths.split(":")]
    folders = [folder for folder in (args.data, args.without_data) if folder]
    data = [file for folder in folders for file in prepared_files(folder)]
    return [args.src, args.ref, *models, *data]
