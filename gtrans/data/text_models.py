"""What the text pipeline learns from the training text: truecasers and BPE merges."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from contextlib import redirect_stderr
from pathlib import Path

from sacremoses import MosesTruecaser
from subword_nmt.apply_bpe import BPE, read_vocabulary
from subword_nmt.learn_bpe import learn_bpe

from gtrans.data.documents import atomic_writer
from gtrans.errors import GtransError

BPE_SEPARATOR = "@@"


def train_best_case(lines: Iterable[str], path: Path) -> None:
    """Train a Moses truecaser on tokenised lines and write its model to ``path``.

    Each line of the model holds the spellings of one word, the most frequent one first:
    ``Debian (90/95) DEBIAN (3) debian (2)``.
    """
    model = MosesTruecaser().train(line.split(" ") for line in lines)
    with atomic_writer(path) as file:
        for spellings in model["casing"].values():
            (best, count), *others = spellings.most_common()
            file.write(f"{best} ({count}/{sum(spellings.values())})")
            file.write("".join(f" {word} ({count})" for word, count in others) + "\n")


def load_best_case(path: Path) -> dict[str, str]:
    """Lower-cased word to its most frequent spelling, from a Moses truecaser model."""
    best_case: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                best, *counts = line.split() or [""]
                if not counts:
                    raise GtransError(f"{path}:{number}: not a line of a truecaser model")
                best_case[best.lower()] = best
    except OSError as error:
        raise GtransError(f"cannot read '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise GtransError(f"'{path}' is not UTF-8; prepare the data anew") from None
    return best_case


def train_bpe(words: Counter[str], merges: int, path: Path) -> int:
    """Learn at most ``merges`` BPE merges from word counts and write them to ``path``.

    Returns:
        How many were learnt: fewer when no other pair of units occurs twice.
    """
    codes = io.StringIO()
    if any(len(word) > 1 for word in words):  # the library fails on single characters only
        lines = io.StringIO("".join(f"{word} {count}\n" for word, count in words.items()))
        with redirect_stderr(io.StringIO()):  # it draws a progress bar on any stream
            learn_bpe(lines, codes, merges, is_dict=True)
    learnt = max(0, codes.getvalue().count("\n") - 1)  # the first line is the version
    if not learnt:
        raise GtransError(
            "`--train` is too small for BPE: no two characters stand side by side twice; "
            "give more text"
        )
    with atomic_writer(path) as file:
        file.write(codes.getvalue())
    return learnt


def write_vocabulary(words: Counter[str], bpe: BPE, path: Path) -> None:
    """Write how often each BPE piece occurs in the text of one language, by word counts."""
    pieces = Counter[str]()
    for word, count in words.items():
        for piece in bpe.segment_tokens([word]):
            pieces[piece] += count
    with atomic_writer(path) as file:
        for piece, count in sorted(pieces.items(), key=lambda item: (-item[1], item[0])):
            file.write(f"{piece} {count}\n")


def load_bpe(codes: Path, vocabulary: Path | None = None, threshold: int | None = None) -> BPE:
    """BPE merges; with a vocabulary, pieces rarer than ``threshold`` are split further."""
    merges = 0
    try:
        with open(codes, encoding="utf-8", newline="\n") as file:
            # The library ends the program on a bad line, so it is looked for here.
            for number, line in enumerate(file, start=1):
                if number == 1 and line.startswith("#version:"):
                    continue
                merges += 1
                if len(line.strip("\r\n ").split(" ")) != 2:
                    raise GtransError(f"{codes}:{number}: not a BPE merge (two units, one space)")
            if not merges:
                raise GtransError(f"'{codes}' holds no BPE merge; prepare the data anew")
            if vocabulary is None:
                return BPE(file, separator=BPE_SEPARATOR)
            with open(vocabulary, encoding="utf-8", newline="\n") as pieces:
                known = read_vocabulary(pieces, threshold)
            return BPE(file, separator=BPE_SEPARATOR, vocab=known)
    except OSError as error:
        raise GtransError(f"cannot read '{error.filename}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise GtransError(f"'{codes}' is not UTF-8; prepare the data anew") from None
