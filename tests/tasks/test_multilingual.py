"""Sampling of languages by a temperature that rises from epoch to epoch."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.tiny_models import TinyWorld

from gtrans.tasks.multilingual import LinearTemperature


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--min-sampling-temperature", "2", "--sampling-temperature", "1.5"),
         "`--min-sampling-temperature` must be above 0 and at most `--sampling-temperature` 1.5"),
        (("--sampling-warmup-epochs", "0"), "`--sampling-warmup-epochs` must be at least 1"),
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
    assert done.status != 0 and "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(f"gtrans: error: {message}")
