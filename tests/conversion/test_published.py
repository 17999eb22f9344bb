"""Published translation models: converted, they compute and translate what their classes do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from safetensors.torch import load_file, save_file
from support.published_models import (
    BEAM,
    KINDS,
    LONGEST,
    Published,
    corpus_of,
    fairseq_transformer,
    published,
)
from torch import Tensor

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.cli import main
from gtrans.conversion.hugging_face import _card
from gtrans.search.options import SearchOptions
from gtrans.text.pipeline import PLACEHOLDER
from gtrans.text.prepared_folder import load_pipeline
from gtrans.translating.translator import Translator

SEARCH = SearchOptions(beam=BEAM, max_len_a=0, max_len_b=LONGEST, unkpen=1e6)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus_of(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def models(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Published]:
    folder = tmp_path_factory.mktemp("published")
    return {kind: published(kind, corpus, folder / kind) for kind in KINDS}


@pytest.fixture(scope="module")
def sentences(corpus: Path) -> list[str]:
    lines = [line for line in (corpus / "test.en").read_text("utf-8").split("\n") if line]
    return [*lines[:49], "Čau ☃☃, e-mail!"]


def convert(source: Path, target: Path, *options: str, program: str = "huggingface") -> int:
    return main(["convert", "--from", program, *options, str(source), str(target)])


def logits_of(translator: Translator, sentence: str, entries: list[str]) -> Tensor:
    """``(length, vocabulary)`` behind each token of a translation."""
    task = translator.task
    text = load_pipeline(task.data_folder, task.cfg.source_lang).encode(sentence)
    ids = task.source_dictionary.encode_line(text, add_if_not_exist=False).long()
    target = torch.tensor([task.target_dictionary.index(entry) for entry in entries])
    (span,) = task.examples.unit.cut([len(ids) - 1])
    batch = task.examples.collate([task.examples.example(span, [ids], [target])])
    with torch.no_grad():
        found: Tensor = translator.generator.models[0](**batch["net_input"])[0][0]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_translations(
    kind: str, models: dict[str, Published], sentences: list[str], tmp_path: Path, capsys: Any
) -> None:
    theirs, target = models[kind], tmp_path / "model.pt"
    languages = ("--source-lang", "en", "--target-lang", "de")
    needed = () if kind in ("opus", "opus-separate") else languages
    assert convert(theirs.folder, target, *needed) == 0, capsys.readouterr().err
    printed = capsys.readouterr().out
    assert "licence cc-by-4.0" in printed and " parameters\n" in printed
    assert main(["show", str(target)]) == 0
    assert "licence: cc-by-4.0" in capsys.readouterr().out
    ours = Translator.load(target, cpu=True, search=SEARCH)
    source = load_pipeline(ours.task.data_folder, "en")
    looks_like_tokens = "the [en] and <s> again"
    subwords = source.encode(looks_like_tokens)
    assert subwords.replace(" ", "").replace("\u2581", " ").strip() == looks_like_tokens
    assert source.decode(subwords) == looks_like_tokens
    known = theirs.target_rows
    for sentence in sentences[:3]:
        entries, expected = theirs.logits(sentence, "Die alte Königin lachte.")
        found = logits_of(ours, sentence, [s for s in entries if s != theirs.first])
        columns = [
            (column, known[entry])
            for column, entry in enumerate(ours.task.target_dictionary.symbols)
            if entry in known and entry != "<s>"
        ]
        here, there = map(list, zip(*columns, strict=True))
        assert len(here) > 150
        torch.testing.assert_close(found[:, here], expected[:, there], atol=1e-4, rtol=0)
    expected_texts = theirs.translate(sentences)
    assert len(set(expected_texts)) > 5
    texts = [text for (text,) in ours.translate([[sentence] for sentence in sentences])]
    assert [text.replace(PLACEHOLDER, "") for text in texts] == expected_texts


@pytest.mark.parametrize("joined", [True, False])
def test_a_transformer_of_fairseq(
    joined: bool, corpus: Path, sentences: list[str], tmp_path: Path, capsys: Any
) -> None:
    """Its own search over what Moses and its codes make of the text."""
    torch.manual_seed(1)
    model, path = fairseq_transformer(corpus, tmp_path / "wmt19", joined)
    target = tmp_path / "model.pt"
    assert convert(path, target, program="fairseq") == 0, capsys.readouterr().err
    ours = Translator.load(target, cpu=True, search=SEARCH)
    dictionary, words = (
        Dictionary.load(str(path.with_name(f"dict.{x}.txt"))) for x in ("en", "de")
    )
    search = SequenceGenerator(
        [model], words, beam_size=BEAM, max_len_a=0, max_len_b=LONGEST, unk_penalty=1e6
    )
    task = ours.task
    source, written = (load_pipeline(task.data_folder, lang) for lang in ("en", "de"))
    assert source.unsegment(source.encode("A man-made thing and / or the king's")) == (
        "A man @-@ made thing and / or the king &apos;s"
    )
    expected = []
    for sentence in sentences:
        ids = dictionary.encode_line(source.encode(sentence), add_if_not_exist=False)[None].long()
        found = search.generate([model], {"net_input": {"src_tokens": ids, "src_lengths":
                                 torch.tensor([ids.size(1)])}})  # fmt: skip
        expected.append(written.decode(words.string(found[0][0]["tokens"])))
    texts = [text for (text,) in ours.translate([[sentence] for sentence in sentences])]
    assert texts == expected and len(set(texts)) > 5
    entries = ["das", "</s>"]
    previous = torch.tensor([[2, words.index("das")]])
    ids = dictionary.encode_line(source.encode(sentences[0]), add_if_not_exist=False)[None].long()
    with torch.no_grad():
        logits = model(ids, torch.tensor([ids.size(1)]), previous)[0][0]
    assert task.target_dictionary.symbols[:-1] == words.symbols
    found_logits = logits_of(ours, sentences[0], entries)[:, :-1]
    torch.testing.assert_close(found_logits, logits, atol=1e-4, rtol=0)


def without(name: str) -> Any:
    return lambda folder: (folder / name).unlink()


def with_config(**options: object) -> Any:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **options}))

    return change


def fewer_words(folder: Path) -> None:
    words = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({**words, "new": max(words.values()) + 400}))


def others_subwords(name: str) -> Any:
    """A model of subwords of two characters."""

    def change(folder: Path) -> None:
        import sentencepiece

        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["\u4f60 \u597d \u4f60\u597d"] * 9), vocab_size=9,
            model_prefix=str(folder / "other"), hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
        (folder / "other.model").rename(folder / name)

    return change


def exchanged(folder: Path) -> None:
    (folder / "source.spm").rename(folder / "old")
    (folder / "target.spm").rename(folder / "source.spm")
    (folder / "old").rename(folder / "target.spm")


def cut(name: str, share: float) -> Any:
    """A model of subwords that ends behind one of them."""

    def change(folder: Path) -> None:
        content, place = (folder / name).read_bytes(), 0
        while content[place] == 10 and place < share * len(content):  # a subword, with its length
            assert content[place + 1] < 128
            place += 2 + content[place + 1]
        (folder / name).write_bytes(content[:place])

    return change


def two_on_one_row(folder: Path) -> None:
    words = json.loads((folder / "vocab.json").read_text())
    first, second = list(words)[5:7]
    (folder / "vocab.json").write_text(json.dumps({**words, first: words[second]}))


def adapter(folder: Path) -> None:
    (folder / "config.json").rename(folder / "adapter_config.json")


def archive_of_marian(folder: Path) -> None:
    (folder / "config.json").rename(folder / "decoder.yml")
    (folder / "model.npz").write_bytes(b"")


def saved_by_transformers_5(folder: Path) -> None:
    (folder / "sentencepiece.bpe.model").unlink()
    assert (folder / "tokenizer.json").is_file()


def table_named(name: str, before: str = "model.decoder.embed_tokens.weight") -> Any:
    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        tensors = load_file(path)
        save_file({name if key == before else key: tensors[key] for key in tensors}, path)

    return change


def with_nan(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.shared.weight"][0, 0] = float("nan")
    save_file(tensors, folder / "model.safetensors")


def in_shards(name: str) -> Any:
    """One file of weights, and an index that says that ``x`` is in the file ``name``."""

    def change(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "part.safetensors")
        index = json.dumps({"weight_map": {"x": name}})
        (folder / "model.safetensors.index.json").write_text(index)

    return change


@pytest.mark.parametrize("kind", ["opus", "m2m100"])
def test_a_shared_table_has_any_of_its_names(
    kind: str, models: dict[str, Published], tmp_path: Path
) -> None:
    """Programs that write each table once keep one of the names; transformers reads them all."""
    languages = () if kind == "opus" else ("--source-lang", "en", "--target-lang", "de")
    expected = tmp_path / "expected.pt"
    assert convert(models[kind].folder, expected, *languages) == 0
    for name in ("lm_head", "model.encoder.embed_tokens", "model.decoder.embed_tokens"):
        folder = Path(shutil.copytree(models[kind].folder, tmp_path / name))
        table_named(f"{name}.weight", before="model.shared.weight")(folder)
        assert convert(folder, tmp_path / "found.pt", *languages) == 0
        states = [read_checkpoint(path)["model"] for path in (expected, tmp_path / "found.pt")]
        torch.testing.assert_close(*states, atol=0, rtol=0)


def test_licences_as_cards_name_them(tmp_path: Path) -> None:
    for header, licence in {
        "license:\n- mit\n- apache-2.0": "mit, apache-2.0",
        "license: other\nlicense_name: my-own": "my-own",
        "tags: [a---b]\ndate: 2020-13-45": None,
        "tags: [a---b]\nlicense: mit": "mit",
        f"license: {'[' * 3000}": None,
    }.items():
        text = f"\ufeff---\r\n{header}\n---\n# A model\n"
        (tmp_path / "README.md").write_bytes(text.encode())
        assert _card(tmp_path, {}).get("licence") == licence


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("opus", without("source.spm"), "source.spm: there is no such file; download all"),
        ("opus", without("vocab.json"), "vocab.json: there is no such file; download all"),
        ("opus", without("model.safetensors"), "there are no weights (model.safetensors,"),
        ("opus", with_nan, "holds NaN"),
        ("opus", in_shards("no.safetensors"), "'no.safetensors' is missing"),
        ("opus", in_shards("part.safetensors"), "its files lack x"),
        ("opus", lambda it: (it / "model.safetensors").write_bytes(b""), "its safetensors content"),
        ("opus", fewer_words, "do not fit its vocabulary"),
        ("opus", with_config(decoder_start_token_id=-1), "do not fit its vocabulary"),
        ("opus", with_config(encoder_layers=3), "have 2 encoder layers, but config.json says 3"),
        ("opus-separate", table_named("decoder.weight"), "it holds no decoder.embed_tokens.weight"),
        ("opus", with_config(activation_function="mish"), "the activation mish (there is relu"),
        ("m2m100", with_config(encoder_attention_heads=None), "heads' is None, not of type int"),
        ("opus", with_config(scale_embedding="false"), "'scale_embedding' is 'false', not of"),
        ("opus", with_config(model_type="t5"), "of type 't5', not mbart, marian (OPUS-MT)"),
        ("opus", with_config(encoder_attention_heads=5), "must divide"),
        ("opus", with_config(decoder_start_token_id=None), "its tokenizer or config.json is dam"),
        ("m2m100", without("sentencepiece.bpe.model"), "model: there is no such file; download"),
        ("nllb", without("config.json"), "config.json: there is no such file; give the folder of"),
        (
            "opus",
            others_subwords("source.spm"),
            "its subwords are not those of the model; take all",
        ),
        ("nllb", others_subwords("sentencepiece.bpe.model"), "are not those in tokenizer.json"),
        ("opus", exchanged, "source.spm has words of 'de' and target.spm of 'en', the other way"),
        ("opus", cut("source.spm", 0.5), "source.spm: the end of the SentencePiece model is missi"),
        ("opus", cut("target.spm", 1.0), "target.spm: the end of the SentencePiece model is missi"),
        ("nllb", cut("sentencepiece.bpe.model", 0.9), "the end of the SentencePiece model is mis"),
        ("opus", two_on_one_row, "on the same row"),
        ("m2m100", two_on_one_row, "on the same row"),
        ("nllb", saved_by_transformers_5, "which transformers 5 does not save; copy it from the"),
        ("nllb", adapter, "adapter_config.json: the folder holds a LoRA adapter"),
        ("opus", archive_of_marian, "decoder.yml: this is a model of Marian itself; convert"),
    ],
)
def test_folders_that_are_not_whole(
    kind: str, change: Any, message: str, models: Any, tmp_path: Path, capsys: Any
) -> None:
    folder = shutil.copytree(models[kind].folder, tmp_path / "model")
    change(folder)
    assert convert(folder, tmp_path / "out.pt", "--source-lang", "en", "--target-lang", "de") == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1, error
    assert not (tmp_path / "out.pt").exists()


def test_a_language_that_fine_tuning_added(models: Any, tmp_path: Path, capsys: Any) -> None:
    """It stands behind the mask, so its row is the one in tokenizer.json."""
    folder, out = shutil.copytree(models["nllb"].folder, tmp_path / "model"), tmp_path / "out.pt"
    path = folder / "tokenizer.json"
    known = json.loads(path.read_text("utf-8"))
    row = 1 + max(token["id"] for token in known["added_tokens"])
    known["added_tokens"].append({"content": "tyv_Cyrl", "id": row})
    path.write_text(json.dumps(known), "utf-8")
    options = ("--source-lang", "eng_Latn", "--target-lang", "tyv_Cyrl")
    assert convert(folder, out, *options) == 0, capsys.readouterr().err
    ours = Translator.load(out, cpu=True)
    here = ours.task.target_dictionary.index("[tyv_Cyrl]")
    found = ours.generator.models[0].decoder.embed_tokens.weight[here]
    assert torch.equal(found, models["nllb"].model.get_input_embeddings().weight[row])


def test_languages_that_are_not_known(models: Any, tmp_path: Path, capsys: Any) -> None:
    out, russian = tmp_path / "out.pt", ("--source-lang", "en", "--target-lang", "ru")
    for kind, options, message in (
        ("opus-tags", (), "languages to translate from and to; "),
        ("opus-tags", russian, "has no token for the language 'ru'"),
        ("opus", russian, "its language is 'de', not 'ru'"),
    ):
        assert convert(models[kind].folder, out, *options) == 1
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1 and not out.exists()


@pytest.mark.parametrize("kind", ["opus", "opus-separate", "opus-tags", "m2m100", "wmt19"])
def test_trimmed(kind: str, corpus: Path, models: Any, tmp_path: Path, capsys: Any) -> None:
    """The same logits of the subwords that stay, and text in them."""
    whole, small = tmp_path / "whole.pt", tmp_path / "small"
    languages = ("--source-lang", "en", "--target-lang", "de")
    if kind == "wmt19":
        _, path = fairseq_transformer(corpus, tmp_path / kind)
        assert convert(path, whole, program="fairseq") == 0
    else:
        assert convert(models[kind].folder, whole, *languages) == 0
    valid = tmp_path / "some"
    for lang in ("en", "de"):
        text = (corpus / f"valid.{lang}").read_text("utf-8").split("\n")
        valid.with_suffix(f".{lang}").write_text("\n".join(text[:8]) + "\n", "utf-8")
    prepare = ["prepare", *languages, "--valid", str(valid), "--out"]
    assert main([*prepare, str(tmp_path / "data"), "--reuse", str(whole)]) == 0
    command = ["trim-vocab", "--data", str(tmp_path / "data"), "--splits", "valid", "--out"]
    assert main([*command, str(small), str(whole)]) == 0, capsys.readouterr().err
    assert "subwords kept" in capsys.readouterr().out
    assert main([*prepare, str(tmp_path / "again"), "--reuse", str(small / "model.pt")]) == 0
    for lang in ("en", "de"):
        texts = [
            (tmp_path / x / "text" / f"valid.bpe.{lang}").read_text() for x in ("data", "again")
        ]
        assert texts[0] == texts[1]
    translators = [Translator.load(path, cpu=True) for path in (whole, small / "model.pt")]
    sentence, *_ = valid.with_suffix(".en").read_text("utf-8").split("\n")
    written = (tmp_path / "data" / "text" / "valid.bpe.de").read_text().split("\n")[0].split()
    found = [logits_of(one, sentence, [*written, "</s>"]) for one in translators]
    entries = [one.task.target_dictionary.symbols for one in translators]
    assert len(entries[1]) < len(entries[0])
    columns = [entries[0].index(entry) for entry in entries[1]]
    torch.testing.assert_close(found[1], found[0][:, columns], atol=1e-5, rtol=1e-5)
    # Words that the corpus does not have become its subwords and single characters.
    here, there = (load_pipeline(one.task.data_folder, "en") for one in translators)
    split, known = 0, {*translators[1].task.source_dictionary.symbols}
    for line in (corpus / "test.en").read_text("utf-8").split("\n")[:40]:
        before, after = here.encode(line), there.encode(line)
        split += before != after
        unknown = {*after.split()} - known
        assert all(len(subword.removesuffix("@@")) == 1 for subword in unknown)
        assert there.decode(after) == here.decode(before)
    assert split > 20
    assert len(translators[1].translate([["Hello, gentleman!"]])[0]) == 1
