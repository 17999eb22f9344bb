"""No command replaces a checkpoint or a part of a data folder by something else."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gtrans.cli import main
from gtrans.decoding import translator
from gtrans.errors import GtransError
from gtrans.files import CHECKPOINT, check_output

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

PARTS = ("prepare.json", "dict.en.txt", "train.en-de.en.bin", "codes.bpe", "truecase.de")


@pytest.fixture
def victims(tiny: TinyWorld, tmp_path: Path) -> list[Path]:
    """Files that the commands below do not read."""
    data = shutil.copytree(tiny.data, tmp_path / "data")
    checkpoint = Path(shutil.copy(tiny.checkpoints["other"], tmp_path / "model.pt"))
    link = tmp_path / "link"
    link.symlink_to(checkpoint)
    return [*(data / name for name in PARTS), checkpoint, link]


def test_translate_and_cxmi(
    tiny: TinyWorld, victims: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = ["--path", str(tiny.checkpoints["document"])]
    source, target = (str(tiny.text / f"test.{lang}") for lang in ("en", "de"))
    for victim in victims:
        before = victim.read_bytes()
        for command in (
            ["translate", *path, "--input", source, "--output", str(victim)],
            ["cxmi", *path, "--src", source, "--ref", target, "--output", str(victim)],
        ):
            assert main(command) == 1
            assert "which must stay" in capsys.readouterr().err
        assert victim.read_bytes() == before


def test_a_checkpoint_may_replace_one_but_no_data(victims: list[Path]) -> None:
    *parts, checkpoint, _ = victims
    check_output("--output", checkpoint, writes=CHECKPOINT)
    for part in parts:
        with pytest.raises(GtransError, match="is a part of a data folder"):
            check_output("--output", part, writes=CHECKPOINT)


def test_an_archive_that_is_no_checkpoint_is_replaced(tmp_path: Path) -> None:
    """A document of Word is a zip archive, too; half an archive may be half a checkpoint."""
    with zipfile.ZipFile(tmp_path / "letter.docx", "w") as archive:
        archive.writestr("word/document.xml", "text")
    check_output("--output", tmp_path / "letter.docx")
    half = (tmp_path / "letter.docx").read_bytes()[:20]
    (tmp_path / "half").write_bytes(half)
    with pytest.raises(GtransError, match="is a checkpoint, which must stay"):
        check_output("--output", tmp_path / "half")


def test_the_texts_of_a_data_folder_stay(tiny: TinyWorld, tmp_path: Path) -> None:
    data = shutil.copytree(tiny.data, tmp_path / "data")
    texts = [path for path in (data / "text").iterdir() if path.is_file()]
    assert texts
    for path in texts:
        with pytest.raises(GtransError, match="is a part of a data folder"):
            check_output("--output", path)
    check_output("--output", data / "text" / "new.txt")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / texts[0].name).write_text("mine\n")
    check_output("--output", tmp_path / "text" / texts[0].name)


def test_a_text_with_such_a_name_elsewhere_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "codes.bpe").write_text("der Hund\n")
    check_output("--output", tmp_path / "codes.bpe")


def test_a_checkpoint_that_is_replaced_while_it_is_read(
    tiny: TinyWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The record would name a model that did not make the translation."""
    path = Path(shutil.copy(tiny.checkpoints["document"], tmp_path / "best.pt"))
    load = translator.load_models

    def load_and_replace(*arguments, **named):
        loaded = load(*arguments, **named)
        shutil.copy(tiny.checkpoints["other"], path)
        return loaded

    monkeypatch.setattr(translator, "load_models", load_and_replace)
    source = str(tiny.text / "test.en")
    command = ["translate", "--path", str(path), "--input", source, "--output"]
    assert main([*command, str(tmp_path / "out")]) == 1
    assert "was replaced while it was read" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
