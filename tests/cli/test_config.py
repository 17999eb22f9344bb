"""``gtrans train --config``: files of configs/, and of one's own."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
import yaml
from fairseq import options
from support.folders import REPO

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.cli import main, train
from gtrans.cli.shared.config_file import config_names, take_config
from gtrans.cli.shared.fairseq_commands import parse
from gtrans.errors import GtransError

CONFIGS = REPO / "configs"
RANDINIT = ("--config", "gtransformer_randinit")
OWN = "model:\n  _name: gtransformer_tiny\n  dropout: 0.2\n"


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a mistake."""
    try:
        status = main(words)
    except SystemExit as end:
        status = int(end.code or 0)
    (line,) = capsys.readouterr().err.splitlines()
    assert status in (1, 2) and line.startswith("gtrans: error: ")
    return line


def parsed(*words: str) -> argparse.Namespace:
    """What ``gtrans train`` reads from these words."""
    config, own = take_config(words)
    assert config is not None
    of_file = config.words_before(own)
    args, unread = parse(
        train, options.get_training_parser, [*of_file, *own], trains=True, ignorable=of_file
    )
    config.check_unread(unread, own, vars(args))
    return args


@pytest.mark.parametrize("name", config_names())
def test_every_file_is_read_in_whole(name: str) -> None:
    """Every key reaches the options, and its meaning or its source stands beside it."""
    text = (CONFIGS / f"{name}.yaml").read_text("utf-8")
    start = ["--init-from", "x"] if "init_from: ???" in text else []
    args = vars(parsed("data", "--config", name, *start))
    for section, group in yaml.safe_load(text).items():
        for key, value in group.items():
            if key not in ("_name", "user_dir") and value != "???":
                found = args.get(key, False)
                assert str(found) == str(value).replace(", ", ",") or float(found) == float(
                    value
                ), key
        if "_name" in group:
            assert args["arch" if section == "model" else section] == group["_name"]
    assert f"#   gtrans train data-bin --config {name} " in text
    assert len(text.splitlines()) < 75 and text.count("  # ") > 10


def keys_of(name: str) -> dict[str, object]:
    """All keys of a file with their values; a ``_name`` is that of its section."""
    keys = {}
    for section, group in yaml.safe_load((CONFIGS / f"{name}.yaml").read_text("utf-8")).items():
        for key, value in group.items():
            keys[section if key == "_name" else key] = value
    return keys


def differing_keys(one: str, other: str) -> set[str]:
    """The keys that only one of two files has, or whose values differ."""
    first, second = keys_of(one), keys_of(other)
    return {key for key in first.keys() | second.keys() if first.get(key) != second.get(key)}


def test_files_that_differ_in_few_keys_say_so_at_their_head() -> None:
    named: dict[str, str] = {}
    for name in config_names():
        head, _, _ = (CONFIGS / f"{name}.yaml").read_text("utf-8").partition("\ncommon:")
        claim = re.search(r"Differs from (\w+)\.yaml in ([\w, ]+)\.", head.replace("\n# ", " "))
        if claim is not None:
            named[name] = claim[1]
            assert set(re.split(", | and ", claim[2])) == differing_keys(name, claim[1]), name
    for name in config_names():
        for other in config_names():
            near = name != other and len(differing_keys(name, other)) <= 2
            assert not near or name in named or other in named, f"{name}, {other}"


def test_flags_win_and_what_another_choice_lacks_is_left_out(capsys) -> None:
    args = parsed("data", "--dropout", "0.5", "--config=tiny", "--arch", "han_transformer_tiny",
                  "--optimizer", "sgd", "--seed", "7")  # fmt: skip
    assert (args.dropout, args.arch, args.optimizer, args.seed) == (
        0.5, "han_transformer_tiny", "sgd", 7
    )  # fmt: skip
    assert args.encoder_embed_dim == 128 and args.lr == [0.002]
    (line,) = capsys.readouterr().err.splitlines()
    assert "adam_betas left out" in line
    assert args.no_epoch_checkpoints
    kept = parsed("data", "--config", "tiny", "--keep-last-epochs", "5")
    assert (kept.no_epoch_checkpoints, kept.keep_last_epochs) == (False, 5)


