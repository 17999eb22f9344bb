"""Make a corpus of the papers ready: OUT/NAME/{train,valid,test}.LANG, from its published files.

The files are found anywhere below a folder. --list NAME says what is needed and where it is, for
`wget -c` or a browser; unpack archives, and archives inside them, with tar or unzip.

Text is as published: one sentence per line, an empty line between documents. OUT/NAME/corpus.json
has the counts of what was kept and dropped, and the digests of the files that were read. The names
are those of the run scripts (`--data OUT --corpus NAME`) and of `gtrans reproduce --list`; `own` is
a corpus of one's own, DIR/{train,valid,test}.LANG.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import wrap
from typing import TextIO

from gtrans.errors import GtransError
from gtrans.files import (
    atomic_writer,
    check_output_folder,
    copy_file,
    digest,
    fingerprint,
    locked,
    read_object,
    replacing,
)
from gtrans.lab.corpora import (
    EMPTY,
    Cleaner,
    Cleaning,
    Corpus,
    Counts,
    Finder,
    Form,
    corpus_named,
    read_corpora,
)
from gtrans.lab.corpus_readers import BOUNDARIES, Pairs, Part, read_part
from gtrans.languages import known_language
from gtrans.messages import aligned, json_text, print_lines, say
from gtrans.version import __version__

EXAMPLE = "gtrans get-corpus iwslt17 --from selective-attn/data --out texts"
NEEDS = ()
RECORD = "corpus.json"
TRAIN, VALID = "train", "valid"
_WIDTH = 96


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans get-corpus``."""
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="the corpus; --list has all names")
    add(
        "--list",
        action="store_true",
        help="list the corpora, or say all that is known of NAME: files, addresses, licence",
    )
    add("--out", type=Path, metavar="DIR", help="folder to write NAME to")
    add = parser.add_argument_group("where from").add_argument
    add(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="folder with the published files, unpacked; single files may be gzipped",
    )
    add("--splits", metavar="S,S", help="only these splits (default: all)")
    add("--source-lang", metavar="LANG", help="of own and newstest")
    add("--target-lang", metavar="LANG", help="of own and newstest")
    add(
        "--boundary",
        choices=BOUNDARIES,
        help="own: what lies between two documents; elsewhere, two empty lines are a pair without "
        "text (default: either an empty line or a line <d>)",
    )
    parser.add_argument(
        "--empty",
        choices=EMPTY,
        help="what is done with a pair that is empty on a side (default: as in the papers)",
    )


def run(args: argparse.Namespace) -> None:
    """Write the corpus, or say what there is.

    Raises:
        GtransError: an option is wrong, a file is missing, or nothing can be written.
    """
    if args.list:
        lines = _described(corpus_named(args.name)) if args.name else _overview(read_corpora())
        print_lines(*lines)
        return
    if not args.name or args.out is None or args.source is None:
        raise GtransError(
            "give the NAME of a corpus, `--from DIR` with its files and `--out DIR`; `--list` has "
            "all names, `--list NAME` the files"
        )
    corpus = corpus_named(args.name)
    pairs = _pairs(args, corpus)
    if args.boundary is not None:
        if corpus.name != "own":
            raise GtransError(
                f"`--boundary` is for own; the files of {corpus.name} say it themselves"
            )
        form = corpus.forms[0]
        parts = {
            name: tuple(replace(part, boundary=args.boundary) for part in parts)
            for name, parts in form.splits.items()
        }
        corpus = replace(corpus, forms=(replace(form, splits=parts),))
    if args.empty is not None:
        corpus = replace(corpus, cleaning=replace(corpus.cleaning, empty=args.empty))
    if args.splits is not None:
        corpus = _with_splits(corpus, args.splits.split(","))
    check_output_folder("--out", args.out, [args.source])
    made = Assembly(corpus, args.out / args.name, pairs)
    made.write(args.source)
    print_lines(*_summary(made.counts), f"written to {made.folder} ({RECORD} has the counts)")


def _with_splits(corpus: Corpus, wanted: Sequence[str]) -> Corpus:
    """The corpus with some of its splits."""
    forms = []
    for form in corpus.forms:
        for name in wanted:
            if name not in form.splits:
                raise GtransError(
                    f"`--splits` '{name}': {corpus.name} in the form {form.name} has "
                    f"{', '.join(form.splits)}"
                )
        splits = {name: parts for name, parts in form.splits.items() if name in wanted}
        forms.append(replace(form, splits=splits))
    return replace(corpus, forms=tuple(forms), hold_out=corpus.hold_out * (TRAIN in wanted))


