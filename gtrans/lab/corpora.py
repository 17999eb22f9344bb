"""The corpora of the papers: what is known of them, and their text in the form of this project.

``exp_gtransformer/corpora.yaml`` has the corpora. A corpus can come in several forms: that of its
publisher, or as others have split it. A form says where its archives are and of which files each
split consists.

Files are found in a folder, gzipped or not; archives are unpacked before.

A pair that is dropped by cleaning leaves the boundaries between documents where they are; a
document of which nothing is left disappears.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from filecmp import cmp
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from gtrans.errors import GtransError
from gtrans.lab.corpus_readers import Part
from gtrans.shipped import shipped

# --- cleaning -------------------------------------------------------------------------------------

EMPTY = ("drop", "refuse")


@dataclass(frozen=True)
class Cleaning:
    """What is asked of a pair.

    Attributes:
        empty: a pair with an empty side is dropped, or ends the command: one of :data:`EMPTY`.
        max_words: longest sentence of either side; 0: no limit.
        max_ratio: the longer side has at most this many times the words of the shorter one; 0: no
            limit.
        unit: what a word is: ``words``, what stands between white space, or ``moses``, what the
            Moses tokeniser makes.
    """

    empty: str = "refuse"
    max_words: int = 0
    max_ratio: float = 0.0
    unit: str = "words"


def word_counter(unit: str) -> Callable[[str, str], int]:
    """Counts the words of a sentence in a language; ``unit``: that of :class:`Cleaning`."""
    if unit == "words":
        return lambda sentence, _: len(sentence.split())
    from sacremoses import MosesTokenizer  # starts slowly

    tokeniser = cache(MosesTokenizer)
    return lambda sentence, lang: len(tokeniser(lang).tokenize(sentence))


# --- what is known --------------------------------------------------------------------------------

FILE = "exp_gtransformer/corpora.yaml"
OWN = "own"
_NEWSTEST = re.compile(r"newstest(20\d\d)")


@dataclass(frozen=True)
class Home:
    """A public address.

    Attributes:
        url: the address.
        file: how the download is called.
        md5: checksum that others have published; empty: none is known.
        by_hand: it is a page, or asks something, so a program cannot fetch it.
    """

    url: str
    file: str
    md5: str = ""
    by_hand: bool = False


@dataclass(frozen=True)
class Form:
    """One way in which a corpus is distributed.

    Attributes:
        name: as the record has it.
        title: what it is.
        homes: where its archives are.
        splits: their parts, which are joined; documents end where parts end.
        copies: folders, and names of files that are copied to them.
        note: what there is to know.
    """

    name: str
    title: str
    homes: tuple[Home, ...]
    splits: Mapping[str, tuple[Part, ...]]
    copies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Corpus:
    """A corpus.

    Attributes:
        name: as the recipes call it.
        also: its other names, such as that in the catalogue of experiments.
        title: what it is.
        papers: numbers of the papers that use it.
        source, target: its languages; empty: the user says.
        others: languages that each are a pair with ``target``; empty: it is one pair.
        licence: in a few words.
        size: of the training text, in a few words.
        says: sizes of splits as papers give them in their text.
        cleaning: that of the papers.
        hold_out: every so-many-th training pair is in ``valid``; 0: none.
        forms: the first whose files are there is read.
        year: of a test set of WMT.
    """

    name: str
    title: str
    papers: tuple[str, ...]
    source: str
    target: str
    licence: str
    size: str
    cleaning: Cleaning
    forms: tuple[Form, ...]
    also: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    says: Mapping[str, str] = field(default_factory=dict)
    hold_out: int = 0
    year: str = ""

    def pairs(self) -> list[tuple[str, str]]:
        """Its language pairs, source and target."""
        return [(other, self.target) for other in self.others] or [(self.source, self.target)]


def read_corpora() -> list[Corpus]:
    """All corpora."""
    return [_corpus(entry) for entry in yaml.safe_load(shipped(FILE).read_text(encoding="utf-8"))]


def corpus_named(name: str) -> Corpus:
    """The corpus of a name, that of the run scripts or of the experiments.

    Raises:
        GtransError: there is none.
    """
    match = _NEWSTEST.fullmatch(name)
    for corpus in read_corpora():
        if name in (corpus.name, *corpus.also) and corpus.name != "newstest":
            return corpus
        if match is not None and corpus.name == "newstest":
            return replace(corpus, name=name, year=match[1])
    raise GtransError(
        f"there is no corpus '{name}'; `gtrans get-corpus --list` names all (newstest: with its "
        f"year, such as newstest2016; a corpus of one's own: {OWN})"
    )


def name_of(name: str) -> str:
    """The name that `gtrans get-corpus` gives a corpus which experiments may call otherwise."""
    return next((it.name for it in read_corpora() if name in it.also), name)


def _corpus(entry: dict[str, Any]) -> Corpus:
    values = dict(entry)
    forms = tuple(map(_form, values.pop("forms")))
    cleaning = Cleaning(**values.pop("cleaning"))
    for key in ("papers", "also", "others"):
        values[key] = tuple(values.get(key, ()))
    return Corpus(**values, cleaning=cleaning, forms=forms)


def _form(entry: dict[str, Any]) -> Form:
    values = dict(entry)
    homes = tuple(Home(**home) for home in values.pop("homes"))
    splits = {
        name: tuple(Part(**{"target": (), **part}) for part in parts)
        for name, parts in values.pop("splits").items()
    }
    return Form(**values, homes=homes, splits=splits)


# --- text in a folder -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """Text of a pair of languages, or of several pairs with one language in common.

    Attributes:
        name: of it.
        folder: with {train,valid,test}.LANG, or {train,..}.PAIR.LANG.
        valid: what the validation text is called.
        source, target: the languages; of several pairs the common one is ``target``.
        pairs: of several, such as de-en; empty: one.
    """

    name: str
    folder: Path
    valid: str
    source: str
    target: str
    pairs: Sequence[str] = ()

    @property
    def prefixes(self) -> list[str]:
        """Of training, validation and test text."""
        return [str(self.folder / part) for part in ("train", self.valid, "test")]

    def file(self, part: int, lang: str, pair: str = "") -> str:
        """A file of text, which may be gzipped; part 0: training, 1: validation, 2: test."""
        path = ".".join(filter(None, (self.prefixes[part], pair, lang)))
        return f"{path}.gz" if Path(f"{path}.gz").is_file() else path

    @property
    def files(self) -> list[str]:
        """All files."""
        pairs = {it: it.split("-") for it in self.pairs} or {"": [self.source, self.target]}
        every = product(range(3), pairs)
        return [self.file(part, lang, pair) for part, pair in every for lang in pairs[pair]]

    @property
    def directions(self) -> list[str]:
        """From and to the common language, for models that translate all of them."""
        pairs = [it.split("-") for it in self.pairs] or [[self.target, self.source]]
        return [f"{a}-{b}" for one, two in pairs for a, b in ((two, one), (one, two))]


def find_text(folder: Path, source: str, target: str) -> Text:
    """The text in a folder, whose languages are those of its files, ``source`` first if it is one.

    Raises:
        GtransError: it is not there, or its languages are not clear.
    """
    if not folder.is_dir():
        raise GtransError(
            f"{folder}: there is no such folder (`--data`, `--corpus`); `gtrans get-corpus` "
            "makes those of the papers."
        )
    files = [it.name.removesuffix(".gz").split(".") for it in sorted(folder.glob("train.*"))]
    langs = list(dict.fromkeys(it[1] for it in files if len(it) == 2))
    pairs = list(dict.fromkeys(it[1] for it in files if len(it) == 3 and "-" in it[1]))
    commons = {it.partition("-")[2] for it in pairs}
    if (len(langs), len(commons)) not in ((2, 0), (0, 1)):
        raise GtransError(
            f"{folder}: its languages are not clear; it needs train.LANG of two languages, or "
            "train.L-M.L and train.L-M.M of pairs that have the language M in common, and has "
            f"{', '.join('.'.join(it) for it in files) or 'none'}."
        )
    if source not in langs:
        source = langs[0] if langs else ""
    target = commons.pop() if pairs else langs[langs[0] == source]
    # Whose corpus is published in files called dev keeps them.
    valid = "dev" if any(folder.glob("dev.*")) and not any(folder.glob("valid.*")) else "valid"
    text = Text(folder.name, folder, valid, source, target, pairs)
    for file in text.files:
        if not Path(file).is_file():
            raise GtransError(f"{file}: there is no such file (nor .gz).")
    return text


# --- files ----------------------------------------------------------------------------------------


class Finder:
    """Looks for files in a folder.

    A pattern is the end of a path, such as ``IWSLT2017/train.en``; one that begins with ``./`` is a
    file of the folder itself. A folder can be meant as well, by a pattern that ends in ``/``. Files
    may be gzipped.

    Args:
        folder: where to look.

    Raises:
        GtransError: there is no such folder.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise GtransError(f"`--from` '{folder}': there is no such folder")
        self._folder = folder
        self._files = sorted(path for path in folder.rglob("*") if path.is_file())

    def find(self, wanted: Iterable[Sequence[str]]) -> dict[Sequence[str], Path]:
        """The files or folders that are wanted; those that are nowhere are left out.

        Args:
            wanted: the alternatives for each, the best first.

        Raises:
            GtransError: two different files fit a pattern.
        """
        found: dict[Sequence[str], Path] = {}
        for group in map(tuple, wanted):
            for path in filter(None, map(self._look, group)):
                found.setdefault(group, path)
        return found

    def _look(self, pattern: str) -> Path | None:
        if pattern.startswith("./"):
            fits = [p for n in ("", ".gz") if (p := self._folder / f"{pattern}{n}").is_file()][:1]
        elif pattern.endswith("/"):
            folders = {path.parent for path in self._files}
            fits = sorted(it for it in folders if f"{it.absolute()}/".endswith(f"/{pattern}"))
        else:
            ends = (f"/{pattern}", f"/{pattern}.gz")
            fits = [path for path in self._files if str(path.absolute()).endswith(ends)]
        if len(fits) > 1 and (pattern.endswith("/") or not cmp(fits[0], fits[1], shallow=False)):
            raise GtransError(
                f"'{fits[0]}' and '{fits[1]}' differ, and both could be {pattern}; leave one in "
                "`--from`"
            )
        return fits[0] if fits else None
