"""The corpora of the papers, from ``exp_gtransformer/corpora.yaml``, and their text in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from filecmp import cmp
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gtrans.environment import project_file
from gtrans.errors import GtransError
from gtrans.lab.corpus_readers import SplitPart

# --- cleaning -------------------------------------------------------------------------------------

EMPTY = ("drop", "refuse")


@dataclass(frozen=True)
class Cleaning:
    """Which pairs of sentences are kept.

    Attributes:
        empty: how to treat a pair with an empty side: one of :data:`EMPTY`.
        max_words: of either side; 0: no limit.
        max_ratio: words of the longer side per word of the shorter one; 0: no limit.
        unit: ``words``, separated by white space, or ``moses`` tokens.
    """

    empty: str = "refuse"
    max_words: int = 0
    max_ratio: float = 0.0
    unit: str = "words"


def word_counter(unit: str) -> Callable[[str, str], int]:
    """Return a function that counts the words of ``sentence, lang``."""
    return _count_words if unit == "words" else _count_moses_tokens


def _count_words(sentence: str, _: str) -> int:
    return len(sentence.split())


def _count_moses_tokens(sentence: str, lang: str) -> int:
    return len(_moses_tokeniser(lang).tokenize(sentence))


@cache
def _moses_tokeniser(lang: str) -> Any:
    from sacremoses import MosesTokenizer  # starts slowly

    return MosesTokenizer(lang)


# --- records --------------------------------------------------------------------------------------

FILE = "exp_gtransformer/corpora.yaml"
OWN = "own"
_NEWSTEST = re.compile(r"(?:newstest|wmttest|generaltest)(20\d\d)")


@dataclass(frozen=True)
class Home:
    """A public address.

    ``file`` names the download; ``by_hand``: a program cannot fetch it.
    """

    url: str
    file: str
    md5: str = ""
    by_hand: bool = False
    year: str = ""


@dataclass(frozen=True)
class Form:
    """One way in which a corpus is distributed.

    Attributes:
        splits: parts that are joined; documents end where parts end.
        copies: names of files that are copied, by folder.
        first_year, last_year: of WMT test sets.
    """

    name: str
    title: str
    homes: tuple[Home, ...]
    splits: Mapping[str, tuple[SplitPart, ...]]
    copies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    note: str = ""
    first_year: str = ""
    last_year: str = ""


@dataclass(frozen=True)
class PaperCorpus:
    """A corpus of a paper.

    Attributes:
        size: of the training text, for people.
        forms: the first whose files exist is read.
        also: other names, such as in the experiments.
        others: languages that each are a pair with ``target``; empty: one pair.
        says: sizes of splits in the text of papers.
        hold_out: N: every Nth training pair is in ``valid``; 0: none.
    """

    name: str
    title: str
    papers: tuple[str, ...]
    source: str  # empty: the user says
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
        """Return its pairs of source and target language."""
        if not self.others:
            return [(self.source, self.target)]
        return [(other, self.target) for other in self.others]


@cache
def read_corpora() -> Sequence[PaperCorpus]:
    """Read the record of all corpora."""
    text = project_file(FILE).read_text(encoding="utf-8")
    return [_corpus(entry) for entry in yaml.safe_load(text)]


def corpus_named(name: str) -> PaperCorpus:
    """Return a corpus by its name in run scripts or experiments."""
    newstest = _NEWSTEST.fullmatch(name)
    for corpus in read_corpora():
        if corpus.name == "newstest":
            if newstest is not None:
                forms = _forms_of_year(corpus, newstest[1])
                return replace(corpus, name=name, year=newstest[1], forms=forms)
        elif name == corpus.name or name in corpus.also:
            return corpus
    raise GtransError(
        f"there is no corpus '{name}'; `gtrans get-corpus --list` names all (newstest: with its "
        f"year, such as newstest2016; a corpus of one's own: {OWN})"
    )


def _forms_of_year(corpus: PaperCorpus, year: str) -> tuple[Form, ...]:
    forms = []
    for form in corpus.forms:
        if form.first_year <= year <= form.last_year:
            homes = tuple(home for home in form.homes if home.year == year)
            forms.append(replace(form, homes=homes))
    if not forms:
        first = min(form.first_year for form in corpus.forms)
        last = max(form.last_year for form in corpus.forms)
        raise GtransError(f"there is no test set of {year}; they are those of {first} to {last}")
    return tuple(forms)


def yaml_lines(value: Any) -> list[str]:
    """Return a value as lines of YAML without aliases."""
    copied = json.loads(json.dumps(value))
    text: str = yaml.safe_dump(copied, sort_keys=False, allow_unicode=True, width=96)
    return text.splitlines()


def name_of(name: str) -> str:
    """Return a corpus's name in `gtrans get-corpus`."""
    for corpus in read_corpora():
        if name in corpus.also:
            return corpus.name
    return name


def _corpus(entry: dict[str, Any]) -> PaperCorpus:
    values = dict(entry)
    forms = tuple(_form(form) for form in values.pop("forms"))
    cleaning = Cleaning(**values.pop("cleaning"))
    for key in ("papers", "also", "others"):
        values[key] = tuple(values.get(key, ()))
    return PaperCorpus(**values, cleaning=cleaning, forms=forms)


def _form(entry: dict[str, Any]) -> Form:
    values = dict(entry)
    homes = tuple(Home(**home) for home in values.pop("homes"))
    splits = {}
    for name, parts in values.pop("splits").items():
        splits[name] = tuple(SplitPart(**part) for part in parts)
    return Form(**values, homes=homes, splits=splits)