def _pairs(args: argparse.Namespace, corpus: Corpus) -> list[tuple[str, str]]:
    """The language pairs to write."""
    given = [args.source_lang, args.target_lang]
    if any(given):
        if corpus.others or not (corpus.year or corpus.name == "own"):
            raise GtransError(
                f"the languages of {corpus.name} are fixed; leave out `--source-lang`"
            )
        if not all(given) or given[0] == given[1]:
            raise GtransError("give two different languages, `--source-lang` and `--target-lang`")
        for flag, lang in zip(("--source-lang", "--target-lang"), given, strict=True):
            known_language(f"`{flag}`", lang)
        return [(given[0], given[1])]
    pairs = corpus.pairs()
    if not all(pairs[0]):
        raise GtransError(f"{corpus.name} needs `--source-lang` and `--target-lang`")
    return pairs


# ---- reading and writing -------------------------------------------------------------------------


class Assembly:
    """A corpus that is made from its published files.

    Attributes:
        corpus: the corpus; its cleaning is that of training text, of others only what is empty is
            cleaned.
        folder: where it is written.
        pairs: source and target languages.
        counts: of what was written, by split, and by pair if there are several.
    """

    def __init__(self, corpus: Corpus, folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
        """Say what is made."""
        self.corpus, self.folder, self.pairs = corpus, folder, pairs
        self.counts: dict[str, Counts] = {}
        self._form = corpus.forms[0]
        self._found: Mapping[Sequence[str], Path] = {}

    def write(self, source: Path) -> None:
        """Read the corpus from the folder with its files or archives, and write it.

        Raises:
            GtransError: a file is missing or is not as its form has it, or nothing can be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with locked(self.folder):
                finder = Finder(source)
                self._choose(finder)
                self._check_pairs()
                for languages in self.pairs:
                    self._write_pair(languages)
                self._record()
                for name, files in self._form.copies.items():
                    copied = finder.find([(file,) for file in files])
                    for path in copied.values():
                        (self.folder / name).mkdir(exist_ok=True)
                        copy_file(path, self.folder / name / path.name)
        except BaseException:
            with suppress(OSError):
                self.folder.rmdir()  # if nothing is in it
            raise

    def _groups(self) -> list[tuple[str, ...]]:
        """The alternatives of all files that are needed."""
        return [
            group
            for languages in self.pairs
            for split, parts in self._form.splits.items()
            for part in parts
            for group in part.patterns(split, *languages, self.corpus.year)
        ]

    def _choose(self, finder: Finder) -> None:
        """Find the form that is read, and its files.

        Raises:
            GtransError: no form is complete.
        """
        most, complaint = -1, ""
        for form in self.corpus.forms:
            self._form = form
            groups = self._groups()
            self._found = finder.find(groups)
            missing = [group for group in groups if group not in self._found]
            if not missing:
                return
            if len(self._found) > most:
                more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                most = len(self._found)
                complaint = (
                    f"`--from` has no file {' or '.join(missing[0])}{more}, which "
                    f"{self.corpus.name} in the form {form.name} needs; unpack archives first "
                    "(`--splits` leaves splits out, `--list NAME` says what is needed)"
                )
        raise GtransError(complaint)

    def _check_pairs(self) -> None:
        """Raises GtransError if the folder has another pair of languages from an earlier call."""
        with suppress(FileNotFoundError):
            found = read_object(self.folder / RECORD, "; remove it").get("pairs")
            if found not in (None, self._names()):
                raise GtransError(
                    f"{self.folder} has the pair {', '.join(found)}; give another `--out`"
                )

    def _names(self) -> list[str]:
        return ["-".join(pair) for pair in self.pairs]

    def _read(self, parts: Sequence[Part], split: str, languages: tuple[str, str]) -> Pairs:
        """The pairs of all parts of a split, one after the other.

        Raises:
            GtransError: a part has none.
        """
        for number, part in enumerate(parts):
            if number:
                yield None
            groups = part.patterns(split, *languages, self.corpus.year)
            paths = [self._found[group] for group in groups]
            empty = True
            for pair in read_part(part, paths[0], paths[-1]):
                empty = empty and not (pair and any(pair[:2]))
                yield pair
            if empty and len(parts) > 1:
                raise GtransError(f"{paths[0]}: no sentence pair of the {split} text is in it")

    def _write_pair(self, languages: tuple[str, str]) -> None:
        """All splits of a language pair, together or not at all."""
        several = f".{'-'.join(languages)}" if self.corpus.others else ""
        splits = self.corpus.splits(self._form)
        paths = [self.folder / f"{split}{several}.{lang}" for split in splits for lang in languages]
        with replacing(*paths, inputs=self._found.values()) as temporary, ExitStack() as stack:
            files = [stack.enter_context(open(path, "w", encoding="utf-8")) for path in temporary]
            sides = {split: files[2 * n : 2 * n + 2] for n, split in enumerate(splits)}
            for split, parts in self._form.splits.items():
                name = f"{split}{several}"
                what = f"{self.corpus.name} {name}"
                cleaner = Cleaner(self._cleaning(split), *languages, what)
                say(f"{name}: {self._form.title}")
                pairs = cleaner.clean(self._read(parts, split, languages))
                self.counts[name] = cleaner.counts
                if split == TRAIN and self.corpus.hold_out:
                    held = self.counts[f"{VALID}{several}"] = Counts()
                    _hold_out(pairs, self.corpus.hold_out, sides, cleaner.counts, held)
                else:
                    _write(pairs, *sides[split])

    def _cleaning(self, split: str) -> Cleaning:
        """Limits concern training text alone: tests stay what they are."""
        cleaning = self.corpus.cleaning
        return cleaning if split == TRAIN else Cleaning(empty=cleaning.empty)

    def _record(self) -> None:
        """Write what was made of which files."""
        splits = {}
        for name, counts in self.counts.items():
            cleaning = asdict(self._cleaning(name.split(".")[0]))
            splits[name] = asdict(counts) | {"form": self._form.name, "cleaning": cleaning}
        record = {
            "corpus": self.corpus.name,
            "pairs": self._names(),
            "splits": splits,
            "read": {group[0]: _digest(self._found[group]) for group in self._groups()},
            "written by": f"gtrans {__version__}",
        }
        with atomic_writer(self.folder / RECORD) as file:
            file.write(f"{json_text(record)}\n")


def _digest(path: Path) -> str:
    """Of a file, or of all files of a folder."""
    if path.is_file():
        return digest(path)
    return fingerprint({file.name: digest(file) for file in sorted(path.iterdir())})


def _write(pairs: Pairs, source: TextIO, target: TextIO) -> None:
    for pair in pairs:
        left, right = pair[:2] if pair else ("", "")
        source.write(f"{left}\n")
        target.write(f"{right}\n")


def _hold_out(
    pairs: Pairs, every: int, sides: Mapping[str, Sequence[TextIO]], train: Counts, valid: Counts
) -> None:
    """Write every so-many-th pair to ``valid``, the others to ``train``, and count them."""
    counts = {TRAIN: Counts(), VALID: valid}
    begun: set[str] = set()  # splits that have a pair of this document
    number = 0
    for pair in pairs:
        if pair is None:
            begun.clear()
            continue
        number += 1
        split = VALID if number % every == 0 else TRAIN
        found = counts[split]
        if split not in begun:
            if found.documents:
                _write(iter([None]), *sides[split])
            found.documents += 1
            begun.add(split)
        found.pairs += 1
        _write(iter([pair]), *sides[split])
    train.documents, train.pairs = counts[TRAIN].documents, counts[TRAIN].pairs


# ---- what is printed -----------------------------------------------------------------------------


def _summary(made: Mapping[str, Counts]) -> Iterator[str]:
    for name, counts in made.items():
        dropped = [f"{number:,} {why}" for why, number in counts.dropped.items() if number]
        if counts.dropped_documents:
            dropped.append(f"{counts.dropped_documents:,} whole documents")
        left_out = f"; dropped: {', '.join(dropped)}" if dropped else ""
        yield f"{name}: {counts.documents:,} documents, {counts.pairs:,} sentence pairs{left_out}"


def _overview(corpora: list[Corpus]) -> Iterator[str]:
    rows = [["name", "also", "papers", "size", "licence", "home"]]
    for corpus in corpora:
        rows.append([
            corpus.name, " ".join(corpus.also), " ".join(corpus.papers), corpus.size,
            corpus.licence, _home(corpus.forms[0]),
        ])  # fmt: skip
    yield from aligned(rows, set(range(len(rows[0]))))
    yield "public: an address that anybody can download from."


def _home(form: Form) -> str:
    if not form.homes:
        return "none"
    return "by hand" if any(home.by_hand for home in form.homes) else "public"


def _described(corpus: Corpus) -> Iterator[str]:
    languages = ", ".join("-".join(pair) for pair in corpus.pairs() if all(pair))
    yield f"{corpus.name}: {corpus.title}"
    yield from _text(f"languages: {languages or 'any'}")
    yield from _text(f"size: {corpus.size}; licence: {corpus.licence}")
    if corpus.says:
        said = ", ".join(f"{split} {size}" for split, size in corpus.says.items())
        yield from _text(f"the papers say: {said}")
    rules = ", ".join(f"{name} {value}" for name, value in asdict(corpus.cleaning).items())
    yield from _text(f"cleaning: {rules}")
    for form in corpus.forms:
        yield f"  form {form.name}: {form.title}"
        for home in form.homes:
            how = "by hand" if home.by_hand else "public"
            known = f", MD5 {home.md5}" if home.md5 else ""
            yield f"    {home.url} ({how}{known}) -> {home.file}"
        source, target = next(iter(corpus.pairs()))
        for split, parts in form.splits.items():
            names = [
                group[0]
                for part in parts
                for group in part.patterns(split, source or "SRC", target or "TGT", corpus.year)
            ]
            yield from _text(f"{split}: {', '.join(names)}", indent=4)
        for folder, files in form.copies.items():
            yield from _text(f"{folder}/: {', '.join(files)}", indent=4)
        if form.note:
            yield from _text(form.note, indent=4)


def _text(text: str, indent: int = 2) -> list[str]:
    return wrap(
        text,
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
        break_long_words=False,
    )
