"""mBART and mBART-50 from their published formats: the same logits, the same frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from support.pretrained_models import (
    LANGS,
    POSITIONS,
    fairseq_model,
    frame_of,
    hugging_face_model,
    vocabulary,
    write_dictionaries,
)
from support.tiny_models import Harm
from torch import Tensor

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.cli import main
from gtrans.data.frame import pretrained_special_tokens
from gtrans.errors import GtransError
from gtrans.models.base.warm_start import (
    WarmStartOptions,
    WarmStartReport,
    dictionaries_of,
    warm_start,
)
from gtrans.models.gtransformer import GTransformer, GTransformerConfig
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig
from gtrans.translating.loading import load_models

WORDS = [[5, 9, 4, 7, 20, 11], [6, 12, 8]]
SHORT = [[13, 4], [10, 21, 5, 6, 7]]
FORMATS = [("fairseq", "mbart"), ("huggingface", "mbart"), ("huggingface", "mbart50")]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dictionaries(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory, data: Path) -> dict[tuple[str, str], Any]:
    """Models of both programs and what they have written."""
    folder = tmp_path_factory.mktemp("published")
    return {
        ("fairseq", "mbart"): fairseq_model(folder / "fairseq", data),
        **{
            ("huggingface", kind): hugging_face_model(kind, folder / kind, data)
            for kind in ("mbart", "mbart50")
        },
    }


def convert(program: str, source: Path, target: Path, data: Path, *options: str) -> int:
    languages = ("--source-lang", "en", "--target-lang", "de")
    return main(["convert", "--from", program, "--data", str(data), *languages, *options,
                 str(source), str(target)])  # fmt: skip


def padded(rows: list[list[int]]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=1.0
    ).long()


def their_logits(program: str, model: Any, source: Tensor, previous: Tensor) -> Tensor:
    with torch.no_grad():
        if program == "fairseq":
            logits: Tensor = model(source, source.ne(1).sum(1), previous)[0]
            return logits
        found: Tensor = model(
            input_ids=source, attention_mask=source.ne(1).long(), decoder_input_ids=previous
        ).logits
        return found


@pytest.mark.parametrize(("program", "kind"), FORMATS)
def test_converted_models_compute_and_find_the_same(
    program: str, kind: str, data: Path, theirs: Any, tmp_path: Path, capsys: Any
) -> None:
    """Logits, and greedy decoding, word by word, by their own model in its own frame."""
    model, source = theirs[program, kind]
    target = tmp_path / "converted.pt"
    assert convert(program, source, target, data) == 0, capsys.readouterr().err
    printed = capsys.readouterr().out
    assert f"special tokens {kind}" in printed
    assert "pre-norm" in printed
    (ours,), task = load_models([str(target)], str(data), cpu=True)
    frames = [frame_of(kind, data, pair) for pair in (WORDS, SHORT)]
    sources, previous = (padded([frame[side] for frame in frames]) for side in (0, 1))
    examples = [
        task.examples.example(span, [torch.tensor([*source, 2])], [torch.tensor([*target, 2])])
        for source, target in (WORDS, SHORT)
        for span in task.examples.unit.cut([len(source)])
    ]
    batch = task.examples.collate(examples)
    assert torch.equal(batch["net_input"]["src_tokens"], sources)
    assert torch.equal(batch["net_input"]["prev_output_tokens"], previous)
    with torch.no_grad():
        found = ours(**batch["net_input"])[0]
    expected = their_logits(program, model, sources, previous)
    real = previous.ne(1)
    torch.testing.assert_close(found[real], expected[real], atol=1e-4, rtol=1e-4)
    predicted = batch["target"][0][batch["target"][0].ne(1)]
    assert predicted.tolist() == [*WORDS[1], 2]

    args = OmegaConf.create({"beam": 1, "max_len_a": 0, "max_len_b": 6, "min_len": 2})
    generator = task.build_generator([ours], args)
    builder = task.examples
    (span,) = builder.unit.cut([6])
    example = builder.example(span, [torch.tensor([*WORDS[0], 2])])
    (found,) = generator.documents(builder.collate([example])["net_input"])
    sentence = found[0].sentences[0].tokens

    framed, written = frame_of(kind, data, [WORDS[0], []])
    words: list[int] = []
    never = [0, 1, *range(4 + 20, len(vocabulary(data, LANGS[kind])))]
    while not words or words[-1] != 2:
        logits = their_logits(program, model, padded([framed]), padded([[*written, *words]]))[0, -1]
        logits[never] = float("-inf")
        if len(words) < 2:
            logits[2] = float("-inf")
        words.append(2 if len(words) == 6 else int(logits.argmax()))
    assert sentence == words


def task_of(data: Path, kind: str, **options: Any) -> DocumentTranslationTask:
    cfg = OmegaConf.structured(DocumentTranslationConfig)
    cfg.seed = 1
    settings = {
        "data": str(data), "source_lang": "en", "target_lang": "de", "unit": "document",
        "sentence_marks": kind, "langs": ",".join(LANGS[kind]) or None, **options,
    }  # fmt: skip
    for name, value in settings.items():
        setattr(cfg, name, value)
    return DocumentTranslationTask.setup_task(cfg)


def document_model(task: DocumentTranslationTask, **options: Any) -> GTransformer:
    sizes = {
        "encoder_layers": 2, "decoder_layers": 2, "encoder_embed_dim": 24,
        "encoder_ffn_embed_dim": 40, "decoder_ffn_embed_dim": 40, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_global_layers": 1, "decoder_global_layers": 1,
        "cross_global_layers": 1, "max_positions": POSITIONS,
    }  # fmt: skip
    cfg = OmegaConf.structured(GTransformerConfig(**{**sizes, **options}))
    cfg._name = "gtransformer_mbart_large"
    model: GTransformer = task.build_model(cfg)
    return model.eval()


def started(model: GTransformer, path: Path, task: Any) -> WarmStartReport:
    """Start from a published model, whose dictionary has to be named."""
    named = str(path.with_name("dict.txt"))
    options = WarmStartOptions(init_dict=named)
    return warm_start(model, str(path), dictionaries_of(task), options)


def test_a_document_model_starts_from_the_published_file(data: Path, theirs: Any) -> None:
    """Loaded whole; with a lossless start every sentence of a document has its own logits."""
    model, path = theirs["fairseq", "mbart"]
    task = task_of(data, "mbart")
    ours = document_model(task, positions="sentence", gate_bias=20.0)
    report = started(ours, path, task)
    assert all(".global_attn." in name or ".gate." in name for name in report.new)
    assert not report.grown and not report.ignored
    pairs = [WORDS, SHORT, WORDS]
    sides = [[torch.tensor([*pair[side], 2]) for pair in pairs] for side in (0, 1)]
    (span,) = task.examples.unit.cut([6, 2, 6])
    batch = task.examples.collate([task.examples.example(span, *sides)])
    with torch.no_grad():
        logits = ours(**batch["net_input"])[0][0]
    begin = 0
    for pair in pairs:
        source, previous = frame_of("mbart", data, pair)
        expected = their_logits("fairseq", model, padded([source]), padded([previous]))[0]
        part = logits[begin : begin + len(previous)]
        torch.testing.assert_close(part, expected, atol=1e-4, rtol=1e-4)
        begin += len(previous) + 1  # the end token of the sentence is read, too


def test_rows_follow_their_entries_in_a_smaller_vocabulary(
    data: Path, theirs: Any, tmp_path: Path
) -> None:
    """The model's own dictionary tells which row is whose."""
    model, path = theirs["fairseq", "mbart"]
    small = write_dictionaries(tmp_path / "small", ("p7", "p3", "new"))
    task = task_of(small, "mbart")
    ours = document_model(task)
    report = started(ours, path, task)
    assert report.grown
    table, before = ours.encoder.embed_tokens.weight, model.encoder.embed_tokens.weight
    entries = vocabulary(data, LANGS["mbart"])
    for entry in ("p7", "p3", "</s>", "[de_DE]", "<mask>"):
        found = table[task.source_dictionary.index(entry)]
        assert torch.equal(found, before[entries.index(entry)])


