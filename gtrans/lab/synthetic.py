"""A synthetic English-German document corpus that cannot be translated line by line.

Four phenomena make a German sentence depend on a cue 1 to 4 sentences back:

``pronoun`` (cue on the source side)
    `It was heavy.` becomes *Er*, *Sie* or *Es war schwer.*: the gender of the last thing
    mentioned.
``ellipsis`` (source side)
    `The boy did too.` becomes *Der Junge lachte auch.*: the last verb but `be`.
``formality`` (target side only)
    `You are late.` becomes *Du bist* or *Sie sind*, the same in the whole document.
``lexical`` (target side only)
    `The guard was tired.` becomes *Der Wächter* or *Die Wache*, two translations of one
    word "of free choice", the same in the whole document.

The first `you` and the first word of free choice are random; all other German sentences follow
from the English document.

Contrastive items end with the phenomenon and come in twins, which have the same last source
sentence, the same two candidates for it and different cues: each candidate is right in one twin.
A system that sees no context scores both twins alike, so its accuracy is at most 50%. On
``formality`` and ``lexical`` this holds for source context, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import combinations, count
from string import Formatter
from typing import Any, NamedTuple

# --- words ---------------------------------------------------------------------------------------
#
# All lists are tuples, so that drawing from them depends on the random stream alone.
#
# * things can be bought, seen, dirty or old, and no person is called `it`, so `it` always
#   has a thing as its antecedent;
# * qualities fit a thing and nothing else: with `strange` or `cold`, `it` could as well
#   be the whole event or the weather;
# * persons stand in the nominative only (names also as objects), so weak nouns such as
#   *der Junge* need no second form;
# * words of free choice name persons, hence never compete for the antecedent of `it`.


@dataclass(frozen=True)
class LexiconWord:
    """A word with one German form."""

    en: str
    de: str


@dataclass(frozen=True)
class Noun:
    """A noun phrase and its German pronouns."""

    en: str
    nom: str
    acc: str
    gender: str
    he: str
    him: str


@dataclass(frozen=True)
class Act:
    """A transitive verb: past tense and past participle (``done``)."""

    past: str
    done: str
    past_de: str
    done_de: str


@dataclass(frozen=True)
class Address:
    """A German `you` with the verbs that agree with it."""

    you: str
    are: str
    were: str
    have: str
    can: str
    must: str
    know: str


LexiconEntry = LexiconWord | Noun | Act | Address

_ARTICLE = {"m": ("der", "den"), "f": ("die", "die"), "n": ("das", "das")}
_PRONOUN = {"m": ("er", "ihn"), "f": ("sie", "sie"), "n": ("es", "es")}


def _words(pairs: str) -> tuple[LexiconWord, ...]:
    words = []
    for pair in pairs.split():
        en, de = pair.split("/")
        words.append(LexiconWord(en, de))
    return tuple(words)


def _noun(en: str, de: str, gender: str) -> Noun:
    nominative, accusative = _ARTICLE[gender]
    return Noun(f"the {en}", f"{nominative} {de}", f"{accusative} {de}", gender, *_PRONOUN[gender])


def _nouns(gender: str, pairs: str) -> tuple[Noun, ...]:
    nouns = []
    for pair in pairs.split():
        en, de = pair.split("/")
        nouns.append(_noun(en, de, gender))
    return tuple(nouns)


def _name(name: str, gender: str) -> Noun:
    return Noun(name, name, name, gender, *_PRONOUN[gender])


def _synonyms(entry: str) -> tuple[Noun, Noun]:
    en, masculine, feminine = entry.split("/")
    return _noun(en, masculine, "m"), _noun(en, feminine, "f")


GENDERS = ("m", "f", "n")

THINGS = (
    *_nouns("m", "table/Tisch chair/Stuhl suitcase/Koffer key/Schlüssel"),
    *_nouns("m", "carpet/Teppich hat/Hut ring/Ring coat/Mantel"),
    *_nouns("f", "lamp/Lampe clock/Uhr bag/Tasche bottle/Flasche"),
    *_nouns("f", "vase/Vase guitar/Gitarre box/Kiste chain/Kette"),
    *_nouns("n", "book/Buch knife/Messer picture/Bild bed/Bett"),
    *_nouns("n", "piano/Klavier radio/Radio dress/Kleid sofa/Sofa"),
)
"""Possible antecedents of `it`, eight of each gender."""

NAMES = (
    *(_name(name, "f") for name in ("Anna", "Maria", "Lena", "Julia")),
    *(_name(name, "m") for name in ("Paul", "Peter", "Karl", "Felix")),
)

PERSONS = (
    *NAMES,
    *_nouns("m", "man/Mann boy/Junge king/König uncle/Onkel father/Vater"),
    *_nouns("f", "woman/Frau queen/Königin aunt/Tante mother/Mutter"),
    *_nouns("n", "girl/Mädchen"),
)

FREE_CHOICES = (
    _synonyms("guard/Wächter/Wache"),
    _synonyms("assistant/Helfer/Hilfskraft"),
    _synonyms("expert/Fachmann/Fachkraft"),
    _synonyms("celebrity/Star/Berühmtheit"),
)
"""Persons with two German names of one meaning; a document keeps to one.

