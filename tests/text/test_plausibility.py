"""Warnings about texts that are probably not what the user meant."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from gtrans.cli import main
from gtrans.text.plausibility import PairSampler, TextSample, implausible

# The first article of the Universal Declaration of Human Rights, and its sixth.
RIGHTS = {
    "en": "All human beings are born free and equal in dignity and rights. They are endowed with "
    "reason and conscience and should act towards one another in a spirit of brotherhood.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft "
    "und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués "
    "de raison et de conscience et doivent agir les uns envers les autres dans un esprit de "
    "fraternité.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como "
    "están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.",
    "it": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono dotati "
    "di ragione e di coscienza e devono agire gli uni verso gli altri in spirito di fratellanza.",
    "pt": "Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Dotados de "
    "razão e de consciência, devem agir uns para com os outros em espírito de fraternidade.",
    "nl": "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren. Zij zijn begiftigd "
    "met verstand en geweten, en behoren zich jegens elkander in een geest van broederschap te "
    "gedragen.",
    "sv": "Alla människor är födda fria och lika i värde och rättigheter. De har utrustats med "
    "förnuft och samvete och bör handla gentemot varandra i en anda av broderskap.",
    "da": "Alle mennesker er født frie og lige i værdighed og rettigheder. De er udstyret med "
    "fornuft og samvittighed, og de bør handle mod hverandre i en broderskabets ånd.",
    "nb": "Alle mennesker er født frie og med samme menneskeverd og menneskerettigheter. De er "
    "utstyrt med fornuft og samvittighet og bør handle mot hverandre i brorskapets ånd.",
    "fi": "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. Heille on "
    "annettu järki ja omatunto, ja heidän on toimittava toisiaan kohtaan veljeyden hengessä.",
    "hu": "Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az emberek, "
    "ésszel és lelkiismerettel bírván, egymással szemben testvéri szellemben kell hogy "
    "viseltessenek.",
    "cs": "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Jsou nadáni "
    "rozumem a svědomím a mají spolu jednat v duchu bratrství.",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni "
    "obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa.",
    "ro": "Toate ființele umane se nasc libere și egale în demnitate și în drepturi. Ele sunt "
    "înzestrate cu rațiune și conștiință și trebuie să se comporte unele față de altele în "
    "spiritul fraternității.",
    "tr": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana "
    "sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.",
    "id": "Semua orang dilahirkan merdeka dan mempunyai martabat dan hak-hak yang sama. Mereka "
    "dikaruniai akal dan hati nurani dan hendaknya bergaul satu sama lain dalam persaudaraan.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены "
    "разумом и совестью и должны поступать в отношении друг друга в духе братства.",
    "uk": "Всі люди народжуються вільними і рівними у своїй гідності та правах. Вони наділені "
    "розумом і совістю і повинні діяти у відношенні один до одного в дусі братерства.",
    "bg": "Всички хора се раждат свободни и равни по достойнство и права. Те са надарени с разум и "
    "съвест и следва да се отнасят помежду си в дух на братство.",
    "sr_Latn": "Sva ljudska bića rađaju se slobodna i jednaka u dostojanstvu i pravima. Ona su "
    "obdarena razumom i svešću i treba jedni prema drugima da postupaju u duhu bratstva.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "ar": "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق، وقد وهبوا عقلاً وضميراً.",
    "he": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון.",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "zh": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神互相对待。",
    "ja": "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "th": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
}
LINES = {
    "en": ["The lamp is new.", "It is on the table, where I have put it.", "Do you see it?"],
    "de": [
        "Die Lampe ist neu.",
        "Sie ist auf dem Tisch, wo ich sie hingestellt habe.",
        "Siehst du sie?",
    ],
    "ru": ["Лампа новая.", "Она стоит на столе, куда я её поставил.", "Ты её видишь?"],
}
LENGTHS = [
    7,
    60,
    12,
    30,
    90,
    4,
    44,
    18,
    75,
    9,
    52,
    23,
    66,
    5,
    38,
    81,
    14,
    27,
    58,
    10,
    47,
    33,
    70,
    8,
]


def of_lengths(word: str, lengths: list[int]) -> list[str]:
    return [" ".join([word] * length) for length in lengths]


def sample(name: str, lang: str, sentences: list[str] | str, documents: int = 0) -> TextSample:
    lines = sentences if isinstance(sentences, list) else [sentences]
    return TextSample(name, lang, lines, documents)


@pytest.mark.parametrize("lang", RIGHTS)
def test_text_in_its_own_language_raises_no_warning_and_in_others_one(lang: str) -> None:
    assert implausible(sample("a", lang, RIGHTS[lang])) == []
    for other in ("en", "de", "ru", "zh"):
        if other != lang.partition("_")[0]:
            (warning,) = implausible(sample("a.txt", lang, RIGHTS[other] + " " + RIGHTS[other]))
            assert warning.startswith("a.txt: it looks like ")
            assert f"({other})" in warning or "Chinese characters" in warning


@pytest.mark.parametrize("lang", ["gsw", "lua_Latn", "qaa", "mn", "kk", "az"])
def test_languages_without_a_list_or_with_several_scripts_are_left_alone(lang: str) -> None:
    assert implausible(sample("a", lang, RIGHTS["tr"])) == []


DE = ["Die Lampe ist neu.", "Der Tisch auch.", "Wo ist das Buch?", "Hier liegt es für dich, Ödön."]
WARNINGS = {
    "swapped": (
        {"source": ("ru", LINES["en"] * 3), "target": ("en", LINES["ru"] * 3)},
        "source looks like English (en) and target like Russian (ru): are the two sides swapped?",
    ),
    "the target is the source": (
        {"source": ("en", LINES["en"] * 2), "target": ("de", LINES["en"] * 2)},
        "the source source and the target target have the same text in all sentences; is one of "
        "them the wrong file?",
    ),
    "shifted": (
        {
            "source": ("en", of_lengths("lamp", LENGTHS[1:])),
            "target": ("de", of_lengths("Lampe", LENGTHS[:-1])),
        },
        "source: its sentences are as long as the next ones of target; is a line missing on one "
        "side?",
    ),
    "the translation is the reference": (
        {"target": ("de", DE), "translation": ("de", DE)},
        "the translation translation and the reference target have the same text in all "
        "sentences; is one of them the wrong file?",
    ),
    "the translation is the source": (
        {"source": ("en", LINES["en"] * 2), "translation": ("de", LINES["en"] * 2)},
        "the translation translation and the source source have the same text in all sentences; "
        "is one of them the wrong file?",
    ),
    "half is empty": (
        {"target": ("de", DE), "translation": ("de", ["Da ist sie.", "Und er.", "", ""])},
        "translation: 2 of 4 sentences are empty",
    ),
    "in lower case": (
        {"target": ("de", DE), "translation": ("de", [f"so: {line.lower()}" for line in DE])},
        "translation: it is all in lower case, but target is not",
    ),
    "in another Unicode form": (
        {
            "target": ("de", [f"{line} Ü" for line in DE]),
            "translation": ("de", [unicodedata.normalize("NFD", f"Ä {line}") for line in DE]),
        },
        "translation: its accents are separate characters, but in target they are not; bring "
        "both to Unicode's form NFC",
    ),
    "no boundaries": (
        {"target": ("de", DE, 2), "translation": ("de", DE[::-1], 1)},
        "translation: it has no boundaries between documents, but target has 2 documents",
    ),
    "mojibake": (
        {"source": ("de", ["Ich hÃ¶re dich nicht.", "Und das MÃ¤dchen ist da."] * 2)},
        "source: 4 of 4 sentences look as if UTF-8 had been read as another encoding (such as "
        "'Ã¼' for 'ü'); convert the file anew",
    ),
    "entities": (
        {"source": ("de", ["Ich h&ouml;re dich nicht.", "Und das M&#228;dchen ist da."] * 2)},
        "source: it is tokenised or escaped already (4 of 4 sentences have `&apos;`, `@-@`, `@@` "
        "or the like); give the plain text",
    ),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_each_implausible_text_gets_one_warning(case: str) -> None:
    texts, warning = WARNINGS[case]
    assert implausible(**{role: sample(role, *text) for role, text in texts.items()}) == [warning]


def test_sampler_keeps_small_corpora_and_runs_of_large_ones() -> None:
    sampler = PairSampler()
    for number in range(300):
        sampler.add((str(number), str(number)))
        sampler.add(None if number % 3 == 0 else (str(number), ""))
    source, target = sampler.samples(["a", "b"], ["en", "de"])
    assert len(source.sentences) == len(target.sentences) == 500
    assert source.documents == 101
    for number in range(1_000_000):
        sampler.add((str(number), ""))
    source, _ = sampler.samples(["a", "b"], ["en", "de"])
    assert PairSampler.RUN * PairSampler.MOST // 2 <= len(source.sentences) <= 20_200


def test_prepare_warns_once_of_swapped_sides_and_of_test_text_in_the_training_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "test"):
        for lang, other in (("en", "ru"), ("ru", "en")):
            lines = [f"{line}\n" for line in LINES[other] * 2]
            (tmp_path / f"{split}.{lang}").write_text("".join(lines), encoding="utf-8")
    words = ["prepare", "--source-lang", "en", "--target-lang", "ru"]
    words += ["--train", str(tmp_path / "train"), "--test", str(tmp_path / "test")]
    assert main([*words, "--out", str(tmp_path / "data-bin")]) == 0
    warnings = [line for line in capsys.readouterr().err.split("\n") if "warning: " in line]
    assert warnings[0] == (
        f"warning: {tmp_path}/train.en looks like Russian (ru) and {tmp_path}/train.ru like "
        "English (en): are the two sides swapped?"
    )
    assert sum("swapped" in line for line in warnings) == 2
    assert (
        "warning: test: 6 of 6 sentence pairs are also in train, in the same context; scores on "
        "them say nothing about new text" in warnings
    )


def write_side(path: Path, documents: list[list[str]]) -> str:
    path.write_text("\n".join("".join(f"{s}\n" for s in d) for d in documents), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("hypothesis", "note"),
    [
        ([DE], "has no boundaries between documents, but"),
        ([[f"{line} nn".lower() for line in DE]] * 2, "is all in lower case, but"),
        ([LINES["en"] + ["It is here."]] * 2, "looks like English (en), not like German (de)"),
        ([DE[:2], DE[2:]], "have the same text in all sentences"),
    ],
)
def test_score_notes_translations_that_are_probably_wrong(
    hypothesis: list[list[str]], note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = [DE, DE] if sum(map(len, hypothesis)) == 8 else [DE[:2], DE[2:]]
    words = ["score", "--hyp", write_side(tmp_path / "hyp.de", hypothesis)]
    words += ["--ref", write_side(tmp_path / "ref.de", reference), "--target-lang", "de"]
    assert main([*words, "--metrics", "s_bleu"]) == 0
    assert note in capsys.readouterr().out