@pytest.mark.parametrize("program", ["fairseq", "huggingface"])
def test_extended_positions(
    program: str, data: Path, theirs: Any, tmp_path: Path, capsys: Any
) -> None:
    _, source = theirs[program, "mbart"]
    plain, longer = tmp_path / "plain.pt", tmp_path / "longer.pt"
    assert convert(program, source, plain, data) == 0
    assert convert(program, source, longer, data, "--extend-positions", "70") == 0
    table = read_checkpoint(longer)["model"]["encoder.embed_positions.weight"]
    before = read_checkpoint(plain)["model"]["encoder.embed_positions.weight"]
    assert table.shape[0] == 72
    assert torch.equal(table[:32], before) and torch.equal(table[32:62], before[2:])
    (short,), _ = load_models([str(plain)], str(data), cpu=True)
    (long,), _ = load_models([str(longer)], str(data), cpu=True)
    source_ids, previous = (padded([part]) for part in frame_of("mbart", data, WORDS))
    with torch.no_grad():
        logits = [model(source_ids, None, previous)[0] for model in (short, long)]
        assert torch.equal(*logits)
        text = padded([[*([5] * 60), *source_ids[0].tolist()[-2:]]])
        assert long(text, None, previous)[0].isfinite().all()
        with pytest.raises(Exception, match="62 tokens, but the model has learned only 30"):
            short(text, None, previous)
    capsys.readouterr()
    assert convert(program, source, longer, data, "--extend-positions", "30") == 1
    assert "must be more than the model's 30 positions, but is 30." in capsys.readouterr().err