def test_an_empty_name_of_a_section_without_choices_is_left_out(tmp_path) -> None:
    """As in the configurations that hydra saves."""
    file = tmp_path / "own.yaml"
    file.write_text(f"{OWN}dataset:\n  _name: null\n  max_tokens: 4")
    assert parsed("data", "--config", str(file)).max_tokens == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{OWN}  dropuot: 0.1", "own.yaml: dropuot: there is no such option; did you mean d"),
        (f"modle: {{}}\n{OWN}", "own.yaml: there is no section 'modle'; did you mean m"),
        (f"{OWN}dataset:\n  max_token: 4", "own.yaml: max_token: there is no such option; did"),
        (f"{OWN}dataset:\n  _name: x", "own.yaml: the section 'dataset' has no '_name'."),
        ("model:\n  _name: null\n", "own.yaml: the '_name' of the section 'model' has no value"),
        (f"{OWN}optimizer:\n  _name:\n", "it there, or give `--optimizer`."),
        (f"{OWN}task:\n  init_from: ???", "`--init-from` is missing; own.yaml leaves it open."),
        (f"{OWN}dataset:\n  max_tokens: many", "--max-tokens"),
        ("model:\n  _name: gtransformer_tinny", "did you mean gtransformer_tiny"),
        (f"{OWN}optimizer:\n  _name: adma", "'adma'"),
        (f"defaults: [tiny]\n{OWN}", "own.yaml: a configuration has sections with keys"),
        ("text of another kind", "own.yaml: a configuration has sections with keys"),
        ("model: [", "own.yaml: while parsing"),
        (f"{OWN}  dropout: {'[' * 5000}", "own.yaml: line 4: a configuration has sections with k"),
        (
            "a: &a [x, x]\n" + "".join(
                f"{name}: &{name} [{', '.join(9 * [f'*{before}'])}]\n"
                for before, name in zip("abcdefghi", "bcdefghij", strict=True)
            ),
            "more than 20 aliases; write the values out.",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_one_line(text, message, tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(text)
    assert refusal(capsys, "train", str(tiny.data), "--config", "own.yaml").count(message) == 1


def test_verbose_does_not_hide_the_file_of_a_mistake(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(f"{OWN}  dropuot: 0.1")
    line = refusal(capsys, "train", str(tiny.data), "--config", "own.yaml", "--verbose")
    assert "own.yaml: dropuot: there is no such option; did you mean dropout?" in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config", "gtransformer_finetun"], "did you mean gtransformer_finetune?"),
        (["--config", "own.yaml"], "`--config own.yaml`: there is no such file."),
        (["--config", "zzz"], "there is no such configuration; there are bert_context_decoder, "),
        (["--config"], "`--config` takes one name or file"),
        (["--config", "tiny", "--config", "tiny"], "`--config` takes one name or file"),
        (["--config", "tiny", "--droput", "0.1"], "--droput"),
    ],
)
def test_a_mistake_on_the_command_line(words, message, tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, "train", str(tiny.data), *words)


@pytest.mark.parametrize(
    ("workers", "words", "expected"),
    [
        (1, [], (4, 4096, None)),
        (4, [], (1, 4096, None)),
        (3, ["--update-freq", "6"], (6, 4096, None)),
        (8, [], (1, 2048, None)),
        (2, ["--config", "memory_transformer", "--init-from", "x"], (1, 4096, 4)),
        (3, [], "3 processes cannot share the 16384 tokens of an update"),
    ],
)
def test_devices_share_the_update_of_a_file(workers, words, expected) -> None:
    config, own = take_config(["data", *words, *(() if "--config" in words else RANDINIT)])
    assert config is not None
    args = parsed("data", *words, *(() if "--config" in words else RANDINIT))
    args.distributed_world_size = workers
    if isinstance(expected, str):
        with pytest.raises(GtransError, match=re.escape(expected)):
            config.share_batch(args, own)
    else:
        config.share_batch(args, own)
        assert (args.update_freq[0], args.max_tokens, args.batch_size) == expected


def test_a_file_of_ones_own_has_the_data_too(tiny, tmp_path, monkeypatch) -> None:
    """The whole experiment in one file, which trains."""
    monkeypatch.chdir(tmp_path)
    text = (CONFIGS / "tiny.yaml").read_text("utf-8").replace("data: ???", f"data: {tiny.data}")
    Path("own.yaml").write_text(text)
    assert main(["train", "--config", "own.yaml", "--cpu", "--max-update", "2", "--num-workers",
                 "0", "--encoder-embed-dim", "32", "--save-dir", "out"]) == 0  # fmt: skip
    cfg = read_checkpoint(tmp_path / "out" / "checkpoint_last.pt")["cfg"]
    assert (cfg["model"]["encoder_embed_dim"], cfg["model"]["encoder_layers"]) == (32, 3)
    assert cfg["optimization"]["lr"] == [0.002]