The names differ in gender, so the choice shows in the article as well.
"""

STATES = _words(
    "tired/müde hungry/hungrig thirsty/durstig sick/krank happy/glücklich sad/traurig "
    "angry/wütend nervous/nervös proud/stolz ready/bereit quiet/ruhig alone/allein "
    "outside/draußen upstairs/oben"
)
"""States of a person. Forms of `be` never serve as the antecedent of `did too`."""

QUALITIES = _words(
    "old/alt heavy/schwer expensive/teuer dirty/schmutzig dusty/staubig valuable/wertvoll "
    "broken/kaputt small/klein colourful/bunt"
)
"""Qualities that only a thing can have."""

VERBS = _words(
    "laughed/lachte cried/weinte slept/schlief waited/wartete danced/tanzte sang/sang "
    "smiled/lächelte worked/arbeitete yawned/gähnte coughed/hustete sneezed/nieste whistled/pfiff"
)
"""Intransitive verbs, third person singular past, for which `did too` can stand."""

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

SPEECH = _words("said/sagte knew/wusste believed/glaubte thought/dachte")
TIMES = _words("yesterday/gestern later/später then/dann")
FREQUENCIES = _words("often/oft never/nie always/immer")
DEGREES = _words("really/wirklich quite/ziemlich")

DU = Address("du", "bist", "warst", "hast", "kannst", "musst", "kennst")
SIE = Address("Sie", "sind", "waren", "haben", "können", "müssen", "kennen")

POOLS: dict[str, tuple[LexiconEntry, ...]] = {
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
"""Possible words of a template's fields."""


# --- grammar -------------------------------------------------------------------------------------

DISTANCES = (1, 2, 3, 4)


class Role(Enum):
    """The part of a sentence in its document."""

    NEUTRAL = "neutral"
    THING = "thing"
    IT = "it"
    VERB = "verb"
    DID = "did"
    YOU = "you"
    CHOICE = "choice"


class LinkRoles(NamedTuple):
    """Roles of the sentence with a cue, and of the sentence that uses it."""

    cue: Role
    use: Role


ROLES = {
    "pronoun": LinkRoles(cue=Role.THING, use=Role.IT),
    "formality": LinkRoles(cue=Role.YOU, use=Role.YOU),
    "ellipsis": LinkRoles(cue=Role.VERB, use=Role.DID),
    "lexical": LinkRoles(cue=Role.CHOICE, use=Role.CHOICE),
}
"""By phenomenon."""

CUES = {"pronoun": "source", "formality": "target", "ellipsis": "source", "lexical": "target"}
"""The side of the cue, by phenomenon."""

PHENOMENA = tuple(ROLES)


@dataclass(frozen=True)
class Template:
    """One sentence on both sides, in the syntax of ``str.format``.

    ``acts``: a later `did too` could mean its verb phrase.
    """

    source: str
    target: str
    acts: bool = False

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Words to fill in, in order."""
        names: dict[str, None] = {}
        for _, name, _, _ in Formatter().parse(self.source + self.target):
            if name:
                names[name.split(".")[0]] = None
        return tuple(names)


def _templates(lines: str) -> tuple[Template, ...]:
    """Read lines ``English | German``; a star sets ``acts``."""
    templates = []
    for indented in lines.strip().split("\n"):
        line = indented.strip()
        source, target = line.removeprefix("* ").split(" | ")
        templates.append(Template(source, target, acts=line.startswith("* ")))
    return tuple(templates)


_PERSON_ACTS = _templates("""
    * {person.en} {verb.en}. | {person.nom} {verb.de}.
    * {time.en} {person.en} {verb.en}. | {time.de} {verb.de} {person.nom}.
