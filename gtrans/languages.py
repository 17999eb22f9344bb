"""Languages by BCP 47 tags, in any usual spelling.

``zh``, ``ZH``, ``zh_CN``, ``zh-Hans-CN``, ``zho``, ``cmn`` and ``Chinese`` are one language.
Unknown ones are rejected: a misspelt one would choose the wrong tokeniser.
"""

from __future__ import annotations

import re

from gtrans.errors import GtransError

# Every language with a code of two letters (ISO 639-1): that code, the codes of three letters
# (ISO 639-2 and 639-3, also of the variety that is usually meant), and its English names.
_TWO_LETTERS = """
aa aar Afar|ab abk Abkhazian Abkhaz|ae ave Avestan|af afr Afrikaans|ak aka Akan|am amh Amharic
an arg Aragonese|ar ara arb Arabic|as asm Assamese|av ava Avaric|ay aym ayr Aymara
az aze azj Azerbaijani|ba bak Bashkir|be bel Belarusian|bg bul Bulgarian|bi bis Bislama
bm bam Bambara|bn ben Bengali|bo bod tib Tibetan|br bre Breton|bs bos Bosnian|ca cat Catalan
ce che Chechen|ch cha Chamorro|co cos Corsican|cr cre Cree|cs ces cze Czech|cu chu Church_Slavonic
cv chv Chuvash|cy cym wel Welsh|da dan Danish|de deu ger German|dv div Divehi|dz dzo Dzongkha
ee ewe Ewe|el ell gre Greek|en eng English|eo epo Esperanto|es spa Spanish|et est ekk Estonian
eu eus baq Basque|fa fas per pes Persian Farsi|ff ful Fulah|fi fin Finnish|fj fij Fijian
fo fao Faroese|fr fra fre French|fy fry Western_Frisian Frisian|ga gle Irish
gd gla Scottish_Gaelic|gl glg Galician|gn grn Guarani|gu guj Gujarati|gv glv Manx|ha hau Hausa
he heb iw Hebrew|hi hin Hindi|ho hmo Hiri_Motu|hr hrv scr Croatian|ht hat Haitian Haitian_Creole
hu hun Hungarian|hy hye arm Armenian|hz her Herero|ia ina Interlingua|id ind in Indonesian
ie ile Interlingue|ig ibo Igbo|ii iii Sichuan_Yi|ik ipk Inupiaq|io ido Ido|is isl ice Icelandic
it ita Italian|iu iku Inuktitut|ja jpn Japanese|jv jav Javanese|ka kat geo Georgian|kg kon Kongo
ki kik Kikuyu|kj kua Kuanyama|kk kaz Kazakh|kl kal Kalaallisut Greenlandic|km khm Khmer
kn kan Kannada|ko kor Korean|kr kau knc Kanuri|ks kas Kashmiri|ku kur kmr Kurdish|kv kom Komi
kw cor Cornish|ky kir Kyrgyz|la lat Latin|lb ltz Luxembourgish|lg lug Ganda Luganda
li lim Limburgish|ln lin Lingala|lo lao Lao|lt lit Lithuanian|lu lub Luba-Katanga
lv lav lvs Latvian|mg mlg plt Malagasy|mh mah Marshallese|mi mri mao Maori
mk mkd mac Macedonian|ml mal Malayalam|mn mon khk Mongolian|mr mar Marathi
ms msa may zsm Malay|mt mlt Maltese|my mya bur Burmese|na nau Nauru
nb nob Bokmal Norwegian_Bokmal|nd nde North_Ndebele|ne nep npi Nepali|ng ndo Ndonga
nl nld dut Dutch Flemish|nn nno Nynorsk Norwegian_Nynorsk|no nor Norwegian|nr nbl South_Ndebele
nv nav Navajo|ny nya Chichewa Nyanja|oc oci Occitan|oj oji Ojibwa|om orm gaz Oromo
or ori ory Odia Oriya|os oss Ossetian|pa pan Punjabi|pi pli Pali|pl pol Polish
ps pus pbt Pashto|pt por Portuguese|qu que quy Quechua|rm roh Romansh|rn run Rundi
ro ron rum mo Romanian Moldavian|ru rus Russian|rw kin Kinyarwanda|sa san Sanskrit
sc srd Sardinian|sd snd Sindhi|se sme Northern_Sami|sg sag Sango|sh hbs Serbo-Croatian
si sin Sinhala|sk slk slo Slovak|sl slv Slovenian Slovene|sm smo Samoan|sn sna Shona
so som Somali|sq sqi alb als Albanian|sr srp scc Serbian|ss ssw Swati|st sot Southern_Sotho Sotho
su sun Sundanese|sv swe Swedish|sw swa swh Swahili|ta tam Tamil|te tel Telugu|tg tgk Tajik
th tha Thai|ti tir Tigrinya|tk tuk Turkmen|tl tgl fil Tagalog Filipino|tn tsn Tswana
to ton Tongan|tr tur Turkish|ts tso Tsonga|tt tat Tatar|tw twi Twi|ty tah Tahitian
ug uig Uyghur|uk ukr Ukrainian|ur urd Urdu|uz uzb uzn Uzbek|ve ven Venda|vi vie Vietnamese
vo vol Volapuk|wa wln Walloon|wo wol Wolof|xh xho Xhosa|yi yid ydd ji Yiddish|yo yor Yoruba
za zha Zhuang|zh zho chi cmn Chinese Mandarin|zu zul Zulu
"""

