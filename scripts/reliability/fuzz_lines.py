"""Let fuzzed lines go through every preparation and through trained models; count what comes out.

    python scripts/reliability/fuzz_lines.py --out FOLDER [--lines 100000] [--cases NAME ..]

The lines (see lines.py) are random characters of all planes, control characters, marks of all
kinds, broken HTML, very long words, and sentences of the embedded corpus to which such things have
happened, in documents. As files they are plain, gzipped, or with a byte order mark and CR LF.

`gtrans prepare` of K sentences must come to K binarised ones, with the documents as they were
marked: none is empty, none has a special symbol in it, all pieces of the text are in it. Decoded,
it must have all characters of the text except spaces (after the normalisation of the preparation,
where it has one). `gtrans translate` of K lines must write K lines, with the boundaries of
documents where they were, and no sentence empty. Models are tiny, trained for some updates, and
stop after a few words.

Results are kept as they come: run the same command again to go on after an interruption. They count
for the code that they were made with. The exit status is 1 if anything is lost; that text and what
has become of it are kept in FOLDER/lines.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lines as fuzz
from forked import Order, run
from tables import Column, Row, markdown, records, write
from world import code, make

CHUNK = {"prepare": 20_000, "translate": 5_000}  # lines of one command, in all languages
SEARCH = ("--beam", "1", "--max-len-a", "0", "--max-len-b", "6", "--cpu", "--max-tokens", "6000")
LANGUAGES = ("en", "de")
PLACEHOLDER = "\ufffd"  # of a sentence without any printable character
_SPECIAL = 4  # ids of fairseq's special symbols: <s> <pad> </s> <unk>
_UNKNOWN = 3
COLUMNS = (
    Column("lines", "lines"),
    Column("sentences", "sentences"),
    Column("sentences out", "out"),
    Column("documents", "documents"),
    Column("lost", "lost"),
    Column("as they were", "exact"),
)


@dataclass(frozen=True)
class Kind:
    """One way through which lines go.

    Attributes:
        name: of the rows and folders.
        title: what the table calls it.
        options: of the command.
        needs: cases of the world.
        command: ``prepare`` or ``translate``.
    """

    name: str
    title: str
    options: tuple[str, ...]
    needs: tuple[str, ...]
    command: str = "prepare"

    @property
    def is_learnt(self) -> bool:
        """Whether the vocabulary is learnt from the lines, so that no piece is unknown."""
        return "--bpe-merges" in self.options


_BPE = ("--bpe-merges", "300")
_RAW = ("--no-normalise", "--no-tokenise")
_TABLE = (
    Kind("moses", "`prepare`: Moses, BPE", _BPE, ()),
    Kind("as-written", "`prepare`: Moses and BPE, neither normalised nor truecased",
         (*_BPE, "--no-normalise", "--no-truecase"), ()),
    Kind("words", "`prepare`: BPE alone", (*_BPE, *_RAW, "--no-truecase"), ()),
    Kind("bert", "`prepare`: truecasing, BPE, word pieces of a BERT",
         (*_BPE, *_RAW, "--bert", "{bert}/bert"), ("bert",)),
    Kind("pieces", "`prepare`: SentencePiece",
         ("--sentencepiece", "{pieces}/pieces.model"), ("pieces",)),
    Kind("bytes", "`prepare`: byte-level BPE", ("--byte-bpe", "{bytes}"), ("bytes",)),
    *(
        Kind(unit, f"`translate`: {title}",
             ("--path", f"{{train-{name}}}/run/checkpoint_best.pt", "--data", f"{{{data}}}/data"),
             (f"train-{name}", data), "translate")
        for unit, name, data, title in (
            ("sentence", "sentence", "prepare", "sentences"),
            ("document", "document", "prepare", "documents"),
            ("window", "flat", "prepare", "windows"),
            ("window-bert", "bert", "prepare-bert", "windows and a BERT"),
            ("stream", "stream", "prepare", "streams"),
        )
    ),
)  # fmt: skip
KINDS = {kind.name: kind for kind in _TABLE}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(
        description=__doc__, epilog=f"cases: {', '.join(KINDS)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    whole.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to work in")
    whole.add_argument(
        "--lines", type=int, default=100_000, metavar="N",
        help="lines for each preparation, and for all models together (default: %(default)s)",
    )  # fmt: skip
    whole.add_argument(
        "--cases", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="NAME",
        help="the ways that the lines go (default: all, see below)",
    )  # fmt: skip
    whole.add_argument("--seed", type=int, default=1, help="of all lines (default: %(default)s)")
    whole.add_argument("--json", action="store_true", help="print the sums as JSON")
    whole.add_argument(
        "--write", action="store_true",
        help="put the table into docs/reliability.md, its numbers into docs/reliability.json; "
        "rows of other cases stay",
    )  # fmt: skip
    return whole


# ---- one chunk -----------------------------------------------------------------------------------


class Chunk:
    """Lines of both languages, and the command that they go through."""

    def __init__(self, place: Path, kind: Kind, seed: int, number: int, lines: int) -> None:
        """``place``: the folder of everything; files are written by :meth:`examine`."""
        self.kind = kind
        self.folder = place / "lines" / f"{kind.name}.{number}"
        self._world = place / "world"
        corpus = (self._world / "corpus" / "corpus" / "train.en").read_text("utf-8").split("\n")
        corpus = [line for line in corpus if line]
        draw = random.Random(f"{seed} {number}")
        source = fuzz.text(draw, corpus, lines)
        target = fuzz.other_side(draw, corpus, source)
        self.text = dict(zip(LANGUAGES, (source, target), strict=True))
        self._form = ("plain", "gzip", "crlf")[number % 3]

    def examine(self) -> Row:
        """Run the command; the counts, and in ``problems`` a line for everything that is wrong."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        files = [self._write(lang) for lang in LANGUAGES]
        options = [word.format_map(_Folders(self._world)) for word in self.kind.options]
        if self.kind.command == "prepare":
            languages = ("--source-lang", "en", "--target-lang", "de")
            words = ("prepare", *languages, "--train", "text", *options, "--out", "data")
            judge: Callable[[], Row] = self._prepared
        else:
            words = ("translate", *options, *SEARCH, "--input", files[0], "--output", "out.de")
            judge = self._translated
        ended = run(Order(("gtrans", *words), self.folder, computing=3600))
        texts = list(self.text.values())[: 2 if self.kind.command == "prepare" else 1]
        row: Row = {
            "lines": sum(map(len, texts)),
            "sentences": sum(not fuzz.is_boundary(line) for text in texts for line in text),
            "documents": 1 + sum(line is None for line in _collapsed(texts[0])),
            **{"out": 0, "lost": 0, "exact": 0, "problems": [], "seconds": round(ended.seconds, 1)},
        }
        if ended.status:
            return {**row, "problems": [f"status {ended.status}: {ended.said}"]}
        row |= judge()
        if not row["problems"]:
            shutil.rmtree(self.folder)
        return row

    def _write(self, lang: str) -> str:
        end, start = ("\r\n", "\ufeff") if self._form == "crlf" else ("\n", "")
        content = (start + "".join(f"{line}{end}" for line in self.text[lang])).encode()
        name = f"text.{lang}"
        if self._form == "gzip":
            name, content = f"{name}.gz", gzip.compress(content, 1)
        (self.folder / name).write_bytes(content)
        return name

    def _translated(self) -> Row:
        content = (self.folder / "out.de").read_bytes().decode()
        out, source = content.split("\n"), self.text["en"]
        problems = [] if out.pop() == "" else ["out.de does not end with a line feed"]
        if len(out) != len(source):
            problems.append(f"out.de has {len(out)} lines instead of {len(source)}")
        lost = boundaries = 0
        for number, (line, translation) in enumerate(zip(source, out, strict=False), start=1):
            boundaries += (is_boundary := fuzz.is_boundary(line))
            same = translation in ("", "<d>") and translation == line.strip()
            if not (same if is_boundary else not fuzz.is_boundary(translation)):
                lost += 1
                problems.append(f"line {number}: {line!a:.100} has become {translation!a:.100}")
        return {"out": len(out) - boundaries, "lost": lost, "exact": None, "problems": problems}

    def _prepared(self) -> Row:
        data = self.folder / "data"
        rows = [self._side(data, lang) for lang in LANGUAGES]
        problems = [problem for row in rows for problem in row["problems"]]
        if "--bert" in self.kind.options:
            sizes = [len(row) for row in _binarised(data / "train.en-de.en.bert")]
            # One line for each that was binarised; [SEP] alone between documents.
            wanted = [line is None for line in _collapsed(self.text["en"])]
            if [size == 1 for size in sizes] != wanted:
                problems.append("the word pieces have other lines or documents than the text")
        sums = {key: sum(row[key] for row in rows) for key in ("out", "lost", "exact")}
        return {**sums, "problems": problems}

    def _side(self, data: Path, lang: str) -> Row:
        """What has become of one language."""
        from gtrans.text.prepared_folder import load_pipeline

        pipeline = load_pipeline(data, lang)
        expect = partial(_expected, _normaliser(data, pipeline))
        wanted = list(_collapsed(self.text[lang]))
        pieces = (data / "text" / f"train.bpe.{lang}").read_text("utf-8").split("\n")[:-1]
        ids = list(_binarised(data / f"train.en-de.{lang}"))
        problems = []
        if not len(ids) == len(pieces) == len(wanted):
            counts = f"{len(wanted)} lines, {len(pieces)} encoded, {len(ids)} binarised"
            problems.append(f"{lang}: {counts}")
        lost = exact = 0
        for line, encoded, row in zip(wanted, pieces, ids, strict=False):
            if line is None:
                if encoded or len(row) != 1:
                    problems.append(f"{lang}: a boundary has become {encoded!a:.100}")
                continue
            inner = row[:-1]
            if len(inner) != len(encoded.split(" ")) or not encoded:
                problems.append(f"{lang}: {line!a:.100} is binarised as {len(inner)} pieces")
            if min(inner, default=0) < (_SPECIAL if self.kind.is_learnt else _UNKNOWN):
                problems.append(f"{lang}: {line!a:.100} has special symbols in it")
            words, decoded = expect(line), pipeline.decode(encoded).split()
            exact += words == decoded
            if "".join(words) != "".join(decoded):
                lost += 1
                problems.append(f"{lang}: {line!a:.100} comes back as {' '.join(decoded)!a:.100}")
        out = sum(len(row) > 1 for row in ids)
        return {"out": out, "lost": lost, "exact": exact, "problems": problems}


