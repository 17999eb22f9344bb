"""Find documents that one of the files of ``gtrans score`` lacks, and leave them out of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gtrans.errors import GtransError
from gtrans.evaluation.boundaries import tokens_of
from gtrans.evaluation.score_files import PlainLines, ScoreFile, ScoreFiles, all_missing, by_lines

COMMON = "--common-documents"


def common_documents(files: ScoreFiles) -> tuple[ScoreFiles, list[str]]:
    """Return the files with their common documents, and notes that name the others.

    Numbers of sentences, or words, tell documents of plain text apart.
    """
    main = files.main
    notes: list[str] = []
    common = set(range(len(main.sizes)))
    places: dict[str, dict[int, int]] = {}
    for key, file in files.by_key().items():
        places[key] = _places_of_documents(file, main)
        common &= places[key].keys()
        notes += _lacking_notes(file, main, places[key])
    if not common:
        raise GtransError(f"no document is in all files; {COMMON} leaves nothing to score")
    if not notes:
        return files, []
    reduced = {}
    for key, file in files.by_key().items():
        kept = [places[key][number] for number in sorted(common)]
        reduced[key] = _with_documents(file, main, kept)
    return files.replaced(reduced), list(dict.fromkeys(notes))


def _lacking_notes(
    file: ScoreFile,
    main: ScoreFile,
    places: Mapping[int, int],
) -> list[str]:
    only_main = []
    for number, name in enumerate(_names_of_documents(main)):
        is_scored = main.ids is None or not all_missing(main.ids.documents[name])
        if number not in places and is_scored:
            only_main.append(name)
    ignored = frozenset[str]() if main.ids is None else main.ids.others
    matched = set(places.values())
    only_file = []
    for place, name in enumerate(_names_of_documents(file)):
        if place not in matched and name not in ignored:
            only_file.append(name)
    notes = []
    if only_main:
        notes.append(_lacking_note(file.path, main.path, only_main))
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
    first = 0
    for number, size in enumerate(file.sizes, start=1):
        names.append(f"no. {number} ({file.path}:{file.plain.places[first]})")
        first += size
    return names


def _places_of_documents(file: ScoreFile, main: ScoreFile) -> dict[int, int]:
    """Map the number of a document in the main file to its number in ``file``."""
    places: dict[int, int] = {}
    if file.ids is not None and main.ids is not None:
        own_numbers = {name: number for number, name in enumerate(file.ids.documents)}
        for number, name in enumerate(main.ids.documents):
            if name in own_numbers:
                places[number] = own_numbers[name]
        return places
    same_lines = file.ids is None and by_lines(file, main) is not None
    if same_lines or len(file.sizes) == len(main.sizes):
        return {number: number for number in range(len(main.sizes))}
    places = _places_in_plain_text(file, main)
    if not places:
        raise GtransError(
            f"{file.path} has {len(file.sizes)} documents, but {main.path} has {len(main.sizes)}, "
            "and neither their numbers of sentences nor their words tell which one is missing; "
            "give both with ids of their documents"
        )
    return places


def _places_in_plain_text(file: ScoreFile, main: ScoreFile) -> dict[int, int]:
    """Map numbers by sizes if only one order fits, else by words; empty: neither is certain."""
    by_size = _only_order(file.sizes, main.sizes)
    if by_size is not None:
        return by_size
    places: dict[int, int] = {}
    for place, document in enumerate(file.plain.documents):
        shares = {}
        for number, other in enumerate(main.plain.documents):
            if len(other) == len(document):
                shares[number] = _shared_words(document, other)
        if not shares:
            continue
        largest = max(shares.values())
        candidates = [number for number, share in shares.items() if share == largest]
        if largest == 0 or len(candidates) > 1:
            return {}
        best = candidates[0]
        is_in_order = best > max(places, default=-1)
        if not is_in_order:
            return {}
        places[best] = place
    return places


def _only_order(sizes: Sequence[int], main_sizes: Sequence[int]) -> dict[int, int] | None:
    """Map a number in ``main_sizes`` to one in ``sizes``; None unless one way fits."""
    is_longer = len(sizes) > len(main_sizes)
    short, long = sizes, main_sizes
    if is_longer:
        short, long = main_sizes, sizes
    first = _subsequence(short, long)
    backwards = _subsequence(short[::-1], long[::-1])
    if first is None or backwards is None:
        return None
    last = [len(long) - 1 - place for place in reversed(backwards)]
    if first != last:
        return None
    if is_longer:
        return dict(enumerate(first))
    return {number: place for place, number in enumerate(first)}


def _subsequence(wanted: Sequence[int], values: Sequence[int]) -> list[int] | None:
    """Return the first places of the wanted values in order, or None."""
    places: list[int] = []
    for place, value in enumerate(values):
        if len(places) == len(wanted):
            break
        if value == wanted[len(places)]:
            places.append(place)
    if len(places) < len(wanted):
        return None
    return places


def _shared_words(document: Sequence[str], other: Sequence[str]) -> float:
    words = set(tokens_of(" ".join(document)))
    others = set(tokens_of(" ".join(other)))
    shared = len(words & others)
    return shared / max(1, len(words | others))


def _with_documents(file: ScoreFile, main: ScoreFile, places: Sequence[int]) -> ScoreFile:
    if file.ids is not None:
        names = list(file.ids.documents)
        documents = {}
        for place in places:
            name = names[place]
            documents[name] = file.ids.documents[name]
        all_names = file.ids.others | file.ids.documents.keys()
        others = all_names - documents.keys()
        ids = replace(file.ids, documents=documents, others=others)
        return replace(file, ids=ids)
    texts = by_lines(file, main) or file.plain.documents
    kept = [texts[place] for place in places]
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
    places = _places_in_plain_text(file, main)
    if not places:
        return None
    shown = "; ".join(_lacking_notes(file, main, places))
    shown = shown.replace(", which no score counts", "")
    return GtransError(
        f"{shown}; both files need the same documents, or {COMMON} leaves them out of both"
    )
