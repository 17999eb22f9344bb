"""Warnings about texts that are probably not the intended ones.

Every check takes a sample of the text, and is silent when in doubt.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, combinations, islice

import numpy as np
from numpy.typing import NDArray

from gtrans.languages import language_code, language_name
from gtrans.text.pipeline import not_plain

# Frequent function words, by the code of their language.
_WORDS = """
en: the of and to in is that it for was with you on be are this not have as at they he but from or
we what by an if his her will can there do i my has your she all one
de: der die und das ist in den von zu mit nicht ich auf es ein eine sie sich für dem im als auch
er an wir wird bei oder aus sind dass des einen haben war wie aber hat nach einer du was
fr: de la le et les des en un une du est que pour qui dans l d il au pas ce sur par qu je plus
vous avec se n ne nous son sont cette ou elle mais sa c à s les aux été être
es: de la que el en y a los se del las un por con una no su para es al lo como más o pero sus le
ha me si sin este yo muy está ya todo fue son esta hay qué
it: di e che la il un a è per in una non sono da si con come le dei del della ha ma mi lo nel al
più i gli anche l questo alla ho ci delle se perché era cosa
pt: de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele
das tem à seu sua ou ser eu também só pelo pela isso está você são
ca: de la que i el a en els un per les es amb no una del és al com d l més va són ha o si dels
però aquest aquesta seva seu també hi ho molt perquè
ro: de și în a la cu nu pe că este o un să din mai care sunt pentru ce se au fi dar ca al sau după
lui fost ei prin eu am acest această
nl: de en het van een in is dat op te zijn met voor niet aan er om ook als die hij maar ik uit bij
dan nog naar door over ze wordt je wat heeft was of zo we deze
sv: och att det i en som på är av för med till den har de inte om ett jag men var kan du vi från
så hon han eller när mig sig också efter ska alla vid
da: og at det i en er som på af for med til den har de ikke om et jeg men var kan du vi fra så hun
han eller når mig sig også efter skal alle ved blev være
no: og at det i en er som på av for med til den har de ikke om et jeg men var kan du vi fra så hun
han eller når meg seg også etter skal alle ved ble være
fi: ja on ei se että hän oli en mutta ovat kun tai minä kuin niin mitä sinä me olen jos hänen tämä
joka myös vain ole nyt voi sen ne kaikki ollut
et: ja on ei et see ma ta oli kui mis ka aga nii siis oma mida sa või seda kõik me ning selle
nende olema tema kes kuid nagu
hu: a az és hogy nem is egy ez meg de van azt csak ha vagy már mint el volt én ezt ki még amit
kell minden lesz te ő mert akkor
cs: a se v na je to že s z do o i jsem ale si jako za by pro tak jsou po který od co už při nebo
aby když bylo která není jen
sk: a sa v na je to že s z do o i som ale si ako za by pre tak sú po ktorý od čo už pri alebo aby
keď bolo ktorá nie je len
pl: i w na z się nie do to że jest o a jak po co od za tak ale dla przez czy są już tym go mnie
jego być przy może tylko oraz był która który
sl: in je v na se da so za ki z ne pa o s kot po ali tudi bi sem od ter pri lahko če kaj ni že bo
tako kako smo
hr: i u je na se da su za od s ne koji što o bi kao a sam ili ali iz sve nije samo koja biti po te
će ako to kako mi
lt: ir kad yra tai į su iš ne bet o ar kaip buvo už tik jis apie dėl aš ji nuo jo savo jie jų visi
taip gali arba turi
lv: un ir ka ar no par uz tas nav bet kas lai vai es tā kā pie viņš bija arī to savu ja pēc tad
vēl visi tiek jo
tr: ve bir bu da de için ile o ne var çok daha gibi ben olarak ama mi sen kadar olan sonra her ki
en değil ya şey onu yok biz
id: yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena tersebut bisa
ada mereka lebih kami atau adalah kita oleh telah bahwa anda
vi: và của là có không cho một được các trong những người với này để đã tôi khi như từ ở về cũng
đến ra làm anh thì phải mà
ru: и в не на что он я с как это а то по но из у за к же от его для все она так мы вы о бы если
или ее их быть был только мне еще нет меня они им ему ей нас вас этот эта эти этого где когда
чтобы уже даже очень своем должны друг
uk: і в не на що він я з як це а та до у за від його для все вона так ми ви про б якщо або її їх
бути був тільки ще немає мене є й який
be: і ў не на што ён я з як гэта а да у за ад яго для усё яна так мы вы пра калі або яе іх быць
быў толькі яшчэ няма мяне ёсць
bg: и на да се в от за не е с че по си той до като а това са но ще ли или към при съм беше има тя
му го те са бъде
sr: и у је на се да су за од с не који што о би као а сам или али из све није само која бити по те
ће ако то како ми i u je na su za od s ne koji što kao sam ili ali iz sve nije
mk: и на да се во од за не е со што по си тој до како а ова се но ќе ли или кон при сум беше има
таа му го тие бидат
"""
_FUNCTION_WORDS: dict[str, frozenset[str]] = {}
for _entry in re.split(r"\n(?=\w\w: )", _WORDS.strip()):
    _code, _, _list = _entry.partition(": ")
    _FUNCTION_WORDS[_code] = frozenset(_list.split())
# Languages that are written nearly like another one.
_WRITTEN_LIKE = {"nb": "no", "nn": "no", "bs": "hr", "sh": "sr"}

# The scripts of languages that are not written in Latin letters, by the names of Unicode; languages
# that have several scripts are left out.
_SCRIPTS = {
    "CYRILLIC": "ru uk be bg mk ab av ba ce cu cv kv ky os tg",
    "GREEK": "el",
    "ARABIC": "ar fa ur ps ug",
    "HEBREW": "he yi",
    "CJK": "zh yue wuu nan hak gan hsn lzh ja",
    "HANGUL": "ko",
    "DEVANAGARI": "hi mr ne bho mai awa hne mag",
    "BENGALI": "bn as",
    "GURMUKHI": "pa",
    "GUJARATI": "gu",
    "ORIYA": "or",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "TIBETAN": "bo dz",
    "MYANMAR": "my",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
    "ETHIOPIC": "am ti",
    "KHMER": "km",
    "LATIN": "af br ca co cs cy da de en eo es et eu fi fo fr fy ga gd gl gn hr ht hu id ig is it "
    "lb lt lv mg mi mt nb nl nn no oc pl pt qu rm ro sk sl sm sn so sq st sv sw tl tn to tr ts vi "
    "wa wo xh yo zu",
}
_SCRIPT_OF: dict[str, str] = {}
for _script_name, _codes in _SCRIPTS.items():
    _SCRIPT_OF |= dict.fromkeys(_codes.split(), _script_name)
# Scripts of the four letters in a tag, as in NLLB's tags: kas_Deva.
_SCRIPT_TAGS = {
    "latn": "LATIN",
    "cyrl": "CYRILLIC",
    "arab": "ARABIC",
    "deva": "DEVANAGARI",
    "hans": "CJK",
    "hant": "CJK",
    "jpan": "CJK",
}
_SCRIPT_FAMILY = {
    "HIRAGANA": "CJK",
    "KATAKANA": "CJK",
    "KATAKANA-HIRAGANA": "CJK",
    "HALFWIDTH": "CJK",
}
_KANA = re.compile("[\u3041-\u30ff]")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")

_FEWEST_LETTERS = 20
_FEWEST_FUNCTION_WORDS = 6
_FEWEST_PAIRS = 4
_FEWEST_LENGTHS = 20

_MOST_REPEATED = 0.3
_MOST_SHARED = 0.3

_MOJIBAKE = re.compile(
    "Ã[\u0080-\u00bf\u0152-\u0178\u2018-\u203a\u20ac\u2122]|â€[\u0080-\u00bf\u02dc\u0153\u2018-\u2122]"
    "|Â[\u00a0-\u00bf]|[ÐÑ][\u0080-\u00bf\u0400-\u045f\u2018-\u2122]{1,2}[ÐÑ]"
)


def function_words(tag: str) -> frozenset[str]:
    """Return frequent function words of a language, if known."""
    code = language_code(tag) or ""
    written = _WRITTEN_LIKE.get(code, code)
    return _FUNCTION_WORDS.get(written, frozenset())


@dataclass(frozen=True)
class TextSample:
    """Sentences of one side of a corpus, in their order.

    Attributes:
        name: the file, for warnings.
        lang: the language that the user names.
        documents: their number; 0: not known.
    """

    name: str
    lang: str
    sentences: Sequence[str]
    documents: int = 0

    @classmethod
    def of(cls, name: str, lang: str, documents: Iterable[Sequence[str]]) -> TextSample:
        """Take the first sentences of documents."""
        sentences = islice(chain.from_iterable(documents), PairSampler.RUN * PairSampler.MOST)
        return cls(name, lang, list(sentences))

    @cached_property
    def other_language(self) -> str:
        """The language, or script, of the text if it is not ``lang``."""
        return _other_language(self.sentences, self.lang)

    @cached_property
    def lower_case(self) -> float:
        """Share of lower-case sentences among those with two cases."""
        cased = [text for text in self.sentences if text.lower() != text.upper()]
        lower = sum(text == text.lower() for text in cased)
        return lower / len(cased) if len(cased) >= _FEWEST_PAIRS else 0.0

    @cached_property
    def decomposed(self) -> float:
        """Share of sentences beyond ASCII that are not NFC."""
        foreign = [text for text in self.sentences if not text.isascii()]
        others = sum(not unicodedata.is_normalized("NFC", text) for text in foreign)
        return others / len(foreign) if len(foreign) >= _FEWEST_PAIRS else 0.0


class PairSampler:
    """Keeps sentence pairs of a corpus of any size, in runs of consecutive ones.

    Beyond ``RUN * MOST`` pairs, it keeps every second, every fourth, .. run.
    """

    RUN = 200
    MOST = 100

    def __init__(self) -> None:
        self._runs: list[list[tuple[str, str]]] = []
        self._step = 1
        self._number = 0
        self.documents = 1

    def add(self, pair: tuple[str, str] | None) -> None:
        """Take the next pair; None: a boundary."""
        if pair is None:
            self.documents += 1
            return
        run, place = divmod(self._number, self.RUN)
        self._number += 1
        if run % self._step:
            return
        if place == 0:
            if len(self._runs) == self.MOST:
                self._runs = self._runs[::2]
                self._step *= 2
            self._runs.append([])
        self._runs[-1].append(pair)

    def samples(self, names: Sequence[str], languages: Sequence[str]) -> list[TextSample]:
        """Return the kept pairs as two texts."""
        pairs = list(chain.from_iterable(self._runs))
        samples = []
        for side in range(2):
            sentences = [pair[side] for pair in pairs]
            sample = TextSample(names[side], languages[side], sentences, self.documents)
            samples.append(sample)
        return samples


def implausible(
    source: TextSample | None = None,
    target: TextSample | None = None,
    translation: TextSample | None = None,
    plain: bool = True,
) -> list[str]:
    """Return warnings about a source, its reference and a translation.

    Args:
        plain: also warn about text that is tokenised or escaped.
    """
    found: list[str] = []
    texts = [text for text in (source, target, translation) if text is not None]
    if source is not None and target is not None:
        found += _same_text_warnings("source", source, "target", target, 0.5)
    if translation is not None and source is not None:
        found += _same_text_warnings("translation", translation, "source", source, 0.5)
    if translation is not None and target is not None:
        found += _same_text_warnings("translation", translation, "reference", target, 1.0)
    if not found:
        found += _language_warnings(texts, source, target)
    if not found and source is not None and target is not None:
        found += _shift_warnings(source, target)
    for text in texts:
        found += _garbled_text_warnings(text)
        if plain:
            found += not_plain(text.name, text.sentences)
    if translation is not None:
        found += _empty_sentence_warnings(translation)
        if target is not None:
            found += unlike(translation, target)
    return found


def unlike(text: TextSample, other: TextSample) -> list[str]:
    """Return warnings about differences in writing between two texts."""
    found = []
    for left, right in ((text, other), (other, text)):
        if left.lower_case > 0.95 and right.lower_case < 0.5:
            found.append(f"{left.name}: it is all in lower case, but {right.name} is not")
        if left.decomposed > 0.3 and right.decomposed < 0.02 and not _all_ascii(right):
            found.append(
                f"{left.name}: its accents are separate characters, but in {right.name} they "
                "are not; bring both to Unicode's form NFC"
            )
    if other.documents > 1 and text.documents == 1:
        found.append(
            f"{text.name}: it has no boundaries between documents, but {other.name} has "
            f"{other.documents:,} documents"
        )
    return found


def _all_ascii(text: TextSample) -> bool:
    return all(sentence.isascii() for sentence in text.sentences)


# ---- one text ------------------------------------------------------------------------------------


def _garbled_text_warnings(text: TextSample) -> list[str]:
    garbled = sum(_MOJIBAKE.search(sentence) is not None for sentence in text.sentences)
    if garbled <= max(0.02 * len(text.sentences), 1):
        return []
    return [
        f"{text.name}: {garbled:,} of {len(text.sentences):,} sentences look as if UTF-8 had been "
        "read as another encoding (such as 'Ã¼' for 'ü'); convert the file anew"
    ]


def _empty_sentence_warnings(text: TextSample) -> list[str]:
    empty = sum(not sentence.strip() for sentence in text.sentences)
    if len(text.sentences) < _FEWEST_PAIRS or 2 * empty < len(text.sentences):
        return []
    return [f"{text.name}: {empty:,} of {len(text.sentences):,} sentences are empty"]


# ---- languages -----------------------------------------------------------------------------------


def _language_warnings(
    texts: Iterable[TextSample], source: TextSample | None, target: TextSample | None
) -> list[str]:
    if source is not None and target is not None and _are_swapped(source, target):
        return [
            f"{source.name} looks like {_shown(source.other_language)} and {target.name} like "
            f"{_shown(target.other_language)}: are the two sides swapped?"
        ]
    warnings = []
    for text in texts:
        if text.other_language:
            own = language_code(text.lang) or text.lang
            warnings.append(
                f"{text.name}: it looks like {_shown(text.other_language)}, not like "
                f"{_shown(own)}; is it the right file, and the right language?"
            )
    return warnings


def _are_swapped(source: TextSample, target: TextSample) -> bool:
    return _looks_like(source, target.lang) and _looks_like(target, source.lang)


def _looks_like(text: TextSample, lang: str) -> bool:
    code = language_code(lang) or lang
    if not text.other_language:
        return False
    return text.other_language in (code, _SCRIPT_OF.get(code))


def _shown(language: str) -> str:
    if language == "CJK":
        return "text in Chinese characters"
    if language.isupper():
        return f"text in {language.title()} letters"
    name = language_name(language)
    return f"{name} ({language})" if name else language


def _other_language(sentences: Sequence[str], tag: str) -> str:
    code = language_code(tag)
    expected = _expected_script(tag, code)
    scripts = _count_scripts(sentences)
    letters = scripts.total()
    if letters < _FEWEST_LETTERS:
        return ""
    script, count = scripts.most_common(1)[0]
    if expected is not None and script != expected:
        if count < 0.7 * letters or scripts[expected] > 0.15 * letters:
            return ""
        return _language_of(sentences) or script
    if code == "ja" and script == "CJK" and not _has(_KANA, sentences, 0.05 * letters):
        return "zh"
    if code == "zh" and script == "CJK" and _has(_KANA, sentences, 0.2 * letters):
        return "ja"
    own = _WRITTEN_LIKE.get(code or "", code)
    return _language_of(sentences, own) if own in _FUNCTION_WORDS else ""


def _expected_script(tag: str, code: str | None) -> str | None:
    for part in re.split("[_-]", tag.lower())[1:]:
        if part in _SCRIPT_TAGS:
            return _SCRIPT_TAGS[part]
    return _SCRIPT_OF.get(code or "")


def _has(letters: re.Pattern[str], sentences: Iterable[str], number: float) -> bool:
    return sum(len(letters.findall(sentence)) for sentence in sentences) > number


def _count_scripts(sentences: Iterable[str]) -> Counter[str]:
    characters = Counter[str]()
    for sentence in sentences:
        characters.update(sentence)
    scripts = Counter[str]()
    for character, count in characters.items():
        if character.isalpha():
            scripts[_script(character)] += count
    return scripts


@cache
def _script(letter: str) -> str:
    name = unicodedata.name(letter, "").partition(" ")[0]
    return _SCRIPT_FAMILY.get(name, name)


def _language_of(sentences: Iterable[str], code: str = "") -> str:
    """Return the likeliest language by its function words; empty: ``code``, or not clear."""
    words = Counter[str]()
    for sentence in sentences:
        words.update(_WORD.findall(sentence.lower()))
    found = {lang: _count(words, listed) for lang, listed in _FUNCTION_WORDS.items()}
    best = max(found, key=lambda lang: found[lang])
    if found[best] < max(_FEWEST_FUNCTION_WORDS, 0.15 * words.total()):
        return ""
    if not code:
        return best
    # Related languages share many function words; the others decide between them.
    best_words = _FUNCTION_WORDS[best]
    own_words = _FUNCTION_WORDS[code]
    for_best = _count(words, best_words - own_words)
    for_own = _count(words, own_words - best_words)
    is_clear = for_best >= max(_FEWEST_FUNCTION_WORDS, 0.05 * words.total())
    return best if is_clear and for_best > 3 * for_own else ""


def _count(words: Counter[str], listed: Iterable[str]) -> int:
    return sum(words[word] for word in listed)


# ---- two sides -----------------------------------------------------------------------------------


def _same_text_warnings(
    role: str, text: TextSample, other_role: str, other: TextSample, least: float
) -> list[str]:
    pairs = zip(text.sentences, other.sentences, strict=False)
    with_letters = [(left, right) for left, right in pairs if _LETTER.search(left)]
    same = sum(left == right for left, right in with_letters)
    if len(with_letters) < _FEWEST_PAIRS or same < least * len(with_letters):
        return []
    count = "all" if same == len(with_letters) else f"{same:,} of {len(with_letters):,}"
    return [
        f"the {role} {text.name} and the {other_role} {other.name} have the same text in {count} "
        "sentences; is one of them the wrong file?"
    ]


def _shift_warnings(source: TextSample, target: TextSample) -> list[str]:
    left, right = _log_lengths(source), _log_lengths(target)
    if len(left) != len(right) or len(left) < _FEWEST_LENGTHS:
        return []
    least = max(0.6, _correlation(left, right) + 0.3)
    where = ""
    if _correlation(left[:-1], right[1:]) > least:
        where = "next"
    elif _correlation(left[1:], right[:-1]) > least:
        where = "previous"
    if not where:
        return []
    return [
        f"{source.name}: its sentences are as long as the {where} ones of {target.name}; is a line "
        "missing on one side?"
    ]


def _log_lengths(text: TextSample) -> NDArray[np.float64]:
    lengths = [len(sentence) for sentence in text.sentences]
    logarithms: NDArray[np.float64] = np.log1p(lengths)
    return logarithms


def _correlation(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return 0.0
    return float(np.corrcoef(left, right)[0, 1])


# ---- splits --------------------------------------------------------------------------------------


class Overlaps:
    """Finds text that splits of a corpus share or repeat.

    Pairs are the same only after the same pair: short sentences recur in every corpus.
    """

    def __init__(self) -> None:
        self._hashes: dict[str, array[int]] = {}
        self._previous: tuple[str, str] | None = None

    def add(self, split: str, pair: tuple[str, str] | None) -> None:
        """Take the next pair of a split; None: a boundary."""
        if pair is not None:
            hashes = self._hashes.setdefault(split, array("q"))
            hashes.append(hash((self._previous, pair)))
        self._previous = pair

    def warnings(self) -> list[str]:
        """Return warnings about splits that share, or repeat, many pairs."""
        found = []
        hashes = {split: np.frombuffer(values, np.int64) for split, values in self._hashes.items()}
        for split, own in hashes.items():
            repeated = len(own) - len(np.unique(own))
            if len(own) >= _FEWEST_PAIRS and repeated > _MOST_REPEATED * len(own):
                found.append(
                    f"{split}: {repeated:,} of {len(own):,} sentence pairs repeat others in the "
                    "same context; is a text given twice?"
                )
        for split, other in combinations(hashes, 2):
            shared = int(np.isin(hashes[other], hashes[split]).sum())
            if shared > _MOST_SHARED * len(hashes[other]):
                found.append(
                    f"{other}: {shared:,} of {len(hashes[other]):,} sentence pairs are also in "
                    f"{split}, in the same context; scores on them say nothing about new text"
                )
        return found
