"""The text pipeline of Moses and BPE.

``encode`` runs :func:`gtrans.text.pipeline.clean`, Moses punctuation normalisation (of characters,
not of spaces), Moses tokenisation with joint markers, Moses escapes, truecasing of the first word,
and joint BPE. ``decode`` undoes all but the first two, so four things differ from Moses:

* **Joint markers.** A symbol that the Moses detokeniser would space wrongly has an ``@`` on each
  side without a space: ``foo @-@ bar``, ``GNU @/@ Linux``, ``/etc @/``.
* **Space tokens.** Where that is not enough, ``&#32;`` stands for a space (``100 € &#32; für``,
  which Moses would write ``100 €für``), ``&#8288;`` for none.
* **First word.** Truecasing changes only the first word of a sentence, and only if ``decode`` can
  undo it. After ``@lower@``, ``decode`` does not capitalise a sentence.
* **Special tokens.** ``<s>``, ``[en]`` and the like in the text never become special tokens. Moses
  escapes ``& | < > ' " [ ]``; without tokenisation, :mod:`gtrans.text.pipeline` does.

Chinese and Japanese are split into characters, Chinese with ``--segmenter jieba`` into words. Their
punctuation is not normalised, because the rules are for European text. Languages that Moses does
not know use its rules for English.
"""

from __future__ import annotations

import functools
import importlib
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer, MosesTruecaser
from subword_nmt.apply_bpe import BPE

from gtrans.data.documents import read_text
from gtrans.environment import require
from gtrans.files import atomic_writer
from gtrans.languages import language_code
from gtrans.text.pipeline import PLACEHOLDER, TextPipeline, clean, escape, unescape
from gtrans.text.subwords import BPE_SEPARATOR
from gtrans.text.workers import map_chunks

LOWER_TOKEN = "@lower@"

# Inside this module, markers are code points to which Unicode assigns no characters; in the
# tokenised text they are "@" on a side of a symbol, and tokens for a space and for none.
_LEFT, _RIGHT, _SPACE, _NO_SPACE = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"
_JOINERS = {0x200C: "\u02ec", 0x200D: "\u02ee"}
_STAND_INS = {ord(letter): chr(joiner) for joiner, letter in _JOINERS.items()}
_GAPS = {_SPACE: "&#32;", _NO_SPACE: "&#8288;"}
_ESCAPED_GAPS = {escape: marker for marker, escape in _GAPS.items()}
_SYMBOL = re.compile(r"(?:[^\w\s]|_)+")
_MARKED = re.compile(r"(@?)((?:[^\w\s@&]|_|&\w+;|&#\d+;)+)(@?)")
_AT_ESCAPE = "&#64;"
_BPE_JOINT = re.compile(f"{BPE_SEPARATOR}(?: |$)")

_WRITTEN_WITHOUT_SPACES = frozenset({"zh", "yue", "ja"})
# Ideographs, kana and full-width forms: no space is written next to them.
_FULL_WIDTH = (
    r"\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff01-\uffee\U00020000-\U0002ffff"
)
_IDEOGRAPHS = re.compile(r"[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")
_FULL_WIDTH_SPACE = re.compile(f"(?<=[{_FULL_WIDTH}]) +| +(?=[{_FULL_WIDTH}])")
_DETOKENISER_LANGUAGES = frozenset({"en", "fr", "it", "ga", "fi", "ko"})
# Tokens that may stand before the first word, as in the Moses truecaser.
_OPENING = frozenset(
    {"(", "[", '"', "'", "&apos;", "&quot;", "&#91;", "&#93;"} | set(_ESCAPED_GAPS)
)
# Words whose subwords are remembered; enough for nearly all words of a text.
_REMEMBERED_WORDS = 100_000

_CHINESE = "zh"


@dataclass(frozen=True)
class MosesSteps:
    """The steps before BPE.

    Attributes:
        segmenter: ``jieba`` finds the words of Chinese; None: every character is a token.
        plain: write tokens as Moses does, for models trained elsewhere.
    """

    normalise: bool = True
    tokenise: bool = True
    truecase: bool = True
    segmenter: str | None = None
    plain: bool | None = None

    def record(self) -> dict[str, Any]:
        """Return the entry of ``prepare.json``."""
        return {name: value for name, value in asdict(self).items() if value is not None}