# Languages without a code of two letters that corpora of translation have.
_THREE_LETTERS = """
ace acm acq aeb ajp apc ars ary arz ast awa azb ban bem bho bjn bug ceb cjk ckb crh csb dik dsb dtp
dyu fon frp fur fuv gan gom grc gsw guz hak haw hil hmn hne hsb hsn ilo jbo kab kac kam kbp kea kmb
ksw lad lij lmo ltg lua luo lus lzh mag mai mas mey mhr min mni mos mwl mxl myv nan nap nds nqo nso
nus pag pam pap pcm pms prs rap rom rue sah sat scn sco shn shs shy sma smn smj sms srn stq szl taq
tet tmh tpi tum tvl tzm udm umb vec vep vro war wuu xmf yue zza
"""

# Names of countries in place of languages, which are often typed. (Of some, "se" for Swedish, the
# letters are the code of another language.)
_COUNTRIES = {"cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "jp": "ja", "tw": "zh", "ua": "uk"}

CHINESE = frozenset({"zh", "yue", "wuu", "nan", "hak", "gan", "hsn", "lzh"})
"""Codes of languages that are written in Chinese characters alone."""

WITHOUT_SPACES = CHINESE | {"bo", "dz", "ja", "km", "ksw", "lo", "my", "shn", "th"}
"""Codes of languages that are written without spaces between their words."""

_CODES: dict[str, str] = {code: code for code in _THREE_LETTERS.split()}
_NAMES: dict[str, str] = {}
for _entry in re.split(r"[|\n]", _TWO_LETTERS.strip()):
    _code, *_names = _entry.split()
    _CODES |= dict.fromkeys((_code, *(_name.lower() for _name in _names)), _code)
    _NAMES[_code] = next(_name for _name in _names if _name[0].isupper()).replace("_", " ")

_RIGHT_TO_LEFT = frozenset(["ar", "ckb", "dv", "fa", "he", "nqo", "ps", "sd", "ug", "ur", "yi"])
_ARABIC = frozenset(["acm", "acq", "aeb", "ajp", "apc", "ars", "ary", "arz", "prs"])
_SCRIPT = re.compile(r"[_-]([A-Z][a-z]{3})(?:[_-]|$)")


def is_right_to_left(tag: str) -> bool:
    """Return whether a language is written from right to left; a script in its tag decides."""
    script = _SCRIPT.search(tag)
    if script:
        return script[1] in ("Arab", "Hebr", "Nkoo", "Syrc", "Thaa")
    return language_code(tag) in _RIGHT_TO_LEFT | _ARABIC


# M2M-100's name of Northern Sotho.
_CODES["ns"] = "nso"


def language_code(tag: str) -> str | None:
    """Return ``zh`` for ``zh_CN``; None for an unknown language.

    The private codes ``qaa`` to ``qtz`` stand for themselves.
    """
    if len(tag) > 100:  # a sentence: the columns of a table are tried, too
        return None
    name = re.sub(r"[\s_-]+", "_", tag.strip().lower())
    if name in _CODES:
        return _CODES[name]
    main, *others = name.split("_")
    if not all(re.fullmatch(r"[a-z0-9]{1,8}", part, re.ASCII) for part in others):
        return None
    if re.fullmatch(r"q[a-t][a-z]", main):
        return main
    if len(main) > 3 and others:  # only a name alone is a name: "chinese", not "chinese_CN"
        return None
    return _CODES.get(main)


def language_name(code: str) -> str:
    """Return the English name of a two-letter code, or ""."""
    return _NAMES.get(code, "")


def known_language(flag: str, tag: str) -> str:
    """Return the code of the language that a flag names; raise GtransError if there is none."""
    code = language_code(tag)
    if code is not None:
        return code
    meant = _COUNTRIES.get(tag.lower())
    hint = (
        f"the language is '{meant}'"
        if meant
        else "give its code as in BCP 47, such as de, pt-BR or zh (qaa: one without a code)"
    )
    raise GtransError(f"{flag} '{tag}' is no language that is known; {hint}")