""")
_ABOUT_PERSON = (
    *_templates("""
        {person.en} was {state.en}. | {person.nom} war {state.de}.
        {person.en} is {state.en}. | {person.nom} ist {state.de}.
        {person.en} was {frequency.en} {state.en}. | {person.nom} war {frequency.de} {state.de}.
        where is {person.en}? | wo ist {person.nom}?
    """),
    *_PERSON_ACTS,
    Template(
        "{name.en} {speech.en} that {person.en} was {state.en}.",
        "{name.nom} {speech.de}, dass {person.nom} {state.de} war.",
        acts=True,
    ),
)
_ABOUT_THING = _templates("""
    {thing.en} was {quality.en}. | {thing.nom} war {quality.de}.
    {thing.en} is {quality.en}. | {thing.nom} ist {quality.de}.
    {thing.en} was {degree.en} {quality.en}. | {thing.nom} war {degree.de} {quality.de}.
    where is {thing.en}? | wo ist {thing.nom}?
    * {person.en} {act.past} {thing.en}. | {person.nom} {act.past_de} {thing.acc}.
    * {person.en} has {act.done} {thing.en}. | {person.nom} hat {thing.acc} {act.done_de}.
""")

TEMPLATES: dict[Role, tuple[Template, ...]] = {
    Role.NEUTRAL: (*_ABOUT_PERSON, *_ABOUT_THING),
    Role.THING: _ABOUT_THING,
    Role.IT: _templates("""
        it was {quality.en}. | {thing.he} war {quality.de}.
        it is {quality.en}. | {thing.he} ist {quality.de}.
        it was {degree.en} {quality.en}. | {thing.he} war {degree.de} {quality.de}.
        where is it? | wo ist {thing.he}?
        * {person.en} {act.past} it. | {person.nom} {act.past_de} {thing.him}.
        * {person.en} has {act.done} it. | {person.nom} hat {thing.him} {act.done_de}.
    """),
    Role.VERB: _PERSON_ACTS,
    Role.DID: _templates("""
        * {person.en} did too. | {person.nom} {verb.de} auch.
        * {time.en} {person.en} did too. | {time.de} {verb.de} {person.nom} auch.
        * so did {person.en}. | auch {person.nom} {verb.de}.
    """),
    Role.YOU: _templates("""
        you are {state.en}. | {you.you} {you.are} {state.de}.
        are you {state.en}? | {you.are} {you.you} {state.de}?
        you were {state.en}. | {you.you} {you.were} {state.de}.
        you are {frequency.en} {state.en}. | {you.you} {you.are} {frequency.de} {state.de}.
        where were you? | wo {you.were} {you.you}?
        * do you know {name.en}? | {you.know} {you.you} {name.acc}?
        * have you seen {name.en}? | {you.have} {you.you} {name.acc} gesehen?
        * can you help {name.en}? | {you.can} {you.you} {name.acc} helfen?
        * you must wait for {name.en}. | {you.you} {you.must} auf {name.acc} warten.
    """),
    Role.CHOICE: _ABOUT_PERSON,
}


@dataclass(frozen=True)
class SyntheticSentence:
    """A template with its words."""

    template: Template
    words: Mapping[str, LexiconEntry]

    @property
    def source(self) -> str:
        """The English sentence."""
        return _capitalised(self.template.source.format(**self.words))

    @property
    def target(self) -> str:
        """The German sentence."""
        return _capitalised(self.template.target.format(**self.words))


def _capitalised(text: str) -> str:
    # str.capitalize would lower the rest, German nouns with it.
    return text[0].upper() + text[1:]


@dataclass(frozen=True)
class Link:
    """Sentence ``use`` needs ``cue``, the nearest sentence with its cue."""

    phenomenon: str
    cue: int
    use: int

    @property
    def distance(self) -> int:
        """Sentences from the cue to its use."""
        return self.use - self.cue

    def spans(self, index: int) -> bool:
        """Return whether sentence ``index`` stands between cue and use."""
        return self.cue < index < self.use


@dataclass(frozen=True)
class SyntheticDocument:
    """Sentences in order, and their links."""

    sentences: tuple[SyntheticSentence, ...]
    links: tuple[Link, ...]

    @property
    def source(self) -> list[str]:
        """The English sentences."""
        return [sentence.source for sentence in self.sentences]

    @property
    def target(self) -> list[str]:
        """The German sentences."""
        return [sentence.target for sentence in self.sentences]

    def holds(self, word: LexiconEntry) -> bool:
        """Return whether ``word`` fills a field."""
        return any(word in sentence.words.values() for sentence in self.sentences)

    def with_word(self, old: LexiconEntry, new: LexiconEntry) -> SyntheticDocument:
        """Return a copy with ``new`` for ``old``."""
        sentences = []
        for sentence in self.sentences:
            words = dict(sentence.words)
            for name, word in sentence.words.items():
                if word == old:
                    words[name] = new
            sentences.append(SyntheticSentence(sentence.template, words))
        return SyntheticDocument(tuple(sentences), self.links)


@dataclass
class _DocumentPlan:
    roles: list[Role]
    links: list[Link] = field(default_factory=list)

    def fits(self, link: Link) -> bool:
        """Return whether ``link`` leaves every link without a nearer cue."""
        roles = ROLES[link.phenomenon]
        mentions = [number for number, role in enumerate(self.roles) if role in roles]
        cue_is_free = self.roles[link.cue] is Role.NEUTRAL
        use_is_free = self.roles[link.use] is Role.NEUTRAL
        if roles.cue is roles.use and mentions:
            # Every mention is the cue of the next one: the chain grows at its ends only.
            extends_end = link.cue == mentions[-1] and use_is_free
            extends_start = link.use == mentions[0] and cue_is_free
            return extends_end or extends_start
        if not (cue_is_free and use_is_free):
            return False
        if any(link.spans(mention) for mention in mentions):
            return False
        inside = self.is_inside(link.phenomenon, link.cue)
        return not inside and not self.is_inside(link.phenomenon, link.use)

    def add(self, link: Link) -> None:
        roles = ROLES[link.phenomenon]
        self.roles[link.cue] = roles.cue
        self.roles[link.use] = roles.use
        self.links.append(link)

    def is_inside(self, phenomenon: str, index: int) -> bool:
        links = [link for link in self.links if link.phenomenon == phenomenon]
        return any(link.spans(index) for link in links)

    def fitting_links(self, phenomenon: str, length: int) -> list[Link]:
        """Return links that fit and end in the first ``length`` sentences."""
        fitting = []
        for use in range(length):
            for cue in range(max(0, use - max(DISTANCES)), use):
                link = Link(phenomenon, cue, use)
                if self.fits(link):
                    fitting.append(link)
        return fitting


# Number of links of a phenomenon that a document should get; a link that does not fit is dropped.
# Half of the documents contain `you`, most contain a word of free choice. Nobody can predict the
# first mention of either; with one such word per document, high test scores remain possible.
_WANTED = {
    "pronoun": (1, 1, 2),
    "formality": (0, 1, 2),
    "ellipsis": (1, 1, 2),
    "lexical": (1, 2, 2),
}

# Mostly 6 to 8 sentences; some are as short as the shortest contrastive items.
_LENGTHS = (2, 3, 4, 5, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 8, 8, 8, 8, 8)


class Ending(NamedTuple):
    """The last sentence of a document needs a cue ``distance`` sentences back."""

    phenomenon: str
    distance: int


def _plan_document(rng: random.Random, length: int, ending: Ending | None) -> _DocumentPlan:
    plan = _DocumentPlan([Role.NEUTRAL] * length)
    # Sentences before this one may hold a pronoun. Its feminine form would look like a
    # nearer polite `Sie` between the two sentences of a closing formality link.
    no_pronoun_from = length
    if ending is not None:
        last = length - 1
        cue = last - ending.distance
        plan.add(Link(ending.phenomenon, cue, last))
        if ending.phenomenon == "formality":
            no_pronoun_from = cue
    wanted = []
    for name in PHENOMENA:
        for _ in range(rng.choice(_WANTED[name])):
            wanted.append((rng.choice(DISTANCES), name))
    rng.shuffle(wanted)
    # Long links first, because they would not fit after the short ones.
    wanted.sort(key=lambda pair: -pair[0])
    for distance, name in wanted:
        fitting = plan.fitting_links(name, no_pronoun_from if name == "pronoun" else length)
        at_distance = [link for link in fitting if link.distance == distance]
        # If a distance does not fit, another one is taken.
        if fitting:
            plan.add(rng.choice(at_distance or fitting))
    return plan


class _WordDrawer:
    """Draws words without repetition."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._left: dict[str, list[LexiconEntry]] = {}

    def fill(
        self, template: Template, fixed: Mapping[str, LexiconEntry]
    ) -> dict[str, LexiconEntry]:
        """Return words for all fields; ``fixed`` gives some."""
        words = {name: word for name, word in fixed.items() if name in template.fields}
        for name in template.fields:
            if name not in words:
                words[name] = self._draw(name, words)
        return words

    def _draw(self, name: str, used: Mapping[str, LexiconEntry]) -> LexiconEntry:
        left = self._left.setdefault(name, [])
        while True:
            if not left:
                left.extend(POOLS[name])
                self._rng.shuffle(left)
            word = left.pop()
            # Names are persons, too, and nobody reports about himself.
            if word not in used.values():
                return word


