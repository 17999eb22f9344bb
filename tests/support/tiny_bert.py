"""A tiny BERT in the standard folder format, made from the embedded corpus."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from support.synthetic_corpus import prepare
from support.tiny_models import TinyWorld

SENTENCES = [
    "The dog sees the red house.",
    "It was never sad.",
    "Where is the guard of the house?",
    "The mother bought a table and a lamp.",
    "He sold it later.",
    "The table was never colourful.",
]


def script(repo: Path) -> ModuleType:
    """``scripts/make_bert.py``."""
    spec = importlib.util.spec_from_file_location("make_bert", repo / "scripts" / "make_bert.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_bert(repo: Path, folder: Path, **sizes: int) -> Path:
    """Make a BERT in ``folder``: untrained, 2 layers of width 16 unless ``sizes`` say more."""
    options = {"vocabulary": 200, "layers": 2, "dim": 16, "heads": 2, **sizes}
    script(repo).make_bert(folder, [SENTENCES * 3], **options)
    return folder


def another_bert(bert: Path, folder: Path, **changes: int) -> Path:
    """The same subwords with other weights; ``changes`` are options of BertConfig."""
    import torch
    from transformers import BertConfig, BertModel

    shutil.copytree(bert, folder)
    torch.manual_seed(99)
    config = BertConfig.from_pretrained(str(bert), **changes)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def prepared_with_bert(
    tiny: TinyWorld, bert: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The data folder of the tiny corpus, with the subwords of the tiny BERT."""
    folder = tmp_path_factory.mktemp("with-bert") / "data"
    assert prepare(tiny.text, folder, "--bpe-merges", "300", "--bert", bert) == 0
    return folder


@pytest.fixture(scope="session")
def bert(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny BERT."""
    return write_bert(repo, tmp_path_factory.mktemp("bert"))
