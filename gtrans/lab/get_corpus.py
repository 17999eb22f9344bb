"""Make a corpus of the papers ready: OUT/NAME/{train,valid,test}.LANG, from its published files.

The files are found anywhere below a folder. --list NAME prints the needed files and their
addresses, for `wget -c` or a browser; unpack archives, and archives inside them, with tar or unzip.

Text is as published: one sentence per line, an empty line between documents. OUT/NAME/corpus.json
has the counts of kept and dropped pairs, and digests of the published files. The run scripts and
`gtrans reproduce` use the same names (`--data OUT --corpus NAME`); `own` is a corpus of your own,
DIR/{train,valid,test}.LANG.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from gtrans.errors import GtransError
from gtrans.files import (
    atomic_writer,
    check_output_folder,
    check_replaceable,
    copy_file,
    digest,
    digest_of_values,
    locked,
    read_object,
    replacing,
)
from gtrans.lab.corpora import (
    EMPTY,
    OWN,
    Cleaning,
    Finder,
    Form,
    PaperCorpus,
    corpus_named,
    read_corpora,
    word_counter,
    yaml_lines,
)
from gtrans.lab.corpus_readers import BOUNDARIES, Pair, Pairs, read_part
from gtrans.languages import known_language
from gtrans.messages import aligned, json_text, print_lines, print_message
from gtrans.version import __version__

EXAMPLE = "gtrans get-corpus iwslt17 --from selective-attn --out corpus"
NEEDS = ()
RECORD = "corpus.json"
TRAIN, VALID = "train", "valid"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="the corpus; --list has all names")
    add(
        "--list",
        action="store_true",
        help="list the corpora, or print all that is known of NAME: files, addresses, licence",
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
    add("--splits", nargs="+", metavar="SPLIT", help="only these splits (default: all)")
    add("--source-lang", metavar="LANG", help="of own and newstest")
    add("--target-lang", metavar="LANG", help="of own and newstest")
    add(
        "--boundary",
        choices=BOUNDARIES,
        help="own: the line between two documents; with <d>, two empty lines are a pair without "
        "text (default: an empty line or a line <d>)",
    )
    parser.add_argument(
        "--empty",
        choices=EMPTY,
        help="drop pairs with an empty side, or end with an error (default: as in the papers)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace texts that this command did not write"
    )


def run(args: argparse.Namespace) -> None:
    """Write the corpus, or list what there is."""
    if args.list:
        if args.name:
            corpus = corpus_named(args.name)
            print_lines(*yaml_lines({args.name: asdict(corpus)}))
        else:
            print_lines(*_overview(read_corpora()))
        return
    if not args.name or args.out is None or args.source is None:
        raise GtransError(
            "give the NAME of a corpus, `--from DIR` with its files and `--out DIR`; `--list` has "
            "all names, `--list NAME` the files"
        )
    corpus = corpus_named(args.name)
    pairs = _pairs(args, corpus)
    corpus = _with_options(args, corpus)
    check_output_folder("--out", args.out, [args.source])
    folder = args.out / args.name
    counts = write_corpus(corpus, pairs, args.source, folder, args.force)
    print_lines(*_summary(counts), f"written to {folder} ({RECORD} has the counts)")


def _with_options(args: argparse.Namespace, corpus: PaperCorpus) -> PaperCorpus:
    if args.boundary is not None and corpus.name != OWN:
        raise GtransError(f"`--boundary` is for own; the files of {corpus.name} say it themselves")
    chosen = None
    if args.splits is not None:
        chosen = [name for name in ",".join(args.splits).split(",") if name]
    forms = []
    for form in corpus.forms:
        for name in chosen or ():
            if name not in form.splits:
                raise GtransError(
                    f"`--splits` '{name}': {corpus.name} in the form {form.name} has "
                    f"{', '.join(form.splits)}"
                )
        splits = {}
        for name, parts in form.splits.items():
            if chosen is None or name in chosen:
                if args.boundary:
                    parts = tuple(replace(part, boundary=args.boundary) for part in parts)
                splits[name] = parts
        forms.append(replace(form, splits=splits))
    cleaning = replace(corpus.cleaning, empty=args.empty or corpus.cleaning.empty)
    hold_out = corpus.hold_out if chosen is None or TRAIN in chosen else 0
    return replace(corpus, forms=tuple(forms), cleaning=cleaning, hold_out=hold_out)


def _pairs(args: argparse.Namespace, corpus: PaperCorpus) -> list[tuple[str, str]]:
    langs = [args.source_lang, args.target_lang]
    if any(langs):
        if corpus.others or not (corpus.year or corpus.name == OWN):
            raise GtransError(
                f"the languages of {corpus.name} are fixed; leave out `--source-lang`"
            )
        if not all(langs) or langs[0] == langs[1]:
            raise GtransError("give two different languages, `--source-lang` and `--target-lang`")
        for flag, lang in zip(("--source-lang", "--target-lang"), langs, strict=True):
            known_language(f"`{flag}`", lang)
        return [(langs[0], langs[1])]
    pairs = corpus.pairs()
    if not all(pairs[0]):
        raise GtransError(f"{corpus.name} needs `--source-lang` and `--target-lang`")
    return pairs


# ---- reading and writing -------------------------------------------------------------------------


@dataclass
class Counts:
    """Numbers of kept documents and pairs, dropped pairs by reason, and emptied documents."""

    documents: int = 0
    pairs: int = 0
    dropped: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("empty on both sides", "empty on one side", "too long", "ratio"), 0
        )
    )
    dropped_documents: int = 0


Files = Mapping[Sequence[str], Path]
"""The files to read, by their alternative names."""


def write_corpus(
    corpus: PaperCorpus,
    pairs: Sequence[tuple[str, str]],
    source: Path,
    folder: Path,
    force: bool = False,
) -> dict[str, Counts]:
    """Read a corpus from the files below ``source``, write it to ``folder``, and return its counts.

    Counts of several language pairs are named ``train.en-de``. ``force`` also replaces texts that
    this command did not write.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            finder = Finder(source)
            form, inputs = _first_complete_form(corpus, pairs, finder)
            earlier = _earlier_record(folder, pairs)
            writer = _CorpusWriter(corpus, form, pairs, inputs, folder)
            writer.check_texts(earlier.get("splits", {}), force)
            made = writer.write_texts()
            writer.write_record(earlier, made)
            writer.copy_files(finder)
            return made
    except BaseException:
        with suppress(OSError):
            folder.rmdir()  # if nothing is in it
        raise