# --- text in a folder -----------------------------------------------------------------------------


SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class ParallelText:
    """Text of a language pair, or of several pairs with one language in common.

    Attributes:
        folder: has {train,valid,test}.LANG, or {train,..}.PAIR.LANG.
        valid: ``valid`` or ``dev``.
        target: the common language of several pairs.
        pairs: such as de-en; empty: one pair.
    """

    name: str
    folder: Path
    valid: str
    source: str
    target: str
    pairs: Sequence[str] = ()

    @property
    def prefixes(self) -> list[str]:
        """Paths of training, validation and test text without language."""
        return [self._prefix(split) for split in SPLITS]

    def _prefix(self, split: str) -> str:
        name = self.valid if split == "valid" else split
        return str(self.folder / name)

    def file(self, split: str, lang: str, pair: str = "") -> str:
        """Return the file of one of :data:`SPLITS`."""
        prefix = self._prefix(split)
        path = f"{prefix}.{pair}.{lang}" if pair else f"{prefix}.{lang}"
        return f"{path}.gz" if Path(f"{path}.gz").is_file() else path

    @property
    def files(self) -> list[str]:
        """All files."""
        files = []
        for split in SPLITS:
            for pair in self.pairs:
                for lang in pair.split("-"):
                    files.append(self.file(split, lang, pair))
            if not self.pairs:
                files.append(self.file(split, self.source))
                files.append(self.file(split, self.target))
        return files

    @property
    def directions(self) -> list[str]:
        """From and to the common language."""
        pairs = [pair.split("-") for pair in self.pairs]
        if not pairs:
            pairs = [[self.target, self.source]]
        directions = []
        for low, high in pairs:
            directions += [f"{high}-{low}", f"{low}-{high}"]
        return directions


def find_text(folder: Path, source: str, target: str) -> ParallelText:
    """Find the text in a folder, from the language ``source`` if it is one."""
    if not folder.is_dir():
        raise GtransError(
            f"{folder}: there is no such folder (`--data`, `--corpus`); `gtrans get-corpus` "
            "makes those of the papers."
        )
    paths = sorted(folder.glob("train.*"))
    names = [path.name.removesuffix(".gz") for path in paths]
    languages: dict[str, None] = {}
    language_pairs: dict[str, None] = {}
    for name in names:
        parts = name.split(".")
        if len(parts) == 2:
            languages[parts[1]] = None
        elif len(parts) == 3 and "-" in parts[1]:
            language_pairs[parts[1]] = None
    langs, pairs = list(languages), list(language_pairs)
    commons = {pair.partition("-")[2] for pair in pairs}
    is_one_pair = len(langs) == 2 and not commons
    has_common_language = len(commons) == 1 and not langs
    if not is_one_pair and not has_common_language:
        raise GtransError(
            f"{folder}: its languages are not clear; it needs train.LANG of two languages, or "
            "train.L-M.L and train.L-M.M of pairs that have the language M in common, and has "
            f"{', '.join(names) or 'none'}."
        )
    if source not in langs:
        source = langs[0] if langs else ""
    if pairs:
        target = commons.pop()
    else:
        target = langs[1] if langs[0] == source else langs[0]
    # A corpus whose validation files are published as `dev` keeps that name.
    has_valid = any(folder.glob("valid.*"))
    valid = "dev" if any(folder.glob("dev.*")) and not has_valid else "valid"
    text = ParallelText(folder.name, folder, valid, source, target, pairs)
    for file in text.files:
        if not Path(file).is_file():
            raise GtransError(f"{file}: there is no such file (nor .gz).")
    return text


# --- files ----------------------------------------------------------------------------------------


class Finder:
    """Finds files in a folder, gzipped or not.

    A pattern is the end of a path, such as ``IWSLT2017/train.en``. One that begins with ``./`` is a
    file of the folder itself; one that ends in ``/`` is a folder.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise GtransError(
                f"`--from` '{folder}': there is no such folder; `gtrans get-corpus --list NAME` "
                "prints what to download."
            )
        self._folder = folder
        self._files = sorted(path for path in folder.rglob("*") if path.is_file())

    def find(self, groups: Iterable[Sequence[str]]) -> dict[Sequence[str], Path]:
        """Return the existing file or folder for each group of alternatives, the best first."""
        paths: dict[Sequence[str], Path] = {}
        for group in groups:
            for pattern in group:
                path = self._look(pattern)
                if path is not None:
                    paths.setdefault(tuple(group), path)
        return paths

    def _look(self, pattern: str) -> Path | None:
        hits = self._hits(pattern)
        if not hits:
            return None
        if len(hits) > 1:
            is_folder = pattern.endswith("/")
            if is_folder or not cmp(hits[0], hits[1], shallow=False):
                raise GtransError(
                    f"'{hits[0]}' and '{hits[1]}' differ, and both could be {pattern}; leave one "
                    "in `--from`"
                )
        return hits[0]

    def _hits(self, pattern: str) -> list[Path]:
        if pattern.startswith("./"):
            for path in (self._folder / pattern, self._folder / f"{pattern}.gz"):
                if path.is_file():
                    return [path]
            return []
        if pattern.endswith("/"):
            folders = {path.parent for path in self._files}
            ending = f"/{pattern}"
            return sorted(path for path in folders if f"{path.absolute()}/".endswith(ending))
        endings = (f"/{pattern}", f"/{pattern}.gz")
        hits = []
        for path in self._files:
            if str(path.absolute()).endswith(endings):
                hits.append(path)
        return hits
