"""The text pipeline and ``gtrans prepare``."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.files import locked
from gtrans.text.moses import jieba_tokenizer
from gtrans.text.preparation import StepRecord
from gtrans.text.prepared_folder import Preparation, load_pipeline

TRAIN = {
    "en": "The new release of GNU/Linux is here.\nIt is a good release, and the tests pass.\n\n"
    'He said: "the new tests are good."\nSee http://www.example.org/new/ for file(s).\n',
    "de": "Die neue Ausgabe von GNU/Linux ist da.\nEs ist eine gute Ausgabe, und die Tests laufen."
    '\n\nEr sagte: "die neuen Tests sind gut."\nSiehe http://www.example.org/new/ zu Datei(en).\n',
}
TEST = {
    "en": "Is <s> in the text?\n\nGood tests </s> pass.\n\tThe end \x85 [en] <pad>\n",
    "de": "Steht <s> im Text?\n\nGute Tests </s> laufen.\nDas Ende [de] <unk> <mask>\n",
}


BASE = ("prepare", "--source-lang", "en", "--target-lang", "de")
SWAPPED = ("prepare", "--source-lang", "de", "--target-lang", "en")


def write_corpus(prefix: Path, texts: dict[str, str], packed: bool = False) -> str:
    for lang, text in texts.items():
        content = gzip.compress(text.encode()) if packed else text.encode()
        Path(f"{prefix}.{lang}{'.gz' * packed}").write_bytes(content)
    return str(prefix)


def command(corpus: Path, out: Path, *more: str) -> list[str]:
    return [
        *BASE,
        *("--train", str(corpus / "train"), str(corpus / "more")),
        *("--valid", str(corpus / "test"), "--test", str(corpus / "test"), str(corpus / "more")),
        *("--bpe-merges", "60", "--out", str(out), *more),
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder / "train", TRAIN)
    write_corpus(folder / "more", TRAIN, packed=True)
    write_corpus(folder / "test", TEST)
    return folder


@pytest.fixture(scope="module")
def prepared(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prepared") / "data, with a comma"
    assert main(command(corpus, out)) == 0
    return out


def outputs(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# The command


def test_data_folder(prepared):
    names = {path.name for path in prepared.iterdir()}
    splits = {
        f"{split}.en-de.{lang}.{kind}"
        for split in ("train", "valid", "test", "test1")
        for lang in ("en", "de")
        for kind in ("bin", "idx")
    }
    learnt = {"codes.bpe", "truecase.en", "truecase.de", "dict.en.txt", "dict.de.txt"}
    assert names == splits | learnt | {"text", "prepare.json"}
    assert (prepared / "dict.en.txt").read_bytes() == (prepared / "dict.de.txt").read_bytes()
    lines = (prepared / "text" / "train.bpe.en").read_text().split("\n")
    assert [number for number, line in enumerate(lines) if not line] == [2, 5, 8, 11]
    assert lines[:5] == lines[6:11], "a boundary stands between joined training texts"


def test_boundaries_and_entries_in_the_binarised_corpus(prepared):
    for lang, text in TEST.items():
        dictionary = Dictionary.load(str(prepared / f"dict.{lang}.txt"))
        corpus = data_utils.load_indexed_dataset(
            str(prepared / f"test.en-de.{lang}"), dictionary, dataset_impl="mmap"
        )
        assert len(corpus) == 4
        assert [len(line) == 1 for line in corpus] == [False, True, False, False]
        for line in corpus:
            assert line[-1] == dictionary.eos()
            specials = {dictionary.bos(), dictionary.eos(), dictionary.pad()}
            assert not specials & set(line[:-1].tolist())
        encoded = (prepared / "text" / f"test.bpe.{lang}").read_text().split("\n")
        pipeline = load_pipeline(prepared, lang)
        decoded = [pipeline.decode(line) for line in encoded[:4]]
        assert decoded == [" ".join(line.split()) for line in text.split("\n")[:4]]


def test_the_same_files_as_fairseq_preprocess(prepared, tmp_path, stock):
    """Byte for byte, from the text in subwords."""
    pair = ("--source-lang", "en", "--target-lang", "de", "--joined-dictionary")
    shutil.copytree(prepared / "text", tmp_path / "text")
    text = [f"--{split}pref={tmp_path}/text/{split}.bpe" for split in ("train", "valid", "test")]
    stock.succeed("preprocess", *pair, *text, "--destdir", tmp_path / "bin")
    made = [
        path for path in (tmp_path / "bin").iterdir() if path.suffix in (".bin", ".idx", ".txt")
    ]
    assert len(made) == 14
    for path in made:
        assert path.read_bytes() == (prepared / path.name).read_bytes(), path.name


@pytest.mark.long
def test_resume(corpus, prepared, tmp_path, capsys):
    out = tmp_path / "out"
    shutil.copytree(prepared, out)
    complete = outputs(out)
    assert main(command(corpus, out)) == 0
    printed, said = capsys.readouterr()
    rows = [line.split() for line in printed.splitlines()]
    assert [row[:4] for row in rows[:9:2]] == [
        ["split", "language", "documents", "sentences"],
        ["train", "de", "4", "8"],
        ["valid", "de", "2", "3"],
        ["test", "de", "2", "3"],
        ["test1", "de", "2", "4"],
    ]
    assert rows[1][6] == "0.00%" and "one document" not in said
    assert said.count("finished earlier, skipped") == 7
    assert "started" not in said and outputs(out) == complete

    # As after an interruption while the last files were moved and a temporary one was written.
    (out / "test.en-de.de.bin").unlink()
    (out / ".test.en-de.de.bin.0123abcd.tmp").write_bytes(b"half")
    assert main([*command(corpus, out), "--workers", "2"]) == 0
    said = capsys.readouterr().err
    assert "binarise: its files are missing or changed, repeated" in said
    assert said.count("skipped") == 6
    assert outputs(out) == complete

    # Files of the same size with other contents.
    for name in ("train.en-de.en.bin", "codes.bpe"):
        contents = (out / name).read_bytes()
        (out / name).write_bytes(contents[:-4] + contents[-2:] + contents[-4:-2])
    assert main([*command(corpus, out), "--workers", "1"]) == 0
    said = capsys.readouterr().err
    for step in ("models", "binarise"):
        assert f"{step}: its files are missing or changed, repeated" in said
    assert outputs(out) == complete


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.long
def test_two_workers_and_changed_option(corpus, prepared, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr("gtrans.text.workers._CHUNK", 2)
    assert main([*command(corpus, out), "--workers", "2"]) == 0
    assert outputs(out) == outputs(prepared)

    capsys.readouterr()
    # The last step fails: all that was done before stays done.
    changed = [*command(corpus, out), "--bpe-merges", "40"]
    with monkeypatch.context() as patch:
        patch.setattr("gtrans.text.preparation._ids", full_disk)
        assert main(changed) == 1
    said = capsys.readouterr().err
    assert "tokenise train: finished earlier" in said
    for step in ("models", "encode train", "encode test1"):
        assert f"{step}: input or option changed, repeated" in said
    assert "binarise: started" in said
    assert "cannot be written (the disk is full)" in said
    assert not (out / "train.en-de.en.bin").exists(), "what no longer fits is gone"
    test = ["--reuse", str(out), "--test", str(corpus / "test"), "--out", str(tmp_path / "new")]
    assert main([*BASE, *test]) == 1
    assert "is not prepared to its end; run its `gtrans prepare` again" in capsys.readouterr().err


def test_reuse(corpus, prepared, tmp_path, capsys):
    out = tmp_path / "out"
    words = [*SWAPPED, "--out", str(out), "--reuse", str(prepared), "--test", str(corpus / "test")]
    with pytest.raises(SystemExit, match="2"):
        main([*words, "--bpe-merges", "3"])
    assert "--bpe-merges: not allowed with argument --reuse" in capsys.readouterr().err
    assert main(words) == 0
    for name in ("codes.bpe", "truecase.de", "dict.de.txt", "text/test.bpe.en"):
        assert (out / name).read_bytes() == (prepared / name).read_bytes()
    assert (out / "test.de-en.en.bin").read_bytes() == (prepared / "test.en-de.en.bin").read_bytes()
    assert json.loads((out / "prepare.json").read_text())["bpe"]["merges"] == 60


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--train", "{c}/train", "--target-lang", "en"), "`--target-lang` must differ from"),
        (("--train", "{c}/train", "--target-lang", "pt-br"), "fairseq splits file names at"),
        (("--train", "{c}/train", "--target-lang", "../x"), "`--target-lang` must be letters"),
        (("--train", "{c}/train", "--target-lang", "fr"), "there is no file '{c}/train.fr' and no"),
        (("--test", "{c}/test"), "give `--train`, or `--reuse`"),
        (("--reuse", "{c}"), "give at least one of"),
        (("--reuse", "{c}", "--test", "{c}/test"), "there is no '{c}/prepare.json'"),
        (("--train", "{c}/train", "{c}/train"), "`--train` names '{c}/train' twice; name each"),
        (("--train", "{c}/train", "{c}/bad"), "bad.en:3 is a sentence but {c}/bad.de ends:"),
        (("--train", "{c}/train", "--out", "{c}/train.en"), "`--out` must be a folder"),
        (("--train", "{c}/train", "--out", "{c}"), "holds the input '{c}/train.en'"),
        (("--train", "{c}/train", "--out", "{p}/text"), "is not empty and holds no preparation"),
        (("--train", "{c}/train", "--out", "{p}"), "also holds the split 'test'"),
        (("--train", "{c}/train", "--workers", "999999999"), "`--workers` 999999999: there are"),
        (("--train", "{c}/tiny"), "`--train` is too small for BPE"),
        (("--segmenter", "jieba"), "finds words of Chinese (zh), but the languages are en and de"),
        (("--segmenter", "jieba", "--no-tokenise"), "`--segmenter` cannot be combined with"),
        (("--sentencepiece", "none.model"), "none.model: there is no such SentencePiece model"),
        (("--sentencepiece", __file__), "not a SentencePiece model"),
        (("--dictionary", "d"), "needs `--bpe-codes` or `--sentencepiece`, the model"),
        (("--sentencepiece", "{c}", "--no-truecase"), "`--no-truecase` cannot be combined with"),
        (("--train", "t", "--bpe-codes", "{p}/text/test.bpe.en"), "bpe.en:1: not a BPE merge"),
        (("--test", "t", "--bpe-codes", "{p}/codes.bpe"), "`--train` is missing: a truecaser"),
        (
            ("--train", "t", "--bpe-codes", "{p}/codes.bpe", "--dictionary", "d.txt"),
            "there is no file 'd.txt'",
        ),
        (
            ("--train", "{c}/train", "--out", "{p}", *SWAPPED[1:]),
            "holds a preparation for en-de, not for de-en",
        ),
    ],
)
def test_refusals(corpus, prepared, tmp_path, capsys, more, message):
    write_corpus(corpus / "bad", {"en": "a\nb\nc\n", "de": "a\nb\n"})
    write_corpus(corpus / "tiny", {"en": "a b\n", "de": "a c\n"})
    before = outputs(prepared)
    places = {"c": corpus, "p": prepared}
    words = [word.format(**places) for word in more]
    assert main([*BASE, "--out", str(tmp_path / "out"), *words]) == 1
    said = capsys.readouterr().err
    assert said.count("gtrans: error: ") == 1
    assert message.format(**places) in said.splitlines()[-1]
    assert outputs(prepared) == before
    assert (tmp_path / "out").exists() == ("tiny" in str(more)), "nothing written for bad input"


def test_other_languages_and_damaged_files(prepared, tmp_path):
    with pytest.raises(GtransError, match="prepared for en and de, not for 'fr'"):
        load_pipeline(prepared, "fr")
    with pytest.raises(GtransError, match="make it with 'gtrans prepare'"):
        load_pipeline(tmp_path, "en")


@pytest.mark.long
def test_a_data_folder_in_words_of_chinese(tmp_path, monkeypatch, capsys):
    sentence = "在 Debian中，我们开展了这个项目。"
    texts = {"zh": f"{sentence}\n项目\n", "en": "In Debian, hello.\nHello hello 3%\n"}
    train, out = write_corpus(tmp_path / "t", texts), tmp_path / "out"
    words = ["prepare", "--source-lang", "zh", "--target-lang", "en", "--train", train]
    words += ["--bpe-merges", "20", "--segmenter", "jieba", "--out", str(out)]
    with monkeypatch.context() as patch:
        jieba_tokenizer.cache_clear()
        patch.setitem(sys.modules, "jieba", None)
        assert main(words) == 1
        assert "needs the library jieba, which is not" in capsys.readouterr().err
        assert not out.exists()
    assert main(words) == 0
    assert "项目" in (out / "text" / "train.tok.zh").read_text(encoding="utf-8").split()[:-1]
    pipeline = load_pipeline(out, "zh")
    assert pipeline.decode(pipeline.encode(sentence)) == sentence


@pytest.mark.long
def test_bpe_symbols_are_merges_and_characters_together(tmp_path, capsys):
    words = ("banana", "bandana", "cabana", "cab", "ban", "canal", "lana")
    text, out = "".join(f"{a} {b} {a}\n" for a in words for b in words), tmp_path / "out"
    prefix = write_corpus(tmp_path / "train", {"en": text, "de": text})
    train = [*BASE, "--train", prefix, "--out", str(out)]
    assert main([*train, "--bpe-symbols", "3"]) == 1
    # Words hold a b c d l n, and end with a b n l, each another entry at the end of a word.
    assert "there are as many characters as `--bpe-symbols`" in capsys.readouterr().err
    assert main([*train, "--bpe-symbols", "16"]) == 0
    assert len((out / "codes.bpe").read_text(encoding="utf-8").splitlines()) == 1 + 6
    subwords = re.findall(r"^(\S+) \d+$", (out / "dict.en.txt").read_text(encoding="utf-8"), re.M)
    assert len({subword for subword in subwords if not subword.startswith("madeupword")}) <= 16
    again = tmp_path / "again"
    reused = ["--reuse", str(out), "--test", str(tmp_path / "train"), "--out", str(again)]
    assert main([*BASE, *reused]) == 0
    assert json.loads((again / "prepare.json").read_text())["bpe"]["symbols"] == 16


# Killed, or beside another one: nothing mixed, nothing left running


@pytest.fixture
def many(tmp_path: Path) -> Path:
    for name, times in (("train", 1000), ("more", 1), ("test", 1)):
        write_corpus(tmp_path / name, {lang: text * times for lang, text in TRAIN.items()})
    return tmp_path


def processes(mark: str) -> list[str]:
    """The names of all processes with ``mark`` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            status = (folder / "status").read_text()
            if "State:\tZ" not in status and mark.encode() in (folder / "environ").read_bytes():
                found.append(status.splitlines()[0])
    return found


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.long
def test_the_children_end_with_it(many, tmp_path):
    """Killed by SIGKILL, it leaves no process, and goes on when it is run again."""
    out, mark = tmp_path / "out", uuid.uuid4().hex
    argv = command(many, out, "--workers", "2")
    running = subprocess.Popen(
        [sys.executable, "-m", "gtrans", *argv],
        env={**os.environ, "TEST_MARK": mark}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: len(processes(mark)) >= 3)
    running.kill()
    running.wait()
    until(lambda: not processes(mark))
    assert main(argv) == main(command(many, tmp_path / "whole")) == 0
    assert outputs(out) == outputs(tmp_path / "whole")


def test_two_at_once(corpus, prepared, capsys):
    """The second one is refused."""
    with locked(prepared), ThreadPoolExecutor() as second:
        assert second.submit(main, command(corpus, prepared)).result() == 1
    assert "another process is writing it" in capsys.readouterr().err.splitlines()[-1]
    assert not list(prepared.glob(".*"))


@pytest.mark.long
def test_killed_after_a_change_of_options(corpus, prepared, tmp_path, monkeypatch, capsys):
    """The folder does not pass for one that was made with the new options."""

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    out = tmp_path / "out"
    shutil.copytree(prepared, out)
    with monkeypatch.context() as patch:
        patch.setattr(StepRecord, "step", kill)
        with pytest.raises(Killed):
            main(command(corpus, out, "--no-truecase"))
    with pytest.raises(GtransError, match="is not prepared to its end"):
        Preparation.read(out)
    assert main(command(corpus, out)) == 0
    assert capsys.readouterr().err.count("started") == 1, "only the last step"
    assert outputs(out) == outputs(prepared)
