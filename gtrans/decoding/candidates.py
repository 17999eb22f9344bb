"""Chooses among given translations of sentences, by the score of the document."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from gtrans.data.documents import STANDARD_STREAM, iterate_raw_lines
from gtrans.decoding.force_decode import score_tokens
from gtrans.decoding.options import DecodingOptions
from gtrans.decoding.translation import (
    Job,
    Text,
    check_output_file,
    counted,
    is_kept,
    made_from,
    names_of,
)
from gtrans.decoding.translator import Alternative, Translator
from gtrans.errors import GtransError
from gtrans.files import fingerprint, locked, parse_json
from gtrans.messages import say
from gtrans.text.pipeline import TextPipeline
from gtrans.text.prepared_folder import load_pipeline


def choose_candidates(options: DecodingOptions, candidates: str, output: str) -> int:
    """Write of each sentence the candidate that the model prefers in its document.

    Args:
        options: models and search.
        candidates: JSON lines with ``source``, ``candidates`` and perhaps ``doc_id``; rows of one
            document stand together.
        output: text with a line for each row and an empty line between documents, or ``-``.

    Returns:
        the number of sentences.

    Raises:
        GtransError: as for :func:`gtrans.decoding.translation.translate`, or a row without source
            or candidates.
    """
    check_output_file(options, output, candidates)
    documents: dict[str, list[tuple[str, list[str]]]] = {}
    for number, line in enumerate(iterate_raw_lines(candidates), start=1):
        row = parse_json(line, f"{candidates}:{number}")
        texts = row.get("candidates") if isinstance(row, dict) else None
        is_text = isinstance(texts, list) and all(isinstance(x, str) and x.strip() for x in texts)
        if not (texts and is_text and str(row.get("source", "")).strip()):
            raise GtransError(
                f"{candidates}:{number}: give a row its 'source' and its 'candidates', a list of "
                "texts."
            )
        documents.setdefault(str(row.get("doc_id", "")), []).append((str(row["source"]), texts))
    sentences = [[source for source, _ in rows] for rows in documents.values()]
    choices = [[texts for _, texts in rows] for rows in documents.values()]
    layout = [None if one else "" for rows in sentences for one in ("", *rows)][1:]
    ids = [(name, ids) for name, (_, ids) in zip(documents, counted(sentences), strict=True)]
    lines = list(range(1, sum(map(len, sentences)) + 1))
    text = Text(candidates, sentences, ids, list(layout), lines)
    translator = Translator.of(options)
    encoded = translator.encoded(sentences)
    made = made_from(encoded, options, translator, text=fingerprint([sentences, ids, choices]))
    job = Job(text, encoded, output, made, names_of(options, candidates, None))
    with locked(output) if is_kept(output) else nullcontext():
        if not options.force and job.is_finished():
            say(f"'{output}' is already this translation; `--force` translates anew")
            return job.sentences
        task = translator.task
        target = load_pipeline(task.data_folder, task.cfg.target_lang)
        pairs = list(zip(sentences, choices, strict=True))
        found = choose(translator.generator.models, task, target, pairs, options)
        job.write([[[Alternative(*one)] for one in of] for of in found], translator, options)
    if output != STANDARD_STREAM:
        say(f"{job.sentences} sentences written to {output}")
    return job.sentences


def choose(
    models: Sequence[Any],
    task: Any,
    target: TextPipeline,
    documents: Sequence[tuple[Sequence[str], Sequence[Sequence[str]]]],
    options: DecodingOptions,
) -> list[list[tuple[str, float]]]:
    """Of each sentence's candidates the one that its document's best translation consists of.

    A document is translated sentence by sentence, with ``search.beam`` translations of those
    before. All candidates of a sentence are scored at once, each behind all of these.

    Args:
        models: one model, or an ensemble.
        task: their task.
        target: encodes the candidates.
        documents: of each its source sentences, and the candidates of each sentence.
        options: those of ``gtrans translate``.

    Returns:
        of each sentence its translation, and the score of that
        (:meth:`gtrans.decoding.options.SearchOptions.score`).
    """
    search, encoder, found = options.search, task.source_encoder(), []
    for plain, candidates in documents:
        source = [encoder.encode(sentence) for sentence in plain]
        spans = task.examples.unit.cut([len(sentence.split()) for sentence in source])
        pieces = [[target.encode(text) for text in texts] for texts in candidates]
        # Of each translation its score, and the numbers and log-probabilities of its candidates.
        beam: list[tuple[float, list[int], list[Tensor]]] = [(0.0, [], [])]
        for place, of_sentence in enumerate(pieces):
            end = next(span.source.stop for span in spans if place in span.current)
            # Sentences behind are read on the source side; of the target any will do.
            behind = [texts[0] for texts in pieces[place + 1 : end]]
            pairs = [(one, number) for one in beam for number in range(len(of_sentence))]
            written = [
                [pieces[at][chosen] for at, chosen in enumerate([*numbers, number])] + behind
                for (_, numbers, _), number in pairs
            ]
            scores = score_tokens(
                models,
                task,
                [(source[:end], texts) for texts in written],
                first=[place] * len(written),
                plain=[plain[:end]] * len(written),
                whole=False,
                max_tokens=options.max_tokens,
            )
            following = []
            for ((_, numbers, before), number), (own, *_) in zip(pairs, scores, strict=True):
                tokens = torch.cat([*before, own])[:, 0].tolist()
                following.append((search.score(tokens), [*numbers, number], [*before, own]))
            beam = sorted(following, key=lambda one: -one[0])[: search.beam]
        _, numbers, scored = beam[0]
        found.append(
            [
                (texts[number], search.score(own[:, 0].tolist()))
                for texts, number, own in zip(candidates, numbers, scored, strict=True)
            ]
        )
    return found
