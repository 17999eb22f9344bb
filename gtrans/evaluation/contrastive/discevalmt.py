"""The discourse sets of Bawden, Sennrich, Birch and Haddow (2018), English to French.

"Evaluating Discourse Phenomena in Neural Machine Translation", NAACL 2018; their
repository ``discourse-mt-test-sets``: ``anaphora.json`` and ``lexical-choice.json``, objects
whose keys number the blocks. A block of the first is ``{"src": [previous, current],
"trg": [{"correct" or "semi-correct": [..], "incorrect": [..]}, ..]}``, of the second
``{"type": "repet" or "disambig", "examples": [{"src": [..], "trg": {"correct": [..],
"incorrect": [..]}}, ..]}``. Its script also writes them as text: ``anaphora.current.en`` and
``.fr``, ``anaphora.prev.en`` and ``.fr`` (the sentence before), ``lexical_choice.*``, two lines
for a pair, the right one first. The text does not say which pairs are semi-correct, or what type a
block of lexical choice has, and the form is ``other`` where only a participle shows it; blocks are
four pairs of anaphora, or two of lexical choice.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gtrans.data.documents import resolve
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import SET, Item, ReadOptions, Sentences
from gtrans.evaluation.contrastive.json_file import Entry, read_entries
from gtrans.evaluation.contrastive.text_sides import two_sides
from gtrans.evaluation.contrastive.words import changed_words

_FORMS = {
    "m.sg.": ("il", "le", "lui", "celui", "mien", "tien", "sien", "un", "ce", "cet"),
    "f.sg.": ("elle", "la", "celle", "mienne", "tienne", "sienne", "une", "cette"),
    "m.pl.": ("ils", "eux", "ceux", "miens", "tiens", "siens"),
    "f.pl.": ("elles", "celles", "miennes", "tiennes", "siennes"),
}
_FORM_OF = {word: form for form, words in _FORMS.items() for word in words}
_ANAPHORA, _LEXICAL = "anaphora", "lexical choice"
# By the name of the files in text: the set, and the pairs of a block.
_TEXTS = {"anaphora": (_ANAPHORA, 4), "lexical_choice": (_LEXICAL, 2)}
_CURRENT = (".current.en", ".current.fr")
_LEXICAL_CUES = {"repet": "target", "disambig": "source", "repet, disambig": "source/target"}


def read_discevalmt(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """All pairs of a right and a wrong translation, block by block, of a JSON or a text file.

    Phenomena are ``anaphora``, ``anaphora, semi-correct`` (the right translation agrees with a
    wrong antecedent), and ``lexical choice`` with its type; both sets also have a total. Pairs of
    anaphora are grouped by the form of the French pronoun, as in the authors' table: the ``type``
    of the pair, or where there is none, that of the first pronoun that differs from the wrong
    translation.

    Raises:
        GtransError: the file cannot be read, or a block has another form; the message names
            line and block.
    """
    plain = str(path).removesuffix(".gz")
    if plain.endswith(_CURRENT):
        return _text(Path(plain[: -len(_CURRENT[0])]))
    return [item for entry in read_entries(path) for item in _block(entry)]


def _text(prefix: Path) -> list[Item]:
    """The pairs of the text files ``PREFIX.current.en``, .. of a set."""
    if prefix.name not in _TEXTS:
        raise GtransError(
            f"{prefix}{_CURRENT[0]}: must be named {' or '.join(_TEXTS)}{_CURRENT[0]}."
        )
    name, size = _TEXTS[prefix.name]
    parts = [(part, lang) for lang in ("en", "fr") for part in ("prev", "current")]
    files = [resolve(f"{prefix}.{part}", lang) for part, lang in parts]
    lines = list(zip(*two_sides(*files), strict=True))
    for number, line in enumerate(lines, start=1):
        if not all(line):
            raise GtransError(f"{files[line.index('')]}:{number}: is empty.")
    items = []
    for begin in range(0, len(lines), 2):
        pair = lines[begin : begin + 2]
        if len(pair) < 2 or pair[0][:2] != pair[1][:2]:
            raise GtransError(
                f"{files[1]}:{begin + 1}: must have the same sentences as the next line, the "
                "source of the wrong translation."
            )
        number, place = divmod(begin // 2, size)
        target, wrong = (sentences[2:] for sentences in pair)
        form = {"form": _form({}, target, wrong)} if name == _ANAPHORA else {}
        items.append(
            Item(
                id=f"{number + 1}.{place + 1}",
                phenomenon=name,
                distance=1,
                cue="target" if name == _ANAPHORA else "source/target",
                source=pair[0][:2],
                target=target,
                contrastive=(wrong,),
                groups={SET: name, **form},
                block=f"{name} {number + 1}",
            )
        )
    return items


def _block(entry: Entry) -> list[Item]:
    block = entry.value
    if not isinstance(block, dict):
        raise entry.error("a block must be a JSON object.")
    if "examples" in block:
        kind = block.get("type")
        if not isinstance(kind, str | None):
            raise entry.error("'type' must be a text.")
        name, phenomenon = _LEXICAL, f"{_LEXICAL}, {kind}" if kind else _LEXICAL
        cue = _LEXICAL_CUES.get(kind or "", "source/target")
        examples = _objects(entry, "examples", block["examples"])
        pairs = [(example.get("src"), example.get("trg")) for example in examples]
    else:
        name, phenomenon, cue = _ANAPHORA, _ANAPHORA, "target"
        pairs = [(block.get("src"), pair) for pair in _objects(entry, "trg", block.get("trg"))]
    items = []
    for number, (source, pair) in enumerate(pairs, start=1):
        if not isinstance(pair, dict):
            raise entry.error("'trg' of an example must be a JSON object.")
        right = "correct" if "correct" in pair else "semi-correct"
        found = _sentences(entry, "src", source)
        target, wrong = (_sentences(entry, key, pair.get(key)) for key in (right, "incorrect"))
        if not len(found) == len(target) == len(wrong):
            raise entry.error(
                "'src', 'correct' and 'incorrect' must have the same number of sentences."
            )
        items.append(
            Item(
                id=f"{entry.name}.{number}",
                phenomenon=phenomenon if right == "correct" else f"{phenomenon}, {right}",
                distance=1,
                cue=cue,
                source=found,
                target=target,
                contrastive=(wrong,),
                groups={SET: name}
                | ({"form": _form(pair, target, wrong)} if name == _ANAPHORA else {}),
                block=f"{name} {entry.name}",
            )
        )
    return items


def _form(pair: dict[str, Any], right: Sentences, wrong: Sentences) -> str:
    """Gender and number of the pronoun: m.sg., f.sg., m.pl., f.pl., or other."""
    kind = pair.get("type")
    if isinstance(kind, str) and kind.strip():
        return f"{kind.strip().rstrip('.')}."
    changed = changed_words(" ".join(right), [" ".join(wrong)])
    return next((_FORM_OF[word] for word in changed if word in _FORM_OF), "other")


def _objects(entry: Entry, key: str, value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise entry.error(f"{key!r} must be a list of JSON objects.")
    return value


def _sentences(entry: Entry, key: str, value: object) -> Sentences:
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(part, str) and part.strip() for part in value)
    ):
        raise entry.error(f"{key!r} must be a list of sentences, none of them empty.")
    return tuple(part.strip() for part in value)
