"""ContraPro: English to German pronouns (Mueller, Rios, Voita and Sennrich 2018).

"A Large-Scale Test Set for the Evaluation of Context-Aware Pronoun Translation in Neural
Machine Translation", WMT 2018. Three forms are in use:

* ``contrapro.json`` with the OpenSubtitles documents that ``setup_opensubs.sh`` of its
  repository extracts (``--documents``): an array of objects with ``document id`` and ``segment
  id``, counted from 1, ``src segment`` and ``ref segment``, ``src pronoun`` and ``ref pronoun``,
  ``ante distance``, and ``errors``, each with its ``contrastive`` sentence. The documents have one
  sentence per line, ``DOCUMENTS/YEAR/NAME.LANG``.
* the files that its conversion script writes: ``NAME.text.en`` and ``NAME.text.de`` with a line
  for each candidate, ``NAME.context.en`` and ``NAME.context.de`` with N lines of context for each.
* text: ``en.txt`` and ``de.txt`` with lines ``context <SEP> sentence``, truecased, as ContraCAT
  distributes it.

In the last two, the lines of an example follow each other, the right one first.
``groups.tsv`` in the same folder may say where examples begin (columns ``first_line``,
``variants``, ``reference_pronoun``, ``antecedent_distance``, which may be empty).

Sets that follow these forms are read by the same functions in :mod:`gtrans.lab`.
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

_TEXT, _TRANSLATION = ".text.en", ".text.de"
_WRONG = (2, 3)  # wrong lines: three where the other pronoun may be both "er" and "ihn"
_COLUMNS = ["first_line", "variants", "reference_pronoun", "antecedent_distance"]
# Least similarity of a sentence of the set and that of its document; they differ in the
# tokenisation of some editions.
_ALIKE = 0.6
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


# The lines of an example from the first to the one behind its last, its pronoun (empty: unknown)
# and its antecedent distance.
_Group = tuple[int, int, str, int | None]


def read_contrapro(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """All examples of ``contrapro.json``, or of a text form: its folder or its source.

    Phenomena are pairs of pronouns, ``it:er``. In the text forms the pronoun is the one in which
    all candidates differ, and examples are told apart by it (:func:`_found_groups`) if there
    is no ``groups.tsv``; the distance is then unknown.

    Raises:
        GtransError: a file is missing or has another form, or examples cannot be told apart;
            the message names the line.
    """
    path = Path(path)
    if not path.exists():
        raise GtransError(f"{path}: there is no such file or folder.")
    folder, plain = path if path.is_dir() else path.parent, path.name.removesuffix(".gz")
    if has_genders(folder):
        raise GtransError(
            f"{folder}: has {GENDERS_FILE}, so it is a template of ContraCAT, whose first line is "
            "not the right one; give `--format contracat`."
        )
    if plain == "de.txt" or plain.endswith(_TRANSLATION):
        raise GtransError(
            f"{path}: has the translations; give the source next to it, en.txt or NAME{_TEXT}, or "
            "their folder."
        )
    written = sorted(path.glob(f"*{_TEXT}*")) if path.is_dir() else []
    if plain.endswith(_TEXT) or written:
        form = "text"
        sources, targets, file = _with_contexts(path, written, options.context)
    elif path.is_dir() or plain == "en.txt":
        form = "truecased"
        file = folder / "de.txt"
        sides = two_sides(*(resolve(str(folder / lang), "txt") for lang in ("en", "de")))
        sources, targets = separated(sides[0], folder / "en.txt"), separated(sides[1], file)
    else:
        return read_pronoun_json(path, "de", 1, options)
    table = folder / "groups.tsv"
    if table.is_file():
        groups = list(_groups(table, len(sources)))
    else:
        groups = list(_found_groups(sources, targets, file))
    items = []
    for begin, end, pronoun, distance in groups:
        # The context of an example at the beginning of a film is empty.
        lines = [sources[begin], *targets[begin:end]]
        columns = list(zip(*lines, strict=False))
        full = [column for column in columns if all(column)][-(options.context + 1) :]
        alike = {*sources[begin:end]} == {sources[begin]} and len({*map(len, lines)}) == 1
        if not alike or not all(columns[-1]):
            raise GtransError(
                f"{file}:{begin + 1}: the lines of an example must have equal sources, as many "
                "sentences as these, and none that is empty but in the context."
            )
        source, target, *contrastive = (tuple(texts) for texts in zip(*full, strict=True))
        pronoun = pronoun_of(target[-1], [wrong[-1] for wrong in contrastive]) or pronoun
        items.append(
            Item(
                id=str(begin + 1),
                phenomenon=f"it:{pronoun}" if pronoun else "it",
                distance=distance,
                cue="target",
                source=source,
                target=target,
                contrastive=tuple(contrastive),
                form=form,
            )
        )
    return items


def _with_contexts(
    path: Path, written: Sequence[Path], context: int
) -> tuple[list[Sentences], list[Sentences], Path]:
    """The lines of the conversion script's files, each behind its context, on both sides.

    Args:
        path: the folder, or the source.
        written: the sources in the folder.
        context: how many sentences of context are wanted, the last ones.

    Returns:
        sources, translations, and the file of the translations.

    Raises:
        GtransError: the folder has several sources, a file cannot be read, or the files of contexts
            do not have as many lines for each line, ``context`` or more.
    """
    if len(written) > 1:
        raise GtransError(f"{path}: must hold one file *{_TEXT}, but holds {len(written)}.")
    prefix = str(written[0] if written else path).removesuffix(".gz").removesuffix(_TEXT)
    current = two_sides(*(resolve(f"{prefix}.text", lang) for lang in ("en", "de")))
    lines = len(current[0])
    before: list[list[str]] = [[], []]
    size = 0
    if context:
        files = [resolve(f"{prefix}.context", lang) for lang in ("en", "de")]
        before = two_sides(*files)
        size, rest = divmod(len(before[0]), lines) if lines else (0, 1)
        if rest or size < context:
            raise GtransError(
                f"{files[0]}: has {len(before[0])} lines for the {lines} of the set; `--context` "
                f"{context} needs as many lines for each of them, {context} or more."
            )
    sides: list[list[Sentences]] = []
    for texts, contexts in zip(current, before, strict=True):
        side: list[Sentences] = []
        for number, text in enumerate(texts):
            end = (number + 1) * size
            side.append((*contexts[end - context : end], text))
        sides.append(side)
    return sides[0], sides[1], Path(f"{prefix}.text.de")


def _groups(table: Path, lines: int) -> Iterator[_Group]:
    """The examples of a table.

    Raises:
        GtransError: it has other columns, or its examples do not follow each other.
    """
    end = 0
    for number, row in enumerate(iterate_raw_lines(table), start=1):
        # Lines are stripped, so an empty last column is missing.
        first, variants, pronoun, distance = (*row.split("\t"), "", "", "", "")[:4]
        if number == 1 and row.split("\t") == _COLUMNS:
            continue
        if first != str(end + 1) or not variants.isdecimal() or not (distance or "0").isdecimal():
            raise GtransError(
                f"{table}:{number}: after the heading {', '.join(_COLUMNS)}, an example must begin "
                f"at line {end + 1} and have a number of lines."
            )
        begin, end = end, end + int(variants)
        yield begin, end, pronoun, int(distance) if distance else None
    if end != lines:
        raise GtransError(f"{table}: ends at line {end} of the texts, which have {lines}.")


def _found_groups(
    sources: Sequence[Sentences], targets: Sequence[Sentences], file: Path
) -> Iterator[_Group]:
    """The examples without a table, each begins with its right translation.

    The lines of an example have equal sources and contexts, differ in nothing but pronouns, and are
    all different. So the next example begins where one of these ends, also if it has the same
    source and context: two pronouns of a sentence make two examples with the same right
    translation.

    Raises:
        GtransError: they cannot be told apart.
    """
    texts = [" ".join(sentences) for sentences in targets]
    begin = 0
    while begin < len(texts):
        right, end = texts[begin], begin + 1
        while (
            end < len(texts)
            and sources[end] == sources[begin]
            and texts[end] not in texts[begin:end]
            and _differ_in_pronouns(right, texts[end])
        ):
            end += 1
        wrong = texts[begin + 1 : end]
        if len(wrong) not in _WRONG or not _is_example(right, wrong):
            raise GtransError(
                f"{file}:{begin + 1}: lines {begin + 1} to {end} are no example of ContraPro (a "
                "right line and 2 or 3 with the other pronouns), so where examples begin is "
                "unclear; say it in a file groups.tsv in the same folder, or give contrapro.json."
            )
        yield begin, end, "", None
        begin = end


# --- JSON with documents --------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One entry of a JSON array or object.

    Attributes:
        place: file and name, with which error messages begin: ``set.json: item 3``.
        name: its key, or its number in an array, counted from 1.
        value: the decoded JSON.
    """

    place: str
    name: str
    value: Any

    def error(self, message: str) -> GtransError:
        """The exception to raise if the entry does not have the form of its format."""
        return GtransError(f"{self.place}: {message}")

    def value_of(self, key: str) -> Any:
        """The value of ``key``; None: the entry has none, or is not an object."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def text(self, key: str) -> str:
        """The value of ``key``, which must be a non-empty string.

        Raises:
            GtransError: it is something else.
        """
        value = self.value_of(key)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{key!r} must be a text that is not empty, but is {_shown(value)}.")
        return value.strip()

    def number(self, key: str) -> int:
        """The value of ``key``, which must be an integer.

        Raises:
            GtransError: it is something else.
        """
        value = self.value_of(key)
        if type(value) is not int:
            raise self.error(f"{key!r} must be a whole number, but is {_shown(value)}.")
        return value


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 60 else f"{text[:57]}..."


def read_entries(path: str | os.PathLike[str]) -> Iterator[Entry]:
    """The entries of the JSON array or object that a file holds, gzipped or not.

    Raises:
        GtransError: the file cannot be read, or is not JSON.
    """
    content = parse_json("\n".join(iterate_raw_lines(path)), str(path))
    if isinstance(content, list):
        content = {str(number): value for number, value in enumerate(content, start=1)}
    if not isinstance(content, dict):
        raise GtransError(f"{path}: must hold a JSON array or object.")
    for name, value in content.items():
        yield Entry(f"{path}: item {name}", name, value)


def read_pronoun_json(
    path: str | os.PathLike[str], target: str, first_segment: int, options: ReadOptions
) -> list[Item]:
    """All examples of a set whose source is English, with up to ``options.context`` sentences each.

    Args:
        path: the JSON file.
        target: the language of the translations, as the suffix of documents has it.
        first_segment: ``segment id`` of the first sentence of a document.
        options: the folder of the documents, and how many sentences of context.

    Raises:
        GtransError: context is wanted without a folder of documents, a file cannot be read,
            or an example has another form or is not in its document.
    """
    if options.context and options.documents is None:
        raise GtransError(
            f"{path}: its contexts are in separate documents; give their folder "
            "(`--documents`), or `--context 0`."
        )
    return [_json_item(entry, target, first_segment, options) for entry in read_entries(path)]


def _json_item(entry: Entry, target: str, first_segment: int, options: ReadOptions) -> Item:
    right = entry.text("src segment"), entry.text("ref segment")
    errors = entry.value.get("errors")
    errors = [errors] if isinstance(errors, dict) else errors
    if not isinstance(errors, list) or not errors:
        raise entry.error("'errors' must be a list of at least one wrong translation.")
    wrong = [Entry(entry.place, entry.name, error).text("contrastive") for error in errors]
    # Null and numbers below 0 mean that it is not known.
    unknown = "ante distance" in entry.value and entry.value["ante distance"] is None
    distance = -1 if unknown else entry.number("ante distance")
    before: list[tuple[str, str]] = []
    if options.context and options.documents is not None:
        pairs = _document(entry, target, options.documents)
        number = entry.number("segment id") - first_segment
        if not 0 <= number < len(pairs):
            raise entry.error(
                f"'segment id' is {number + first_segment}, but the document "
                f"{entry.text('document id')} has {len(pairs)} lines."
            )
        for line, text in zip(pairs[number], right, strict=True):
            if not _alike(line, text):
                raise entry.error(
                    f"line {number + 1} of the document {entry.text('document id')} is "
                    f"'{line}', not '{text}'; give the documents of the set."
                )
        right = pairs[number]
        before = [pair for pair in pairs[max(number - options.context, 0) : number] if all(pair)]
    context = tuple(pair[1] for pair in before)
    return Item(
        id=entry.name,
        phenomenon=f"{entry.text('src pronoun')}:{entry.text('ref pronoun')}".lower(),
        distance=distance if distance >= 0 else None,
        cue="target",
        source=(*(pair[0] for pair in before), right[0]),
        target=(*context, right[1]),
        contrastive=tuple((*context, sentence) for sentence in wrong),
        document=str(entry.value.get("document id") or ""),
    )


def _document(entry: Entry, target: str, folder: Path) -> list[tuple[str, str]]:
    """The lines of the document of an entry, on both sides."""
    name = entry.text("document id")
    stem = name.removesuffix(f".{target}").removesuffix(".en")
    if Path(stem).name != stem:
        raise entry.error(f"'document id' must be the name of a document, but is '{name}'.")
    try:
        return _document_lines(str(folder / stem.split("_")[0] / stem), target)
    except GtransError as error:
        raise entry.error(str(error)) from None


@lru_cache(maxsize=64)
def _document_lines(prefix: str, target: str) -> list[tuple[str, str]]:
    sides = two_sides(*(resolve(prefix, lang) for lang in ("en", target)), read=iterate_raw_lines)
    return list(zip(*sides, strict=True))


def _alike(text: str, other: str) -> bool:
    a, b = ("".join(c for c in text.casefold() if c.isalnum()) for text in (text, other))
    return a == b or SequenceMatcher(None, a, b).ratio() >= _ALIKE


# --- lines of text --------------------------------------------------------------------------------


def has_genders(folder: Path) -> bool:
    """Whether a folder is a template of ContraCAT, whose first lines are not the right ones."""
    return any((folder / f"{GENDERS_FILE}{suffix}").is_file() for suffix in ("", ".gz"))


def two_sides(
    *files: Path | str, read: Callable[[Path | str], Iterator[str]] = plain_lines
) -> list[list[str]]:
    """The lines of files that must have equally many.

    Raises:
        GtransError: a file cannot be read, or their numbers of lines differ.
    """
    sides = [list(read(file)) for file in files]
    for file, side in zip(files[1:], sides[1:], strict=True):
        if len(side) != len(sides[0]):
            raise GtransError(
                f"{files[0]} has {len(sides[0])} lines, but {Path(file).name} has {len(side)}."
            )
    return sides


def separated(lines: Sequence[str], file: Path) -> list[Sentences]:
    """The sentences of lines ``context <SEP> sentence``.

    Raises:
        GtransError: a line has no ``<SEP>``; the message names it.
    """
    for number, line in enumerate(lines, start=1):
        if _SEPARATOR not in line:
            raise GtransError(f"{file}:{number}: has no {_SEPARATOR} between context and sentence.")
    return [tuple(part.strip() for part in line.split(_SEPARATOR)) for line in lines]


# --- words ----------------------------------------------------------------------------------------

_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """The words in lower case; punctuation and apostrophes separate them."""
    return _WORD.findall(text.lower())


def changed_words(right: str, wrong: Sequence[str]) -> list[str]:
    """The words of ``right`` that differ in every text of ``wrong``, in their order.

    Texts with as many words are compared word by word, as in sets whose wrong translations are
    made by replacing words. Of others, the words count that ``right`` has more often.
    """
    words, others = words_of(right), [words_of(text) for text in wrong]
    if all(len(other) == len(words) for other in others):
        return [
            word
            for place, word in enumerate(words)
            if all(other[place] != word for other in others)
        ]
    more = [Counter(words) - Counter(other) for other in others]
    return [word for word in words if all(word in counts for counts in more)]


# --- German pronouns ------------------------------------------------------------------------------


def pronoun_of(right: str, wrong: Sequence[str]) -> str:
    """The pronoun in which a text differs from all of ``wrong``: er, sie, es, or '' if unknown."""
    kinds = {PRONOUN_OF.get(word, "") for word in changed_words(right, wrong)}
    return kinds.pop() if len(kinds) == 1 else ""


def _is_example(right: str, wrong: Sequence[str]) -> bool:
    """Whether the wrong texts put both other pronouns in the place of the right one's pronoun."""
    pronoun, words = pronoun_of(right, wrong), words_of(right)
    others = set()
    for text in wrong:
        for old, new in zip(words, words_of(text), strict=True):
            if old != new:
                others.add(PRONOUN_OF[new])
    return bool(pronoun) and others == _FORMS.keys() - {pronoun}


def _differ_in_pronouns(text: str, changed: str) -> bool:
    """Whether two texts have the same words but for pronouns."""
    words, others = words_of(text), words_of(changed)
    return len(words) == len(others) and all(
        word == other or {word, other} <= PRONOUN_OF.keys()
        for word, other in zip(words, others, strict=True)
    )
