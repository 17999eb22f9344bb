"""``fusion/run-multilingual.sh`` and its preparation: one model for several languages."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from support.recipes import commands, run_script, the_error

PREPARE = "fusion/prepare-multilingual"
PLACE = ("--data", "texts", "--out", "out", "--dry-run")


def of_training(done) -> list[str]:
    """The commands behind those of the preparation."""
    found = commands(done)
    first = next(n for n, command in enumerate(found) if command.startswith("gtrans train "))
    return found[first:]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Two pairs with English, as `gtrans get-corpus` writes them."""
    folder = tmp_path / "texts" / "two"
    folder.mkdir(parents=True)
    for other in ("de", "it"):
        for split in ("train", "dev", "test"):
            for lang in (other, "en"):
                text = f"{split} {lang}, {other}.\n\nEnd & {lang}.\n"
                (folder / f"{split}.{other}-en.{lang}").write_text(text, encoding="utf-8")
    return folder


def test_multilingual_settings_are_those_of_the_paper(script) -> None:
    done = script("run-multilingual", "--corpus", "iwslt17-multi", *PLACE)
    train, average, *tested = of_training(done)
    for setting in (
        "--arch gtrans_fusion_base", "--dropout 0.2", "--warmup-updates 8000",
        "--max-tokens 4096", "--max-epoch 15", "--task translation_multi_simple_epoch",
        "--lang-pairs en-de,de-en,en-it,it-en,en-nl,nl-en,en-ro,ro-en",
    ):  # fmt: skip
        assert f" {setting} " in train
    assert average == (
        "gtrans average --last-epochs 5 --output out/fusion-gtrans/average5.pt out/fusion-gtrans"
    )
    generate, score, tokenised = tested[::3], tested[1::3], tested[2::3]
    assert len(generate) == 8
    assert all("--path out/fusion-gtrans/average5.pt --beam 8" in command for command in generate)
    assert " --ref out/data/references/test.en-de.de " in score[0]
    assert " --ref out/data/references/test.de-en.en " in score[1]
    assert all(" --tokenize none " in command for command in tokenised)


def test_opus_starts_from_xlmr(script) -> None:
    done = script(
        "run-multilingual", "--corpus", "opus100", "--langs", "en,af,am", "--xlmr", "X", *PLACE
    )
    train, _, *tested = of_training(done)
    for setting in (
        "--init-xlmr X", "--arch gtrans_fusion_xlmr_base --system gtrans --share-all-embeddings",
        "--two-feed-forwards", "--dropout 0.1", "--max-epoch 15", "--keep-last-epochs 5",
        "--task translation_multi_linear",
        "--sampling-temperature 5 --min-sampling-temperature 1 --sampling-warmup-epochs 5",
        "--max-source-positions 256 --truncate-source --skip-invalid-size-inputs-valid-test "
        "--max-target-positions 256",
    ):  # fmt: skip
        assert f" {setting} " in train
    assert len(tested) == 4 * 3
    assert "--remove-bpe sentencepiece" in tested[0]
    assert "--max-source-positions 256 --truncate-source" in tested[0]


def test_a_direction_can_be_a_call_of_its_own(script) -> None:
    words = ("--corpus", "iwslt17-multi", "--data", "texts", "--out", "out", "--outputs")
    done = script("run-multilingual", *words, "--directions", "it-en", "--stage", "translate")
    assert done.stdout == "translate\tfusion-gtrans\tout/generated.fusion-gtrans.it-en.en\n"
    best = script("run-multilingual", *words, "--average", "0", "--stage", "document")
    assert best.stdout == "document\tfusion-gtrans\tout/fusion-gtrans/checkpoint_best.pt\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "iwslt14"], "known are iwslt17-multi opus100 (one pair of languages: run-"),
        (["--corpus", "opus100", "--xlmr", "X"], "`--langs` is missing"),
        (["--corpus", "opus100", "--langs", "en,de"], "`--xlmr` is missing"),
        (["--corpus", "opus100", "--xlmr", "none"], "`--xlmr none` needs `--prepared`"),
        (["--corpus", "iwslt17-multi", "--xlmr", "X"], "`--xlmr` is for opus100"),
        (["--corpus", "iwslt17-multi", "--directions", "de-it"], "`--directions` must be one o"),
        (["--corpus", "iwslt17-multi", "--prepared", "p", "--bpe-merges", "9"], "which decides it"),
        (["--corpus", "iwslt17-multi", "--langs", "en,de,de"], "the language 'de' is there twice"),
        (["--corpus", "iwslt17-multi", "--langs", "en,pt-br"], "the language 'pt-br' must have"),
        (["--corpus", "iwslt17-multi", "--langs", "en,,de"], "the language '' must have only"),
        (["--corpus", "iwslt17-multi", "--normalise", "yes"], "`--normalise` is for one pair of l"),
        (["--corpus", "iwslt17-multi", "--target-lang", "nl"], "`--target-lang` is for one pair"),
        (["--corpus", "iwslt17-multi", "--bpe-symbols", "9"], "`--bpe-symbols` is for one pair of"),
    ],
)
def test_a_mistake_is_one_line(arguments, message, script, tmp_path) -> None:
    assert message in the_error(script("run-multilingual", *arguments, *PLACE))
    assert not list(tmp_path.iterdir())


