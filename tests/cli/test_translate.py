"""``gtrans translate``: the output lines up with the input, whatever the input and the model."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from fairseq.data import Dictionary
from hypothesis import given
from hypothesis import strategies as st
from support.folders import binarised_again
from support.suites import others_long
from support.translating import FAST, Interrupted, command, error, interrupt_after

from gtrans.cli import main
from gtrans.modules.precision import Int8Linear
from gtrans.modules.transformer import Linear
from gtrans.search import generator, options
from gtrans.search.generator import make_batches, rows_at_once
from gtrans.text.pipeline import PLACEHOLDER
from gtrans.text.prepared_folder import load_pipeline
from gtrans.translating import loading, translator
from gtrans.translating.output import Alternative

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld


def translate(tiny: TinyWorld, text: str, folder: Path, *options: str) -> list[str]:
    """The lines of the translation of ``text``."""
    source, output = folder / "in.en", folder / "out.de"
    source.write_text(text, encoding="utf-8")
    assert main(command(tiny, "--input", source, "--output", output, *FAST, *options)) == 0
    whole = output.read_text(encoding="utf-8")
    assert whole == "" or whole.endswith("\n")
    assert sorted(path.name for path in folder.glob("*out.de*")) == ["out.de", "out.de.made.json"]
    return whole.split("\n")[:-1]


# ---- lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "You are late.\n",
        "You are late.",
        "\n\nYou are late.\nIt was heavy.\n\n\n\nWhere were you?\n \t \nIt sang.\n\n",
        "<d>\nYou are late.\n<d>\nIt was heavy.\n",
        "\ufeffYou are late.\r\n\r\nIt was heavy.\r\n",
        "One\u2028sentence\x85with \x0bspaces\n\n\x00\n\u3000\n<s> [de] </s> &#10; <mask>\n",
        "\n\n",
        "",
    ],
)
def test_the_output_lines_up(tiny: TinyWorld, tmp_path: Path, text: str):
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    output = translate(tiny, text, tmp_path)
    assert len(output) == len(lines)
    for source, target in zip(lines, output, strict=True):
        if source.strip() in ("", "<d>"):
            assert target == source.strip()
        else:
            assert target.strip() not in ("", "<d>")


def test_a_translation_never_reads_as_a_boundary():
    dictionary = Dictionary()
    ids = {word: dictionary.add_symbol(word) for word in ("@lower@", "&lt;d&gt;", "wort")}
    for word, expected in (("@lower@", PLACEHOLDER), ("&lt;d&gt;", PLACEHOLDER), ("wort", "wort")):
        bare = object.__new__(translator.Translator)
        bare.task = SimpleNamespace(target_dictionary=dictionary)
        bare.generator = SimpleNamespace(symbols_to_strip_from_output={dictionary.eos()})
        bare.text_of_subwords = lambda words: {"@lower@": "", "&lt;d&gt;": "<d>"}.get(words, words)
        assert bare._text([ids[word], dictionary.eos()]) == expected


def test_symbols_are_copied_whatever_the_number_of_sentences():
    """A changed file of finished batches is reported when the translation is written."""
    bare = object.__new__(translator.Translator)
    bare.copies_symbols, bare.free = True, False
    for count in (0, 1, 2):
        row = [[Alternative("wort", 0.0)] for _ in range(count)]
        (document,) = bare.joined_rows([row], [[{}]], [["word ☺"]])
        texts = [alternatives[0].text for alternatives in document]
        assert texts == ["wort ☺", "wort"][:count]


# ---- the same as fairseq's commands --------------------------------------------------------------


@pytest.mark.parametrize(
    "model", others_long(["document", "sentence", "document:other"], {"document"})
)
def test_text_and_generate_agree(tiny: TinyWorld, tmp_path: Path, model: str):
    # Each chunk alone: sums over other batches differ in their last bits.
    alone = (*FAST, "--max-tokens", "1")
    source, output = ("--input", tiny.text / "test.en"), tmp_path / "out"
    assert main(command(tiny, *source, "--output", output, *alone, model=model)) == 0
    whole = output.read_text(encoding="utf-8")
    path = ":".join(str(tiny.checkpoints[name]) for name in model.split(":"))
    done = tiny.run.succeed(
        "generate", tiny.data, "--user-dir", "gtrans", "--task", "document_translation",
        "--path", path, "--batch-size", "1", "--required-batch-size-multiple", "1", *FAST,
    )  # fmt: skip
    pipeline = load_pipeline(tiny.data, "de")
    expected = [pipeline.decode(text) for _, text in sorted(done.lines("D"))]
    assert [line for line in whole.split("\n") if line] == expected
    documents = [len(document.split("\n")) for document in whole.strip().split("\n\n")]
    assert documents == [len(document) for document in tiny.source()]


@pytest.mark.long
def test_standard_streams(tiny: TinyWorld, tmp_path: Path):
    text = "You are late.\n\nIt was heavy.\n"
    expected = translate(tiny, text, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "gtrans", *command(tiny, "--input", "-", "--output", "-", *FAST)],
        input=text.encode(), capture_output=True, timeout=120, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("utf-8").split("\n")[:-1] == expected
    assert done.stderr == b""


@pytest.mark.parametrize("supported", [True, False])
def test_bfloat16(
    tiny: TinyWorld,
    tmp_path: Path,
    supported: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """The models are in bfloat16; where that cannot help, a line says so."""
    loaded = []

    def load_and_keep(*arguments: Any, **options: Any) -> tuple[list[Any], Any]:
        models, task = loading.load_models(*arguments, **options)
        loaded.extend(models)
        return models, task

    monkeypatch.setattr(translator, "load_models", load_and_keep)
    text = (tiny.text / "test.en").read_text(encoding="utf-8")
    first = "\n".join(text.split("\n")[:6]) + "\n"
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr("torch.cpu._is_avx512_bf16_supported", lambda: supported)
    assert len(translate(tiny, first, tmp_path, "--bf16", "--cpu")) == 6
    assert {parameter.dtype for parameter in loaded[0].parameters()} == {torch.bfloat16}
    assert ("`--bf16` does not help here" in capsys.readouterr().err) != supported


def test_int8(tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The weights have 8 bits, and a layer gives nearly the same."""
    text = "You are late.\nIt was heavy.\n"
    assert len(translate(tiny, text, tmp_path, "--int8")) == 2
    assert not capsys.readouterr().err.count("Warning")
    argv = command(tiny, "--input", tmp_path / "in.en", "--output", tmp_path / "o", *FAST)
    assert "give only one of `--fp16`" in error([*argv, "--int8", "--bf16"], capsys)
    torch.manual_seed(1)
    for bias in (True, False):
        layer, states = Linear(64, 48, bias=bias), torch.randn(7, 64)
        expected = layer(states)
        error_of_8_bits = (Int8Linear(layer)(states) - expected).abs().mean() / expected.std()
        assert 0 < error_of_8_bits < 0.02


