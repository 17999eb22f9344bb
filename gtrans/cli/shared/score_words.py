"""What a word is, for instances of ``gtrans score``."""

from __future__ import annotations

import argparse
from pathlib import Path

from gtrans.data.instances import split_instances
from gtrans.evaluation.characters import is_written_without_spaces, spaced
from gtrans.evaluation.metrics import Documents, Options
from gtrans.evaluation.scores import Corpus
from gtrans.languages import WITHOUT_SPACES, known_language, language_code


def prepared_languages(data_dir: str) -> tuple[str, str]:
    """Source and target language of a folder made by ``gtrans prepare``, as they are written there.

    Raises:
        GtransError: it was not made so, or not completely.
    """
    from gtrans.text.prepared_folder import read_state

    state = read_state(Path(data_dir))
    return state["source_lang"], state["target_lang"]


def metric_options(args: argparse.Namespace, references: Documents) -> Options:
    """How words are counted: by the target language, that of ``--data`` if none is given.

    Raises:
        GtransError: there is no such language.
    """
    target_lang = ""
    if args.target_lang:
        target_lang = known_language("--target-lang", args.target_lang)
    elif args.data:
        target_lang = language_code(prepared_languages(args.data)[1]) or ""
    without_spaces = target_lang in WITHOUT_SPACES or is_written_without_spaces(references)
    return Options(args.tokenize, target_lang, args.lowercase, without_spaces, args.hyp_tokens)


def instances(args: argparse.Namespace, references: Documents, sources: Documents | None) -> Corpus:
    """The references with their instances, and the name of an instance in signatures."""
    languages = prepared_languages(args.data) if args.data else ("", "")
    target_lengths, counted = _lengths(references, args.data, languages[1])
    source_lengths, units = target_lengths, {counted: None}
    if sources is not None:
        source_lengths, other = _lengths(sources, args.data, languages[0])
        units = {other: None, counted: None}
    unit = f"instance({args.max_doc_tokens},{'+'.join(units)})"
    if sources is None:
        # Other lengths give other instances and another score, so the signature says which.
        unit += "|lengths:ref"
    split = [
        split_instances(source, target, args.max_doc_tokens)
        for source, target in zip(source_lengths, target_lengths, strict=True)
    ]
    return Corpus(references, split, unit)


def _lengths(documents: Documents, data_dir: str | None, lang: str) -> tuple[list[list[int]], str]:
    """Length of every sentence: in BPE tokens with a prepared folder, otherwise in words.

    Where there are no spaces between words, characters are counted.
    """
    if data_dir is not None:
        # Imported on demand: most calls need no pipeline, and sacremoses starts slowly.
        from gtrans.text.prepared_folder import load_pipeline

        encode = load_pipeline(data_dir, lang).encode
        return [[len(encode(line).split()) for line in lines] for lines in documents], "bpe"
    if is_written_without_spaces(documents):
        return [[len(spaced(line).split()) for line in lines] for lines in documents], "characters"
    return [[len(line.split()) for line in lines] for lines in documents], "words"