class _Folders(dict[str, str]):
    """The folder of a case by its name."""

    def __init__(self, world: Path) -> None:
        super().__init__()
        self._world = world

    def __missing__(self, name: str) -> str:
        return str(self._world / name)


def _collapsed(text: Sequence[str]) -> Iterator[str | None]:
    """The lines that are binarised: sentences, None for one or more boundaries between them."""
    between = False
    for line in text:
        if fuzz.is_boundary(line):
            between = True
            continue
        if between:
            yield None
        between = False
        yield line


def _binarised(prefix: Path) -> Iterator[list[int]]:
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    dataset: Any = MMapIndexedDataset(str(prefix))
    return (dataset[number].tolist() for number in range(len(dataset)))


def _normaliser(data: Path, pipeline: Any) -> Callable[[str], str]:
    """What a preparation does to text before it is cut into pieces."""
    state = json.loads((data / "prepare.json").read_text("utf-8"))
    if state["pieces"] == "sentencepiece":
        import sentencepiece

        normalise = sentencepiece.SentencePieceNormalizer(
            model_file=str(data / "sentencepiece.model")
        ).normalize
        return lambda text: str(normalise(text)).replace("\u2581", " ")
    if state["steps"]["normalise"]:
        from sacremoses import MosesPunctNormalizer

        return lambda text: str(MosesPunctNormalizer(pipeline.lang).normalize(text))
    return lambda text: text


