"""Compare the boundaries that `gtrans score --resegment` finds with those of mweralign.

Each document is joined to one line and split again. The table goes to results/resegmenting.json:

    python scripts/benchmarks/resegmenting.py --data DATA --wmt22 wmt22-news-systems

`DATA` has the chats BConTrasT and MSCTD as `bcontrast/test.de.gz` and `msctd/test.de.gz`, and the
references of newstest2021 (one sentence per line, an empty line between documents). The other one
is a clone of github.com/wmt-conference/wmt22-news-systems. mweralign (PyPI) is left out where it is
not installed. It gets SentencePiece subwords without normalisation, as its authors advise, trained
on the references at hand.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.resegment import Resegmenter
from gtrans.lab.provenance import provenance
from gtrans.messages import with_schema
from gtrans.text.reader import read_documents

mweralign: Any = import_module("mweralign") if find_spec("mweralign") else None
NOISE, LINES = 0.25, 10  # share of words that change; of a document where the data has none
WORD = re.compile(r"\w+")
Splitter = Callable[[Documents], Documents]
Corpus = tuple[str, Documents, Mapping[str, Documents]]


def noisy(documents: Documents) -> Documents:
    """A copy with a share of its words replaced by other words of the corpus."""
    rng = random.Random(1)
    words = WORD.findall(" ".join(line for document in documents for line in document))

    def change(match: re.Match[str]) -> str:
        return rng.choice(words) if rng.random() < NOISE else match.group()

    return [[WORD.sub(change, line) for line in document] for document in documents]


def corpora(data: Path, wmt22: Path) -> Iterator[Corpus]:
    """The name of each corpus, its reference, and translations of it."""
    for name in ("bcontrast", "msctd"):
        yield name, read_documents(data / name / "test.de.gz"), {}
    other = read_documents(data / "newstest/newstest2021.refC.de.gz")
    reference = read_documents(data / "newstest/newstest2021.refA.de.gz")
    yield "newstest2021 en-de", reference, {"other reference": other}
    for pair, xml, domain in (
        ("en-de", "en-zh", "conversation"),
        ("en-de", "en-zh", "news"),
        ("de-fr", "de-fr", "conversation"),
        ("cs-uk", "", f"documents of {LINES} lines"),
    ):
        texts = {}
        for path in sorted(wmt22.glob(f"txt/*s/generaltest2022.{pair}.*.{pair[3:]}")):
            texts[path.name.split(".", 2)[2]] = lines_of(path)
        (source,) = wmt22.glob(f"txt/sources/generaltest2022.{pair}.src.*")
        parts = spans(wmt22, xml, domain, lines_of(source))
        cut = {name: [lines[part] for part in parts] for name, lines in texts.items()}
        yield f"WMT22 {pair}, {domain}", cut.pop(f"ref.A.{pair[3:]}"), cut


def lines_of(path: Path) -> list[str]:
    """The lines of a file, with single spaces."""
    return [" ".join(line.split()) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def spans(wmt22: Path, xml: str, domain: str, source: list[str]) -> list[slice]:
    """The lines of each document of a domain; without an XML file, pieces of the same length.

    The XML file of another pair may have the same documents in another order.
    """
    if not xml:
        return [slice(start, start + LINES) for start in range(0, len(source), LINES)]
    domains: dict[tuple[str, ...], str | None] = {}
    for document in ElementTree.parse(wmt22 / f"xml/wmttest2022.{xml}.all.xml").iter("doc"):
        nodes = document.iterfind("src//seg")
        segments = tuple(" ".join((node.text or "").split()) for node in nodes)
        domains[segments] = document.get("domain")
    slices, start = [], 0
    while start < len(source):
        fitting = [texts for texts in domains if texts == tuple(source[start : start + len(texts)])]
        segments = max(fitting, key=len)
        slices += [slice(start, start + len(segments))] * (domains[segments] == domain)
        start += len(segments)
    return slices


def ours(reference: Documents) -> Splitter:
    """The algorithm of `gtrans score --resegment`."""
    cut = Resegmenter([reference]).split
    return lambda texts: [cut(n, [" ".join(lines)]).sentences for n, lines in enumerate(texts)]


def theirs(reference: Documents) -> Splitter:
    """mweralign as its command calls it."""
    import sentencepiece  # comes with mweralign

    stored = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for document in reference for line in document),
        model_writer=stored,
        vocab_size=8000,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=stored.getvalue())

    def pieces(line: str) -> str:
        return " ".join(model.encode(line, out_type=str))

    def split(number: int, lines: Sequence[str]) -> list[str]:
        target = "\n".join(map(pieces, reference[number]))
        joined = pieces(" ".join(line for line in lines if line))
        aligned = mweralign.align_texts(target, joined, True, forbid_midword_boundary=True)
        return [line.replace("▁", "") for line in aligned.split("\n")][: len(lines)]

    return lambda texts: [split(number, lines) for number, lines in enumerate(texts)]


def measure(texts: Documents, split: Splitter) -> tuple[int, int]:
    """How many boundaries are right, and how many sentences are omitted by mistake."""
    right = false = 0
    for lines, cut in zip(texts, split(texts), strict=True):
        ends, theirs = (
            list(accumulate(len("".join(line.split())) for line in side)) for side in (lines, cut)
        )
        assert len(lines) == len(cut) and ends[-1] == theirs[-1], (lines, cut)
        right += sum(a == b for a, b in zip(ends[:-1], theirs[:-1], strict=True))
        false += sum(bool(a) and not b for a, b in zip(lines, cut, strict=True))
    return right, false


def main() -> None:
    """Measure each algorithm on each corpus."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--wmt22", type=Path, required=True)
    arguments = parser.parse_args()
    algorithms = {"gtrans": ours} | ({"mweralign": theirs} if mweralign else {})
    if not mweralign:
        print("mweralign is not installed: only gtrans is measured")
    rows = []
    for corpus, reference, translations in corpora(arguments.data, arguments.wmt22):
        texts: dict[str, Documents] = {
            "the reference": reference,
            "25% of words changed": noisy(reference),
        }
        splitters = {name: make(reference) for name, make in algorithms.items()}
        for text, documents in (texts | dict(translations)).items():
            sentences = sum(map(len, documents))
            row = {
                "corpus": corpus,
                "translation": text,
                "documents": len(documents),
                "sentences": sentences,
                "boundaries": sentences - len(documents),
            }
            for name, split in splitters.items():
                right, false = measure(documents, split)
                row[name] = {"right boundaries": right, "false omissions": false}
            print(row, flush=True)
            rows.append(row)
    versions = provenance() | {"mweralign": getattr(mweralign, "__version__", None)}
    content = with_schema("resegmenting", {"versions": versions, "rows": rows})
    text = json.dumps(content, indent=1, ensure_ascii=False)
    Path("results/resegmenting.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
