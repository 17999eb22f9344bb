"""``gtrans adapt``: a document model out of a sentence model, chosen only if it is better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import torch

from gtrans.cli import main
from gtrans.cli.adapt import conclusion
from gtrans.evaluation.choosing import Verdict
from gtrans.train.signals import STOPPED

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld


def adapt(path: Path, text: Path, out: Path, *further: str) -> int:
    texts = [
        word for name in ("train", "valid", "test") for word in (f"--{name}", str(text / name))
    ]
    return main(["adapt", "--path", str(path), *texts, "--source-lang", "en", "--target-lang", "de",
                 "--out", str(out), "--cpu", *further])  # fmt: skip


@pytest.fixture
def text(tiny: TinyWorld, tmp_path: Path) -> Path:
    """The first documents of the corpus; those of the development set have two sentences."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, documents in (("train", 40), ("valid", 30), ("test", 2)):
        for lang in ("en", "de"):
            whole = (tiny.text / f"train.{lang}").read_text("utf-8").split("\n\n")[:documents]
            if name == "valid":
                whole = ["\n".join(document.split("\n")[:2]) for document in whole]
            (folder / f"{name}.{lang}").write_text("\n\n".join(whole) + "\n", "utf-8")
    return folder


def test_as_a_user_types_it(tiny: TinyWorld, text: Path, tmp_path: Path, capsys: object) -> None:
    """Again, it does nothing that is done; the best model has the highest score and translates.

    All models name the published one that they were made of.
    """
    out, path = tmp_path / "my", tmp_path / "opus.pt"
    state = torch.load(tiny.checkpoints["sentence"], weights_only=True)
    state["task_state"]["published"] = {"name": "opus-mt", "licence": "cc-by-4.0"}
    torch.save(state, path)
    sizes = ("--max-update", "4", "--num-workers", "0", "--max-tokens", "512")
    options = ("--every", "2", "--", *sizes)
    assert adapt(path, text, out, *options) == 0
    printed = capsys.readouterr().out  # type: ignore[attr-defined]
    for words in (
        "Development set, the documents that choose:",
        "Test set:",
        "d-BLEU",
        "sentence",
        "continued",
        "document",
    ):
        assert words in printed
    (line,) = [line for line in printed.split("\n") if line.startswith(f"{out / 'best.pt'}: ")]
    models = {
        "the sentence model itself;": path,
        "the sentence model, continued;": out / "continued.pt",
        "the document model;": out / "document.pt",
    }
    (best,) = [model for words, model in models.items() if words in line]
    assert (out / "best.pt").read_bytes() == best.read_bytes()
    assert line.count("d-BLEU (") == line.count(", p ") == line.count("(20 documents)") == 2
    documents = {part: (out / "valid" / f"{part}.en").read_text("utf-8").count("\n\n") + 1
                 for part in ("stopping", "choosing")}  # fmt: skip
    assert documents == {"stopping": 10, "choosing": 20}
    assert "held out: continued " in printed
    kept = {file: file.stat().st_mtime_ns for file in out.glob("*/checkpoint*.pt")}
    assert adapt(path, text, out, *options) == 0
    assert {file: file.stat().st_mtime_ns for file in out.glob("*/checkpoint*.pt")} == kept
    again = capsys.readouterr().out  # type: ignore[attr-defined]
    assert line in again
    assert adapt(path, text, out, "--choose", "document", *options) == 0
    assert f"{out / 'best.pt'}: the document model (--choose); " in capsys.readouterr().out  # type: ignore[attr-defined]
    assert (out / "best.pt").read_bytes() == (out / "document.pt").read_bytes()
    for name in ("continued.pt", "document.pt"):
        assert main(["show", str(out / name)]) == 0
        assert "cc-by-4.0" in capsys.readouterr().out  # type: ignore[attr-defined]
    made = (out / "document.pt").stat().st_mtime_ns
    assert adapt(path, text, out, *options, "--restart") == 0
    assert (out / "document.pt").stat().st_mtime_ns > made
    assert (out / "document" / "before-restart-1").is_dir()
    output = tmp_path / "out.de"
    words = ["translate", "--path", str(out / "document.pt"), "--input", str(text / "test.en")]
    assert main([*words, "--output", str(output), "--cpu"]) == 0
    lines = (text / "test.en").read_text("utf-8").count("\n")
    assert output.read_text("utf-8").count("\n") == lines


def test_what_the_last_line_says() -> None:
    better = Verdict("document", 1.5, 0.01, (0.2, 2.8), 52)
    worse = Verdict("continued", -0.8, 0.99, (-1.2, -0.4), 52)
    line = conclusion("document", [worse, better])
    assert line == (
        "the document model; continued -0.80 d-BLEU (-1.20 to -0.40), p 0.9900, worse (52 "
        "documents); document +1.50 d-BLEU (+0.20 to +2.80), p 0.0100, better (52 documents)"
    )
    undecided = Verdict("document", 0.06, 0.45, (-0.84, 1.03), 52)
    assert "p 0.4500, undecided (52" in conclusion("sentence", [undecided])
    few = Verdict("document", 9.0, 0.001, (5.0, 12.0), 19)
    assert conclusion("sentence", [few]) == (
        "the sentence model itself; document +9.00 d-BLEU (+5.00 to +12.00), too few documents to "
        "decide (19)"
    )