def _alternative_names(
    corpus: PaperCorpus, form: Form, pairs: Sequence[tuple[str, str]]
) -> list[tuple[str, ...]]:
    groups: list[tuple[str, ...]] = []
    for languages in pairs:
        for split, parts in form.splits.items():
            for part in parts:
                groups += part.patterns(split, *languages, corpus.year)
    return groups


def _first_complete_form(
    corpus: PaperCorpus, pairs: Sequence[tuple[str, str]], finder: Finder
) -> tuple[Form, Files]:
    most, complaint = -1, ""
    for form in corpus.forms:
        groups = _alternative_names(corpus, form, pairs)
        inputs = finder.find(groups)
        missing = [group for group in groups if group not in inputs]
        if not missing:
            return form, inputs
        if len(inputs) > most:
            rest = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            most = len(inputs)
            complaint = (
                f"`--from` has no file {' or '.join(missing[0])}{rest}, which {corpus.name} in the "
                f"form {form.name} needs; unpack archives first (`--splits` leaves splits out, "
                "`--list NAME` says what is needed)"
            )
    raise GtransError(complaint)


def _earlier_record(folder: Path, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the record of an earlier call; GtransError if it wrote other pairs."""
    try:
        record = read_object(folder / RECORD, "; remove it")
    except FileNotFoundError:
        return {}
    if not str(record.get("written by")).startswith("gtrans "):
        return {}
    if record.get("pairs") not in (None, _pair_names(pairs)):
        raise GtransError(
            f"{folder} has the pair {', '.join(record['pairs'])}; give another `--out`"
        )
    return record


def _pair_names(pairs: Sequence[tuple[str, str]]) -> list[str]:
    return ["-".join(pair) for pair in pairs]


@dataclass(frozen=True)
class _CorpusWriter:
    corpus: PaperCorpus
    form: Form
    pairs: Sequence[tuple[str, str]]
    inputs: Files
    folder: Path

    def check_texts(self, written: Mapping[str, Any], force: bool) -> None:
        """Raise GtransError for an existing text of no split in ``written``, unless ``force``."""

        def is_own(path: Path) -> bool:
            split, _, _ = path.name.rpartition(".")
            return split in written

        for languages in self.pairs:
            for path in self._paths(languages):
                check_replaceable("--out", path, is_own, force)

    def write_texts(self) -> dict[str, Counts]:
        """Write all splits, and return their counts."""
        made: dict[str, Counts] = {}
        for languages in self.pairs:
            made |= self._write_pair(languages)
        return made

    def write_record(self, earlier: Mapping[str, Any], made: Mapping[str, Counts]) -> None:
        """Add the texts that were made to the record of an earlier call."""
        splits = dict(earlier.get("splits", {}))
        for name, counts in made.items():
            cleaning = self._cleaning(name.split(".")[0])
            splits[name] = {
                **asdict(counts),
                "form": self.form.name,
                "cleaning": asdict(cleaning),
            }
        digests = dict(earlier.get("read", {}))
        for group in _alternative_names(self.corpus, self.form, self.pairs):
            digests[group[0]] = _digest(self.inputs[group])
        record = {
            "corpus": self.corpus.name,
            "pairs": _pair_names(self.pairs),
            "splits": splits,
            "read": digests,
            "written by": f"gtrans {__version__}",
        }
        with atomic_writer(self.folder / RECORD) as file:
            file.write(f"{json_text(record)}\n")

    def copy_files(self, finder: Finder) -> None:
        """Copy the files of the form that are published beside the texts."""
        for name, files in self.form.copies.items():
            found = finder.find([(file,) for file in files])
            for path in found.values():
                (self.folder / name).mkdir(exist_ok=True)
                copy_file(path, self.folder / name / path.name)

    def _cleaning(self, split: str) -> Cleaning:
        # Only training text has limits.
        cleaning = self.corpus.cleaning
        return cleaning if split == TRAIN else Cleaning(empty=cleaning.empty)

    def _suffix(self, languages: tuple[str, str]) -> str:
        return f".{'-'.join(languages)}" if self.corpus.others else ""

    def _splits(self) -> list[str]:
        names = list(self.form.splits)
        if self.corpus.hold_out:
            names.insert(1, VALID)
        return names

    def _paths(self, languages: tuple[str, str]) -> list[Path]:
        suffix = self._suffix(languages)
        paths = []
        for name in self._splits():
            for lang in languages:
                paths.append(self.folder / f"{name}{suffix}.{lang}")
        return paths

    def _write_pair(self, languages: tuple[str, str]) -> dict[str, Counts]:
        corpus, suffix = self.corpus, self._suffix(languages)
        paths = self._paths(languages)
        with replacing(*paths, inputs=self.inputs.values()) as temporary, ExitStack() as stack:
            files = [stack.enter_context(open(path, "w", encoding="utf-8")) for path in temporary]
            splits = {}
            for number, name in enumerate(self._splits()):
                splits[name] = SplitWritten(files[2 * number : 2 * number + 2])
            for name in self.form.splits:
                print_message(f"{name}{suffix}: {self.form.title}")
                pairs = self._read(name, languages)
                label = f"{corpus.name} {name}{suffix}"
                counts = splits[name].counts
                every = corpus.hold_out if name == TRAIN else 0
                number = 0
                for pair in clean(pairs, self._cleaning(name), languages, label, counts):
                    if pair is None:
                        if corpus.hold_out:
                            splits[VALID].write(None)
                        splits[name].write(None)
                        continue
                    number += 1
                    is_held_out = every > 0 and number % every == 0
                    splits[VALID if is_held_out else name].write(pair)
        return {f"{name}{suffix}": split.counts for name, split in splits.items()}

    def _read(self, split: str, languages: tuple[str, str]) -> Pairs:
        parts = self.form.splits[split]
        for part in parts:
            patterns = part.patterns(split, *languages, self.corpus.year)
            paths = [self.inputs[group] for group in patterns]
            is_empty = True
            for pair in read_part(part, paths[0], paths[-1]):
                if pair and any(pair[:2]):
                    is_empty = False
                yield pair
            if is_empty and len(parts) > 1:
                raise GtransError(f"{paths[0]}: no sentence pair of the {split} text is in it")
            yield None


class SplitWritten:
    """Writes the two files of a split, an empty line between documents, and counts."""

    def __init__(self, files: Sequence[TextIO]) -> None:
        self.counts = Counts()
        self._files, self._inside = files, False

    def write(self, pair: Pair | None) -> None:
        """Write a pair; None ends the document."""
        if pair is not None:
            needs_boundary = not self._inside and self.counts.documents > 0
            for file, text in zip(self._files, pair[:2], strict=True):
                if needs_boundary:
                    file.write("\n")
                file.write(f"{text}\n")
            if not self._inside:
                self.counts.documents += 1
            self.counts.pairs += 1
        self._inside = pair is not None


def clean(
    pairs: Pairs, cleaning: Cleaning, languages: tuple[str, str], label: str, counts: Counts
) -> Pairs:
    """Yield the kept pairs with all boundaries, and count the dropped ones in ``counts``."""
    count_words = word_counter(cleaning.unit)
    number = kept = lost = total = 0
    for pair in chain(pairs, [None]):
        if pair is None:
            if lost and not kept:
                counts.dropped_documents += 1
            kept = lost = 0
            yield None
            continue
        number += 1
        reason = _empty_sides(pair)
        if reason and cleaning.empty == "refuse":
            raise _empty_pair(pair, label, reason)
        if not reason and (cleaning.max_words or cleaning.max_ratio):
            lengths = list(map(count_words, pair[:2], languages))
            reason = _excess(min(lengths), max(lengths), cleaning)
        if reason:
            counts.dropped[reason] += 1
            lost += 1
        else:
            kept += 1
            total += 1
            yield pair
    if not total:
        raise GtransError(f"{label}: no sentence pair is left of {number}")


def _empty_sides(pair: Pair) -> str:
    if pair.source and pair.target:
        return ""
    return "empty on one side" if pair.source or pair.target else "empty on both sides"


def _empty_pair(pair: Pair, label: str, reason: str) -> GtransError:
    text = pair.source or pair.target
    quoted = f" ('{text[:60]}')" if text else ""
    places = [str(place) for place in pair.places]
    return GtransError(
        f"{' and '.join(places)}: a pair of {label}{quoted} is {reason}; `--empty drop` leaves "
        "such pairs out and counts them"
    )


def _excess(shorter: int, longer: int, cleaning: Cleaning) -> str:
    if cleaning.max_words and longer > cleaning.max_words:
        return "too long"
    if cleaning.max_ratio and longer > cleaning.max_ratio * shorter:
        return "ratio"
    return ""


def _digest(path: Path) -> str:
    if path.is_file():
        return digest(path)
    return digest_of_values({file.name: digest(file) for file in sorted(path.iterdir())})


# ---- printing ------------------------------------------------------------------------------------


def _summary(made: Mapping[str, Counts]) -> Iterator[str]:
    for name, counts in made.items():
        dropped = []
        for reason, number in counts.dropped.items():
            if number:
                dropped.append(f"{number:,} {reason}")
        if counts.dropped_documents:
            dropped.append(f"{counts.dropped_documents:,} whole documents")
        left_out = f"; dropped: {', '.join(dropped)}" if dropped else ""
        yield f"{name}: {counts.documents:,} documents, {counts.pairs:,} sentence pairs{left_out}"


def _overview(corpora: Sequence[PaperCorpus]) -> Iterator[str]:
    rows = [["name", "also", "papers", "size", "licence", "home"]]
    for corpus in corpora:
        homes = corpus.forms[0].homes
        if any(home.by_hand for home in homes):
            kind = "by hand"
        else:
            kind = "public" if homes else "none"
        row = [
            corpus.name,
            " ".join(corpus.also),
            " ".join(corpus.papers),
            corpus.size,
            corpus.licence,
            kind,
        ]
        rows.append(row)
    yield from aligned(rows, set(range(len(rows[0]))))
    yield "public: an address that anybody can download from."
