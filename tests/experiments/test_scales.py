"""Settings of a scale: what a user changes reaches commands and the names of folders."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import find, read_catalogue
from gtrans.experiments.plan import plan
from gtrans.experiments.planned import Planned, Wish
from gtrans.experiments.scales import filled, read_scale
from gtrans.shipped import shipped

OUT = Path("/out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("updates=x", "must be a whole number"),
        ("update=3", "no setting 'update'"),
        ("merges=100", "no setting 'merges' .it has updates, .* bpe-merges"),
        ("updates", "must be a whole number"),
    ],
)
def test_a_wrong_setting_is_refused(change: str, message: str) -> None:
    with pytest.raises(GtransError, match=message):
        read_scale("tiny", [change])


def test_all_updates_are_set_where_all_trainings_have_a_setting() -> None:
    """Else a table of recipes without one would be made at full size in the folder of a trial."""
    with pytest.raises(GtransError, match=r"scale paper no setting has the updates of randinit, "):
        read_scale("paper", ["updates=20"])
    assert read_scale("paper", ["first-updates=20"]).settings["first-updates"] == "20"
    for name in ("tiny", "small"):
        scale = read_scale(name, ["updates=20"])
        changed = {key for key, value in scale.settings.items() if value == "20"}
        assert changed == {key for key in scale.settings if key.endswith("-updates")}


def test_settings_reach_commands_and_folders() -> None:
    scale = read_scale("tiny", ["updates=7", "beam=1"])
    assert scale.label == "tiny.beam-1.updates-7"
    assert scale.settings["document-updates"] == scale.settings["bert-updates"] == "7"
    assert filled(["--beam", "{beam}"], scale.settings) == ["--beam", "1"]
    with pytest.raises(GtransError, match="there is no such value"):
        filled(["{bean}"], scale.settings)


@pytest.mark.parametrize("name", ["results-debian", "000-T6", "002-T6"])
def test_mixed_precision_is_of_every_training_and_has_a_folder_of_its_own(
    name: str, tmp_path: Path
) -> None:
    def trainings(amp: bool) -> tuple[list[list[str]], Planned]:
        scale = read_scale("tiny", ["beam=1"], amp=amp)
        jobs, (table,) = plan(find(read_catalogue(), [name]), Wish(scale, OUT, tmp_path, (), (1,)))
        stages = [job.argv for job in jobs.jobs if "--stage" in job.argv]
        return [list(it) for it in stages if stage(it) in ("sentence", "document")], table

    def stage(argv: Sequence[str]) -> str:
        return argv[argv.index("--stage") + 1]

    (plain, _), (mixed, table) = trainings(False), trainings(True)
    folder = OUT.resolve() / "tiny.amp.beam-1"
    assert table.folder == folder and table.command[-3:] == ["--amp", "--set", "beam=1"]
    assert plain and len(plain) == len(mixed)
    for one, other in zip(plain, mixed, strict=True):
        # the same words, and one more at the end of those for training
        same = [word.replace(str(OUT.resolve() / "tiny.beam-1"), str(folder)) for word in one]
        assert other == [*same, "--amp"] and "--" in other


def test_a_plan_has_no_path_of_the_program(tmp_path: Path) -> None:
    """A program that is moved, or installed again, is the same program: its jobs stay finished."""
    chosen = find(read_catalogue(), ["results-limits", "000-T6", "002-T6"])
    jobs, _ = plan(chosen, Wish(read_scale("tiny"), tmp_path, tmp_path, (), (1,)))
    words = [word for job in jobs.jobs for word in (*job.argv, *job.reads)]
    assert "run-compare.sh" in words
    assert not [word for word in words if str(shipped("")) in word or sys.prefix in word]


def test_the_order_of_settings_means_nothing() -> None:
    changes = ["document-updates=9", "updates=7"]
    one, two = (read_scale("tiny", words) for words in (changes, changes[::-1]))
    assert one == two and one.settings["document-updates"] == "9"
    assert one.settings["sentence-updates"] == "7"
    with pytest.raises(GtransError, match="`--set` has several values for beam"):
        read_scale("tiny", ["beam=1", "beam=2"])
