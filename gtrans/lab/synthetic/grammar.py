"""The grammar of the generated corpus: sentence templates, and documents made of them.

A document is made in three steps. A *plan* gives every sentence a role and records the
*links* between a sentence that needs context and the nearest sentence with its cue.
Then a template is drawn for every role, and a word for every field of the template. A
pronoun shares the field ``thing`` with its antecedent, an ellipsis the field ``verb``
with its own; ``you`` and the word of free choice are shared by the whole document.
Replacing a shared word therefore changes the cue and what depends on it, and nothing else. This
is how contrastive twins are made.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from string import Formatter

from gtrans.lab.synthetic.lexicon import DU, FREE_CHOICES, POOLS, SIE, Entry

DISTANCES = (1, 2, 3, 4)


class Role(Enum):
    """What a sentence does in its document."""

    NEUTRAL = "neutral"
    THING = "thing"
    IT = "it"
    VERB = "verb"
    DID = "did"
    YOU = "you"
    CHOICE = "choice"


ROLES: dict[str, tuple[Role, Role]] = {
    "pronoun": (Role.THING, Role.IT),
    "formality": (Role.YOU, Role.YOU),
    "ellipsis": (Role.VERB, Role.DID),
    "lexical": (Role.CHOICE, Role.CHOICE),
}
"""Phenomenon -> role of the sentence with the cue, role of the sentence that needs it."""

CUES = {"pronoun": "source", "formality": "target", "ellipsis": "source", "lexical": "target"}
"""Phenomenon -> side on which its cue stands."""

PHENOMENA = tuple(ROLES)


@dataclass(frozen=True)
class Template:
    """One sentence on both sides, in the syntax of ``str.format``.

    ``acts`` says whether the sentence holds a verb phrase that a later `did too` could
    mean; only forms of `be` are free of that.
    """

    source: str
    target: str
    acts: bool = False

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Names of the words to fill in, in the order of the source."""
        parsed = Formatter().parse(self.source + self.target)
        return tuple(dict.fromkeys(name.split(".")[0] for _, name, _, _ in parsed if name))


_PERSON = (
    Template("{person.en} was {state.en}.", "{person.nom} war {state.de}."),
    Template("{person.en} is {state.en}.", "{person.nom} ist {state.de}."),
    Template(
        "{person.en} was {frequency.en} {state.en}.",
        "{person.nom} war {frequency.de} {state.de}.",
    ),
    Template("where is {person.en}?", "wo ist {person.nom}?"),
)
_PERSON_ACTS = (
    Template("{person.en} {verb.en}.", "{person.nom} {verb.de}.", acts=True),
    Template("{time.en} {person.en} {verb.en}.", "{time.de} {verb.de} {person.nom}.", acts=True),
)
_PERSON_REPORTED = Template(
    "{name.en} {speech.en} that {person.en} was {state.en}.",
    "{name.nom} {speech.de}, dass {person.nom} {state.de} war.",
    acts=True,
)
_ABOUT_PERSON = (*_PERSON, *_PERSON_ACTS, _PERSON_REPORTED)
_ABOUT_THING = (
    Template("{thing.en} was {quality.en}.", "{thing.nom} war {quality.de}."),
    Template("{thing.en} is {quality.en}.", "{thing.nom} ist {quality.de}."),
    Template(
        "{thing.en} was {degree.en} {quality.en}.", "{thing.nom} war {degree.de} {quality.de}."
    ),
    Template("where is {thing.en}?", "wo ist {thing.nom}?"),
    Template(
        "{person.en} {act.past} {thing.en}.", "{person.nom} {act.past_de} {thing.acc}.", acts=True
    ),
    Template(
        "{person.en} has {act.participle} {thing.en}.",
        "{person.nom} hat {thing.acc} {act.participle_de}.",
        acts=True,
    ),
)