def _expected(normalise: Callable[[str], str], line: str) -> list[str]:
    """The words that a sentence has after its preparation and back."""
    text = "".join(" " if _is_space(character) else character for character in line)
    return normalise(text.strip() or PLACEHOLDER).split() or [PLACEHOLDER]


def _is_space(character: str) -> bool:
    """White space, control characters, and what Moses' pipeline uses inside."""
    return character.isspace() or unicodedata.category(character) == "Cc" or (
        "\ufdd0" <= character <= "\ufdd2"
    )  # fmt: skip


# ---- all of them ---------------------------------------------------------------------------------


def chunks(kind: Kind, lines: int) -> list[int]:
    """The lines of each text that one kind gets.

    Preparations get ``lines``, half of them in each language; models share them.
    """
    size = CHUNK[kind.command]
    if kind.command == "translate":
        lines //= sum(one.command == "translate" for one in KINDS.values())
    else:
        lines, size = lines // len(LANGUAGES), size // len(LANGUAGES)
    return [min(size, lines - begin) for begin in range(0, lines, size)]


def examine(place: Path, kind: Kind, lines: int, seed: int) -> Row:
    """Let all texts of a kind go through, or read what has come of them before; their sums."""
    known = code("fuzz_lines.py", "lines.py", "cases.py")
    log = place / "lines.jsonl"
    old = records(log)
    found = []
    for number, size in enumerate(chunks(kind, lines)):
        key = [known, kind.name, seed, number, size]
        row = next((one for one in old if one["key"] == key), None)
        if row is None:
            row = {"key": key, **Chunk(place, kind, seed, number, size).examine()}
            with open(log, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        print(f"{kind.name} {number}: {size} lines, {row['seconds']} s", file=sys.stderr)
        for problem in row["problems"][:10]:
            print(f"  WRONG: {problem}", file=sys.stderr)
        found.append(row)
    keys = ("lines", "sentences", "out", "documents", "lost")
    sums = {key: sum(row[key] for row in found) for key in keys}
    exact = None if found[0]["exact"] is None else sum(row["exact"] for row in found)
    problems = sum(len(row["problems"]) for row in found)
    return {"case": kind.name, "title": kind.title, **sums, "exact": exact, "problems": problems}


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything that is asked for; 1 if anything is lost."""
    whole = parser()
    args = whole.parse_args(argv)
    if args.lines < (least := 2 * len(KINDS)):
        whole.error(f"`--lines` must be at least {least}, but is {args.lines}.")
    place = args.out.resolve()
    chosen = [KINDS[name] for name in dict.fromkeys(args.cases)]
    make(place / "world", ["corpus", *(name for kind in chosen for name in kind.needs)])
    rows = [examine(place, kind, args.lines, args.seed) for kind in chosen]
    print(json.dumps(rows, indent=1) if args.json else markdown(rows, COLUMNS))
    if args.write:
        write("lines", rows, COLUMNS, list(KINDS))
    return int(any(row["problems"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