def test_the_preparation(texts: Path, repo: Path, tmp_path: Path) -> None:
    words = ("--data", texts.parent, "--corpus", "two", "--out", "out", "--dry-run")
    done = commands(run_script(repo, tmp_path, PREPARE, *words))
    (learnt,) = [command for command in done if "learn-bpe" in command]
    assert learnt.endswith("learn-bpe -i out/data/text/tok.train -s 40000 > out/data/codes.bpe")
    assert sum("fairseq-preprocess" in command for command in done) == 2
    in_pieces = commands(run_script(repo, tmp_path, PREPARE, *words, "--xlmr", "X"))
    assert not any("sacremoses" in command or "learn-bpe" in command for command in in_pieces)
    assert sum("--model X/sentencepiece.bpe.model" in command for command in in_pieces) == 13
    assert not (tmp_path / "out").exists()


def test_mistakes_of_the_preparation(texts: Path, repo: Path, tmp_path: Path) -> None:
    def error(*words: str | Path) -> str:
        return the_error(run_script(repo, tmp_path, PREPARE, "--out", "out", *words))

    given = ("--data", texts.parent, "--corpus", "two")
    assert "`--corpus` is missing" in error()
    assert "`--langs` is missing" in error("--data", texts.parent, "--corpus", "one")
    assert "X/sentencepiece.bpe.model: there is no such file" in error(*given, "--xlmr", "X")
    assert "`--source-lang` is for one pair of languages" in error(*given, "--source-lang", "fr")
    assert "`--sentence-data` is for one pair" in error(*given, "--sentence-data", "elsewhere")
    assert "'--joined' stands behind --" in error(*given, "--", "--joined")
    (texts / "dev.it-en.it").rename(texts / "train.en-it.it")
    assert "all pairs must have one language in common" in error(*given)
    (texts / "train.en-it.it").unlink()
    assert "dev.it-en.it: there is no such file" in error(*given)
    (texts / "train.$(touch made)-en.en").touch()
    assert "the language '$(touch made)' must have only letters, digits and '_'" in error(*given)
    (texts / "train.$(touch made)-en.en").rename(texts / "train.it-en.en.gz")
    assert "the language 'it' is there twice" in error(*given)


@pytest.fixture
def translate(stand_ins, tmp_path: Path):
    """A trained model; a call with what `gtrans generate` prints returns the text made of it."""
    for folder in ("p", "out/fusion-gtrans", "r"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("p/dict.en.txt", "p/dict.de.txt", *MODEL, "r/test.en-de.de", "r/test.de-en.en"):
        (tmp_path / name).write_text("one\ntwo\n", encoding="utf-8")

    def call(generated: str, *arguments: str) -> tuple[str, list[str]]:
        (tmp_path / "generated").write_text(generated, encoding="utf-8")
        done, _ = stand_ins(
            "run-multilingual", "--corpus", "iwslt17-multi", "--langs", "en,de", "--prepared", "p",
            "--references", "r", "--average", "0", "--stage", "translate", *arguments,
            GENERATED=str(tmp_path / "generated"),
        )  # fmt: skip
        if done.returncode:
            return done.stderr, []
        text = (tmp_path / "out" / "generated.fusion-gtrans.en-de.de").read_text(encoding="utf-8")
        return text, (tmp_path / "log").read_text(encoding="utf-8").splitlines()

    return call


MODEL = [f"out/fusion-gtrans/{name}" for name in ("checkpoint_best.pt", "checkpoint_last.pt")]
MODEL.append("out/fusion-gtrans/finished")


def test_the_best_translation_of_a_sentence_is_taken(translate) -> None:
    text, _ = translate("D-1\t-1\tzwei\nD-1\t-9\tschlecht\nD-0\t-1\teins\nD-0\t-9\tschlecht\n")
    assert text == "eins\nzwei\n"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [("one\ntwo", "eins\nzwei\n"), ("\none\n\n <d>\r\ntwo", "\neins\n\n\nzwei\n")],
    ids=["without a last line feed", "with boundaries"],
)
def test_translations_stand_in_the_lines_of_the_reference(
    reference: str, expected: str, translate, tmp_path: Path
) -> None:
    (tmp_path / "r" / "test.en-de.de").write_text(reference, encoding="utf-8")
    generated = "D-1\t-1\tzwei\nD-0\t-1\teins\n"
    assert translate(generated, "--directions", "en-de")[0] == expected
    too_many, _ = translate(generated + "D-2\t-1\tdrei\n", "--directions", "en-de")
    assert "it has 2 sentences, but the binarised test split has more" in too_many
    assert translate("D-1\t-1\t\n", "--directions", "en-de")[0].split() == []


