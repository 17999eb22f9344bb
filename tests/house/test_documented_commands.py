"""Every command in README and documentation is one that can be typed.

Each line of a block `sh`, or of one without a language, is a command of this project, which is read
by the parser that runs it, or of another program, which is named here; what a command prints is a
block `text`. Commands within sentences are read as well. Most are only read: they need a corpus, a
GPU or hours. Those of the quickstart are typed in an empty folder.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from fairseq import options

from gtrans.cli import train
from gtrans.cli.shared.config_file import take_config
from gtrans.cli.shared.dispatch import all_commands, module_of
from gtrans.cli.shared.fairseq_commands import parse

REPO = Path(__file__).parents[2]
PAGES = [
    *(REPO / name for name in ("README.md", "CONTRIBUTING.md", "exp_gtransformer/README.md")),
    # The tutorial is about a system that is not here; test_adding_a_system.py types its commands.
    *sorted(set((REPO / "docs").rglob("*.md")) - {REPO / "docs" / "adding-a-system.md"}),
]
FENCE = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
COMMAND_BLOCKS, OTHER_BLOCKS = {"", "sh"}, {"text", "json", "python"}
# Programs that stand in examples and are not this project's, and words of the shell.
OTHERS = {"pip", "kill", "comet-score", "java", "ruff", "git", "pytest", "zcat", "hf"}
OTHERS |= {"ct2-fairseq-converter", "for", "done"}
OURS = {"gtrans", "make", "python", "torchrun", "srun", "sbatch"}
AUTHORS = {"baselines/run-doc.sh"}
FAIRSEQ: dict[str, Callable[..., argparse.ArgumentParser]] = {
    "train": options.get_training_parser,
    "generate": options.get_generation_parser,
    "validate": options.get_validation_parser,
    "interactive": options.get_interactive_generation_parser,
}
PLACEHOLDER = re.compile(r"\.\.\.?|\[.*|\w+\.\.")
ASSIGNMENTS = re.compile(r"^(\w+=\S* )+")


def commands(text: str) -> Iterator[str]:
    """The commands in the blocks of a page, each on one line."""
    for block in FENCE.finditer(text):
        assert block[2] in COMMAND_BLOCKS | OTHER_BLOCKS, f"a block of unknown kind: {block[0]}"
        if block[2] in COMMAND_BLOCKS:
            for line in re.sub(r"\\\n", "", block[3]).splitlines():
                if line.strip() and not line.strip().startswith("#"):
                    yield line.strip()


def mentions(text: str) -> Iterator[str]:
    """The commands within the sentences of a page; a program's name alone is none."""
    prose = FENCE.sub("", text)
    assert "```" not in prose and not re.search(r"^ {4,}gtrans ", prose, re.MULTILINE)
    for span in re.findall(r"`([^`]+)`", prose):
        words = ASSIGNMENTS.sub("", " ".join(span.replace("\\|", "|").split())).split()
        first = words[0] if words else ""
        if first.endswith((".sh", ".sbatch")) or (
            len(words) > 1
            and (
                first in OURS | OTHERS - {"for"}
                or first.startswith(("fairseq-", "scripts/", "exp_gtransformer/"))
            )
        ):
            yield " ".join(words)


def wrong(text: str) -> list[str]:
    """The commands of a page that cannot be typed, each with the reason."""
    found = []
    text = text.replace("$(gtrans --user-dir)", "gtrans")
    lines = [(line, True) for line in commands(text)] + [(one, False) for one in mentions(text)]
    for line, in_block in lines:
        try:
            check(shlex.split(line, comments=True), in_block)
        except (Exception, SystemExit) as error:
            found.append(f"{line}\n    {error!r}")
    return found


@cache
def parser_of(module: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=module)
    importlib.import_module(module).add_arguments(parser)
    return parser


