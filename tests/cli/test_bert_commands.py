"""BERT through the commands a user types, on a tiny corpus and tiny models."""

from __future__ import annotations

import io
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from fairseq.data import data_utils
from support.runs import PLUGIN, SIZES
from support.synthetic_corpus import prepare
from support.tiny_bert import another_bert, write_bert
from support.tiny_models import Finished, TinyWorld

from gtrans.cli import main
from gtrans.modules.bert import SEP, BertSubwords

TRAINING = (
    *(*PLUGIN, "--optimizer", "adam", "--lr", "0.003", "--max-tokens", "1024", "--cpu"),
    *("--criterion", "label_smoothed_cross_entropy", "--max-tokens-valid", "8000"),
    *("--no-epoch-checkpoints", "--num-workers", "0", "--seed", "1"),
)


@dataclass(frozen=True)
class BertWorld:
    """A data folder with the subwords of a BERT, this BERT, and models after some updates."""

    tiny: TinyWorld
    bert: Path
    data: Path
    folder: Path

    @property
    def start(self) -> tuple[str, ...]:
        """Architecture and options of a BERT-context Transformer."""
        return (
            "bert_context_transformer_tiny", *SIZES, "--share-all-embeddings",
            "--context-gate-bias", "1", "--init-from", str(self.tiny.checkpoints["sentence"]),
        )  # fmt: skip

    def train(self, name: str, arch: str, *options: str, updates: int = 4) -> Path:
        saved = self.folder / name
        done = self.attempt(self.data, saved, arch, *options, "--max-update", str(updates))
        assert done.status == 0, done.stderr
        return saved / "checkpoint_last.pt"

    def attempt(self, data: Path, saved: Path, arch: str, *options: str) -> Finished:
        return self.tiny.run(
            "train", data, *TRAINING, "--arch", arch, *options, "--save-dir", saved,
        )  # fmt: skip

    def translate(self, checkpoint: Path, output: Path, data: Path | None = None) -> int:
        return main(
            ["translate", "--path", str(checkpoint), "--data", str(data or self.data), "--cpu",
             "--input", str(self.tiny.text / "test.en"), "--output", str(output), "--beam", "2",
             "--max-len-a", "0", "--max-len-b", "4"]
        )  # fmt: skip


CODES = ("--bpe-merges", "300")


@pytest.fixture(scope="module")
def world(tiny: TinyWorld, bert: Path, tmp_path_factory: pytest.TempPathFactory) -> BertWorld:
    folder = tmp_path_factory.mktemp("world")
    data = shutil.copytree(tiny.data, folder / "data")
    assert prepare(tiny.text, data, *CODES, "--bert", bert) == 0
    return BertWorld(tiny, bert, data, folder)


@pytest.fixture(scope="module")
def context(world: BertWorld) -> Path:
    """A BERT-context Transformer started from the sentence model."""
    return world.train("context", *world.start)


# ---- preparation ---------------------------------------------------------------------------------


def test_the_stream_is_aligned_line_by_line(world: BertWorld) -> None:
    subwords = BertSubwords(str(world.bert))
    plain = (world.tiny.text / "test.en").read_text(encoding="utf-8").rstrip("\n").split("\n")
    lines = data_utils.load_indexed_dataset(str(world.data / "test.en-de.en.bert"), None, "mmap")
    source = data_utils.load_indexed_dataset(str(world.data / "test.en-de.en"), None, "mmap")
    assert len(lines) == len(source) == len(plain)
    for number, sentence in enumerate(plain):
        wanted = subwords.encode([sentence])[0] if sentence else torch.tensor([SEP])
        assert torch.equal(lines[number].long(), wanted)
    state = json.loads((world.data / "prepare.json").read_text())
    assert state["bert"] == {"name": str(world.bert), "tokenizer": subwords.fingerprint}