def test_a_finished_model_is_asked_once(translate) -> None:
    _, log = translate("")
    assert sum(" generate " in call for call in log) == 2
    assert sum("gtrans.training.finished" in call for call in log) == 1


def damaged(text: str) -> bytes:
    return gzip.compress(text.encode() * 1000)[:-20]


@pytest.mark.parametrize(
    ("german", "english", "message"),
    [
        ("eins\n\ndrei\nvier\n", "one\ntwo\n\nfour\n",
         "test.de-en.de:2 is a document boundary but texts/two/test.de-en.en:2 is a sentence"),
        ("eins\nzwei\n", "one\n", "texts/two/test.de-en.en ends after line 1"),
        ("eins\n", "one\n<d>\ntwo\n", "ends after line 1 but texts/two/test.de-en.en:2 is a docu"),
        (b"eins\nzwei \xff\n", "one\ntwo\n", "texts/two/test.de-en.de:2: not UTF-8 (byte 6 of"),
        (damaged("eins\n"), "one\n" * 1000, "texts/two/test.de-en.de' is damaged as a gzip file"),
    ],
    ids=["empty on one side", "other numbers", "boundary on one side", "not UTF-8", "cut off"],
)  # fmt: skip
def test_sides_that_do_not_fit_are_refused(
    german: str | bytes, english: str, message: str, texts: Path, repo: Path, tmp_path: Path
) -> None:
    (texts / "test.de-en.de").write_bytes(german if isinstance(german, bytes) else german.encode())
    (texts / "test.de-en.en").write_text(english, encoding="utf-8")
    words = ("--data", "texts", "--corpus", "two", "--out", "out", "--langs", "en,de")
    done = run_script(repo, tmp_path, PREPARE, *words, *("--bpe-merges", "9"))
    assert message in the_error(done)
    assert not list((tmp_path / "out" / "data" / "references").iterdir())


@pytest.mark.long
def test_one_dictionary_and_no_boundaries(texts: Path, repo: Path, tmp_path: Path) -> None:
    words = ("--data", texts.parent, "--corpus", "two", "--out", "out", "--bpe-merges")
    done = run_script(repo, tmp_path, PREPARE, *words, "20")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out" / "data"
    assert len({(out / f"dict.{lang}.txt").read_bytes() for lang in ("de", "en", "it")}) == 1
    assert (out / "references" / "test.de-en.en").read_text() == "test en, de.\nEnd & en.\n"
    assert (out / "train.it-en.it.bin").is_file() and (out / "test.de-en.en.idx").is_file()
    assert json.loads((out / "pairs.json").read_text()) == {"de-en": 2, "it-en": 2}
    # What is finished stays, and is not taken for that of other settings or text.
    again = run_script(repo, tmp_path, PREPARE, *words, "20")
    assert again.returncode == 0 and commands(again) == []
    assert "is made from other text or" in the_error(
        run_script(repo, tmp_path, PREPARE, *words, "21")
    )
    (texts / "test.it-en.it").write_text("Other.\n\nText.\n", encoding="utf-8")
    assert "is made from other text or" in the_error(
        run_script(repo, tmp_path, PREPARE, *words, "20")
    )


@pytest.mark.long
def test_the_pieces_of_a_model_are_those_of_all_texts(
    texts: Path, repo: Path, tmp_path: Path
) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    model = tmp_path / "xlmr" / "sentencepiece.bpe.model"
    model.parent.mkdir()
    lines = [f"{split} {it}, End & {split}." for split in ("train", "dev") for it in ("de", "en")]
    with model.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=file, vocab_size=19, minloglevel=2
        )
    words = ("--data", texts.parent, "--corpus", "two", "--out", "out", "--xlmr", model.parent)
    done = run_script(repo, tmp_path, PREPARE, *words)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out" / "data"
    pieces = (out / "text" / "train.de-en.en").read_text(encoding="utf-8").splitlines()
    assert [line.replace(" ", "").replace("▁", " ").strip() for line in pieces] == [
        "train en, de.", "End & en.",
    ]  # fmt: skip
    # <s>, </s> and <unk> are fairseq's own.
    assert len((out / "dict.it.txt").read_text(encoding="utf-8").splitlines()) == 16
    assert (out / "sentencepiece.model").read_bytes() == model.read_bytes()