TEMPLATES: dict[Role, tuple[Template, ...]] = {
    Role.NEUTRAL: (*_ABOUT_PERSON, *_ABOUT_THING),
    Role.THING: _ABOUT_THING,
    Role.IT: (
        Template("it was {quality.en}.", "{thing.he} war {quality.de}."),
        Template("it is {quality.en}.", "{thing.he} ist {quality.de}."),
        Template("it was {degree.en} {quality.en}.", "{thing.he} war {degree.de} {quality.de}."),
        Template("where is it?", "wo ist {thing.he}?"),
        Template(
            "{person.en} {act.past} it.", "{person.nom} {act.past_de} {thing.him}.", acts=True
        ),
        Template(
            "{person.en} has {act.participle} it.",
            "{person.nom} hat {thing.him} {act.participle_de}.",
            acts=True,
        ),
    ),
    Role.VERB: _PERSON_ACTS,
    Role.DID: (
        Template("{person.en} did too.", "{person.nom} {verb.de} auch.", acts=True),
        Template(
            "{time.en} {person.en} did too.", "{time.de} {verb.de} {person.nom} auch.", acts=True
        ),
        Template("so did {person.en}.", "auch {person.nom} {verb.de}.", acts=True),
    ),
    Role.YOU: (
        Template("you are {state.en}.", "{you.you} {you.are} {state.de}."),
        Template("are you {state.en}?", "{you.are} {you.you} {state.de}?"),
        Template("you were {state.en}.", "{you.you} {you.were} {state.de}."),
        Template(
            "you are {frequency.en} {state.en}.", "{you.you} {you.are} {frequency.de} {state.de}."
        ),
        Template("where were you?", "wo {you.were} {you.you}?"),
        Template("do you know {name.en}?", "{you.know} {you.you} {name.acc}?", acts=True),
        Template("have you seen {name.en}?", "{you.have} {you.you} {name.acc} gesehen?", acts=True),
        Template("can you help {name.en}?", "{you.can} {you.you} {name.acc} helfen?", acts=True),
        Template(
            "you must wait for {name.en}.", "{you.you} {you.must} auf {name.acc} warten.", acts=True
        ),
    ),
    Role.CHOICE: _ABOUT_PERSON,
}


@dataclass(frozen=True)
class Sentence:
    """A template with its words."""

    role: Role
    template: Template
    words: Mapping[str, Entry]

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
    """Sentence ``use`` needs sentence ``cue``, the nearest one that tells (indices from 0)."""

    phenomenon: str
    cue: int
    use: int

    @property
    def distance(self) -> int:
        """How many sentences back the cue stands."""
        return self.use - self.cue

    def spans(self, index: int) -> bool:
        """Whether sentence ``index`` stands strictly between cue and use."""
        return self.cue < index < self.use


@dataclass(frozen=True)
class Document:
    """Sentences in order, and the links between them."""

    sentences: tuple[Sentence, ...]
    links: tuple[Link, ...]

    @property
    def source(self) -> list[str]:
        """The English sentences."""
        return [sentence.source for sentence in self.sentences]

    @property
    def target(self) -> list[str]:
        """The German sentences."""
        return [sentence.target for sentence in self.sentences]

    def holds(self, word: Entry) -> bool:
        """Whether ``word`` fills a field of some sentence."""
        return any(word in sentence.words.values() for sentence in self.sentences)

    def replaced(self, old: Entry, new: Entry) -> Document:
        """Copy the document with ``new`` wherever ``old`` stood."""
        sentences = (
            Sentence(
                sentence.role,
                sentence.template,
                {name: new if word == old else word for name, word in sentence.words.items()},
            )
            for sentence in self.sentences
        )
        return Document(tuple(sentences), self.links)


