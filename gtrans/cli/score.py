"""Score translated documents: s-BLEU, d-BLEU and chrF with full signatures.

The empty lines of the reference (or its lines "<d>") define the documents. The
hypothesis has the same lines; an empty line where the reference has a sentence is an
empty translation. A hypothesis without any boundary is taken by the reference's, if it
has as many sentences. Gzipped files are unpacked.

d-BLEU is given over whole documents, and over instances: consecutive sentences of a
document up to --max-doc-tokens, as the document model reads them. See docs/evaluation.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gtrans.data.documents import read_documents, read_parallel
from gtrans.data.instances import split_instances
from gtrans.errors import GtransError
from gtrans.evaluation.hypotheses import read_hypotheses
from gtrans.evaluation.scores import METRICS, TOKENIZERS, Options, score_documents

EXAMPLE = "gtrans score --hyp out.de --ref test.de --src test.en --data data-bin"

MIN_DOC_TOKENS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans score``."""
    files = parser.add_argument_group("files")
    files.add_argument("--hyp", required=True, metavar="FILE", help="the translation")
    files.add_argument("--ref", required=True, metavar="FILE", help="the reference")
    files.add_argument(
        "--src",
        metavar="FILE",
        help="the source; a sentence's length in an instance is then the longer side's",
    )
    text = parser.add_argument_group("tokeniser and case")
    text.add_argument(
        "--target-lang",
        default="",
        metavar="LANG",
        help="use the BLEU tokeniser that sacreBLEU recommends for this language "
        "(zh, ja, ko; otherwise 13a)",
    )
    text.add_argument(
        "--tokenize",
        choices=TOKENIZERS,
        metavar="NAME",
        help=f"BLEU tokeniser, whatever the language: {', '.join(TOKENIZERS)} "
        "(default: that of --target-lang)",
    )
    text.add_argument("--lowercase", action="store_true", help="ignore case (default: mixed)")
    unit = parser.add_argument_group("instances")
    unit.add_argument(
        "--max-doc-tokens",
        type=int,
        default=512,
        metavar="N",
        help="longest instance in tokens, two marks per sentence included (default: %(default)s)",
    )
    unit.add_argument(
        "--data",
        metavar="DIR",
        help="folder made by 'gtrans prepare': count BPE tokens of its pipeline "
        "(default: count words)",
    )
    parser.add_argument("--json", action="store_true", help="write JSON to standard output")


def run(args: argparse.Namespace) -> None:
    """Print the scores.

    Raises:
        GtransError: a file is missing, is not UTF-8 or does not match the reference, or
            an option has an impossible value.
    """
    if args.max_doc_tokens < MIN_DOC_TOKENS:
        raise GtransError(
            f"--max-doc-tokens must be at least {MIN_DOC_TOKENS}, but is {args.max_doc_tokens}"
        )
    references = read_documents(args.ref)
    hypotheses = read_hypotheses(args.hyp, args.ref)
    sources = None
    if args.src:
        sources = [source for source, _ in read_parallel(args.src, args.ref)]
    instances, instance_unit = _instances(args, references, sources)
    scores = score_documents(
        hypotheses,
        references,
        instances,
        instance_unit=instance_unit,
        options=Options(args.tokenize, args.target_lang, args.lowercase),
    )
    counts = {
        "sentences": sum(map(len, references)),
        "documents": len(references),
        "instances": sum(map(len, instances)),
    }
    if args.json:
        report: dict[str, Any] = {
            key: {"score": score.value, "signature": score.signature}
            for key, score in scores.items()
        }
        print(json.dumps(report | counts, indent=2))
        return
    width = max(len(spec.label) for spec in METRICS.values())
    for key, score in scores.items():
        print(f"{METRICS[key].label:<{width}}  {score.value:6.2f}  {score.signature}")
    print(", ".join(f"{count} {name}" for name, count in counts.items()))


def _instances(
    args: argparse.Namespace, references: list[list[str]], sources: list[list[str]] | None
) -> tuple[list[list[range]], str]:
    """The instances of every document, and how a signature names them."""
    counted_in = "bpe" if args.data else "words"
    unit = f"instance({args.max_doc_tokens},{counted_in})"
    if sources is None:
        # Other lengths give other instances, hence another score: the signature tells.
        unit += "|lengths:ref"
    source_lang, target_lang = _languages(args.data) if args.data else ("", "")
    target_lengths = _lengths(references, args.data, target_lang)
    source_lengths = (
        target_lengths if sources is None else _lengths(sources, args.data, source_lang)
    )
    instances = [
        split_instances(source, target, args.max_doc_tokens)
        for source, target in zip(source_lengths, target_lengths, strict=True)
    ]
    return instances, unit


def _languages(data_dir: str) -> tuple[str, str]:
    """Source and target language of a folder made by ``gtrans prepare``.

    Raises:
        GtransError: it was not made so, or not completely.
    """
    from gtrans.data.text_pipeline import STATE_FILE, read_state

    state = read_state(Path(data_dir))
    try:
        return str(state["source_lang"]), str(state["target_lang"])
    except KeyError as error:
        path = Path(data_dir) / STATE_FILE
        raise GtransError(f"'{path}' is damaged: no {error}; prepare the data anew") from None


def _lengths(documents: list[list[str]], data_dir: str | None, lang: str) -> list[list[int]]:
    """Tokens per sentence: BPE tokens with a prepared folder, otherwise words."""
    if data_dir is None:
        return [[len(sentence.split()) for sentence in document] for document in documents]
    # Imported on demand: most calls need no pipeline, and sacremoses starts slowly.
    from gtrans.data.text_pipeline import load_pipeline

    pipeline = load_pipeline(data_dir, lang)
    return [
        [len(pipeline.encode(sentence).split()) for sentence in document] for document in documents
    ]
