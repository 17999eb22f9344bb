"""BPE: merges learnt from the training text, and vocabularies that limit the pieces."""

from __future__ import annotations

import io
from collections import Counter
from contextlib import redirect_stderr
from pathlib import Path

from subword_nmt.apply_bpe import BPE, read_vocabulary
from subword_nmt.learn_bpe import learn_bpe

from gtrans.errors import GtransError
from gtrans.files import atomic_writer
from gtrans.messages import say

BPE_SEPARATOR = "@@"


def train_bpe(words: Counter[str], merges: int, path: Path) -> int:
    """Learn at most ``merges`` BPE merges from word counts and write them to ``path``.

    Returns:
        the number of merges learnt; fewer than ``merges`` if no other pair occurs twice.
    """
    codes = io.StringIO()
    if any(len(word) > 1 for word in words):  # the library fails on single characters only
        lines = io.StringIO("".join(f"{word} {count}\n" for word, count in words.items()))
        with redirect_stderr(io.StringIO()):  # it draws a progress bar on any stream
            learn_bpe(lines, codes, merges, is_dict=True)
    learnt = max(0, codes.getvalue().count("\n") - 1)  # the first line is the version
    if not learnt:
        raise GtransError(
            "`--train` is too small for BPE: no two characters stand next to each other twice; "
            "give more text"
        )
    with atomic_writer(path) as file:
        file.write(codes.getvalue())
    return learnt


def learn_codes(words: Counter[str], merges: int | None, symbols: int, codes: Path) -> None:
    """Write a file of codes.

    Args:
        words: how often each word occurs.
        merges: how many merges to learn; None: as many as make ``symbols`` symbols with the
            characters, of which one that ends a word is another symbol.
        symbols: see ``merges``.
        codes: the file to write.

    Raises:
        GtransError: there are as many characters as ``symbols``.
    """
    if merges is None:
        characters = len({character for word in words for character in word[:-1]})
        characters += len({word[-1] for word in words})
        merges = symbols - characters
        if merges < 1:
            raise GtransError(
                f"`--bpe-symbols` must be above {characters}, the number of characters in the "
                f"training text, but is {symbols}"
            )
    learnt = train_bpe(words, merges, codes)
    if learnt < merges:
        say(f"bpe: {learnt} merges instead of {merges}, no other pair occurs twice")


def count_merges(codes: Path) -> int:
    """The number of merges in a file of codes."""
    with open(codes, encoding="utf-8", newline="\n") as file:
        return sum(not line.startswith("#version:") for line in file)


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
            # The library ends the program at a bad line, so lines are checked here.
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