@dataclass
class _Plan:
    """Roles of the sentences of a document that is being generated."""

    roles: list[Role]
    links: list[Link] = field(default_factory=list)

    def fits(self, link: Link) -> bool:
        """Whether ``link`` leaves every link, itself included, without a nearer cue."""
        roles = ROLES[link.phenomenon]
        mentions = [i for i, role in enumerate(self.roles) if role in roles]
        free = [i for i in (link.cue, link.use) if self.roles[i] is Role.NEUTRAL]
        if roles[0] is roles[1] and mentions:
            # Every mention is the cue of the next one: the chain grows at its ends only.
            end = (mentions[-1], link.use) == (link.cue, *free)
            start = (link.cue, mentions[0]) == (*free, link.use)
            return end or start
        return (
            len(free) == 2
            and not any(link.spans(i) for i in mentions)
            and not any(
                other.phenomenon == link.phenomenon
                and (other.spans(link.cue) or other.spans(link.use))
                for other in self.links
            )
        )

    def add(self, link: Link) -> None:
        """Give both ends of ``link`` their roles."""
        self.roles[link.cue], self.roles[link.use] = ROLES[link.phenomenon]
        self.links.append(link)

    def open(self, phenomenon: str, index: int) -> bool:
        """Whether sentence ``index`` stands inside a link of ``phenomenon``."""
        return any(link.phenomenon == phenomenon and link.spans(index) for link in self.links)


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


def _plan(rng: random.Random, length: int, ending: tuple[str, int] | None) -> _Plan:
    plan = _Plan([Role.NEUTRAL] * length)
    # Sentences before this one may hold a pronoun. Its feminine form would look like a
    # nearer polite `Sie` between the two sentences of a closing formality link.
    no_pronoun_from = length
    if ending is not None:
        phenomenon, distance = ending
        plan.add(Link(phenomenon, length - 1 - distance, length - 1))
        if phenomenon == "formality":
            no_pronoun_from = length - 1 - distance
    wanted = [
        (rng.choice(DISTANCES), name)
        for name in PHENOMENA
        for _ in range(rng.choice(_WANTED[name]))
    ]
    rng.shuffle(wanted)
    # Long links first, because they would not fit after the short ones.
    wanted.sort(key=lambda pair: -pair[0])
    for distance, name in wanted:
        fitting = [
            link
            for use in range(no_pronoun_from if name == "pronoun" else length)
            for cue in range(max(0, use - max(DISTANCES)), use)
            if plan.fits(link := Link(name, cue, use))
        ]
        # If a distance does not fit, another one is taken.
        fitting = [link for link in fitting if link.distance == distance] or fitting
        if fitting:
            plan.add(rng.choice(fitting))
    return plan


class _Words:
    """Draws words without repetition, until a pool is used up."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._left: dict[str, list[Entry]] = {}

    def fill(self, template: Template, given: Mapping[str, Entry]) -> dict[str, Entry]:
        """Words for all fields of ``template``, including those in ``given``."""
        words = {name: word for name, word in given.items() if name in template.fields}
        for name in template.fields:
            if name not in words:
                words[name] = self._draw(name, words)
        return words

    def _draw(self, name: str, used: Mapping[str, Entry]) -> Entry:
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
    rng: random.Random, length: int | None = None, ending: tuple[str, int] | None = None
) -> Document:
    """Draw a document of ``length`` sentences (drawn when None).

    With ``ending=(phenomenon, distance)`` the last sentence needs that context, and the
    nearest cue stands exactly ``distance`` sentences before it.
    """
    plan = _plan(rng, length or rng.choice(_LENGTHS), ending)
    words = _Words(rng)
    shared: dict[Role, dict[str, Entry]] = {
        Role.YOU: {"you": rng.choice((DU, SIE))},
        Role.CHOICE: {"person": rng.choice(rng.choice(FREE_CHOICES))},
    }
    cue_of = {link.use: link.cue for link in plan.links}
    sentences: list[Sentence] = []
    for index, role in enumerate(plan.roles):
        templates = [
            template
            for template in TEMPLATES[role]
            if not (template.acts and plan.open("ellipsis", index))
            and not (
                role is Role.NEUTRAL and "thing" in template.fields and plan.open("pronoun", index)
            )
        ]
        given = shared.get(role, {})
        if role in (Role.IT, Role.DID):
            name = "thing" if role is Role.IT else "verb"
            given = {name: sentences[cue_of[index]].words[name]}
        while True:
            template = rng.choice(templates)
            sentence = Sentence(role, template, words.fill(template, given))
            # A few templates, such as "where is it?", leave nothing to draw.
            if all(sentence.source != earlier.source for earlier in sentences):
                break
        sentences.append(sentence)
    return Document(tuple(sentences), tuple(sorted(plan.links, key=lambda link: link.use)))