ALL_STEPS = MosesSteps()
NO_STEPS = MosesSteps(normalise=False, tokenise=False, truecase=False)


class MosesPipeline(TextPipeline):
    """Moses steps, then BPE.

    Args:
        best_case: the most frequent spelling of each lower-cased word.
        bpe: the merges, for ``segment``.
    """

    def __init__(
        self,
        lang: str,
        steps: MosesSteps = ALL_STEPS,
        best_case: Mapping[str, str] | None = None,
        bpe: BPE | None = None,
    ) -> None:
        super().__init__(lang)
        rules = rules_of(lang)
        self.steps = steps
        self._finds_words = steps.segmenter is not None and rules == _CHINESE
        self._best_case = best_case or {}
        self._bpe = bpe
        self._has_spaces = rules not in _WRITTEN_WITHOUT_SPACES
        self._normaliser = None
        if self._has_spaces:
            self._normaliser = MosesPunctNormalizer(rules)
            # Its first rules move spaces ("file(s)" to "file (s)", "14 %" to "14%").
            del self._normaliser.substitutions[: len(self._normaliser.EXTRA_WHITESPACE)]
        # Moses' rules for zh and ja do not split sequences of characters and need a segmenter;
        # its default rules treat an ideograph as a symbol and make it a token.
        self._tokeniser = MosesTokenizer(rules if self._has_spaces else "")
        # Moses' detokeniser for cs iterates over a list as over an iterator and fails.
        self._detokeniser = MosesDetokenizer(rules if rules in _DETOKENISER_LANGUAGES else "")

    def tokenise(self, sentence: str) -> str:
        """Return normalised and escaped tokens; never empty."""
        text = clean(sentence)
        if self.steps.normalise and self._normaliser is not None:
            text = str(self._normaliser.normalize(text))
        if not self.steps.tokenise:
            return escape(text)
        text = text or PLACEHOLDER
        if self.steps.plain:
            return " ".join(self._tokeniser.tokenize(text, aggressive_dash_splits=True))
        if not self._has_spaces:
            text = _FULL_WIDTH_SPACE.sub(_SPACE, text)
        tokens = self._moses_tokens(text)
        if _spaces(tokens, text) is None:  # Moses has changed a character (only in contrived text)
            tokens = re.findall(r"\w+|[^\w\s]", text)
        if self._finds_words:
            tokens = _joined_to_words(tokens, text)
        marked = self._mark_joints(tokens, text)
        marked = self._mark_gaps(marked, text)
        return " ".join(self._write(token) for token in marked)

    def _moses_tokens(self, text: str) -> list[str]:
        # Moses would split words at joiners, so letters stand for these.
        has_stand_ins = any(chr(letter) in text for letter in _STAND_INS)
        if has_stand_ins:
            return list(self._tokeniser.tokenize(text, escape=False))
        tokens = self._tokeniser.tokenize(text.translate(_JOINERS), escape=False)
        return [token.translate(_STAND_INS) for token in tokens]

    def detokenise(self, tokens: str) -> str:
        """Return the plain text of words."""
        if not self.steps.tokenise:
            return unescape(tokens)
        if self.steps.plain:
            return str(self._detokeniser.detokenize(tokens.split()))
        words = [self._read(word) for word in tokens.split()]
        text = self._join(words)
        return _plain(text).strip()

    def segment(self, tokens: str) -> str:
        """Truecase words, then merge their characters to subwords."""
        if self._bpe is None:
            raise ValueError("this pipeline has no BPE merges")
        words = tokens.split(" ")
        is_lower = self._truecase(words)
        subwords = self._bpe.segment_tokens([word for word in words if word])
        if len(self._bpe.cache) > _REMEMBERED_WORDS:
            self._bpe.cache.clear()
        if is_lower:
            subwords = [LOWER_TOKEN, *subwords]
        return " ".join(subwords)

    def count_words(self, lines: Sequence[str]) -> Counter[str]:
        """Count the truecased words, from which the merges are learnt."""
        counts = Counter[str]()
        for line in lines:
            words = line.split(" ")
            self._truecase(words)
            counts.update(words)
        return counts

    def unsegment(self, tokens: str) -> str:
        """Join subwords to words; capitalise the first unless ``@lower@`` precedes it."""
        subwords = tokens.split()
        is_lower = self.steps.truecase and LOWER_TOKEN in subwords[:1]
        if is_lower:
            del subwords[0]
        # A model may stop in the middle of a word.
        words = _BPE_JOINT.sub("", " ".join(subwords)).split()
        if self.steps.truecase and not is_lower:
            first = _first_word(words)
            if first is not None:
                words[first] = _capitalised(words[first])
        return " ".join(words)

    def _truecase(self, words: list[str]) -> bool:
        """Truecase the first word; return whether ``decode`` must not capitalise it."""
        first = _first_word(words) if self.steps.truecase else None
        if first is None:
            return False
        word = words[first]
        best = self._best_case.get(word.lower(), word)
        if _capitalised(best) == word:
            words[first] = best
        return _capitalised(words[first]) != word

    def _mark_joints(self, tokens: list[str], text: str) -> list[str]:
        spaces = _spaces(tokens, text) or []
        marked = list(tokens)
        # The rules ignore a symbol with markers (for instance in pairing quotation marks), so
        # these can make another symbol wrong; a few rounds are enough.
        for _ in range(3):
            before = list(marked)
            rejoined = _spaces(tokens, self._join(marked)) or spaces
            for gap, space in enumerate(spaces):
                if space == rejoined[gap]:
                    continue
                for index in (gap, gap + 1):
                    token = tokens[index]
                    if self._can_be_marked(token):
                        joins_left = index > 0 and not spaces[index - 1]
                        joins_right = index < len(spaces) and not spaces[index]
                        marked[index] = _LEFT * joins_left + token + _RIGHT * joins_right
            if marked == before:
                break
        return marked

    def _can_be_marked(self, token: str) -> bool:
        if not self._has_spaces and re.match(f"[{_FULL_WIDTH}]", token):
            return False
        return _SYMBOL.fullmatch(token) is not None

    def _mark_gaps(self, marked: list[str], text: str) -> list[str]:
        """Insert space tokens where joint markers do not give back ``text``."""
        bare = [word.strip(_LEFT + _RIGHT) for word in marked if word not in _GAPS]
        spaces = _spaces(bare, _plain(text))
        for everywhere in (False, False, True):
            joined = self._join(marked)
            rejoined = _spaces(bare, _plain(joined))
            if spaces is None or rejoined == spaces:
                break
            begins = [position for position, token in enumerate(marked) if token not in _GAPS]
            # From the end, because an insertion moves the tokens after it.
            for number in reversed(range(len(begins) - 1)):
                position = begins[number + 1]
                if marked[position - 1] in _GAPS:
                    continue
                is_wrong = rejoined is None or rejoined[number] != spaces[number]
                if everywhere or is_wrong:
                    marker = _SPACE if spaces[number] else _NO_SPACE
                    marked.insert(position, marker)
        return marked

    def _join(self, tokens: list[str]) -> str:
        text: str = self._detokeniser.detokenize(tokens, unescape=False)
        text = re.sub(f"{_RIGHT} *", "", text)
        text = re.sub(f" *{_LEFT}", "", text)
        if not self._has_spaces:
            text = _FULL_WIDTH_SPACE.sub("", text)
        text = re.sub(f" *{_NO_SPACE} *", "", text)
        return re.sub(f"(?: *{_SPACE})+ *", _SPACE, text)

    def _write(self, token: str) -> str:
        if token.isalnum():  # most tokens: nothing to escape
            return token
        bare = token.strip(_LEFT + _RIGHT)
        if bare in _GAPS:
            return _GAPS[bare]
        escaped: str = self._tokeniser.escape_xml(bare)
        if bare == token:
            return escaped
        escaped = escaped.replace("@", _AT_ESCAPE)
        left = "@" if token.startswith(_LEFT) else ""
        right = "@" if token.endswith(_RIGHT) else ""
        return f"{left}{escaped}{right}"

    def _read(self, word: str) -> str:
        if word in _ESCAPED_GAPS:
            return _ESCAPED_GAPS[word]
        joints = _MARKED.fullmatch(word)
        if joints is None:
            return str(self._detokeniser.unescape_xml(word))
        joins_left = joints[1] != ""
        joins_right = joints[3] != ""
        token: str = self._detokeniser.unescape_xml(joints[2])
        if joins_left or joins_right:
            token = token.replace(_AT_ESCAPE, "@")
        return _LEFT * joins_left + token + _RIGHT * joins_right