def generate_document(
    rng: random.Random, length: int | None = None, ending: Ending | None = None
) -> SyntheticDocument:
    """Draw a document of ``length`` sentences, or of a random length."""
    plan = _plan_document(rng, length or rng.choice(_LENGTHS), ending)
    drawer = _WordDrawer(rng)
    shared: dict[Role, dict[str, LexiconEntry]] = {
        Role.YOU: {"you": rng.choice((DU, SIE))},
        Role.CHOICE: {"person": rng.choice(rng.choice(FREE_CHOICES))},
    }
    cue_of = {link.use: link.cue for link in plan.links}
    sentences: list[SyntheticSentence] = []
    for index, role in enumerate(plan.roles):
        templates = _possible_templates(plan, index, role)
        fixed = shared.get(role, {})
        if role in (Role.IT, Role.DID):
            name = "thing" if role is Role.IT else "verb"
            fixed = {name: sentences[cue_of[index]].words[name]}
        while True:
            template = rng.choice(templates)
            sentence = SyntheticSentence(template, drawer.fill(template, fixed))
            # A few templates, such as "where is it?", leave nothing to draw.
            if all(sentence.source != earlier.source for earlier in sentences):
                break
        sentences.append(sentence)
    links = sorted(plan.links, key=lambda link: link.use)
    return SyntheticDocument(tuple(sentences), tuple(links))