def test_few_documents_choose_nothing(
    tiny: TinyWorld, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for lang in ("en", "de"):
        path = text / f"valid.{lang}"
        path.write_text("\n\n".join(path.read_text("utf-8").split("\n\n")[:29]) + "\n", "utf-8")
    sizes = ("--max-update", "2", "--num-workers", "0", "--max-tokens", "512")
    options = ("--every", "2", "--", *sizes)
    assert adapt(tiny.checkpoints["sentence"], text, tmp_path / "my", *options) == 0
    printed = capsys.readouterr()
    assert "29 documents, too few to choose a model by (30 are needed)" in printed.err
    assert "best.pt: the sentence model itself; undecided, too few documents to" in printed.out
    assert "valid: 58 of 58 sentence pairs are also in train" in printed.err
    assert (tmp_path / "my" / "valid" / "stopping.en").read_text("utf-8").count("\n\n") == 28


DECIDED = "error: `{word}` behind `--`: "


class Mistake(NamedTuple):
    """Words and SACREBLEU_SEED of a command, and its error message."""

    words: tuple[str, ...]
    message: str
    seed: str = "12345"


MISTAKES = {
    **{
        f"decided: {words}": Mistake(("--", *words.split()), DECIDED)
        for words in (
            "--unit sentence",
            "--save-dir=elsewhere",
            "--save-di elsewhere",
            "--arch gtransformer_base",
            "-a gtransformer_base",
            "--init-from other.pt",
            "--encoder-layers 2",
            "--validate-interval-updates 5",
            "--keep-best-checkpoints 1",
            "--target-lang fr",
        )
    },
    "swapped languages": Mistake(
        ("--source-lang", "de", "--target-lang", "en"),
        "it translates from en to de; give `--source-lang en --target-lang de`",
    ),
    "no sentence model": Mistake(
        ("--path", "{document}"), "of the unit document; give a sentence model"
    ),
    "no subwords": Mistake(("--path", "{bare}"), "it does not store its subwords"),
    "no checkpoint": Mistake(("--path", "{missing}"), "no.pt: there is no such checkpoint"),
    "seed": Mistake((), "`SACREBLEU_SEED` must be a number or none, but is '4x'", seed="4x"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(
    mistake: Mistake,
    tiny: TinyWorld,
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = torch.load(tiny.checkpoints["sentence"], weights_only=True)
    del state["task_state"]["fingerprint"]
    torch.save(state, tmp_path / "bare.pt")
    places = {
        "{document}": str(tiny.checkpoints["document"]),
        "{bare}": str(tmp_path / "bare.pt"),
        "{missing}": str(tmp_path / "no.pt"),
    }
    given = [places.get(word, word) for word in mistake.words]
    monkeypatch.setenv("SACREBLEU_SEED", mistake.seed)
    capsys.readouterr()
    assert adapt(tiny.checkpoints["sentence"], text, tmp_path / "my", *given) == 1
    error = capsys.readouterr().err
    message = mistake.message
    if message == DECIDED:
        message = message.format(word=mistake.words[1])
    assert message in error and error.count("\n") == 1, error
    assert not (tmp_path / "my").exists()


# A plugin of the user's that is the project's, and sends this process a signal in the last update.
SIGNALLING = """
import os, signal, time
import gtrans
from gtrans.train.trainer import RunTrainer

step = RunTrainer.train_step

def train_step(self, *args, **more):
    logged = step(self, *args, **more)
    if self.get_num_updates() == 2:
        RunTrainer.train_step = step
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.3)  # it is on its way
    return logged

RunTrainer.train_step = train_step
"""


def test_a_signal_in_the_last_update_of_a_training(
    tiny: TinyWorld, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first training is complete; the second one does not begin."""
    plugin = tmp_path / "signalling_last"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(SIGNALLING, "utf-8")
    sizes = ("--max-update", "2", "--num-workers", "0", "--max-tokens", "512")
    options = ("--every", "2", "--", *sizes, "--user-dir", str(plugin))
    with pytest.raises(SystemExit) as end:
        adapt(tiny.checkpoints["sentence"], text, tmp_path / "my", *options)
    assert end.value.code == STOPPED
    assert (tmp_path / "my" / "continued").is_dir()
    assert not (tmp_path / "my" / "document").exists()


@pytest.mark.long
def test_the_document_model_wins_where_context_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the synthetic corpus, whose pronouns depend on earlier sentences; on both sets."""
    pytest.importorskip("gtrans.lab")
    corpus, data, out = (tmp_path / name for name in ("corpus", "data", "my"))
    languages = ("--source-lang", "en", "--target-lang", "de")
    assert main(["make-corpus", "--docs", "3000", "--items", "20", "--out", str(corpus)]) == 0
    texts = ("--train", str(corpus / "train"), "--valid", str(corpus / "valid"))
    assert main(["prepare", *languages, *texts, "--out", str(data)]) == 0
    train = ("--config", "tiny", "--unit", "sentence", "--max-update", "400", "--cpu")
    assert main(["train", str(data), *train, "--save-dir", str(tmp_path / "sentence")]) == 0
    options = ("--every", "100", "--", "--lr", "2e-3", "--warmup-updates", "100")
    sizes = ("--max-tokens", "1024", "--max-update", "400", "--num-workers", "0")
    capsys.readouterr()
    assert adapt(tmp_path / "sentence" / "checkpoint_best.pt", corpus, out, *options, *sizes) == 0
    printed = capsys.readouterr().out
    for words in (f"{out / 'best.pt'}: the document model; ", "held out: continued +"):
        assert words in printed
