"""The corpora that are known, from ``exp_gtransformer/corpora.yaml``.

A corpus can come in several forms: that of its publisher, or as others have split it. A form says
where its archives are and of which files each split consists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from gtrans.errors import GtransError
from gtrans.lab.corpora.cleaning import Cleaning
from gtrans.lab.corpora.lines import BOUNDARIES, Boundary
from gtrans.shipped import shipped

FILE = "exp_gtransformer/corpora.yaml"
OWN = "own"
_NEWSTEST = re.compile(r"newstest(20\d\d)")

Reader = Literal["lines", "columns", "talks", "sets", "units", "articles", "groups"]


@dataclass(frozen=True)
class Home:
    """A public address.

    None of them could be tried where this was written, so ``gtrans get-corpus`` says so.

    Attributes:
        url: the address.
        file: how the download is called.
        md5: checksum that others have published; empty: none is known.
        by_hand: it is a page, or asks something, so a program cannot fetch it.
        splits: which need it; empty: all.
        years: of the test sets of WMT that it has; empty: it is of no year.
    """

    url: str
    file: str
    md5: str = ""
    by_hand: bool = False
    splits: tuple[str, ...] = ()
    years: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """The files of a part of a split, and what reads them; see the head of the file.

    Attributes:
        reader: what reads them.
        source: alternatives for the file of the source language, or of both.
        target: alternatives for that of the target language; empty: there is one file.
        part: for the braces ``{part}`` of the alternatives.
        boundary: of ``lines``: what lies between two documents.
        headings: of ``talks``: whether titles and descriptions are sentences.
    """

    reader: Reader
    source: tuple[str, ...]
    target: tuple[str, ...] = ()
    part: str = ""
    boundary: Boundary = "none"
    headings: bool = False

    def patterns(self, split: str, source: str, target: str, year: str) -> list[tuple[str, ...]]:
        """The alternatives of each file of a split and language pair."""
        low, high = sorted((source, target))
        names = {
            "part": self.part, "split": split, "source": source, "target": target, "year": year,
            "pair": f"{source}-{target}", "joined": source + target, "swapped": target + source,
            "low": low, "high": high,
        }  # fmt: skip
        sides = [(self.source, source), (self.target, target)]
        return [
            tuple(name.format(**names, lang=lang) for name in alternatives)
            for alternatives, lang in sides
            if alternatives
        ]


@dataclass(frozen=True)
class Form:
    """One way in which a corpus is distributed.

    Attributes:
        name: for ``--form``.
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
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    note: str = ""

    @property
    def archives(self) -> list[str]:
        """The names of its archives as they are downloaded."""
        return [home.file for home in self.homes]


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
        tables: tables of sizes in the papers, and its row there.
        cleaning: that of the papers.
        hold_out: every so-many-th training pair is in ``dev``; 0: none.
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
    tables: Mapping[str, str] = field(default_factory=dict)
    hold_out: int = 0
    year: str = ""

    def splits(self, form: Form) -> list[str]:
        """The splits that a form makes."""
        made = list(form.splits)
        return [*made[:1], "dev", *made[1:]] if self.hold_out else made

    def pairs(self) -> list[tuple[str, str]]:
        """Its language pairs, source and target."""
        return [(other, self.target) for other in self.others] or [(self.source, self.target)]

    def form(self, name: str) -> Form:
        """One of its forms.

        Raises:
            GtransError: there is none of this name.
        """
        for form in self.forms:
            if form.name == name:
                return form
        names = ", ".join(form.name for form in self.forms)
        raise GtransError(f"`--form` '{name}': {self.name} comes as {names}")


def read_corpora(path: Path | None = None) -> list[Corpus]:
    """All corpora; ``path``: another file than the project's own.

    Raises:
        GtransError: the file is missing or not as described above.
    """
    where = shipped(FILE) if path is None else path
    try:
        return [_corpus(entry) for entry in yaml.safe_load(where.read_text(encoding="utf-8"))]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise GtransError(f"{where}: not readable ({' '.join(str(error).split())}).") from None
    except (KeyError, TypeError, ValueError) as error:
        raise GtransError(f"{where}: not a list of corpora ({error}).") from None


def corpus_named(name: str, corpora: list[Corpus] | None = None) -> Corpus:
    """The corpus of a name, the recipes' or the experiments'.

    Raises:
        GtransError: there is none.
    """
    every = read_corpora() if corpora is None else corpora
    match = _NEWSTEST.fullmatch(name)
    for corpus in every:
        if name in (corpus.name, *corpus.also) and corpus.name != "newstest":
            return corpus
        if match is not None and corpus.name == "newstest":
            return replace(corpus, name=name, year=match[1])
    raise GtransError(
        f"there is no corpus '{name}'; `gtrans get-corpus --list` names all (newstest: with its "
        f"year, such as newstest2016; a corpus of one's own: {OWN})"
    )


def _corpus(entry: dict[str, Any]) -> Corpus:
    values = dict(entry)
    forms = tuple(map(_form, values.pop("forms")))
    cleaning = Cleaning(**values.pop("cleaning"))
    for key in ("papers", "also", "others"):
        values[key] = tuple(values.get(key, ()))
    return Corpus(**values, cleaning=cleaning, forms=forms)


def _form(entry: dict[str, Any]) -> Form:
    values = dict(entry)
    homes = tuple(map(_home, values.pop("homes")))
    splits = {name: tuple(map(_part, parts)) for name, parts in values.pop("splits").items()}
    copies = {name: tuple(files) for name, files in values.pop("copies", {}).items()}
    return Form(**values, homes=homes, splits=splits, copies=copies)


def _home(entry: dict[str, Any]) -> Home:
    lists = {key: tuple(entry.get(key, ())) for key in ("splits", "years")}
    return Home(**{**entry, **lists})


def _part(entry: dict[str, Any]) -> Part:
    if entry["reader"] not in get_args(Reader):
        raise ValueError(f"there is no reader {entry['reader']!r}")
    if entry.get("boundary", "none") not in BOUNDARIES:
        raise ValueError(f"there is no boundary {entry['boundary']!r}")
    source, target = (tuple(entry.get(side, ())) for side in ("source", "target"))
    return Part(**{**entry, "source": source, "target": target})