def test_decoding_never_leaves_the_table(data: Path, theirs: Any) -> None:
    """A model that never wants to end gets its sentences closed in time."""
    _, path = theirs["fairseq", "mbart"]
    task = task_of(data, "mbart")
    model = document_model(task)
    started(model, path, task)
    args = OmegaConf.create({"beam": 3, "max_len_a": 0, "max_len_b": 200, "min_len": 1})
    generator = task.build_generator([model], args)
    sentences = [torch.tensor([5, 6, 2])] * 6
    (span,) = task.examples.unit.cut([2] * 6)
    batch = task.examples.collate([task.examples.example(span, sentences)])
    (found,) = generator.documents(batch["net_input"])
    assert all(len(hypothesis.sentences) == 6 for hypothesis in found)
    # The opening token is read, the very last one is not.
    assert max(len(hypothesis.tokens) for hypothesis in found) <= POSITIONS


def test_what_is_missing_is_named(data: Path, theirs: Any, tmp_path: Path, capsys: Any) -> None:
    """A path that there is not, and BART, which is not read."""
    source, target = tmp_path / "mbart.cc25" / "model.pt", tmp_path / "out.pt"
    assert convert("fairseq", source, target, data) == 1
    error = capsys.readouterr().err
    assert "model.pt: there is no such checkpoint; check the path." in error
    assert error.count("\n") == 1 and not target.exists()
    assert convert("fairseq", tmp_path, target, data) == 1
    assert f"{tmp_path} is a folder; give the checkpoint in it" in capsys.readouterr().err
    state = torch.load(theirs["fairseq", "mbart"][1], weights_only=False)
    state["args"].arch, state["args"].langs = "bart_large", None
    source.parent.mkdir()
    torch.save(state, source)
    assert convert("fairseq", source, target, data) == 1
    assert "is 'bart_large', neither mBART nor a `tr" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["pytorch_model.bin", "several files"])
def test_other_forms_of_hugging_faces_weights(
    form: str, data: Path, theirs: Any, tmp_path: Path
) -> None:
    model, source = theirs["huggingface", "mbart"]
    folder = tmp_path / "model"
    if form == "several files":
        model.save_pretrained(folder, max_shard_size="20KB")
        assert (folder / "model.safetensors.index.json").is_file()
    else:
        folder.mkdir()
        (folder / "config.json").write_bytes((source / "config.json").read_bytes())
        torch.save(model.state_dict(), folder / form)
    states = []
    for path in (source, folder):
        assert convert("huggingface", path, tmp_path / "out.pt", data) == 0
        states.append(read_checkpoint(tmp_path / "out.pt")["model"])
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_weights_that_carry_code_are_refused(
    data: Path, theirs: Any, tmp_path: Path, capsys: Any
) -> None:
    _, source = theirs["huggingface", "mbart"]
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    torch.save({"shared.weight": Harm(tmp_path / "harmed")}, tmp_path / "pytorch_model.bin")
    assert convert("huggingface", tmp_path, tmp_path / "out.pt", data) == 1
    error = capsys.readouterr().err
    assert "pytorch_model.bin: refused or not readable" in error and error.count("\n") == 1
    assert not (tmp_path / "harmed").exists() and not (tmp_path / "out.pt").exists()


@pytest.mark.parametrize(
    ("options", "special_tokens"),
    [
        ({}, "bart"),
        ({"langs": "en_XX,de_DE"}, "mbart"),
        ({"langs": "en_XX,de_DE", "decoder_langtok": True}, "mbart50"),
        ({"langs": ",".join(LANGS["mbart50"])}, "mbart50"),
        # the languages of fairseq's multilingual task in a file
        ({"langs": None, "lang_dict": "langs.txt", "decoder_langtok": True}, "mbart50"),
        ({"langs": None, "lang_dict": "langs.txt", "decoder_langtok": False}, "mbart50"),
    ],
)
def test_which_model_a_checkpoint_of_fairseq_is(
    options: dict[str, object], special_tokens: str
) -> None:
    assert pretrained_special_tokens(options) == special_tokens


@pytest.mark.parametrize(("special_tokens", "other"), [("mbart", "mbart50"), ("mbart50", "mbart")])
def test_the_frame_of_the_other_mbart_is_refused(
    special_tokens: str, other: str, data: Path, theirs: Any
) -> None:
    """Both have the language tokens; nothing else would tell that the frame is wrong."""
    _, published = theirs["fairseq", "mbart"]
    path, langs = published.with_name(f"{other}.pt"), ",".join(LANGS[other])
    state = torch.load(published, weights_only=False)
    state["args"].langs = langs
    torch.save(state, path)
    task = task_of(data, special_tokens, langs=langs, init_from=str(path))
    told = f"was trained with `--sentence-marks {other}`, not {special_tokens}; give"
    with pytest.raises(GtransError, match=told):
        document_model(task)
