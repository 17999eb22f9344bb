"""Measure how much context raises the probability of the reference (CXMI).

Conditional cross-mutual information (Fernandes et al. 2021) is a difference of two
log-probabilities of the reference: that given source and context, minus that given the source
alone. It is in nats, averaged over sentences. Above 0, context helps.

Both come from the same model, which reads every sentence as a document of its own where it is
to do without context. With --without, the second comes from another model (usually one trained
on sentences). The 95% interval is a bootstrap over documents. --output writes the values of
every sentence.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtrans.cli.shared.model_options import add_model_files, add_scoring, check_scoring
from gtrans.data.documents import read_parallel
from gtrans.errors import GtransError
from gtrans.evaluation.cxmi import Cxmi, Sentence, corpus_cxmi
from gtrans.identity.files import atomic_writer, check_output
from gtrans.messages import json_text

if TYPE_CHECKING:
    from gtrans.decoding.force_decode import EncodedDocument

EXAMPLE = (
    "gtrans cxmi --path checkpoints/checkpoint_best.pt --data data-bin "
    "--src corpus/test.en --ref corpus/test.de --output cxmi.tsv"
)
COLUMNS = ("document", "sentence", "tokens", "with_context", "without_context", "cxmi")


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
        help="write one line per sentence: JSON if FILE ends in .jsonl, otherwise values "
        "separated by tabs",
    )
    parser.add_argument(
        "--context",
        type=int,
        metavar="N",
        help="give each sentence only the N sentences before it as context (default: all that "
        "the model's unit contains)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="random seed of the bootstrap (default: %(default)s)",
    )
    add_scoring(parser)


def run(args: argparse.Namespace) -> None:
    """Print the corpus's CXMI and write that of its sentences.

    Raises:
        GtransError: a file, a checkpoint or the data folder is missing or damaged, they do
            not fit each other, or an option has an impossible value.
    """
    check_scoring(args)
    if args.context is not None and args.context < 1:
        raise GtransError(f"`--context` must be at least 1, but is {args.context}.")
    if args.without_data is not None and args.without is None:
        raise GtransError("`--without-data` is the folder of `--without`, which is missing.")
    if args.output:
        check_output("--output", args.output, _inputs(args))
    text = read_parallel(args.src, args.ref)

    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.decoding.loading import load_models, split_paths
    from gtrans.text.prepared_folder import load_pipeline

    def loaded(paths: str, data: str | None) -> tuple[list[Any], Any, list[EncodedDocument]]:
        models, task = load_models(split_paths(paths), data, cpu=args.cpu, fp16=args.fp16)
        source, target = (
            task.source_encoder(),
            load_pipeline(task.data_folder, task.cfg.target_lang),
        )
        documents: list[EncodedDocument] = [
            ([source.encode(sentence) for sentence in one], [target.encode(s) for s in other])
            for one, other in text
        ]
        return models, task, documents

    models, task, documents = loaded(args.path, args.data)
    plain = [document[0] for document in text]
    found = log_probabilities(models, task, documents, plain, args.context, args.max_tokens)
    bare = models, task, documents
    if args.without is not None:
        bare = loaded(args.without, args.without_data or args.data)
    alone: list[EncodedDocument] = [
        ([source], [target])
        for document in bare[2]
        for source, target in zip(*document, strict=True)
    ]
    sentence = [[source] for document in plain for source in document]
    without = iter(log_probabilities(*bare[:2], alone, sentence, None, args.max_tokens))
    sentences = [
        Sentence(number, place, len(target.split()) + 1, score, next(without)[0])
        for number, (document, scores) in enumerate(zip(documents, found, strict=True), start=1)
        for place, (target, score) in enumerate(zip(document[1], scores, strict=True), start=1)
    ]
    if args.output:
        write(args.output, sentences)
    result = corpus_cxmi(sentences, args.seed)
    if args.json:
        print(json_text({**asdict(result), "unit": str(task.cfg.unit)}))
    else:
        print(line(result))


def _inputs(args: argparse.Namespace) -> list[str | Path]:
    """The files that the command reads."""
    from gtrans.text.prepared_folder import prepared_files

    models = [path for paths in (args.path, args.without) if paths for path in paths.split(":")]
    folders = [folder for folder in (args.data, args.without_data) if folder]
    data = [file for folder in folders for file in prepared_files(folder)]
    return [args.src, args.ref, *models, *data]


def log_probabilities(
    models: list[Any],
    task: Any,
    documents: Sequence[EncodedDocument],
    plain: Sequence[Sequence[str]],
    context: int | None,
    max_tokens: int,
) -> list[list[float]]:
    """Log-probability of every sentence of every document, given its context.

    Args:
        models: one model, or an ensemble.
        task: their task.
        documents: source and target, encoded.
        plain: their source sentences as plain text.
        context: most sentences before a sentence that are read; None: as many as the unit
            reads, a document unit being cut as for training.
        max_tokens: see :func:`gtrans.decoding.force_decode.score_documents`.
    """
    from gtrans.decoding.force_decode import score_documents

    if context is None:
        return score_documents(
            models, task, documents, plain=plain, whole=False, max_tokens=max_tokens,
            progress="documents",
        )  # fmt: skip
    parts: list[EncodedDocument] = []
    texts: list[Sequence[str]] = []
    first: list[int] = []
    for (source, target), text in zip(documents, plain, strict=True):
        for end in range(1, len(source) + 1):
            begin = max(end - 1 - context, 0)
            parts.append((source[begin:end], target[begin:end]))
            texts.append(text[begin:end])
            first.append(end - 1 - begin)
    scores = iter(
        score_documents(
            models,
            task,
            parts,
            first=first,
            plain=texts,
            max_tokens=max_tokens,
            progress="sentences",
        )
    )
    return [[next(scores)[0] for _ in source] for source, _ in documents]


def write(path: str, sentences: Sequence[Sentence]) -> None:
    """A line per sentence with :data:`COLUMNS`; JSON objects where ``path`` ends in .jsonl."""
    with atomic_writer(path) as file:
        if not path.endswith(".jsonl"):
            file.write("\t".join(COLUMNS) + "\n")
        for sentence in sentences:
            values = {column: getattr(sentence, column) for column in COLUMNS}
            if path.endswith(".jsonl"):
                file.write(json.dumps(values) + "\n")
            else:
                file.write("\t".join(map(_cell, values.values())) + "\n")


def line(result: Cxmi) -> str:
    """The result as text."""
    low, high = result.interval
    return (
        f"CXMI {result.value:.4f} nats per sentence (95% interval {low:.4f} to {high:.4f}, "
        f"{result.resampled} resampled), {result.per_token:.5f} per token; "
        f"{result.sentences} sentences, {result.documents} documents"
    )


def _cell(value: float) -> str:
    return f"{value:.6f}" if isinstance(value, float) else str(value)