def _possible_templates(plan: _DocumentPlan, index: int, role: Role) -> list[Template]:
    """Return a role's templates that give no link around the sentence another cue."""
    in_ellipsis = plan.is_inside("ellipsis", index)
    in_pronoun = plan.is_inside("pronoun", index)
    templates = []
    for template in TEMPLATES[role]:
        if template.acts and in_ellipsis:
            continue
        if role is Role.NEUTRAL and "thing" in template.fields and in_pronoun:
            continue
        templates.append(template)
    return templates


# --- contrastive items ---------------------------------------------------------------------------

# An item has up to this many sentences before the one with its cue, which makes it as
# long as a training document can be: 2 to 8 sentences.
_LEAD = 3

_GENDER_PAIRS = tuple(combinations(GENDERS, 2))


def generate_items(
    rng: random.Random, phenomenon: str, distance: int, number: int
) -> Iterator[dict[str, Any]]:
    """Yield ``number`` different items (even), JSON objects with twins next to each other.

    Twins have the same ``document``, so that a confidence interval resamples them together.
    """
    seen: set[tuple[str, ...]] = set()
    serial = count()
    for pair in range(number // 2):
        while True:
            length = distance + 1 + rng.randint(0, _LEAD)
            document = generate_document(rng, length, Ending(phenomenon, distance))
            genders = _GENDER_PAIRS[pair % len(_GENDER_PAIRS)]
            twins = _twins(rng, document, genders)
            texts = [(*twin.source, *twin.target) for twin in twins]
            if seen.isdisjoint(texts):
                break
        seen.update(texts)
        for right, other in (twins, twins[::-1]):
            yield {
                "id": f"{phenomenon}-d{distance}-{next(serial):04d}",
                "document": f"{phenomenon}-d{distance}-{pair:04d}",
                "phenomenon": phenomenon,
                "distance": distance,
                "cue": CUES[phenomenon],
                "source": right.source,
                "target": right.target,
                "contrastive": [[*right.target[:-1], other.target[-1]]],
            }


def _twins(
    rng: random.Random, document: SyntheticDocument, genders: tuple[str, str]
) -> tuple[SyntheticDocument, SyntheticDocument]:
    link = document.links[-1]
    cue = document.sentences[link.cue].words
    fields = {"formality": "you", "lexical": "person", "ellipsis": "verb", "pronoun": "thing"}
    old = cue[fields[link.phenomenon]]
    pair: tuple[LexiconEntry, ...] = (DU, SIE)
    if link.phenomenon == "lexical":
        pair = next(choice for choice in FREE_CHOICES if old in choice)
    elif link.phenomenon == "ellipsis":
        other_verbs = [verb for verb in VERBS if not document.holds(verb)]
        pair = old, rng.choice(other_verbs)
    elif link.phenomenon == "pronoun":
        # A thing that the document names elsewhere would become ambiguous.
        first = rng.choice(_unnamed_things(document, genders[0]))
        second = rng.choice(_unnamed_things(document, genders[1]))
        pair = first, second
    return document.with_word(old, pair[0]), document.with_word(old, pair[1])


def _unnamed_things(document: SyntheticDocument, gender: str) -> list[Noun]:
    things = [thing for thing in THINGS if thing.gender == gender]
    return [thing for thing in things if not document.holds(thing)]