@cache
def help_of(script: Path) -> str:
    done = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(words: list[str], in_block: bool = True) -> None:
    """Read the words of a command by what would run it; a mention may leave words out."""
    while words and "=" in words[0] and not words[0].startswith("-"):
        words = words[1:]
    whole = in_block and not any(PLACEHOLDER.fullmatch(word) for word in words)
    first, rest = words[0], [word for word in words[1:] if not PLACEHOLDER.fullmatch(word)]
    for end in ("&&", "|", "<", ">", ">>", ";", "&"):
        rest = rest[: rest.index(end)] if end in rest else rest
    if first in ("torchrun", "srun"):
        if "gtrans" in words or whole:
            check(words[words.index("gtrans") :])
    elif first == "make":
        targets = re.findall(r"^([a-z-]+):", (REPO / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in rest if "=" not in word} <= set(targets)
    elif first == "python" or first.endswith(".py"):
        check_script(rest if first == "python" else [first, *rest])
    elif first.endswith((".sh", ".sbatch")):
        check_recipe(first, rest)
    elif first == "sbatch":
        check_recipe(rest[0], [])
        check_recipe(f"exp_gtransformer/{rest[1]}", rest[2:])
    elif first == "gtrans" and rest[0] not in ("train", "generate"):
        check_own(rest, whole)
    elif first == "gtrans" or first.startswith("fairseq-"):
        name, rest = (rest[0], rest[1:]) if first == "gtrans" else (first[8:], rest)
        if name == "train" and not in_block and not (rest and rest[0] == "data"):
            rest = ["data", *rest]
        check_fairseq(name, rest)
    else:
        assert first in OTHERS, f"'{first}' is no program that is known here"


def check_own(words: list[str], whole: bool) -> None:
    if words[0].startswith("-"):
        assert words[0] in ("--help", "--version", "-h", "--user-dir")
        return
    if words[0] == "COMMAND":
        return
    assert words[0] in all_commands(), f"there is no command '{words[0]}'"
    module = module_of(words[0])
    rest = words[1:]
    if rest and rest[0] in getattr(module, "PARTS", ()):
        module, rest = importlib.import_module(f"{module.PARTS_IN}.{rest[0]}"), rest[1:]
    rest = rest[: rest.index("--")] if "--" in rest else rest
    if "--help" in rest:
        return
    parser = parser_of(module.__name__)
    if whole:
        parser.parse_args(rest)
    else:
        known = parser._option_string_actions
        assert {word for word in rest if word.startswith("--")} <= set(known)


def check_fairseq(name: str, words: list[str]) -> None:
    if {"--help", "--help-all"} & set(words):
        return
    if name == "hydra-train" or "--config-dir" in words:
        if "--config-name" in words:
            config = words[words.index("--config-name") + 1]
            assert config == "NAME" or (REPO / "configs" / f"{config}.yaml").is_file(), config
        return
    if name == "preprocess":
        options.get_preprocessing_parser().parse_args(words)
        return
    trains = name == "train"
    if trains:
        config, words = take_config(["tiny" if word == "NAME" else word for word in words])
        if config is not None:
            words = [*words, "--init-from", "x"]
            words = [*config.words_before(words), *words]
    if trains and not any(word.partition("=")[0] == "--arch" for word in words):
        words = [*words, "--arch", "gtransformer_tiny"]
    if "--user-dir" in words:  # it may be any plugin's; here it is this one
        words[words.index("--user-dir") + 1] = str(REPO / "gtrans")
    if trains:
        parse(train, FAIRSEQ[name], words, trains=True)
    else:
        early = FAIRSEQ[name](default_task="document_translation")
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        ours = parser_flags()
        assert flags <= {*early._option_string_actions, *ours}, flags


@cache
def parser_flags() -> frozenset[str]:
    """The options of this project's task."""
    from dataclasses import fields

    from gtrans.tasks.options import DocumentTranslationConfig

    names = (field.name for field in fields(DocumentTranslationConfig))
    return frozenset(f"--{name.replace('_', '-')}" for name in names)


def check_script(words: list[str]) -> None:
    if words[0] == "-m":
        return
    path = REPO / words[0]
    assert path.is_file(), path
    source = "".join(file.read_text(encoding="utf-8") for file in path.parent.glob("*.py"))
    for word in words[1:]:
        if word.startswith("--"):
            assert f'"{word}"' in source, word


def check_recipe(name: str, words: list[str]) -> None:
    if name in AUTHORS:
        return
    path = REPO / name
    if not path.is_file():  # named from a copy of the folder, or from within it
        path = REPO / "exp_gtransformer" / name.rpartition("exp_gtransformer/")[2]
    assert path.is_file(), name
    own = words[: words.index("--")] if "--" in words else words
    flags = {word.partition("=")[0] for word in own if word.startswith("--")}
    if flags:
        said = help_of(path)
        assert flags <= set(re.findall(r"--[a-z][a-z-]*", said)), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_every_command_can_be_typed(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPO)
    assert not wrong(page.read_text(encoding="utf-8"))


def test_the_commands_are_found() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert sum(len(list(mentions(text))) for text in texts) > 150
    typed = [line for text in texts for line in commands(text)]
    assert len(typed) > 80
    assert {line.split()[1] for line in typed if line.startswith("gtrans ")} >= {
        *("prepare", "train", "translate", "score", "contrast", "analyse", "average"),
    }


def quickstart_commands() -> list[str]:
    page = (REPO / "docs" / "quickstart.md").read_text(encoding="utf-8")
    text = page.partition("\n## Translate my documents now")[0]
    return [line for line in commands(text) if line.startswith("gtrans ")]


@pytest.mark.long
def test_the_quickstart_is_typed_in_an_empty_folder(tmp_path: Path) -> None:
    """All commands as they stand, on the CPU."""
    output = ""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "gtrans"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m gtrans "$@"\n')
    script.chmod(0o755)
    here = tmp_path / "empty"
    here.mkdir()
    places = {
        "PATH": f"{script.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPO),
        "CUDA_VISIBLE_DEVICES": "",
    }
    for command in quickstart_commands():
        done = subprocess.run(
            ["bash", "-c", command], cwd=here, env={**os.environ, **places},
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stderr[-2000:]}"
        output += done.stdout
    lines = [
        (here / name).read_text("utf-8").split("\n") for name in ("document.de", "corpus/test.en")
    ]
    assert [line == "" for line in lines[0]] == [line == "" for line in lines[1]]
    assert "s-BLEU" in output and "pronoun" in output


@pytest.mark.parametrize(
    "text",
    [
        "```\ngtran score --hyp a --ref b\n```\n",
        "```sh\ngtrans score --hyp a --reff b\n```\n",
        "```json\n{}\n```\nas `gtrans scores` says\n```sh\nmake test\n```\n",
        "as `gtrans train --lrr 1` says",
        "as `make nothing` says",
        "as `python scripts/nothing.py` says",
        "as `exp_gtransformer/run-nothing.sh` says",
        "as `run-memory.sh --nothing` says",
    ],
)
def test_what_cannot_be_typed_is_found(text: str) -> None:
    assert len(wrong(text)) == 1