@pytest.mark.long
def test_prepared_again_nothing_is_made_and_another_bert_only_its_stream(
    world: BertWorld, repo: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = shutil.copytree(world.data, tmp_path / "data")
    before = (data / "test.en-de.en.bert.bin").read_bytes()
    assert prepare(world.tiny.text, data, *CODES, "--bert", world.bert) == 0
    assert ": started" not in capfd.readouterr().err
    other = write_bert(repo, tmp_path / "other", vocabulary=80)
    assert prepare(world.tiny.text, data, *CODES, "--bert", other) == 0
    said = capfd.readouterr().err
    assert "bert test: input or option changed, repeated" in said
    assert "encode test: finished earlier, skipped" in said
    assert (data / "test.en-de.en.bert.bin").read_bytes() != before
    # Without --bert it is taken away again.
    assert prepare(world.tiny.text, data, *CODES) == 0
    assert not list(data.glob("*.bert.*"))
    assert json.loads((data / "prepare.json").read_text())["bert"] is None


@pytest.mark.long
def test_a_test_set_prepared_by_reuse_has_the_same_subwords(
    world: BertWorld, tmp_path: Path
) -> None:
    reused = ("--reuse", world.data)
    assert prepare(world.tiny.text, tmp_path / "d", *reused, splits=["test"]) == 0
    name = "test.en-de.en.bert.bin"
    assert (tmp_path / "d" / name).read_bytes() == (world.data / name).read_bytes()


# ---- BERT as context -----------------------------------------------------------------------------


def test_bert_is_in_no_checkpoint_and_its_output_is_kept(world: BertWorld, context: Path) -> None:
    state = torch.load(context, weights_only=True)
    names = list(state["model"])
    assert not any("embeddings" in name or "bert" in name for name in names)
    assert any("context_attn" in name for name in names)
    groups = state["last_optimizer_state"]["param_groups"]
    parameters = [name for name in names if not name.startswith("whitening.")]
    assert sum(len(group["params"]) for group in groups) == len(parameters) - 2  # tied tables
    shards = list((world.data / "bert-features").rglob("*.safetensors"))
    assert shards and not list((world.data / "bert-features").rglob("*.tmp"))
    # The same training again computes nothing that is kept.
    again = world.train("again", *world.start)
    assert sorted((world.data / "bert-features").rglob("*.safetensors")) == sorted(shards)
    second = torch.load(again, weights_only=True)["model"]
    assert all(torch.equal(tensor, second[name]) for name, tensor in state["model"].items())


@pytest.mark.long
def test_every_sentence_of_text_and_split_is_translated(
    world: BertWorld, context: Path, tmp_path: Path
) -> None:
    assert world.translate(context, tmp_path / "text.de") == 0
    lines = (tmp_path / "text.de").read_text(encoding="utf-8").split("\n")
    source = (world.tiny.text / "test.en").read_text(encoding="utf-8").split("\n")
    assert [bool(line) for line in lines] == [bool(line) for line in source]
    done = world.tiny.run.succeed(
        "generate", world.data, *PLUGIN, "--path", context, "--beam", "2", "--max-len-b", "4",
        "--max-tokens", "4000", "--cpu",
    )  # fmt: skip
    assert len(done.lines("D")) == sum(map(bool, source))


def test_features_are_measured_once(world: BertWorld, context: Path, tmp_path: Path) -> None:
    """Before the first update; a run that goes on, on other data too, keeps what it has."""
    first = torch.load(context, weights_only=True)["model"]
    assert not first["whitening.map"].equal(torch.eye(len(first["whitening.mean"])))
    saved = shutil.copytree(context.parent, tmp_path / "saved")
    other = "--train-subset", "valid", "--reset-dataloader", "--max-update", "6"
    done = world.attempt(world.data, saved, *world.start, *other)
    assert done.status == 0, done.stderr
    second = torch.load(saved / "checkpoint_last.pt", weights_only=True)["model"]
    assert not all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    for name in ("mean", "map", "encoder_digest"):
        assert torch.equal(first[f"whitening.{name}"], second[f"whitening.{name}"])


def test_interactive_is_refused_and_says_what_to_do(world: BertWorld, context: Path) -> None:
    done = world.tiny.run(
        "interactive", world.data, *PLUGIN, "--path", context, "--cpu", stdin="a\n"
    )  # fmt: skip
    assert done.status != 0
    assert "use `gtrans translate --input -`" in done.stderr.splitlines()[-1]


def test_a_data_folder_without_subwords_or_with_another_bert(
    world: BertWorld, context: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.translate(context, tmp_path / "out", world.tiny.data) != 0
    assert "holds no subwords of a BERT" in capsys.readouterr().err
    for name, sizes in (("wider", {"hidden_size": 24}), ("other", {})):
        other = another_bert(world.bert, tmp_path / name, **sizes)
        data = shutil.copytree(world.data, tmp_path / f"data-{name}")
        state = json.loads((data / "prepare.json").read_text())
        state["bert"]["name"] = str(other)
        (data / "prepare.json").write_text(json.dumps(state))
        assert world.translate(context, tmp_path / "out", data) != 0
        message = capsys.readouterr().err
        wanted = "is not the one of .*: dim 16, not 24" if name == "wider" else "is not the one"
        assert re.search(wanted, message), message
    assert not (tmp_path / "out").exists()
    # The last of these has the same width: nothing else would keep a run from going on with it.
    saved = shutil.copytree(context.parent, tmp_path / "saved")
    done = world.attempt(data, saved, *world.start, "--max-update", "6")
    assert done.status != 0
    assert "with other settings: BERT's fingerprint" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "options",
    [pytest.param(("bert_context_transformer_tiny", "--combine", "mean", "--bert-integration",
                   "encoder"), marks=pytest.mark.long),
     ("document_aware_transformer_tiny", "--optimizer", "two_rate_adam",
      "--lr-scale-pretrained", "0"),
     pytest.param(("document_aware_transformer_tiny", "--context-input", "bert"),
                  marks=pytest.mark.long)],
)  # fmt: skip
def test_the_baselines_of_the_same_machinery(
    world: BertWorld, tmp_path: Path, options: tuple[str, ...]
) -> None:
    arch, *rest = options
    sentence = world.tiny.checkpoints["sentence"]
    checkpoint = world.train(
        f"baseline-{len(rest)}-{rest[-1]}", arch, *SIZES, "--share-all-embeddings", *rest,
        "--init-from", str(sentence), updates=2,
    )  # fmt: skip
    if "0" in rest:  # the second step of Zhang et al. leaves the sentence model as it is
        trained, begun = (torch.load(p, weights_only=True)["model"] for p in (checkpoint, sentence))
        assert all(torch.equal(trained[name], tensor) for name, tensor in begun.items())
    assert world.translate(checkpoint, tmp_path / "out.de") == 0


# ---- an encoder that is a BERT -------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("arch", "options"),
    [("gtransformer_bert_tiny", ("--encoder-global-layers", "1", "--decoder-global-layers", "1",
      "--cross-global-layers", "1", "--max-doc-tokens", "128")),
     ("flat_transformer_bert_base", ("--flat-bottom-layers", "1"))],
)  # fmt: skip
def test_models_whose_encoder_is_a_bert(
    world: BertWorld, tmp_path: Path, arch: str, options: tuple[str, ...]
) -> None:
    sizes = (*SIZES, "--encoder-embed-dim", "16", "--decoder-ffn-embed-dim", "32")
    first = world.train(arch, arch, *sizes, *options, "--share-decoder-input-output-embed")
    assert world.translate(first, tmp_path / "first.de") == 0
    # Started from: its words are BERT's, not those of the folder's dictionary.
    rest = (*sizes, *options, "--share-decoder-input-output-embed", "--init-from", str(first))
    slow = ("--optimizer", "two_rate_adam", "--lr-scale-pretrained", "1e-3")
    second = world.train(f"{arch}-2", arch, *rest, *slow, updates=1)
    before, after = (torch.load(p, weights_only=True)["model"] for p in (first, second))
    name = "encoder.embed_tokens.weight"
    torch.testing.assert_close(before[name], after[name], atol=1e-5, rtol=0.0)


def test_a_bert_of_another_size_than_the_model(world: BertWorld) -> None:
    done = world.attempt(world.data, world.folder / "wrong", "gtransformer_bert_tiny")
    assert done.status != 0
    last = done.stderr.splitlines()[-1]
    assert "GtransError: `--encoder-embed-dim` is 128, but that of the BERT" in last


def test_code_of_a_bert_is_not_run_by_prepare(
    bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nor is anybody asked; the standard input would say yes."""
    folder = shutil.copytree(bert, tmp_path / "bert")
    config = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'done')!r}).touch()\n"
        "from transformers import PretrainedConfig\nclass Mine(PretrainedConfig): pass\n"
    )
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}").write_text("a\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    command = ["prepare", "--source-lang", "en", "--target-lang", "de", "--bert", str(folder)]
    paths = ["--train", str(tmp_path / "train"), "--out", str(tmp_path / "out")]
    assert main([*command, *paths]) == 1
    streams = capsys.readouterr()
    assert f"gtrans: error: {folder}: cannot load this BERT" in streams.err
    assert not (tmp_path / "done").exists() and "y/N" not in streams.out + streams.err
