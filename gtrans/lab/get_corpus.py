"""Make a corpus of the papers ready: OUT/NAME/{train,dev,test}.LANG, from its published files.

With --from, the files or archives are read from a folder, nothing is downloaded, and nothing but
the files that are needed is taken out of an archive. Without it, the archives are downloaded first,
into OUT/downloads or --downloads; an interrupted download goes on, and its checksum is kept and
compared. None of the addresses could be tried where this was written.

Text is as published: one sentence per line, an empty line between documents. OUT/NAME/corpus.json
has the counts of what was kept and dropped, and the digests of the files that were read. The names
are those of the run scripts (`--data OUT --corpus NAME`) and of `gtrans reproduce --list`; `own` is
a corpus of one's own, DIR/{train,dev,test}.LANG.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import wrap

from gtrans.cli.shared.tables import aligned
from gtrans.errors import GtransError
from gtrans.identity.files import check_output_folder
from gtrans.lab.corpora.assembling import RECORD, Made, Wanted, assemble
from gtrans.lab.corpora.catalogue import Corpus, Form, corpus_named, read_corpora
from gtrans.lab.corpora.cleaning import EMPTY, Cleaning
from gtrans.lab.corpora.lines import BOUNDARIES, Boundary
from gtrans.languages import known_language
from gtrans.messages import json_text, print_lines

EXAMPLE = "gtrans get-corpus iwslt17 --from selective-attn/data --out texts"
NEEDS = ()
_WIDTH = 96


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans get-corpus``."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the corpus; --list has all names")
    parser.add_argument(
        "--list",
        action="store_true",
        help="list the corpora, or say all that is known of NAME: files, addresses, licence",
    )
    parser.add_argument("--json", action="store_true", help="write JSON to standard output")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder to write NAME to")

    source = parser.add_argument_group("where from")
    source.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="folder with the published files or archives (.tgz, .tar.*, .zip, files also .gz)",
    )
    source.add_argument(
        "--downloads",
        type=Path,
        metavar="DIR",
        help="folder for downloads (default: OUT/downloads)",
    )
    source.add_argument(
        "--form", default="", metavar="NAME", help="which form (default: the first that is there)"
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

    cleaning = parser.add_argument_group("cleaning, each with counts; default: as in the papers")
    cleaning.add_argument(
        "--empty", choices=EMPTY, help="what is done with a pair that is empty on a side"
    )
    cleaning.add_argument(
        "--max-words", type=int, metavar="N", help="drop longer training pairs; 0: none"
    )
    cleaning.add_argument(
        "--max-ratio",
        type=float,
        metavar="R",
        help="drop training pairs of which one side has more than R times the words of the other; "
        "0: none",
    )
    cleaning.add_argument(
        "--drop-duplicates", action="store_true", help="drop training pairs that have occurred"
    )


def run(args: argparse.Namespace) -> None:
    """Write the corpus, or say what there is.

    Raises:
        GtransError: an option is wrong, a file is missing, or nothing can be written.
    """
    if args.list:
        chosen = [corpus_named(args.name)] if args.name else read_corpora()
        if args.json:
            print(json_text([asdict(corpus) for corpus in chosen]))
        else:
            print_lines(*(_described(chosen[0]) if args.name else _overview(chosen)))
        return
    if not args.name or args.out is None:
        raise GtransError("give the NAME of a corpus and `--out DIR`; `--list` has all names")
    corpus = corpus_named(args.name)
    wanted = _wanted(args, corpus)
    check_output_folder("--out", args.out, [args.source] if args.source else [])
    source = args.source or _downloaded(args, wanted)
    made = assemble(wanted, source)
    if args.json:
        print(json_text({name: counts.as_json() for name, counts in made.splits.items()}))
    else:
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
    form = args.form or ("" if args.source else corpus.forms[0].name)
    if form:
        corpus.form(form)
    return Wanted(corpus, args.out / args.name, pairs, splits, form, _cleaning(args, corpus))


def _cleaning(args: argparse.Namespace, corpus: Corpus) -> Cleaning:
    given = {
        name: value
        for name in ("empty", "max_words", "max_ratio")
        if (value := getattr(args, name)) is not None
    }
    if given.get("max_words", 0) < 0:
        raise GtransError(f"`--max-words` must be at least 0, but is {args.max_words}")
    if given.get("max_ratio", 0) != 0 and not 1 <= given["max_ratio"] < float("inf"):
        raise GtransError(f"`--max-ratio` must be 0 or at least 1, but is {args.max_ratio}")
    return replace(corpus.cleaning, **given, drop_duplicates=args.drop_duplicates)


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


def _downloaded(args: argparse.Namespace, wanted: Wanted) -> Path:
    """The folder of the archives, which are fetched if they are not there.

    Raises:
        GtransError: there is no address that a program can fetch, or a download fails.
    """
    from gtrans.lab.corpora.download import download

    corpus = wanted.corpus
    form = corpus.form(wanted.form)
    by_hand = [home.url for home in form.homes if home.by_hand]
    if by_hand or not form.homes:
        at = f" from {' and '.join(by_hand)}" if by_hand else f" ({corpus.licence})"
        raise GtransError(
            f"{corpus.name} cannot be fetched by a program; get its files yourself{at}, and give "
            f"their folder with `--from` (`gtrans get-corpus --list {corpus.name}` names them)"
        )
    homes = [home for home in form.homes if not home.years or corpus.year in home.years]
    if not homes:
        years = ", ".join(year for home in form.homes for year in home.years)
        raise GtransError(
            f"no address of {corpus.name} is known, only of the years {years}; get its files "
            "yourself, and give their folder with `--from`"
        )
    folder = Path(args.downloads or args.out / "downloads")
    folder.mkdir(parents=True, exist_ok=True)
    for home in homes:
        if wanted.splits and home.splits and not set(home.splits) & set(wanted.splits):
            continue
        download(home.url, folder / home.file, home.md5)
    return folder


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
    yield "untried: a public address that could not be tried; `--from DIR` is the tested way."


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
    if corpus.tables:
        tables = ", ".join(corpus.tables)
        yield from _text(f"counts in the papers: {tables} (gtrans corpus-report --corpus)")
    rules = ", ".join(f"{name} {value}" for name, value in corpus.cleaning.as_json().items())
    yield from _text(f"cleaning: {rules}")
    for form in corpus.forms:
        yield f"  form {form.name}: {form.title}"
        for home in form.homes:
            how = "by hand" if home.by_hand else "untried"
            yield f"    {home.url} ({how}) -> {home.file}"
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