def _plain(text: str) -> str:
    return text.replace(_SPACE, " ")


def rules_of(lang: str) -> str:
    """Return the language whose Moses rules a code uses: ``zh_CN -> zh``."""
    return language_code(lang) or re.split("[_-]", lang)[0].lower()


def is_chinese(lang: str) -> bool:
    """Whether text can be segmented into Chinese words."""
    return rules_of(lang) == _CHINESE


def _joined_to_words(tokens: list[str], text: str) -> list[str]:
    lengths = [len(word) for word in chinese_words(text)]
    ends = set(accumulate(lengths))
    joined: list[str] = []
    position = 0
    for token in tokens:
        begin = text.find(token, position)
        if begin < 0:  # Moses has changed a character (only in contrived text)
            return tokens
        is_inside = begin == position and position not in ends
        if joined and is_inside and _IDEOGRAPHS.fullmatch(joined[-1] + token):
            joined[-1] += token
        else:
            joined.append(token)
        position = begin + len(token)
    return joined


def _first_word(words: list[str]) -> int | None:
    for place, word in enumerate(words):
        if word not in _OPENING:
            return place
    return None


def _capitalised(word: str) -> str:
    upper = word[:1].upper()
    if len(upper) != 1:  # 'ß' has no single capital
        return word
    return upper + word[1:]


