"""ContraPro: English to German pronouns (Müller, Rios, Voita and Sennrich, WMT 2018).

Three forms are in use:

* ``contrapro.json``, an array of objects with ``document id``, ``segment id`` (from 1), ``src
  segment``, ``ref segment``, ``src pronoun``, ``ref pronoun``, ``ante distance``, and ``errors``,
  each with its ``contrastive`` sentence. The context is in ``DOCUMENTS/YEAR/NAME.LANG``, one
  sentence per line, from ``setup_opensubs.sh`` of its repository.
* the files of its conversion script: ``NAME.text.LANG`` with a line for each candidate,
  ``NAME.context.LANG`` with N lines of context for each.
* ContraCAT's: ``en.txt`` and ``de.txt`` with lines ``context <SEP> sentence``, truecased.

In the last two, the lines of an example follow each other, the right one first. ``groups.tsv``
may say where examples begin: ``first_line``, ``variants``, ``reference_pronoun``,
``antecedent_distance``, which may be empty.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any

from gtrans.data.documents import iterate_raw_lines, resolve
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item, ReadOptions, Sentences
from gtrans.files import parse_json
from gtrans.text.reader import plain_lines

_LANGUAGES = ("en", "de")
_TEXT, _TRANSLATION = ".text.en", ".text.de"
_WRONG_LINES = (2, 3)  # of an example: three where another pronoun may be "er" and "ihn"
_COLUMNS = ["first_line", "variants", "reference_pronoun", "antecedent_distance"]
# Least similarity of a sentence of the set and the line of its document; they differ in the
# tokenisation of some editions.
_MIN_SIMILARITY = 0.6
GENDERS_FILE = "genders.txt"
"""The file of a template of ContraCAT that says which candidates are right."""
_SEPARATOR = "<SEP>"
_FORMS = {
    "er": ("er", "ihn", "ihm", "sein", "seine", "seinen", "seinem", "seiner", "seines"),
    "sie": ("sie", "ihr", "ihre", "ihren", "ihrem", "ihrer", "ihres"),
    "es": ("es",),
}
PRONOUN_OF: dict[str, str] = {}
for _pronoun, _forms in _FORMS.items():
    PRONOUN_OF |= dict.fromkeys(_forms, _pronoun)
GENDERS = {"er": "m", "sie": "f", "es": "n"}
"""Pronouns of the third person singular, and their genders."""


@dataclass(frozen=True)
class _LineGroup:
    start: int
    stop: int
    pronoun: str = ""
    distance: int | None = None


@dataclass(frozen=True)
class _ExampleLines:
    form: str
    sources: list[Sentences]  # of each line, behind its context
    targets: list[Sentences]
    file: Path


def read_contrapro(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """Read all examples of ``contrapro.json``, or of a text form: its folder or its source.

    Phenomena are pairs of pronouns, ``it:er``. Without ``groups.tsv``, the pronoun in which
    candidates differ tells examples apart, and the distance is unknown.
    """
    path = Path(path)
    if not path.exists():
        raise GtransError(f"{path}: there is no such file or folder.")
    folder = path if path.is_dir() else path.parent
    name = path.name.removesuffix(".gz")
    if has_genders(folder):
        raise GtransError(
            f"{folder}: has {GENDERS_FILE}, so it is a template of ContraCAT, whose first line is "
            "not the right one; give `--format contracat`."
        )
    if name == "de.txt" or name.endswith(_TRANSLATION):
        raise GtransError(
            f"{path}: has the translations; give the source next to it, en.txt or NAME{_TEXT}, or "
            "their folder."
        )
    if path.is_dir():
        texts = sorted(path.glob(f"*{_TEXT}*"))
    else:
        texts = [path] if name.endswith(_TEXT) else []
    if len(texts) > 1:
        raise GtransError(f"{path}: must hold one file *{_TEXT}, but holds {len(texts)}.")
    if texts:
        prefix = str(texts[0]).removesuffix(".gz").removesuffix(_TEXT)
        lines = _converted_lines(prefix, options.context)
    elif path.is_dir() or name == "en.txt":
        lines = _truecased_lines(folder)
    else:
        return read_pronoun_json(path, "de", 1, options)
    table = folder / "groups.tsv"
    if table.is_file():
        groups = list(_read_groups(table, len(lines.sources)))
    else:
        groups = list(_find_groups(lines))
    return [_text_item(lines, group, options.context) for group in groups]


def _text_item(lines: _ExampleLines, group: _LineGroup, context: int) -> Item:
    sources = lines.sources[group.start : group.stop]
    candidates = lines.targets[group.start : group.stop]
    texts = [sources[0], *candidates]
    columns = list(zip(*texts, strict=False))
    lengths = {len(text) for text in texts}
    has_one_source = set(sources) == {sources[0]}
    if not has_one_source or len(lengths) > 1 or not all(columns[-1]):
        raise GtransError(
            f"{lines.file}:{group.start + 1}: the lines of an example must have equal sources, as "
            "many sentences as these, and none that is empty but in the context."
        )
    # The context of an example at the beginning of a film is empty.
    full_columns = [column for column in columns if all(column)]
    kept_columns = full_columns[-(context + 1) :]
    source, target, *contrastive = zip(*kept_columns, strict=True)
    wrong_sentences = [wrong[-1] for wrong in contrastive]
    pronoun = pronoun_of(target[-1], wrong_sentences) or group.pronoun
    return Item(
        id=str(group.start + 1),
        phenomenon=f"it:{pronoun}" if pronoun else "it",
        distance=group.distance,
        cue="target",
        source=source,
        target=target,
        contrastive=tuple(contrastive),
        form=lines.form,
    )


def _truecased_lines(folder: Path) -> _ExampleLines:
    files = [resolve(str(folder / lang), "txt") for lang in _LANGUAGES]
    sources, targets = two_sides(*files)
    return _ExampleLines(
        form="truecased",
        sources=separated(sources, folder / "en.txt"),
        targets=separated(targets, folder / "de.txt"),
        file=folder / "de.txt",
    )


def _converted_lines(prefix: str, context: int) -> _ExampleLines:
    files = [resolve(f"{prefix}.text", lang) for lang in _LANGUAGES]
    sources, targets = two_sides(*files)
    lines = _ExampleLines("text", [], [], Path(f"{prefix}.text.de"))
    source_contexts: list[str] = []
    target_contexts: list[str] = []
    size = 0
    if context:
        files = [resolve(f"{prefix}.context", lang) for lang in _LANGUAGES]
        source_contexts, target_contexts = two_sides(*files)
        size = context_size(files[0], len(source_contexts), len(sources), context)
    for number in range(len(sources)):
        stop = (number + 1) * size
        start = stop - context
        lines.sources.append((*source_contexts[start:stop], sources[number]))
        lines.targets.append((*target_contexts[start:stop], targets[number]))
    return lines


def context_size(file: Path | str, context_lines: int, lines: int, context: int) -> int:
    """Return the lines of context per line of a set; GtransError if they are too few or unequal."""
    size, rest = divmod(context_lines, lines) if lines else (0, 1)
    if rest or size < context:
        raise GtransError(
            f"{file}: has {context_lines} lines for the {lines} of the set; `--context` "
            f"{context} needs as many lines for each of them, {context} or more."
        )
    return size


def _read_groups(table: Path, lines: int) -> Iterator[_LineGroup]:
    stop = 0
    for number, row in enumerate(iterate_raw_lines(table), start=1):
        columns = row.split("\t")
        if number == 1 and columns == _COLUMNS:
            continue
        # Lines are stripped, so an empty last column is missing.
        columns += [""] * (len(_COLUMNS) - len(columns))
        first, variants, pronoun, distance = columns[: len(_COLUMNS)]
        follows = first == str(stop + 1)
        are_numbers = variants.isdecimal() and (distance or "0").isdecimal()
        if not follows or not are_numbers:
            raise GtransError(
                f"{table}:{number}: after the heading {', '.join(_COLUMNS)}, an example must begin "
                f"at line {stop + 1} and have a number of lines."
            )
        start = stop
        stop += int(variants)
        yield _LineGroup(start, stop, pronoun, int(distance) if distance else None)
    if stop != lines:
        raise GtransError(f"{table}: ends at line {stop} of the texts, which have {lines}.")


def _find_groups(lines: _ExampleLines) -> Iterator[_LineGroup]:
    """Find the examples without a table.

    The lines of an example have equal sources and contexts, differ in nothing but pronouns, and
    are all different.
    """
    texts = [" ".join(sentences) for sentences in lines.targets]
    start = 0
    while start < len(texts):
        stop = start + 1
        while stop < len(texts) and _belongs(lines.sources, texts, start, stop):
            stop += 1
        right, *wrong = texts[start:stop]
        if len(wrong) not in _WRONG_LINES or not _is_example(right, wrong):
            raise GtransError(
                f"{lines.file}:{start + 1}: lines {start + 1} to {stop} are no example of "
                "ContraPro (a right line and 2 or 3 with the other pronouns), so where examples "
                "begin is unclear; say it in a file groups.tsv in the same folder, or give "
                "contrapro.json."
            )
        yield _LineGroup(start, stop)
        start = stop


def _belongs(sources: Sequence[Sentences], texts: Sequence[str], start: int, line: int) -> bool:
    if sources[line] != sources[start] or texts[line] in texts[start:line]:
        return False
    return _differ_in_pronouns(texts[start], texts[line])


# --- JSON with documents --------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One entry of a JSON array or object.

    ``place`` begins error messages: ``set.json: item 3``; ``name`` is a key, or a number from 1.
    """

    place: str
    name: str
    value: Any

    def error(self, message: str) -> GtransError:
        """Return the exception for a malformed entry."""
        return GtransError(f"{self.place}: {message}")

    def value_of(self, key: str) -> Any:
        """Return the value of ``key``, or None."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def text(self, key: str) -> str:
        """Return the text of ``key``; GtransError if there is none."""
        value = self.value_of(key)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{key!r} must be a text that is not empty, but is {_shown(value)}.")
        return value.strip()

    def number(self, key: str) -> int:
        """Return the integer of ``key``; GtransError if there is none."""
        value = self.value_of(key)
        if type(value) is not int:
            raise self.error(f"{key!r} must be a whole number, but is {_shown(value)}.")
        return value


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 60 else f"{text[:57]}..."


def read_entries(path: str | os.PathLike[str]) -> Iterator[Entry]:
    """Yield the entries of a JSON file, gzipped or not."""
    content = parse_json("\n".join(iterate_raw_lines(path)), str(path))
    if isinstance(content, list):
        numbered = enumerate(content, start=1)
        content = {str(number): value for number, value in numbered}
    if not isinstance(content, dict):
        raise GtransError(f"{path}: must hold a JSON array or object.")
    for name, value in content.items():
        yield Entry(f"{path}: item {name}", name, value)


def read_pronoun_json(
    path: str | os.PathLike[str], target: str, first_segment: int, options: ReadOptions
) -> list[Item]:
    """Read a JSON set with English sources.

    ``first_segment`` is the ``segment id`` of the first sentence of a document. GtransError names a
    malformed example.
    """
    if options.context and options.documents is None:
        raise GtransError(
            f"{path}: its contexts are in separate documents; give their folder "
            "(`--documents`), or `--context 0`."
        )
    return [_json_item(entry, target, first_segment, options) for entry in read_entries(path)]


def _json_item(entry: Entry, target: str, first_segment: int, options: ReadOptions) -> Item:
    source_sentence = entry.text("src segment")
    right_sentence = entry.text("ref segment")
    wrong_sentences = _wrong_sentences(entry)
    distance = _distance(entry)
    before: list[tuple[str, str]] = []
    if options.context and options.documents is not None:
        pairs = _document(entry, target, options.documents)
        number = entry.number("segment id") - first_segment
        if not 0 <= number < len(pairs):
            raise entry.error(
                f"'segment id' is {number + first_segment}, but the document "
                f"{entry.text('document id')} has {len(pairs)} lines."
            )
        _check_line(entry, number, pairs[number][0], source_sentence)
        _check_line(entry, number, pairs[number][1], right_sentence)
        source_sentence, right_sentence = pairs[number]
        first = max(number - options.context, 0)
        before = [pair for pair in pairs[first:number] if all(pair)]
    source_context = tuple(source for source, _ in before)
    target_context = tuple(translation for _, translation in before)
    return Item(
        id=entry.name,
        phenomenon=f"{entry.text('src pronoun')}:{entry.text('ref pronoun')}".lower(),
        distance=distance,
        cue="target",
        source=(*source_context, source_sentence),
        target=(*target_context, right_sentence),
        contrastive=tuple((*target_context, wrong) for wrong in wrong_sentences),
        document=str(entry.value.get("document id") or ""),
    )


def _wrong_sentences(entry: Entry) -> list[str]:
    errors = entry.value.get("errors")
    if isinstance(errors, dict):
        errors = [errors]
    if not isinstance(errors, list) or not errors:
        raise entry.error("'errors' must be a list of at least one wrong translation.")
    sentences = []
    for error in errors:
        wrong = Entry(entry.place, entry.name, error)
        sentences.append(wrong.text("contrastive"))
    return sentences


def _distance(entry: Entry) -> int | None:
    # Null and numbers below 0 mean that it is not known.
    if "ante distance" in entry.value and entry.value["ante distance"] is None:
        return None
    distance = entry.number("ante distance")
    return distance if distance >= 0 else None


def _check_line(entry: Entry, number: int, line: str, text: str) -> None:
    if not _alike(line, text):
        raise entry.error(
            f"line {number + 1} of the document {entry.text('document id')} is "
            f"'{line}', not '{text}'; give the documents of the set."
        )


def _document(entry: Entry, target: str, folder: Path) -> list[tuple[str, str]]:
    name = entry.text("document id")
    stem = name.removesuffix(f".{target}").removesuffix(".en")
    if Path(stem).name != stem:
        raise entry.error(f"'document id' must be the name of a document, but is '{name}'.")
    year = stem.split("_")[0]
    try:
        return _document_lines(str(folder / year / stem), target)
    except GtransError as error:
        raise entry.error(str(error)) from None


@lru_cache(maxsize=64)
def _document_lines(prefix: str, target: str) -> list[tuple[str, str]]:
    files = resolve(prefix, "en"), resolve(prefix, target)
    sources, targets = two_sides(*files, read=iterate_raw_lines)
    return list(zip(sources, targets, strict=True))


def _alike(text: str, other: str) -> bool:
    letters = _letters(text)
    other_letters = _letters(other)
    if letters == other_letters:
        return True
    return SequenceMatcher(None, letters, other_letters).ratio() >= _MIN_SIMILARITY


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


# --- lines of text --------------------------------------------------------------------------------


def has_genders(folder: Path) -> bool:
    """Return whether a folder is a template of ContraCAT."""
    file = folder / GENDERS_FILE
    return file.is_file() or file.with_name(f"{GENDERS_FILE}.gz").is_file()


def two_sides(
    *files: Path | str, read: Callable[[Path | str], Iterator[str]] = plain_lines
) -> list[list[str]]:
    """Read the lines of parallel files; GtransError if their numbers differ."""
    sides = [list(read(file)) for file in files]
    for file, side in zip(files[1:], sides[1:], strict=True):
        if len(side) != len(sides[0]):
            raise GtransError(
                f"{files[0]} has {len(sides[0])} lines, but {Path(file).name} has {len(side)}."
            )
    return sides


def separated(lines: Sequence[str], file: Path) -> list[Sentences]:
    """Split lines ``context <SEP> sentence`` into sentences."""
    documents = []
    for number, line in enumerate(lines, start=1):
        if _SEPARATOR not in line:
            raise GtransError(f"{file}:{number}: has no {_SEPARATOR} between context and sentence.")
        parts = line.split(_SEPARATOR)
        documents.append(tuple(part.strip() for part in parts))
    return documents


# --- words ----------------------------------------------------------------------------------------

_WORD = re.compile(r"\w+")


def lower_words(text: str) -> list[str]:
    """Return the words in lower case, without punctuation."""
    return _WORD.findall(text.lower())


def changed_words(right: str, wrong: Sequence[str]) -> list[str]:
    """Return the words of ``right`` that differ in every text of ``wrong``.

    Texts of equal length are compared word by word, others by counts.
    """
    words = lower_words(right)
    others = [lower_words(text) for text in wrong]
    changed = []
    if all(len(other) == len(words) for other in others):
        for place, word in enumerate(words):
            if all(other[place] != word for other in others):
                changed.append(word)
        return changed
    surpluses = [Counter(words) - Counter(other) for other in others]
    for word in words:
        if all(word in surplus for surplus in surpluses):
            changed.append(word)
    return changed


# --- German pronouns ------------------------------------------------------------------------------


def pronoun_of(right: str, wrong: Sequence[str]) -> str:
    """Return the pronoun that differs in all wrong texts: er, sie, es, or ''."""
    kinds = {PRONOUN_OF.get(word, "") for word in changed_words(right, wrong)}
    return kinds.pop() if len(kinds) == 1 else ""


def _is_example(right: str, wrong: Sequence[str]) -> bool:
    pronoun = pronoun_of(right, wrong)
    words = lower_words(right)
    others = set()
    for text in wrong:
        for old, new in zip(words, lower_words(text), strict=True):
            if old != new:
                others.add(PRONOUN_OF[new])
    return bool(pronoun) and others == _FORMS.keys() - {pronoun}


def _differ_in_pronouns(text: str, changed: str) -> bool:
    words = lower_words(text)
    others = lower_words(changed)
    if len(words) != len(others):
        return False
    for word, other in zip(words, others, strict=True):
        if word != other and not {word, other} <= PRONOUN_OF.keys():
            return False
    return True
