"""Sampling of languages by a temperature that rises from epoch to epoch."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.runs import refusal
from support.tiny_models import TinyWorld

from gtrans.tasks.multilingual import LinearTemperature

SMALL = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "32"),
    *("--encoder-ffn-embed-dim", "32", "--decoder-ffn-embed-dim", "32", "--share-all-embeddings"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
)


def test_temperature_of_the_program() -> None:
    """From 1 to 5 after five epochs: in the sixth, and then no higher."""
    args = SimpleNamespace(
        sampling_method="", sampling_temperature=5.0, min_sampling_temperature=1.0,
        sampling_warmup_epochs=5,
    )  # fmt: skip
    sampling = LinearTemperature(args, None)
    temperatures = [sampling.temperature(epoch) for epoch in range(1, 8)]
    assert temperatures == pytest.approx([1.0, 1.8, 2.6, 3.4, 4.2, 5.0, 5.0])
    assert sampling.sampling_method_selector()([900, 100]) == pytest.approx([0.9, 0.1])
    sampling.epoch = 6
    drawn = sampling.sampling_method_selector()([900, 100])
    assert drawn[0] / drawn[1] == pytest.approx(9 ** (1 / 5))


def drawn(log: str, what: str) -> list[float]:
    """How much more often the first corpus is drawn than the second, each time that is drawn."""
    found = re.findall(rf"\[train\] {what} sizes: (.*?);", log)
    sizes = [[int(number) for number in re.findall(r"\d+(?=[,)}])", part)] for part in found]
    return [first / second for first, second in sizes]


def test_every_epoch_is_drawn_at_its_temperature(tiny: TinyWorld, tmp_path: Path) -> None:
    """Temperatures 1, 3, 5; a run that goes on begins with that of its epoch."""
    data, logs = tmp_path / "data", []
    shutil.copytree(tiny.data, data)
    for name in ("en.bin", "en.idx", "de.bin", "de.idx"):
        shutil.copy(data / f"valid.en-de.{name}", data / f"train.de-en.{name}")
    for epochs in (2, 3):
        done = tiny.run.succeed(
            "train", data, "--user-dir", "gtrans", "--task", "translation_multi_linear",
            "--langs", "en,de", "--lang-pairs", "en-de,de-en", "--arch", "gtrans_fusion_tiny",
            *SMALL, "--optimizer", "adam", "--max-tokens", "20000", "--cpu", "--num-workers", "0",
            "--sampling-temperature", "5", "--sampling-warmup-epochs", "2", "--disable-validation",
            "--max-epoch", str(epochs), "--save-dir", tmp_path / "run",
        )  # fmt: skip
        logs.append(done.stdout + done.stderr)
    ratio = drawn(logs[0], "Raw")[0]
    assert ratio > 1.5
    expected = [ratio ** (1 / temperature) for temperature in (1, 3, 5)]
    assert drawn(logs[0], "Resampled") == pytest.approx(expected, rel=0.02)
    assert drawn(logs[1], "Resampled")[0] == pytest.approx(expected[2], rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--min-sampling-temperature", "2", "--sampling-temperature", "1.5"),
         "`--min-sampling-temperature` 2.0 must be above 0 and at most `--sampling-temperature`"),
        (("--sampling-warmup-epochs", "0"), "`--min-sampling-temperature` 1.0 must be above 0 "),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    options: tuple[str, ...], message: str, tiny: TinyWorld, tmp_path: Path
) -> None:
    done = tiny.run(
        "train", tiny.data, "--user-dir", "gtrans", "--task", "translation_multi_linear",
        "--langs", "en,de", "--lang-pairs", "en-de,de-en", "--arch", "gtrans_fusion_tiny",
        "--optimizer", "adam", "--max-tokens", "100", "--cpu", "--save-dir", tmp_path, *options,
    )  # fmt: skip
    assert refusal(done).startswith(message)
