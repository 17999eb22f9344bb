"""The pipeline of Moses tokens: what it makes of text, and that text comes back from it."""

from __future__ import annotations

import gzip
import re
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gtrans.text.moses import MosesPipeline, MosesSteps, load_best_case, train_best_case
from gtrans.text.pipeline import PLACEHOLDER, clean
from gtrans.text.subwords import learn_codes, load_bpe


@pytest.mark.parametrize(
    ("lang", "text", "tokens"),
    [
        ("en", "Don't stop, it's 5:30.", "Don &apos;t stop , it &apos;s 5 @:@ 30 ."),
        ("en", "GNU/Linux & file(s)", "GNU @/@ Linux &amp; file @(@ s )"),
        ("en", "<s> a|b [en] </s>", "&lt;@ s @&gt; a @&#124;@ b &#91; en &#93; &lt;@ @/@ s @&gt;"),
        ("en", "me@x.org", "me @&#64;@ x.org"),
        ("en", "a\u2028b\x85c\x0bd\x00e", "a b c d e"),
        ("de", "Er sagte: \u201eJa\u201c", "Er sagte : &quot; Ja &quot;"),
        ("fr", "L'eau, qu'il boit!", "L&apos; eau , qu&apos; il boit @!"),
        ("zh", "在 Debian中，你好。", "在 &#32; Debian 中 ， 你 好 。"),
        ("ru", "Он сказал: «да»", "Он сказал : &quot; да &quot;"),
        ("xx", "a, b", "a , b"),
        # Where the detokeniser would be wrong about a space, a token says what is there.
        ("de", "100 € für", "100 € &#32; für"),
        ("de", "14 % der", "14 &#32; % der"),
        ("fr", "Quoi\u00a0? Ceci\u00a0: cela ; rien", "Quoi ? Ceci : cela ; rien"),
        ("fr", "de 14½-13½", "de 14 &#8288; ½ &#8288; -13 &#8288; ½"),
        # Characters that show nothing do not split words; joiners stay where they are spelling.
        ("de", "\ufeffla\u00admpe\u200b en\u2060de\ufeff", "lampe ende"),
        ("en", "\u202awo\u200drd\u202c no\u200cn \u2067x\u2069", "word non x"),
        ("fa", "می\u200cخواهم\u200f", "می\u200cخواهم"),
        ("hi", "क्\u200dष", "क्\u200dष"),
        ("en", "👩\u200d💻", "👩@ @\u200d@ @💻"),
        ("en", "\x01\x02", "\ufffd"),
    ],
)
def test_tokenise(lang, text, tokens):
    assert MosesPipeline(lang).tokenise(text) == tokens


def test_words_of_jieba():
    sentences = ["在 Debian中，我们开展了这个项目。", "项目 项目 3%"]
    pipeline = MosesPipeline("zh_CN", MosesSteps(segmenter="jieba"))
    tokens = [pipeline.tokenise(sentence) for sentence in sentences]
    assert tokens[1] == "项目 &#32; 项目 &#32; 3 %"
    assert "项目" in tokens[0].split() and tokens[0].startswith("在 &#32; Debian 中")
    assert [pipeline.detokenise(line) for line in tokens] == sentences
    english = MosesPipeline("en", MosesSteps(segmenter="jieba"))
    assert english.tokenise("a b") == "a b", "for Chinese only"


SYMBOLS = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", "[en]", "[en_XX]", "@@", "@lower@", "\\"]


@pytest.fixture(scope="module")
def contrived(tmp_path_factory: pytest.TempPathFactory) -> dict[MosesSteps, MosesPipeline]:
    """Pipelines whose merges would build every reserved token, if the text let them."""
    folder = tmp_path_factory.mktemp("contrived")
    counts = Counter(dict.fromkeys([*SYMBOLS, "the", "new"], 100))
    learn_codes(counts, 200, None, folder / "codes")
    train_best_case(["x the new Ones", "x Ones"], folder / "case")
    bpe, best_case = load_bpe(folder / "codes"), load_best_case(folder / "case")
    variants = (
        MosesSteps(),
        MosesSteps(tokenise=False),
        MosesSteps(False, False),
        MosesSteps(False, False, False),
    )
    return {steps: MosesPipeline("en", steps, best_case, bpe) for steps in variants}