# ---- batches and resuming ------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 600), max_size=40),
    st.integers(1, 2000),
    st.none() | st.integers(1, 30),
)
def test_batches_hold_every_chunk_once(lengths: list[int], max_tokens: int, max_rows: int | None):
    batches = make_batches(lengths, max_tokens, max_rows)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= max_tokens
        assert max_rows is None or len(batch) <= max_rows
    firsts = [lengths[batch[0]] for batch in batches]
    assert firsts == sorted(firsts, reverse=True)


def test_a_large_vocabulary_means_fewer_rows(
    tiny: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The same translation in other batches, which an unfinished one of old batches is not."""
    assert rows_at_once(5, 30_000) == 250
    assert rows_at_once(5, 250_027) == 29
    assert rows_at_once(10**6, 10**6) == 1
    single = (
        *("--input", tiny.text / "test.en", *FAST),
        *("--max-doc-tokens", "8", "--max-tokens", "320"),
    )
    whole, output = tmp_path / "whole", tmp_path / "out"
    with monkeypatch.context() as patch:
        decoded = interrupt_after(-1, patch)
        assert main(command(tiny, *single, "--output", whole)) == 0
    assert max(decoded) > 3
    with monkeypatch.context() as patch:
        interrupt_after(1, patch)
        with pytest.raises(Interrupted):
            main(command(tiny, *single, "--output", output))
    entries = len(Dictionary.load(str(tiny.data / "dict.de.txt")))
    monkeypatch.setattr(generator, "MOST_LOGITS", (3 * 2 + 1) * entries)
    decoded = interrupt_after(-1, monkeypatch)
    assert main(command(tiny, *single, "--output", output)) == 0
    assert max(decoded) == 3
    assert output.read_text("utf-8") == whole.read_text("utf-8")


# ---- names ---------------------------------------------------------------------------------------


def test_unusual_names(tiny: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder that is not UTF-8, names of options behind --, JSON lines by the name."""
    monkeypatch.chdir(tmp_path)
    folder = Path(os.fsdecode(b"caf\xe9"))
    folder.mkdir()
    shutil.copy(tiny.checkpoints["document"], folder / "model.pt")
    Path("--lost.txt").write_text("It sang.\n")
    Path("rows.jsonl").write_text('{"doc_id": "a", "source": "It sang."}\n')
    model = ["translate", "--path", str(folder / "model.pt"), *FAST]
    assert main([*model, "--output-dir", "out", "--", "--lost.txt"]) == 0
    assert main(["show", str(folder / "model.pt")]) == 0
    assert main([*model, "--input", "rows.jsonl", "--output", "hyp.jsonl"]) == 0
    assert '"doc_id": "a"' in Path("hyp.jsonl").read_text()
    Path("ref.jsonl").write_text('{"doc_id": "a", "target": "Es sang."}\n')
    files = ["--hyp", "hyp.jsonl", "--ref", "ref.jsonl", "--target-lang", "de"]
    assert main(["score", *files, "--resample", "none"]) == 0
    assert Path("out/--lost.txt").is_file()


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--path": "none.pt"}, "none.pt: there is no such checkpoint"),
        ({"--path": ":"}, "`--path` must name a checkpoint"),
        ({"--data": "none"}, "none"),
        ({"--input": "none.en"}, "there is no file 'none.en'"),
        ({"--min-len": "100000"}, "`--min-len` must be from 0 to 1000, but is 100000"),
        ({"--beam": "0"}, "`--beam` must be from 1 to 1000, but is 0"),
        ({"--overlap": "-1"}, "`--overlap` must be at least 0, but is -1"),
        ({"--path": "SENTENCE", "--overlap": "1"}, "`--overlap 1` is for models that see document"),
        ({"--max-tokens": "0"}, "`--max-tokens` must be at least 1, but is 0"),
        ({"--max-doc-tokens": "3"}, "`--max-doc-tokens` must be at least 8, but is 3"),
        ({"--output": "no/folder/out.de"}, "cannot be written"),
        ({"--model-overrides": "{'a': "}, "`--model-overrides` must be names and values in braces"),
        ({"--model-overrides": "{'nonsense': 8}"}, "has no option 'nonsense' that can be changed"),
        ({"--model-overrides": "{'max-doc-tokens': 8}"}, "names are those of its options with"),
        ({"--model-overrides": "{'arch': 'x'}"}, "has no option 'arch' that can be changed"),
        ({"--model-overrides": "{'max_doc_tokens': 'x'}"}, "`--model-overrides`: Value 'x'"),
        ({"--model-overrides": "{1: 2}"}, "`--model-overrides` must be names and values in braces"),
        ({"--fp16": "--cpu"}, "`--fp16` needs a CUDA device"),
    ],
)
def test_mistakes_are_told_in_one_line(
    tiny: TinyWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, str],
    message: str,
):
    monkeypatch.chdir(tmp_path)
    flags = {
        "--path": str(tiny.checkpoints["document"]),
        "--data": str(tiny.data),
        "--input": str(tiny.text / "test.en"),
        "--output": "out.de",
        **changes,
    }
    if flags["--path"] == "SENTENCE":
        flags["--path"] = str(tiny.checkpoints["sentence"])
    argv = [part for pair in flags.items() for part in pair]
    assert message in error(["translate", *argv], capsys)
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_that_do_not_fit(
    tiny: TinyWorld, tmp_path: Path, harmful: Path, capsys: pytest.CaptureFixture[str]
):
    def refusal(path: Path | str, data: Path = tiny.data) -> str:
        source = str(tiny.text / "test.en")
        files = ["--data", str(data), "--input", source, "--output", str(tmp_path / "out")]
        return error(["translate", "--path", str(path), *files, *FAST], capsys)

    assert f"{harmful}: refused" in refusal(harmful)
    assert not (harmful.parent / "harmed").exists()
    other_words = tmp_path / "words"
    shutil.copytree(tiny.data, other_words)
    for lang in ("en", "de"):
        with open(other_words / f"dict.{lang}.txt", "a", encoding="utf-8") as file:
            file.write("more 1\n")
    binarised_again(other_words)
    line = refusal(tiny.checkpoints["document"], other_words)
    assert f"was not made with '{other_words}'" in line and "entries, not" in line
    both = f"{tiny.checkpoints['document']}:{tiny.checkpoints['sentence']}"
    assert "first of `--path`: --unit sentence, not document" in refusal(both)
    for group, changes, message in (
        ("task", {"_name": "translation"}, "its task is 'translation'"),
        ("task", {"source_lang": "en", "target_lang": "ru"}, "translates en-ru, but"),
        ("model", {"_name": "quantum"}, "this version knows no model 'quantum'"),
    ):
        state = torch.load(tiny.checkpoints["document"], weights_only=False)
        state["cfg"][group].update(changes)
        torch.save(state, tmp_path / "other.pt")
        assert message in refusal(tmp_path / "other.pt")
    state = torch.load(tiny.checkpoints["document"], weights_only=False)
    state["model"] = {name: value * float("nan") for name, value in state["model"].items()}
    torch.save(state, tmp_path / "diverged.pt")
    assert "holds NaN or infinite numbers" in refusal(tmp_path / "diverged.pt")
    (tmp_path / "garbage.pt").write_bytes(b"no checkpoint")
    assert "garbage.pt: " in refusal(tmp_path / "garbage.pt")
    assert options.split_paths("a.pt:b.pt") == ["a.pt", "b.pt"]
