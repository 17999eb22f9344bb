"""Find documents that one of the files of ``gtrans score`` lacks, and leave them out of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gtrans.errors import GtransError
from gtrans.evaluation.boundaries import tokens_of
from gtrans.evaluation.score_files import PlainLines, ScoreFile, ScoreFiles, all_missing, by_lines

COMMON = "--common-documents"
DocumentNumbers = dict[int, int]
"""The number in a file of each document of the main file that it has; both from 0."""


def common_documents(files: ScoreFiles) -> tuple[ScoreFiles, list[str]]:
    """Return the files with their common documents, and notes that name the others.

    Numbers of sentences, or words, tell documents of plain text apart.
    """
    main = files.main
    notes: list[str] = []
    common = set(range(len(main.sizes)))
    numbers_by_key: dict[str, DocumentNumbers] = {}
    for key, file in files.by_key().items():
        numbers = _numbers_in(file, main)
        numbers_by_key[key] = numbers
        common &= numbers.keys()
        notes += _lacking_notes(file, main, numbers)
    if not common:
        raise GtransError(f"no document is in all files; {COMMON} leaves nothing to score")
    if not notes:
        return files, []
    reduced = {}
    for key, file in files.by_key().items():
        numbers = numbers_by_key[key]
        kept = [numbers[number] for number in sorted(common)]
        reduced[key] = _with_documents(file, main, kept)
    return files.replaced(reduced), list(dict.fromkeys(notes))


def _lacking_notes(
    file: ScoreFile,
    main: ScoreFile,
    numbers: DocumentNumbers,
) -> list[str]:
    notes = []
    only_main = []
    for number, name in enumerate(_names_of_documents(main)):
        if number in numbers:
            continue
        if main.ids is None or not all_missing(main.ids.documents[name]):
            only_main.append(name)
    if only_main:
        notes.append(_lacking_note(file.path, main.path, only_main))
    only_file = []
    ignored = frozenset[str]() if main.ids is None else main.ids.others
    matched = set(numbers.values())
    for number, name in enumerate(_names_of_documents(file)):
        if number not in matched and name not in ignored:
            only_file.append(name)
    if only_file:
        notes.append(_lacking_note(main.path, file.path, only_file))
    return notes


def _lacking_note(path: str, other: str, names: Sequence[str]) -> str:
    count = "1 document" if len(names) == 1 else f"{len(names)} documents"
    shown = ", ".join(names[:3])
    if len(names) > 3:
        shown += f" and {len(names) - 3} more"
    return f"{path} lacks {count} of {other}, which no score counts: {shown}"


def _names_of_documents(file: ScoreFile) -> list[str]:
    if file.ids is not None:
        return list(file.ids.documents)
    names = []
    lines = file.plain.places
    first_sentence = 0
    for number, size in enumerate(file.sizes, start=1):
        names.append(f"no. {number} ({file.path}:{lines[first_sentence]})")
        first_sentence += size
    return names


def _numbers_in(file: ScoreFile, main: ScoreFile) -> DocumentNumbers:
    if file.ids is not None and main.ids is not None:
        return _numbers_by_ids(list(file.ids.documents), list(main.ids.documents))
    count = len(main.sizes)
    has_same_lines = file.ids is None and by_lines(file, main) is not None
    if has_same_lines or len(file.sizes) == count:
        return {number: number for number in range(count)}
    numbers = _numbers_in_plain_text(file, main)
    if not numbers:
        raise GtransError(
            f"{file.path} has {len(file.sizes)} documents, but {main.path} has {len(main.sizes)}, "
            "and neither their numbers of sentences nor their words tell which one is missing; "
            "give both with ids of their documents"
        )
    return numbers


def _numbers_by_ids(ids: Sequence[str], main_ids: Sequence[str]) -> DocumentNumbers:
    own_numbers = {name: number for number, name in enumerate(ids)}
    numbers = {}
    for number, name in enumerate(main_ids):
        if name in own_numbers:
            numbers[number] = own_numbers[name]
    return numbers


def _numbers_in_plain_text(file: ScoreFile, main: ScoreFile) -> DocumentNumbers:
    """Match documents by sizes if only one order fits, else by words; empty: neither is certain."""
    by_size = _only_order(file.sizes, main.sizes)
    if by_size is not None:
        return by_size
    numbers: DocumentNumbers = {}
    for own_number, document in enumerate(file.plain.documents):
        shares = _shares_of_words(document, main.plain.documents)
        if not shares:
            continue
        largest = max(shares.values())
        candidates = [number for number, share in shares.items() if share == largest]
        if largest == 0 or len(candidates) > 1:
            return {}
        best = candidates[0]
        is_in_order = best > max(numbers, default=-1)
        if not is_in_order:
            return {}
        numbers[best] = own_number
    return numbers


def _shares_of_words(
    document: Sequence[str],
    others: Sequence[Sequence[str]],
) -> dict[int, float]:
    shares = {}
    for number, other in enumerate(others):
        if len(other) == len(document):
            shares[number] = _shared_words(document, other)
    return shares


def _only_order(sizes: Sequence[int], main_sizes: Sequence[int]) -> DocumentNumbers | None:
    """Match documents by their sizes in order; None unless exactly one way fits."""
    if len(sizes) > len(main_sizes):
        own_numbers = _only_subsequence(main_sizes, sizes)
        return None if own_numbers is None else dict(enumerate(own_numbers))
    main_numbers = _only_subsequence(sizes, main_sizes)
    if main_numbers is None:
        return None
    return {number: own_number for own_number, number in enumerate(main_numbers)}


def _only_subsequence(wanted: Sequence[int], values: Sequence[int]) -> list[int] | None:
    """Return the places of the wanted values in order; None unless exactly one way fits."""
    first = _first_subsequence(wanted, values)
    backwards = _first_subsequence(wanted[::-1], values[::-1])
    if first is None or backwards is None:
        return None
    end = len(values) - 1
    last = [end - place for place in reversed(backwards)]
    return first if first == last else None


def _first_subsequence(wanted: Sequence[int], values: Sequence[int]) -> list[int] | None:
    places: list[int] = []
    for place, value in enumerate(values):
        if len(places) == len(wanted):
            break
        if value == wanted[len(places)]:
            places.append(place)
    return places if len(places) == len(wanted) else None


def _shared_words(document: Sequence[str], other: Sequence[str]) -> float:
    words = _words_of(document)
    other_words = _words_of(other)
    shared = len(words & other_words)
    return shared / max(1, len(words | other_words))


def _words_of(document: Sequence[str]) -> set[str]:
    text = " ".join(document)
    return set(tokens_of(text))


def _with_documents(file: ScoreFile, main: ScoreFile, numbers: Sequence[int]) -> ScoreFile:
    if file.ids is not None:
        names = list(file.ids.documents)
        documents = {}
        for number in numbers:
            name = names[number]
            documents[name] = file.ids.documents[name]
        all_names = file.ids.others | file.ids.documents.keys()
        others = all_names - documents.keys()
        ids = replace(file.ids, documents=documents, others=others)
        return replace(file, ids=ids)
    texts = by_lines(file, main) or file.plain.documents
    kept = [texts[number] for number in numbers]
    return replace(file, plain=_plain_of(kept))


def _plain_of(documents: Sequence[Sequence[str]]) -> PlainLines:
    lines = [""]
    for document in documents:
        lines += [*document, ""]
    sentences = {number: line for number, line in enumerate(lines) if line}
    return PlainLines(lines[1:-1], sentences, list(map(list, documents)))


def lacking_documents(file: ScoreFile, main: ScoreFile) -> GtransError | None:
    """Return an error if plain text lacks documents of the other file."""
    counts = {len(file.sizes), len(main.sizes)}
    if len(counts) == 1 or 1 in counts:
        return None
    numbers = _numbers_in_plain_text(file, main)
    if not numbers:
        return None
    shown = "; ".join(_lacking_notes(file, main, numbers))
    shown = shown.replace(", which no score counts", "")
    return GtransError(
        f"{shown}; both files need the same documents, or {COMMON} leaves them out of both"
    )