# Special tokens of fairseq, and language tokens as in mBART.
RESERVED = re.compile(r"<(?:/?s|pad|unk|mask)>|\[[A-Za-z]{2,3}(?:[_-][A-Za-z]+)?\]")
WORDS = ["a", "The", "Ones", "DOTMULTI", "&lt;", "&#64;", "...", "ß", "ŉ", "İ", "é"]
NASTY = st.lists(
    st.sampled_from(SYMBOLS + WORDS + list("@<>[]&-'\" \x85\u2028\u200b\ufeff\ufdd0\n\r在，"))
).map("".join)


@settings(deadline=None, max_examples=150)
@given(text=st.one_of(st.text(), NASTY))
@example("\ud800")
@example("x<s>")
@example("@lower@")
@example("")
def test_encoding_is_one_line_of_harmless_tokens(contrived, text):
    for steps, pipeline in contrived.items():
        encoded = pipeline.encode(text)
        tokens = encoded.split(" ")
        assert tokens == encoded.split(), "only single spaces"
        assert not [token for token in tokens if RESERVED.fullmatch(token)]
        encoded.encode("utf-8")
        decoded = pipeline.decode(encoded)
        assert decoded and "\n" not in decoded
        if not steps.tokenise and not steps.normalise:
            assert decoded == (" ".join(clean(text).split()) or "\ufffd")


def test_first_word(contrived):
    pipeline = contrived[MosesSteps()]
    counted = pipeline.count_words(["The new", "&quot; The new", "THE New"])
    # What could not be undone stays.
    assert counted == {"the": 2, "new": 2, "&quot;": 1, "THE": 1, "New": 1}
    assert pipeline.encode("The new") == "the new"
    assert pipeline.encode("the new") == "@lower@ the new"
    assert pipeline.decode("the new") == "The new"
    assert pipeline.decode("@lower@ the new") == "the new"


def test_a_model_may_say_anything(contrived):
    pipeline = contrived[MosesSteps()]
    for tokens, text in [
        ("", ""),
        ("a@@", "A"),
        ("@lower@", ""),
        ("<unk> @/@ @/@ b", "<unk>//b"),
        ("a @lower@ b", "A @lower@ b"),
        ("&#32; @&#64;", "@"),
    ]:
        assert pipeline.decode(tokens) == text


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize(
    ("lang", "name", "lines"),
    [
        ("de", "newstest/newstest2018.de", 1500),
        ("en", "ted-iwslt2017/test.en", 300),
        ("fr", "ntrex-newstest2019/test.en-fr.fr", 300),
        ("ru", "newstest-enru/newstest2021.refA.ru", 100),
        ("zh", "newstest-enzh/newstest2021.refA.zh", 100),
        ("cs", "php-manual-enfr/test.fr", 100),  # the rules for another language
    ],
)
def test_real_text_comes_back(lang, name, lines, normalise, real_data):
    """Every sentence, but for white space, characters that show nothing and the normalisation."""
    with gzip.open(real_data / f"{name}.gz", "rt", encoding="utf-8", newline="\n") as file:
        text = [clean(line) for line in file if line.strip()][:lines]
    pipeline = MosesPipeline(lang, MosesSteps(normalise=normalise))
    if normalise and pipeline._normaliser is not None:
        text = [pipeline._normaliser.normalize(line) for line in text]
    for line in text:
        assert pipeline.detokenise(pipeline.tokenise(line)) == " ".join(line.split())


PIECES = ["a", "The", "l'", "14", "½", "€", "%", "...", "DOTMULTI", "@", "@-@", "&#32;", "&apos;"]
PIECES += ["'", '"', "„", "“", "«", "»", "(", ")", "青", "木", "。", "カ", "한국", "é", "👍", "5"]
PIECES += ["-", "–", "li", ":", "N", ",", "!", "?", ".", "_", "¿", "£", "`", "=", " ", " "]


@pytest.mark.parametrize("lang", ["en", "de", "fr", "cs", "fi", "ko", "ja", "zh_CN", "xx"])
@settings(deadline=None, max_examples=10)
@given(text=st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@example('He said: "the <s> of GNU/Linux (and [en]) isn\'t here... or there."')
@example("See http://www.example.org/~me/a_b?c=d&e=f#g, mail me@x.org; 10% of $5 at 5:30!")
@example("if (a<b || c>d) {x += y[i];} // done")
@example("C++, /etc/fstab, file(s), @home, 50%, a@@b @@ &lt; &amp;lt; #1")
@example("在 Debian中，“你好 你好” 3%。")
def test_any_text_comes_back(lang, text):
    pipeline = MosesPipeline(lang, MosesSteps(normalise=False))
    wanted = " ".join(text.split()) or PLACEHOLDER
    assert pipeline.detokenise(pipeline.tokenise(text)) == wanted
