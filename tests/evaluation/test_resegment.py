"""Splitting translated documents into the sentences of their references."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from operator import eq
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtrans.evaluation import resegment
from gtrans.evaluation.boundaries import (
    CAPITAL,
    Edge,
    TokenisedText,
    ends_a_sentence,
    is_word,
    tokens_of,
)
from gtrans.evaluation.resegment import (
    ADDED_SHARE,
    BOUNDARY_COSTS,
    MOVED_SHARE,
    OMITTED_SHARE,
    OPENING_COST,
    STEM_LETTERS,
    STEM_SHARE,
    SUBSTITUTION,
    Resegmenter,
    Split,
    bands,
)
from gtrans.text.reader import read_documents

REFERENCE = [
    "Parliament votes on new law",
    "The vote was held on Tuesday evening in the capital.",
    "Opponents of the bill had announced protests.",
    "“We will not give up,” said their leader, Anna Berg.",
    "Nobody was hurt.",
    "A second reading is planned for the beginning of March.",
]
TRANSLATION = [
    "Parliament is voting over a new law",
    "On Tuesday evening, the vote took place in the capital city.",
    "The bill's opponents announced protests before.",
    '"We won\'t give up," their leader Anna Berg said.',
    "No one was injured.",
    "The second reading is planned for early March.",
]
CHINESE = [
    "议会就新法律进行投票",
    "投票于周二晚上在首都举行。",
    "该法案的反对者宣布举行抗议活动。",
    "“我们不会放弃。”他们的领导人说。",
]
CHINESE_TRANSLATION = [
    "议会对新法律投票",
    "周二晚上，投票在首都进行了。",
    "反对该法案的人曾宣布要抗议。",
    "“我们绝不放弃。”其领导人表示。",
]


def split(lines: list[str], *references: list[str]) -> Split:
    return Resegmenter([[list(one)] for one in references]).split(0, lines)


@pytest.mark.parametrize(
    "layout",
    [
        lambda t: [" ".join(t)],
        lambda t: [" ".join(t[:3]), " ".join(t[3:])],
        lambda t: [t[0], "", *t[1:]],
        lambda t: [half for s in t for half in (s[: s.index(" ")], s[s.index(" ") :])],
        lambda t: [word for s in t for word in s.split()],
        # Lines of some width are no hints.
        lambda t: re.findall(r"(?:\S+ ?){1,5}", " ".join(t)),
    ],
    ids=["one line", "paragraphs", "sentences", "other lines", "words", "some width"],
)
def test_a_translation_of_any_layout_is_split_into_its_sentences(
    layout: Callable[[list[str]], list[str]],
) -> None:
    found = split(layout(TRANSLATION), REFERENCE)
    assert found.sentences == TRANSLATION
    assert (found.omitted, found.added) == ([], [])


def test_characters_are_compared_in_a_script_without_spaces() -> None:
    assert split(["".join(CHINESE_TRANSLATION)], CHINESE).sentences == CHINESE_TRANSLATION
    # Lines are joined without a space, which the script does not have.
    halves = [part for s in CHINESE_TRANSLATION for part in (s[:5], s[5:])]
    assert split(halves, CHINESE).sentences == CHINESE_TRANSLATION
    thai = ["ฉันไปตลาดเมื่อวานนี้", "เขาอยู่ที่บ้านกับแม่"]
    assert split(["".join(thai)], thai).sentences == thai


def test_the_boundary_between_sentences_without_punctuation_is_found_by_their_words() -> None:
    reference = ["the cat is on the mat", "a dog barks in the yard", "we go home now"]
    spoken = ["the cat sits on the mat", "a dog is barking in the yard", "we all go home now"]
    assert split([" ".join(spoken)], reference).sentences == spoken


def test_an_omitted_sentence_is_empty_and_named() -> None:
    rest = [*TRANSLATION[:2], *TRANSLATION[3:]]
    found = split([" ".join(rest)], REFERENCE)
    assert found.sentences == [*TRANSLATION[:2], "", *TRANSLATION[3:]]
    assert (found.omitted, found.added) == ([2], [])


def test_an_added_sentence_is_named_and_stays_with_the_sentence_before_it() -> None:
    extra = "Subscribe to our newsletter for daily stories from around the world!"
    more = [*TRANSLATION[:3], extra, *TRANSLATION[3:]]
    found = split([" ".join(more)], REFERENCE)
    assert found.sentences == [
        *TRANSLATION[:2], f"{TRANSLATION[2]} {extra}", *TRANSLATION[3:],
    ]  # fmt: skip
    assert found.omitted == []
    assert [(one.after, one.text) for one in found.added] == [(3, extra)]
    assert found.added[0].tokens == len(tokens_of(extra))
    before = split([" ".join([extra, *TRANSLATION])], REFERENCE)
    assert [(one.after, one.text) for one in before.added] == [(0, extra)]
    assert before.sentences[0] == f"{extra} {TRANSLATION[0]}"


def test_each_sentence_may_fit_another_reference() -> None:
    first = ["It was raining cats and dogs.", "He remained at home.", "Then the phone rang."]
    second = ["The rain poured down.", "So he did not go out at all.", "Suddenly he got a call."]
    found = split(["The rain poured. He remained home. Suddenly, a call."], first, second)
    assert found.sentences == ["The rain poured.", "He remained home.", "Suddenly, a call."]


# --- the best split, against all splits ---------------------------------------------------

tokens = st.lists(st.sampled_from(["a", "b", "longer", "longest", "C", ".", "!", ","]), max_size=7)
sentences = st.lists(tokens.filter(bool).map(" ".join), min_size=1, max_size=4)


def best_gain(model: Resegmenter, text: TokenisedText, references: list[list[list[str]]]) -> int:
    """The largest gain of a split, by trying every boundary in turn."""
    ours, n = text.tokens, len(text.tokens)
    habits = model.habits.gains(text)

    def boundary(place: int, final: bool) -> int:
        return int(habits[place]) - BOUNDARY_COSTS[final][Edge(text.edges[place])]

    def added(start: int, stop: int) -> int:
        shares = [ADDED_SHARE * model.weight(token) for token in ours]
        return (
            int(sum(shares[:stop])) - int(sum(shares[:start])) - OPENING_COST + boundary(stop, True)
        )

    @cache
    def followed(sentence: tuple[str, ...], start: int, stop: int) -> int:
        if not sentence or start == stop:
            return 0
        *rest, last = sentence
        here = ours[stop - 1]
        both = SUBSTITUTION if is_word(here) == is_word(last) else 0
        if here[:STEM_LETTERS] == last[:STEM_LETTERS]:
            both = max(both, int(STEM_SHARE * model.weight(last)))
        gain = model.weight(last) if here == last else both
        return max(
            followed(tuple(rest), start, stop - 1) + gain,
            followed(tuple(rest), start, stop),
            followed(sentence, start, stop - 1),
        )

    def moved(sentence: list[str], start: int, stop: int) -> int:
        shares = [MOVED_SHARE * model.weight(t) if t in sentence else 0.0 for t in ours]
        return int(sum(shares[:stop])) - int(sum(shares[:start]))

    def omitted(number: int) -> int:
        sums = [sum(map(model.weight, reference[number])) for reference in references]
        return int(OMITTED_SHARE * sum(sums) / len(sums)) - OPENING_COST

    def end(number: int, sentence: list[str], place: int) -> int:
        cost = boundary(place, ends_a_sentence(sentence))
        following = [one[number + 1][0] for one in references if number + 1 < len(one)]
        certain = place < n and ours[place - 1] == sentence[-1] and ours[place] in following
        return max(cost, 0) if certain else cost

    @cache
    def before(number: int, place: int) -> int:
        """The gain of what stands before a sentence, an addition included."""
        plain = ended(number - 1, place)
        return max([plain, *(ended(number - 1, s) + added(s, place) for s in range(place + 1))])

    @cache
    def ended(number: int, place: int) -> int:
        if number < 0:
            return 0 if place == 0 else -(10**6)
        ways = [before(number, place) + omitted(number)]
        for reference in references:
            sentence = reference[number]
            ways += [
                before(number, start)
                + followed(tuple(sentence), start, place)
                + moved(sentence, start, place)
                + end(number, sentence, place)
                for start in range(place)
            ]
        return max(ways)

    return before(len(references[0]), n)


@settings(deadline=None, max_examples=40)
@given(sentences, st.lists(tokens.map(" ".join), max_size=3), st.randoms(use_true_random=False))
def test_no_split_has_a_larger_gain(
    reference: list[str], lines: list[str], rng: random.Random
) -> None:
    other = reference[::-1] if rng.random() < 0.5 else reference
    references = [[reference], [other]]
    model = Resegmenter(references, always=True)
    text = TokenisedText("\n".join(lines))
    tokenised = [[tokens_of(s) for s in one[0]] for one in references]
    found = model.split(0, lines)
    bare = "".join("".join(lines).split())
    if all("".join("".join(one[0]).split()) != bare for one in references):
        assert found.gain == best_gain(model, text, tokenised)
    assert len(found.sentences) == len(reference)
    assert "".join("".join(found.sentences).split()) == "".join("".join(lines).split())


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text().filter(str.strip), min_size=1, max_size=4), st.lists(st.text()))
def test_nothing_of_any_text_is_lost(reference: list[str], lines: list[str]) -> None:
    found = Resegmenter([[reference]]).split(0, lines)
    assert len(found.sentences) == len(reference)
    assert "".join("".join(found.sentences).split()) == "".join("".join(lines).split())
    assert all(not found.sentences[number] for number in found.omitted) or not any(
        number not in found.omitted for number in range(len(reference))
    )


def test_edges_of_a_text() -> None:
    text = TokenisedText("He said: “No.” „Ja.“ (Yes.) 3.5 is\nlow,\ne.g. here\nNow")
    # Two of three lines end inside of a sentence, so the third line end is no hint, either.
    marks = {Edge.SENTENCE_END: "|", Edge.LINE_END: "/", Edge.PUNCTUATION: "-"}
    shown = "".join(
        token + marks.get(Edge(edge), "" if edge == Edge.NONE else " ")
        for token, edge in zip(text.tokens, text.edges[1:], strict=True)
    )
    assert shown == "he said:-“no.”|“ja.”|(yes.)|3.5 is low,-e.g.-here now/"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ('She said "go." "No," he said.', "she said “ go . ” “ no , ” he said ."),
        ("Er sagte: „Geh.“ »Nein«, sagte sie.", "er sagte : “ geh . ” “ nein ” , sagte sie ."),
        ("Il dit « va ». ”Ja”, hon.", "il dit “ va ” . “ ja ” , hon ."),
        ('他说："走。""不。"', "他 说 : “ 走 . ” “ 不 . ”"),
        ("他说：“走。 ”“不。”", "他 说 : “ 走 . ” “ 不 . ”"),
        ("「行け」と彼。「嫌だ。」", "“ 行 け ” と 彼 . “ 嫌 だ . ”"),
    ],
)
def test_a_quotation_mark_opens_or_closes(text: str, tokens: str) -> None:
    assert tokens_of(text) == tokens.split()


# --- what is right stays right --------------------------------------------------------------------

CHAT = ["Hi", "Hello, how can I help", "Yes", "I would like a table", "OK", "For 3", "Great", "Yes"]


def test_a_perfect_copy_is_found_again_in_one_line() -> None:
    """Sentences of one word without a full stop cost more than they gain."""
    almost = [*CHAT[:3], "I would like the table", *CHAT[4:]]
    for lines in (CHAT, almost):
        found = Resegmenter([[CHAT]]).split(0, [" ".join(lines)])
        assert (found.sentences, found.omitted, found.added) == (lines, [], [])


SHIFTED = ["One two. Three, four.", "Five six.", ""]
OTHER_WORDS = ["One or two.", "Three of four, five.", "Six."]
WITHOUT_ONE = ["One, two.", "", "Five six."]


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize(
    ("lines", "sentences"),
    [
        (SHIFTED, ["One two.", "Three, four.", "Five six."]),
        (OTHER_WORDS, OTHER_WORDS),
        (WITHOUT_ONE, WITHOUT_ONE),
    ],
)
def test_as_many_lines_stay_unless_another_split_is_clearly_better(
    lines: list[str], sentences: list[str], always: bool
) -> None:
    found = Resegmenter([[["One two.", "Three four.", "Five six."]]], always).split(0, lines)
    if always:
        assert not found.moved
        return
    assert (found.sentences, found.moved) == (sentences, lines != sentences)
    assert found.omitted == [number for number, line in enumerate(sentences) if not line]


def with_another_word(line: str) -> str:
    """A line that is not quite the reference, which would be found at once."""
    words = line.split()
    return " ".join([*words[:2], "irgendwie", *words[3:]]) if len(words) > 5 else line


def test_chats_without_one_utterance_and_with_another_in_two_lines(real_data: Path) -> None:
    """Every second one of 51 chats; the others stay as they are."""
    chats = read_documents(real_data / "msctd" / "test.de.gz")[:51]
    model = Resegmenter([chats])
    equal = total = 0
    for number, chat in enumerate(chats):
        expected = list(map(with_another_word, chat))
        found = model.split(number, expected)
        assert found.sentences == expected
        if number % 2:
            longest = max(range(len(chat)), key=lambda place: len(chat[place]))
            words = expected[longest].split()
            halves = [" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])]
            gone = (longest + len(chat) // 2) % len(chat)
            lines = [
                part
                for place, line in enumerate(expected)
                for part in (halves if place == longest else [line])
                if place != gone
            ]
            expected[gone] = ""
            found = model.split(number, lines)
            assert len(lines) == len(chat) and found.moved
            equal += sum(map(eq, found.sentences, expected))
            total += len(chat)
    assert equal > 0.97 * total


def test_another_human_translation_stays_as_it_is(real_data: Path) -> None:
    files = [f"newstest2021.ref{name}.de.gz" for name in "AC"]
    first, second = (read_documents(real_data / "newstest" / file)[:20] for file in files)
    model = Resegmenter([first])
    for number, lines in enumerate(second):
        assert model.split(number, lines).sentences == lines


CORPORA = [
    "bcontrast/test.de.gz", "bcontrast/test.en.gz", "msctd/test.de.gz", "tvsub/test.en.gz",
    "newstest/newstest2021.refA.de.gz", "newstest-enzh/newstest2021.refA.zh.gz",
    "newstest-enru/newstest2021.refA.ru.gz", "bible-enfr/test.fr.gz", "msdocs-ende/test.de.gz",
]  # fmt: skip


@pytest.mark.parametrize("path", CORPORA)
def test_references_of_real_corpora_come_back(path: str, real_data: Path) -> None:
    """Joined, and with every seventh word replaced, which no exact match finds."""
    if not (real_data / path).exists():
        pytest.skip(f"no {path}")
    reference = read_documents(real_data / path)[:12]
    model = Resegmenter([reference])
    join = ("" if ".zh" in path else " ").join
    right = places = 0
    for number, document in enumerate(reference):
        found = model.split(number, [join(document)])
        assert (found.omitted, found.added) == ([], [])
        assert ["".join(it.split()) for it in found.sentences] == [
            "".join(it.split()) for it in document
        ]
        if ".zh" in path:
            continue
        words = [sentence.split() for sentence in document]
        changed = [
            " ".join(re.sub(r"\w+", "xyz", w) if (n + len(it)) % 7 == 3 else w
                     for n, w in enumerate(it))
            for it in words
        ]  # fmt: skip
        found = model.split(number, [" ".join(changed)])
        right += sum(one == two for one, two in zip(found.sentences, changed, strict=True))
        places += len(document)
        assert len(found.omitted) <= 0.01 * len(document)
    assert right >= 0.9 * places


def test_a_capital_that_only_begins_sentences_tells_a_boundary() -> None:
    reference = ["Gibt es noch Fragen an uns?", "Wir sehen, es gibt Tee.", "Morgen gibt es Tee."]
    habits = Resegmenter([[reference]]).habits
    begins, inside = (
        habits.gains(TokenisedText(it))[1] for it in ("legen Gibt es", "legen gibt es")
    )
    assert begins > inside
    # One that no sentence begins with tells it, too; a noun has its capital everywhere.
    lower = Resegmenter([[["Wir sehen, es gibt Tee.", "Heute gibt es Tee."]]]).habits
    gains = [
        lower.gains(TokenisedText(f"mit {it} mir"))[1]
        for it in ("Gibt", "unbekannt", "gibt", "Tee")
    ]
    assert gains[0] == gains[1] + CAPITAL and max(gains[2:]) < gains[1]


def test_a_long_text_is_searched_in_a_band_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a stretch that is left out and one that is added, whose words are everywhere."""
    rng = random.Random(2)
    words = [f"{a}{b}" for a in "bdfgklmn" for b in ("a", "ei", "o", "ulen", "ator", "ig")]
    reference = [" ".join(rng.choices(words, k=rng.randint(4, 9))) + "." for _ in range(300)]
    lines = [
        " ".join(word if rng.random() < 0.8 else rng.choice(words) for word in line.split())
        for number, line in enumerate(reference) if not 100 <= number < 130
    ]  # fmt: skip
    added = " ".join(rng.choices(words, k=150)) + "."
    text = " ".join([*lines[:180], added, *lines[180:]])
    whole = split([text], reference)
    assert len(whole.omitted) >= 20
    monkeypatch.setattr(resegment, "LONG_DOCUMENT", 500)
    widths = [it.stop - it.start for it in bands([*map(tokens_of, reference)], tokens_of(text))]
    assert sum(widths) < len(widths) * len(tokens_of(text)) / 2
    assert split([text], reference) == whole


@pytest.mark.parametrize(
    "text", ["“走。”|安卓", '"Go." (He left.)|"No."', "A. Smith said so.|B. did"]
)
def test_no_sentence_ends_before_a_closing_mark_or_after_an_opening_one(text: str) -> None:
    ends = [place for place, edge in enumerate(TokenisedText(text.replace("|", " ")).edges)
            if edge == Edge.SENTENCE_END]  # fmt: skip
    assert len(tokens_of(text.split("|")[0])) in ends
    tokens = tokens_of(text.replace("|", " "))
    assert all(tokens[end - 1] not in "(“" and tokens[end] not in ")”" for end in ends)
    assert all(tokens[end - 2 : end] != ["a", "."] for end in ends)
