"""Words of the generated corpus: English with every German form the grammar asks for.

All lists are tuples, so that drawing from them depends on the random stream alone.
What each list leaves out matters as much as what it holds:

* things can be bought, seen, dirty or old, and no person is called `it`, so `it` always
  has a thing as its antecedent;
* qualities fit a thing and nothing else: with `strange` or `cold`, `it` could as well
  be the whole event or the weather;
* persons stand in the nominative only (names also as objects), so weak nouns such as
  *der Junge* need no second form;
* words of free choice name persons, hence never compete for the antecedent of `it`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """A word with one German form."""

    en: str
    de: str


@dataclass(frozen=True)
class Noun:
    """A noun phrase; ``he`` and ``him`` are the German pronouns that stand for it."""

    en: str
    nom: str
    acc: str
    gender: str
    he: str
    him: str


@dataclass(frozen=True)
class Act:
    """A transitive verb in past tense and past participle."""

    past: str
    participle: str
    past_de: str
    participle_de: str


@dataclass(frozen=True)
class Address:
    """A German form of `you` (nominative) with the verbs that agree with it."""

    you: str
    are: str
    were: str
    have: str
    can: str
    must: str
    know: str


Entry = Word | Noun | Act | Address

_ARTICLE = {"m": ("der", "den"), "f": ("die", "die"), "n": ("das", "das")}
_PRONOUN = {"m": ("er", "ihn"), "f": ("sie", "sie"), "n": ("es", "es")}


def _words(*pairs: str) -> tuple[Word, ...]:
    return tuple(Word(*pair.split("/")) for pair in pairs)


def _noun(en: str, de: str, gender: str) -> Noun:
    nominative, accusative = _ARTICLE[gender]
    return Noun(f"the {en}", f"{nominative} {de}", f"{accusative} {de}", gender, *_PRONOUN[gender])


def _nouns(gender: str, *pairs: str) -> tuple[Noun, ...]:
    split = (pair.split("/") for pair in pairs)
    return tuple(_noun(en, de, gender) for en, de in split)


def _name(name: str, gender: str) -> Noun:
    return Noun(name, name, name, gender, *_PRONOUN[gender])


def _choice(entry: str) -> tuple[Noun, Noun]:
    en, masculine, feminine = entry.split("/")
    return _noun(en, masculine, "m"), _noun(en, feminine, "f")


GENDERS = ("m", "f", "n")

THINGS = (
    *_nouns("m", "table/Tisch", "chair/Stuhl", "suitcase/Koffer", "key/Schlüssel"),
    *_nouns("m", "carpet/Teppich", "hat/Hut", "ring/Ring", "coat/Mantel"),
    *_nouns("f", "lamp/Lampe", "clock/Uhr", "bag/Tasche", "bottle/Flasche"),
    *_nouns("f", "vase/Vase", "guitar/Gitarre", "box/Kiste", "chain/Kette"),
    *_nouns("n", "book/Buch", "knife/Messer", "picture/Bild", "bed/Bett"),
    *_nouns("n", "piano/Klavier", "radio/Radio", "dress/Kleid", "sofa/Sofa"),
)
"""Possible antecedents of `it`, eight of each gender."""

NAMES = (
    *(_name(name, "f") for name in ("Anna", "Maria", "Lena", "Julia")),
    *(_name(name, "m") for name in ("Paul", "Peter", "Karl", "Felix")),
)

PERSONS = (
    *NAMES,
    *_nouns("m", "man/Mann", "boy/Junge", "king/König", "uncle/Onkel", "father/Vater"),
    *_nouns("f", "woman/Frau", "queen/Königin", "aunt/Tante", "mother/Mutter"),
    *_nouns("n", "girl/Mädchen"),
)

FREE_CHOICES = (
    _choice("guard/Wächter/Wache"),
    _choice("assistant/Helfer/Hilfskraft"),
    _choice("expert/Fachmann/Fachkraft"),
    _choice("celebrity/Star/Berühmtheit"),
)
"""Persons with two German names of one meaning; a document keeps to one.

The names differ in gender, so the choice shows in the article as well: words that differ
in nothing but themselves look all but equal to a model that was trained on sentences.
"""

STATES = _words(
    "tired/müde",
    "hungry/hungrig",
    "thirsty/durstig",
    "sick/krank",
    "happy/glücklich",
    "sad/traurig",
    "angry/wütend",
    "nervous/nervös",
    "proud/stolz",
    "ready/bereit",
    "quiet/ruhig",
    "alone/allein",
    "outside/draußen",
    "upstairs/oben",
)
"""What a person can be. Forms of `be` never serve as the antecedent of `did too`."""

QUALITIES = _words(
    "old/alt",
    "heavy/schwer",
    "expensive/teuer",
    "dirty/schmutzig",
    "dusty/staubig",
    "valuable/wertvoll",
    "broken/kaputt",
    "small/klein",
    "colourful/bunt",
)
"""What a thing, and only a thing, can be."""

VERBS = _words(
    "laughed/lachte",
    "cried/weinte",
    "slept/schlief",
    "waited/wartete",
    "danced/tanzte",
    "sang/sang",
    "smiled/lächelte",
    "worked/arbeitete",
    "yawned/gähnte",
    "coughed/hustete",
    "sneezed/nieste",
    "whistled/pfiff",
)
"""Intransitive verbs, third person singular past: what `did too` can stand for."""

ACTS = tuple(
    Act(*forms.split("/"))
    for forms in (
        "bought/bought/kaufte/gekauft",
        "sold/sold/verkaufte/verkauft",
        "found/found/fand/gefunden",
        "brought/brought/brachte/gebracht",
        "cleaned/cleaned/reinigte/gereinigt",
        "hid/hidden/versteckte/versteckt",
        "kept/kept/behielt/behalten",
        "stole/stolen/stahl/gestohlen",
    )
)

SPEECH = _words("said/sagte", "knew/wusste", "believed/glaubte", "thought/dachte")
TIMES = _words("yesterday/gestern", "later/später", "then/dann")
FREQUENCIES = _words("often/oft", "never/nie", "always/immer")
DEGREES = _words("really/wirklich", "quite/ziemlich")

DU = Address("du", "bist", "warst", "hast", "kannst", "musst", "kennst")
SIE = Address("Sie", "sind", "waren", "haben", "können", "müssen", "kennen")

POOLS: dict[str, tuple[Entry, ...]] = {
    "thing": THINGS,
    "name": NAMES,
    "person": PERSONS,
    "state": STATES,
    "quality": QUALITIES,
    "verb": VERBS,
    "act": ACTS,
    "speech": SPEECH,
    "time": TIMES,
    "frequency": FREQUENCIES,
    "degree": DEGREES,
}
"""Template field -> words it can be filled with."""
