"""Documents that one of the files of ``gtrans score`` lacks: named, or left out of all files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gtrans.errors import GtransError
from gtrans.evaluation.boundaries import tokens_of
from gtrans.evaluation.score_files import PlainLines, ScoreFile, ScoreFiles, all_missing, by_lines

COMMON = "--common-documents"


def common_documents(files: ScoreFiles) -> tuple[ScoreFiles, list[str]]:
    """The files without the documents that one of them lacks, and notes that name these.

    Documents of plain text have no ids: they are told apart by their numbers of sentences.

    Raises:
        GtransError: no document is common, or it cannot be told which ones are.
    """
    main = files.main
    notes: list[str] = []
    kept = set(range(len(main.sizes)))
    places: dict[str, dict[int, int]] = {}
    for key, file in files.by_key().items():
        places[key] = _places_of_documents(file, main)
        kept &= places[key].keys()
        notes += _notes_of_documents(file, main, places[key])
    if not kept:
        raise GtransError(f"no document is in all files; {COMMON} leaves nothing to score")
    if not notes:
        return files, []
    chosen = {}
    for key, file in files.by_key().items():
        chosen[key] = _with_documents(file, main, [places[key][number] for number in sorted(kept)])
    return files.replaced(chosen), list(dict.fromkeys(notes))


def _notes_of_documents(file: ScoreFile, main: ScoreFile, places: Mapping[int, int]) -> list[str]:
    """Which documents one of two files lacks."""
    names, own_names = _names_of_documents(main), _names_of_documents(file)
    lacking = [name for number, name in enumerate(names) if number not in places]
    more = [name for place, name in enumerate(own_names) if place not in places.values()]
    if main.ids is not None:
        documents = main.ids.documents
        lacking = [name for name in lacking if not all_missing(documents[name])]
        more = [name for name in more if name not in main.ids.others]
    notes = []
    for path, other, missing in ((file.path, main.path, lacking), (main.path, file.path, more)):
        if missing:
            notes.append(
                f"{path} lacks {_some(len(missing), 'document')} of {other}, which no score "
                f"counts: {_listed(missing)}"
            )
    return notes


def _names_of_documents(file: ScoreFile) -> list[str]:
    """The ids of documents; of plain text their numbers and first lines."""
    if file.ids is not None:
        return list(file.ids.documents)
    names = []
    begin = 0
    for number, size in enumerate(file.sizes, start=1):
        names.append(f"no. {number} ({file.path}:{file.plain.places[begin]})")
        begin += size
    return names


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _places_of_documents(file: ScoreFile, main: ScoreFile) -> dict[int, int]:
    """The place in a file of each document that it has, by the document's number in the main file.

    Raises:
        GtransError: the documents of plain text cannot be told apart by their sizes.
    """
    if file.ids is not None and main.ids is not None:
        where = {name: place for place, name in enumerate(file.ids.documents)}
        return {
            number: where[name] for number, name in enumerate(main.ids.documents) if name in where
        }
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
    """The place of each document that plain text has; empty: it cannot be told.

    Documents belong together if they have the same number of sentences and no other order is
    possible; where several are possible, by the words that they share.
    """
    by_size = _only_order(file.sizes, main.sizes)
    if by_size is not None:
        return by_size
    places: dict[int, int] = {}
    for place, document in enumerate(file.plain.documents):
        alike = {}
        for number, other in enumerate(main.plain.documents):
            if len(other) == len(document):
                alike[number] = _shared_words(document, other)
        if not alike:
            continue
        best = max(alike, key=lambda number: alike[number])
        is_unclear = alike[best] == 0 or list(alike.values()).count(alike[best]) > 1
        if is_unclear or best <= max(places, default=-1):
            return {}
        places[best] = place
    return places


def _only_order(sizes: Sequence[int], main_sizes: Sequence[int]) -> dict[int, int] | None:
    """The only way to leave documents of the longer file out, so that the sizes are the same.

    Returns:
        the place of each document by its number in the main file; None: there are several ways, or
        none.
    """
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
    """The first places of values that are the wanted ones in their order; None: there are none."""
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
    """The share of different words of two documents that are in both."""
    words = set(tokens_of(" ".join(document)))
    others = set(tokens_of(" ".join(other)))
    shared = len(words & others)
    return shared / max(1, len(words | others))


def _with_documents(file: ScoreFile, main: ScoreFile, places: Sequence[int]) -> ScoreFile:
    """A file with these of its documents alone."""
    if file.ids is not None:
        names = list(file.ids.documents)
        documents = {}
        for place in places:
            documents[names[place]] = file.ids.documents[names[place]]
        known = file.ids.others | file.ids.documents.keys()
        ids = replace(file.ids, documents=documents, others=known - documents.keys())
        return replace(file, ids=ids)
    texts = by_lines(file, main) or file.plain.documents
    plain = _plain_of([texts[place] for place in places])
    return replace(file, plain=plain)


def _plain_of(documents: Sequence[Sequence[str]]) -> PlainLines:
    """Plain text of documents, as if a file held them with an empty line between them."""
    lines = [""]
    for document in documents:
        lines += [*document, ""]
    sentences = {number: line for number, line in enumerate(lines) if line}
    return PlainLines(lines[1:-1], sentences, [list(document) for document in documents])


def lacking_documents(file: ScoreFile, main: ScoreFile) -> GtransError | None:
    """The error for plain text that has the documents of the other file but for some."""
    if len(file.sizes) == len(main.sizes) or 1 in (len(file.sizes), len(main.sizes)):
        return None
    places = _places_in_plain_text(file, main)
    if not places:
        return None
    shown = "; ".join(_notes_of_documents(file, main, places))
    shown = shown.replace(", which no score counts", "")
    return GtransError(
        f"{shown}; both files need the same documents, or {COMMON} leaves them out of both"
    )
