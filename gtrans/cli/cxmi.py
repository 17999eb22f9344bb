"""Measure how much context raises the probability of the reference (CXMI).

Conditional cross-mutual information (Fernandes et al. 2021) is the log-probability of the reference
given source and context, minus its log-probability given the source alone: in nats, averaged over
sentences. Above 0, context helps.

Both come from the same model; without context, every sentence is a document of its own. With
--without, the second comes from another model (usually a sentence model). The 95% interval is over
documents. --output writes the values of every sentence.

With --shuffled-context the model also sees every sentence in the context of others, which shows
whether the true one helps more than any other. See docs/context-use.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gtrans.cli.shared.options import (
    add_chunks,
    add_model_files,
    add_scoring,
    add_selection,
    check_chunks,
    check_scoring,
    selection_of,
)
from gtrans.environment import ENGINE
from gtrans.errors import GtransError
from gtrans.evaluation.cxmi import Cxmi, ScoredSentence, corpus_cxmi
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
"""Of ``--output``."""
OWN_FILES = ("\t".join(COLUMNS), '{"document": ')
"""Beginnings of files that this command may replace."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
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
    add_selection(files, ("source", "reference"))
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
    """Print the CXMI of the corpus, and write its sentences'."""
    _check(args)
    documents = read_parallel(args.src, args.ref, selection_of(args))

    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.translating.force_decode import (
        token_scores,
        token_scores_in_shuffled_context,
        token_scores_without_context,
    )

    model = _load(args, args.path, args.data, documents)
    _warn(args, documents, model.task.cfg)
    scores = token_scores(model.models, model.task, model.corpus, args.max_tokens)
    other = model
    if args.without is not None:
        other = _load(args, args.without, args.without_data or args.data, documents)
    without = token_scores_without_context(other.models, other.task, other.corpus, args.max_tokens)
    sentences = _sentences(scores, without)
    result = corpus_cxmi(sentences)
    report = with_schema("cxmi", {**asdict(result), "unit": str(model.task.cfg.unit)})
    rows = []
    for sentence in sentences:
        rows.append({name: getattr(sentence, name) for name in COLUMNS})
    lines = [_summary(result)]
    if args.shuffled_context:
        shuffled_scores = token_scores_in_shuffled_context(
            model.models, model.task, model.corpus, args.max_tokens
        )
        shuffled_sentences = _sentences(shuffled_scores, without)
        shuffled = corpus_cxmi(shuffled_sentences)
        above = corpus_cxmi(_sentences(scores, shuffled_scores))
        report |= {"shuffled_context": asdict(shuffled), "above_shuffled_context": asdict(above)}
        for row, sentence in zip(rows, shuffled_sentences, strict=True):
            row["shuffled_context"] = sentence.with_context
        lines.append(
            f"shuffled context: {shuffled.value:.4f} nats{_interval(shuffled)}; the "
            f"true one has {above.value:.4f} more{_interval(above)}"
        )
    if args.output:
        write_rows(args.output, rows)
    if args.json:
        print(json_text(report))
    else:
        print_lines(*lines)


def _check(args: argparse.Namespace) -> None:
    check_scoring(args)
    check_chunks(args)
    if args.context is not None:
        for flag, value in (
            ("--max-doc-tokens", args.max_doc_tokens),
            ("--overlap", args.overlap),
        ):
            if value:
                raise GtransError(
                    f"`{flag} {value}` cuts documents, but with `--context {args.context}` every "
                    "sentence is scored with the sentences before it; leave one of them out."
                )
    if args.without_data is not None and args.without is None:
        raise GtransError("`--without-data` is the folder of `--without`, which is missing.")
    if args.output:
        check_output("--output", args.output, _inputs(args))
        check_replaceable("--output", args.output, _is_own_file, args.force)


def _is_own_file(path: Path) -> bool:
    return begins_with(path, *OWN_FILES)


class _LoadedModel(NamedTuple):
    """An ensemble, its task, and the corpus in its subwords."""

    models: list[Any]
    task: Any
    corpus: ScoredCorpus


def _load(
    args: argparse.Namespace,
    paths: str,
    data: str | None,
    documents: Sequence[tuple[list[str], list[str]]],
) -> _LoadedModel:
    from gtrans.search.options import split_paths
    from gtrans.translating.force_decode import CorpusSide, ScoredCorpus
    from gtrans.translating.loading import load_models, set_chunks

    models, task = load_models(split_paths(paths), data, cpu=args.cpu, fp16=args.fp16)
    set_chunks(task, args.max_doc_tokens, args.overlap)
    source = CorpusSide(task.source_encoder(), [source for source, _ in documents])
    pipeline = task.pipeline(str(task.cfg.target_lang))
    target = CorpusSide(pipeline, [target for _, target in documents])
    return _LoadedModel(models, task, ScoredCorpus(source, target, args.context))


def _warn(
    args: argparse.Namespace,
    documents: Sequence[tuple[list[str], list[str]]],
    cfg: Any,
) -> None:
    sources = [source for source, _ in documents]
    targets = [target for _, target in documents]
    source = TextSample.of(str(args.src), str(cfg.source_lang), sources)
    target = TextSample.of(str(args.ref), str(cfg.target_lang), targets)
    for warning in implausible(source, target, plain=False):
        print_message(f"warning: {warning}")


def _sentences(
    scores: Sequence[Sequence[Tensor]],
    without: Sequence[Sequence[Tensor]],
) -> list[ScoredSentence]:
    sentences = []
    for document, pair in enumerate(zip(scores, without, strict=True), start=1):
        for number, (tokens, other_tokens) in enumerate(zip(*pair, strict=True), start=1):
            sentence = ScoredSentence(
                document,
                number,
                tokens=len(tokens),
                with_context=float(tokens[:, 0].sum()),
                without_context=float(other_tokens[:, 0].sum()),
            )
            sentences.append(sentence)
    return sentences


def _summary(result: Cxmi) -> str:
    interval = _interval(result, "95% interval ", f", {result.resampled} resampled")
    return (
        f"CXMI {result.value:.4f} nats, mean over sentences{interval}; "
        f"{result.per_token:.5f} per token; {result.sentences} sentences, {result.documents} "
        "documents"
    )


def _interval(result: Cxmi, before: str = "", behind: str = "") -> str:
    if result.interval is None:
        return ""
    low, high = result.interval
    return f" ({before}{low:.4f} to {high:.4f}{behind})"


def _inputs(args: argparse.Namespace) -> list[str | Path]:
    from gtrans.text.prepared_folder import prepared_files

    inputs: list[str | Path] = [args.src, args.ref]
    for paths in (args.path, args.without):
        if paths:
            inputs += paths.split(":")
    for folder in (args.data, args.without_data):
        if folder:
            inputs += prepared_files(folder)
    return inputs