def _spaces(tokens: list[str], text: str) -> list[bool] | None:
    """Return whether a space is between each two tokens; None: they are not ``text``."""
    spaces: list[bool] = []
    position = 0
    for token in tokens:
        space = text.startswith(" ", position)
        position += space
        if not text.startswith(token, position):
            return None
        position += len(token)
        spaces.append(space)
    return spaces[1:]


# ---- truecasing ----------------------------------------------------------------------------------


def train_best_case(lines: Iterable[str], path: Path, workers: int = 1) -> None:
    """Write the model of a Moses truecaser that is trained on tokenised lines.

    A line holds the spellings of a word, the most frequent one first: ``Debian (90/95) DEBIAN (3)
    debian (2)``.
    """
    spellings: dict[str, Counter[str]] = {}
    for counts in map_chunks(_spellings, lines, workers):
        for (lower, spelling), count in counts.items():
            spellings.setdefault(lower, Counter())[spelling] += count
    with atomic_writer(path) as file:
        for frequencies in spellings.values():
            by_frequency = frequencies.most_common()
            best, count = by_frequency[0]
            words = [f"{best} ({count}/{frequencies.total()})"]
            for word, count in by_frequency[1:]:
                words.append(f"{word} ({count})")
            file.write(f"{' '.join(words)}\n")


def _spellings(lines: list[str]) -> Counter[tuple[str, str]]:
    truecaser = MosesTruecaser()
    counts = Counter[tuple[str, str]]()
    for line in lines:
        words = line.split(" ")
        for lower, spelling, count in truecaser.learn_truecase_weights(words):
            counts[lower, spelling] += count
    return counts


def load_best_case(path: Path) -> dict[str, str]:
    """Read a model of the Moses truecaser."""
    return best_case_of(read_text(path))


def best_case_of(model: str) -> dict[str, str]:
    """Return the most frequent spelling of each lower-cased word."""
    best_case = {}
    for line in model.split("\n"):
        words = line.split()
        if words:
            best_case[words[0].lower()] = words[0]
    return best_case


# ---- words of Chinese ----------------------------------------------------------------------------


@functools.cache
def jieba_tokenizer() -> Any:
    """Return the tokenizer of jieba; raises GtransError without jieba."""
    require(("jieba",), "`--segmenter jieba`")
    jieba: Any = importlib.import_module("jieba")
    jieba.setLogLevel(logging.WARNING)
    return jieba.Tokenizer()


def chinese_words(text: str) -> list[str]:
    """Split ``text`` into words with jieba."""
    return list(jieba_tokenizer().cut(text))
