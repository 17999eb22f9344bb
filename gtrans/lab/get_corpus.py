"""Make a corpus of the papers ready: OUT/NAME/{train,dev,test}.LANG, from its published files.

The files or archives are read from a folder; nothing but the files that are needed is taken out of
an archive. --list NAME says what is needed and where it is, for `wget -c` or a browser; the
addresses could not be tried where this was written.

Text is as published: one sentence per line, an empty line between documents. OUT/NAME/corpus.json
has the counts of what was kept and dropped, and the digests of the files that were read. The names
are those of the run scripts (`--data OUT --corpus NAME`) and of `gtrans reproduce --list`; `own` is
a corpus of one's own, DIR/{train,dev,test}.LANG.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from textwrap import wrap
from typing import Any, TextIO

from gtrans.errors import GtransError
from gtrans.identity.digests import digest, fingerprint
from gtrans.identity.files import (
    atomic_writer,
    check_output_folder,
    copy_file,
    locked,
    replacing,
)
from gtrans.identity.json_files import read_object
from gtrans.lab.corpora import (
    EMPTY,
    Cleaner,
    Cleaning,
    Corpus,
    Counts,
    Finder,
    Form,
    Part,
    corpus_named,
    read_corpora,
)
from gtrans.lab.corpus_readers import (
    BOUNDARIES,
    Boundary,
    Pairs,
    read_articles,
    read_groups,
    read_lines,
    read_set,
    read_talks,
    references_of,
)
from gtrans.languages import known_language
from gtrans.messages import aligned, json_text, print_lines, say
from gtrans.version import __version__

EXAMPLE = "gtrans get-corpus iwslt17 --from selective-attn/data --out texts"
NEEDS = ()
RECORD = "corpus.json"
TRAIN, DEV = "train", "dev"
_UNPACKED = ".unpacked-"
_WIDTH = 96


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans get-corpus``."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the corpus; --list has all names")
    parser.add_argument(
        "--list",
        action="store_true",
        help="list the corpora, or say all that is known of NAME: files, addresses, licence",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder to write NAME to")

    source = parser.add_argument_group("where from")
    source.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="folder with the published files or archives (.tgz, .tar.*, .zip, files also .gz)",
    )
    source.add_argument("--splits", metavar="S,S", help="only these splits (default: all)")
    source.add_argument(
        "--pairs", metavar="L-L,..", help="only these language pairs of a multilingual corpus"
    )
    source.add_argument("--source-lang", metavar="LANG", help="of own and newstest")
    source.add_argument("--target-lang", metavar="LANG", help="of own and newstest")
    source.add_argument(
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
        chosen = [corpus_named(args.name)] if args.name else read_corpora()
        print_lines(*(_described(chosen[0]) if args.name else _overview(chosen)))
        return
    if not args.name or args.out is None or args.source is None:
        raise GtransError(
            "give the NAME of a corpus, `--from DIR` with its files and `--out DIR`; `--list` has "
            "all names, `--list NAME` the files"
        )
    corpus = corpus_named(args.name)
    wanted = _wanted(args, corpus)
    check_output_folder("--out", args.out, [args.source])
    made = assemble(wanted, args.source)
    print_lines(*_summary(made), f"written to {wanted.folder} ({RECORD} has the counts)")


# ---- what is asked for ---------------------------------------------------------------------------


def _wanted(args: argparse.Namespace, corpus: Corpus) -> Wanted:
    pairs = _pairs(args, corpus)
    if args.boundary is not None:
        if corpus.name != "own":
            raise GtransError(
                f"`--boundary` is for own; the files of {corpus.name} say it themselves"
            )
        corpus = _with_boundary(corpus, args.boundary)
    splits = [name for name in (args.splits or "").split(",") if name]
    cleaning = corpus.cleaning
    if args.empty is not None:
        cleaning = replace(cleaning, empty=args.empty)
    return Wanted(corpus, args.out / args.name, pairs, splits, cleaning)


def _with_boundary(corpus: Corpus, boundary: Boundary) -> Corpus:
    (form,) = corpus.forms
    splits = {
        name: tuple(replace(part, boundary=boundary) for part in parts)
        for name, parts in form.splits.items()
    }
    return replace(corpus, forms=(replace(form, splits=splits),))


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
    if args.pairs is None:
        if not all(pairs[0]):
            raise GtransError(f"{corpus.name} needs `--source-lang` and `--target-lang`")
        return pairs
    by_name = {"-".join(pair): pair for pair in pairs if corpus.others}
    chosen = args.pairs.split(",")
    for name in chosen:
        if name not in by_name:
            known = ", ".join(by_name) or "one pair only"
            raise GtransError(f"`--pairs` '{name}': {corpus.name} has {known}")
    return [by_name[name] for name in dict.fromkeys(chosen)]


# ---- reading and writing -------------------------------------------------------------------------



@dataclass(frozen=True)
class Wanted:
    """What is to be made of a corpus.

    Attributes:
        corpus: the corpus.
        folder: where it is written.
        pairs: source and target languages.
        splits: names; empty: all.
        cleaning: of training text; of others only what is empty is cleaned.
    """

    corpus: Corpus
    folder: Path
    pairs: Sequence[tuple[str, str]]
    splits: Sequence[str]
    cleaning: Cleaning


@dataclass
class Made:
    """What was made.

    Attributes:
        form: which form was read.
        splits: counts by split, and by pair if there are several.
        files: digests of what was read, by its first name in the catalogue.
    """

    form: str
    splits: dict[str, Counts] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


_Found = Mapping[Sequence[str], Path]


def assemble(wanted: Wanted, source: Path) -> Made:
    """Read a corpus from a folder and write it.

    Args:
        wanted: what is to be made.
        source: the folder with its files or archives.

    Raises:
        GtransError: a file is missing or is not as its form has it, or nothing can be written.
    """
    wanted.folder.mkdir(parents=True, exist_ok=True)
    try:
        return _assemble(wanted, source)
    except BaseException:
        with suppress(OSError):
            wanted.folder.rmdir()  # if nothing is in it
        raise


def _assemble(wanted: Wanted, source: Path) -> Made:
    with locked(wanted.folder), ExitStack() as stack:
        for left in wanted.folder.glob(f"{_UNPACKED}*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        temporary = tempfile.TemporaryDirectory(prefix=_UNPACKED, dir=wanted.folder)
        finder = Finder(source, Path(stack.enter_context(temporary)))
        form, found = _choose(wanted, finder)
        before = _recorded(wanted)
        pairs = ["-".join(pair) for pair in wanted.pairs]
        if not wanted.corpus.others and before.get("pairs", pairs) != pairs:
            raise GtransError(
                f"{wanted.folder} has the pair {', '.join(before['pairs'])}; give another `--out`"
            )
        made = Made(form.name)
        for languages in wanted.pairs:
            _write_pair(wanted, form, found, languages, made)
            groups = _groups_of(wanted, form, [languages])
            made.files |= {names[0]: _digest(found[names]) for names in groups}
            _record(wanted, made, languages, before)
        for folder, names in form.copies.items():
            copied = finder.find([(name,) for name in names], form.archives)
            _copy_all(wanted.folder / folder, copied)
    return made


def _digest(path: Path) -> str:
    """Of a file, or of all files of a folder."""
    if path.is_file():
        return digest(path)
    return fingerprint({file.name: digest(file) for file in sorted(path.iterdir())})


def _splits(wanted: Wanted, form: Form) -> list[str]:
    """The splits to write.

    Raises:
        GtransError: the form has not one that is asked for.
    """
    known = wanted.corpus.splits(form)
    for split in wanted.splits:
        if split not in known:
            raise GtransError(
                f"`--splits` '{split}': {wanted.corpus.name} in the form {form.name} has "
                f"{', '.join(known)}"
            )
    if wanted.corpus.hold_out and (TRAIN in wanted.splits) != (DEV in wanted.splits):
        raise GtransError(
            f"`--splits`: {TRAIN} and {DEV} of {wanted.corpus.name} are made together"
        )
    return [split for split in known if not wanted.splits or split in wanted.splits]


def _groups_of(
    wanted: Wanted, form: Form, pairs: Sequence[tuple[str, str]]
) -> list[tuple[str, ...]]:
    """The alternatives of all files that are needed for these pairs."""
    return [
        group
        for source, target in pairs
        for split in _splits(wanted, form)
        for part in form.splits.get(split, ())
        for group in part.patterns(split, source, target, wanted.corpus.year)
    ]


def _choose(wanted: Wanted, finder: Finder) -> tuple[Form, _Found]:
    """The form that is read, and its files.

    Raises:
        GtransError: no form is complete.
    """
    best: tuple[int, Form, list[tuple[str, ...]]] | None = None
    for form in wanted.corpus.forms:
        groups = _groups_of(wanted, form, wanted.pairs)
        found = finder.find(groups, form.archives)
        missing = [group for group in groups if group not in found]
        if not missing:
            return form, found
        if best is None or len(found) > best[0]:
            best = len(found), form, missing
    assert best is not None, "every corpus has a form"
    _, form, missing = best
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    raise GtransError(
        f"`--from` has no file {' or '.join(missing[0])}{more}, in no archive either; "
        f"{wanted.corpus.name} in the form {form.name} needs it (`--splits` leaves splits out, "
        "`gtrans get-corpus --list NAME` says what is needed)"
    )


def _pairs_of(part: Part, paths: Sequence[Path]) -> Pairs:
    """What the reader of a part yields."""
    first, last = paths[0], paths[-1]
    if part.reader == "lines":
        return read_lines(first, last, part.boundary)
    if part.reader == "talks":
        return read_talks(first, last, part.headings)
    reader = {"sets": read_set, "articles": read_articles, "groups": read_groups}[part.reader]
    return reader(first, last)


def _joined(
    parts: Sequence[Part], found: _Found, split: str, languages: tuple[str, str], year: str
) -> Pairs:
    """The pairs of all parts of a split, one after the other.

    Raises:
        GtransError: a part has none.
    """
    for number, part in enumerate(parts):
        if number:
            yield None
        paths = [found[group] for group in part.patterns(split, *languages, year)]
        empty = True
        for pair in _pairs_of(part, paths):
            empty = empty and not (pair and any(pair[:2]))
            yield pair
        if empty and len(parts) > 1:
            raise GtransError(f"{paths[0]}: no sentence pair of the {split} text is in it")


def _write_pair(
    wanted: Wanted,
    form: Form,
    found: _Found,
    languages: tuple[str, str],
    made: Made,
) -> None:
    """All splits of a language pair with their references, together or not at all."""
    several = f".{'-'.join(languages)}" if wanted.corpus.others else ""
    splits = _splits(wanted, form)
    paths = [wanted.folder / f"{split}{several}.{lang}" for split in splits for lang in languages]
    references = _references(wanted, form, found, languages)
    paths += [
        wanted.folder / f"{split}{several}.ref{number + 1}.{languages[1]}"
        for split, number, *_ in references
    ]
    with replacing(*paths, inputs=found.values()) as temporary, ExitStack() as stack:
        files = [stack.enter_context(open(path, "w", encoding="utf-8")) for path in temporary]
        sides = {split: files[2 * n : 2 * n + 2] for n, split in enumerate(splits)}
        for split, parts in form.splits.items():
            if split not in splits:
                continue
            year = wanted.corpus.year
            pairs = _joined(parts, found, split, languages, year)
            name = f"{split}{several}"
            cleaner = Cleaner(
                _cleaning_of(wanted, split), *languages, f"{wanted.corpus.name} {name}"
            )
            say(f"{name}: {form.title}")
            if split == TRAIN and wanted.corpus.hold_out:
                held = _hold_out(cleaner.clean(pairs), wanted.corpus.hold_out, sides)
                made.splits |= {f"{key}{several}": counts for key, counts in held.items()}
                made.splits[name].dropped = cleaner.counts.dropped
                made.splits[name].dropped_documents = cleaner.counts.dropped_documents
            else:
                _write(cleaner.clean(pairs), *sides[split])
                made.splits[name] = cleaner.counts
        further = files[2 * len(splits) :]
        for file, (split, number, source, target) in zip(further, references, strict=True):
            pairs_written = made.splits[f"{split}{several}"].pairs
            _write_reference(file, number, source, target, pairs_written)


def _cleaning_of(wanted: Wanted, split: str) -> Cleaning:
    """Limits and duplicates concern training text alone: tests stay what they are."""
    return wanted.cleaning if split == TRAIN else Cleaning(empty=wanted.cleaning.empty)


def _write(pairs: Pairs, source: TextIO, target: TextIO) -> None:
    for pair in pairs:
        left, right = pair[:2] if pair else ("", "")
        source.write(f"{left}\n")
        target.write(f"{right}\n")


def _hold_out(pairs: Pairs, every: int, sides: Mapping[str, Sequence[TextIO]]) -> dict[str, Counts]:
    """Write every so-many-th pair to ``dev``, the others to ``train``."""
    counts = {TRAIN: Counts(), DEV: Counts()}
    begun: set[str] = set()  # splits that have a pair of this document
    number = 0
    for pair in pairs:
        if pair is None:
            begun.clear()
            continue
        number += 1
        split = DEV if number % every == 0 else TRAIN
        found = counts[split]
        if split not in begun:
            if found.documents:
                _write(iter([None]), *sides[split])
            found.documents += 1
            begun.add(split)
        found.pairs += 1
        _write(iter([pair]), *sides[split])
    return counts


def _references(
    wanted: Wanted, form: Form, found: _Found, languages: tuple[str, str]
) -> list[tuple[str, int, Path, Path]]:
    """The second and further references of test sets: split, number from 1, and their files."""
    references = []
    for split in _splits(wanted, form):
        parts = form.splits.get(split, ())
        if len(parts) != 1 or parts[0].reader != "sets":
            continue
        files = parts[0].patterns(split, *languages, wanted.corpus.year)
        source, target = (found[group] for group in files)
        numbers = range(1, len(references_of(target)))
        references += [(split, number, source, target) for number in numbers]
    return references


def _write_reference(file: TextIO, number: int, source: Path, target: Path, pairs: int) -> None:
    """A further reference of a test set, of which ``pairs`` sentences are written.

    Raises:
        GtransError: it would not be that of these sentences.
    """
    lines = 0
    for pair in read_set(source, target, number):
        lines += pair is not None
        if pair is not None and not all(pair[:2]):
            line = pair.places[-1][1]
            raise GtransError(f"{target}:{line}: reference {number + 1} lacks a sentence")
        file.write(f"{pair[1] if pair else ''}\n")
    if lines != pairs:
        raise GtransError(
            f"{target}: reference {number + 1} has {lines} sentences, but {pairs} of the first are "
            "written"
        )


def _copy_all(folder: Path, found: Mapping[Sequence[str], Path]) -> None:
    if found:
        folder.mkdir(exist_ok=True)
    for path in found.values():
        copy_file(path, folder / path.name)


def _recorded(wanted: Wanted) -> dict[str, Any]:
    """What the record says of earlier calls.

    Raises:
        GtransError: it is damaged.
    """
    with suppress(FileNotFoundError):
        found = read_object(wanted.folder / RECORD, "; remove it")
        if found.get("corpus") == wanted.corpus.name:
            return found
    return {}


def _record(
    wanted: Wanted, made: Made, languages: tuple[str, str], record: dict[str, Any]
) -> None:
    """Add what was made to the ``record`` of earlier calls and pairs, and write it."""
    pair = "-".join(languages)
    splits = {
        name: asdict(counts)
        | {"form": made.form, "cleaning": asdict(_cleaning_of(wanted, name.split(".")[0]))}
        for name, counts in made.splits.items()
    }
    record |= {
        "corpus": wanted.corpus.name,
        "pairs": list(dict.fromkeys([*record.get("pairs", []), pair])),
        "splits": record.get("splits", {}) | splits,
        "read": record.get("read", {}) | made.files,
        "written by": f"gtrans {__version__}",
    }
    with atomic_writer(wanted.folder / RECORD) as file:
        file.write(f"{json_text(record)}\n")


# ---- what is printed -----------------------------------------------------------------------------


def _summary(made: Made) -> Iterator[str]:
    for name, counts in made.splits.items():
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
    yield "untried: a public address that could not be tried where this was written."


def _home(form: Form) -> str:
    if not form.homes:
        return "none"
    return "by hand" if any(home.by_hand for home in form.homes) else "untried"


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
            how = "by hand" if home.by_hand else "untried"
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
