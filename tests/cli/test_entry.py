"""What every ``gtrans`` command does when it is interrupted, or when nobody reads its output."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from support.suites import others_long

from gtrans.cli import main
from gtrans.cli.shared.dispatch import all_commands, declare, module_of, with_short_errors
from gtrans.environment import log_warnings_only
from gtrans.errors import working_on

# It stands for a library that takes a long time to import.
SLOW = """
import time
print("importing", flush=True)
time.sleep(100)
"""


def test_the_folder_for_fairseqs_own_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--user-dir"])
    assert not ended.value.code
    folder = Path(capsys.readouterr().out.strip())
    assert folder.is_absolute() and (folder / "tasks" / "document_translation.py").is_file()


def start(*arguments: str | Path, path: Path | None = None) -> subprocess.Popen[str]:
    """``gtrans``, with modules from the folder ``path`` before all others."""
    places = [str(path), os.environ.get("PYTHONPATH", "")] if path else [
        os.environ.get("PYTHONPATH", "")
    ]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "gtrans", *map(str, arguments)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, places)),
            "PYTHONUNBUFFERED": "",  # the output stays in memory until the command ends
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("module", "command"),
    [("sacrebleu", "score")],
)
def test_an_interruption_while_modules_are_imported_is_one_line(module, command, tmp_path):
    (tmp_path / f"{module}.py").write_text(SLOW, encoding="utf-8")
    text = tmp_path / "text"
    text.write_text("A sentence.\n", encoding="utf-8")
    files = ("--hyp", text, "--ref", text) if command == "score" else ()
    process = start(command, *files, path=tmp_path)
    assert process.stdout is not None and process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "gtrans: interrupted\n")


@pytest.mark.parametrize(
    ("words", "goes_on"),
    [
        ("prepare --out data-bin", True),
        ("translate --output out.de", True),
        ("translate --input in.en", False),
        ("score", False),
    ],
)
def test_an_interruption_says_whether_the_same_command_goes_on(
    words: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(words: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gtrans.cli.shared.dispatch.dispatch", interrupt)
    assert main(words.split()) == 130
    said = capsys.readouterr().err
    assert said.startswith("gtrans: interrupted")
    assert ("the same command goes on" in said) == goes_on


@pytest.mark.parametrize("command", ["score"])
def test_a_library_that_every_command_needs_is_named(command, tmp_path):
    """As after an installation without dependencies."""
    (tmp_path / "filelock.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'filelock'\", name='filelock')\n"
    )
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'filelock' else find(name)\n"
    )
    output, errors = start(command, path=tmp_path).communicate(timeout=60)
    message = (
        "gtrans: error: the library filelock is not installed; type, in this project's folder: "
    )
    message += "pip install -e '.'.\n"
    assert (output, errors) == ("", message)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("scoer", "there is no command 'scoer'; did you mean score?"),
        ("score --hpy x", "there is no option --hpy; did you mean --hyp?"),
        ("translate --path x --bean=5", "there is no option --bean; did you mean --beam?"),
        ("score -- --hyp x", "--hyp stands behind `--`, where words are no options; put it before"),
        ("score --hyp a --ref b -- --hpy", "-- --hpy; did you mean --hyp? (`gtrans score --help`"),
        ("--force translate --path x", "--force stands before 'translate'; put it behind ("),
        ("--fp16 train data", "--fp16 stands before 'train'; put it behind ("),
        ("contrast --set x --format contrapr0", "did you mean contrapro?"),
        ("analyse curvs", "did you mean curves?"),
        ("translate --path x --beam five", "argument --beam: "),
        ("average x --last-epochs 0", "argument --last-epochs: must be at least 1, but is 0 ("),
        ("score --hyp a --max-doc-tokens 3", "must be at least 8, but is 3 ("),
        ("contrast --set a --context -1", "argument --context: must be at least 0, but is -1 ("),
        ("adapt --every 0", "argument --every: must be at least 1, but is 0 ("),
    ],
)
def test_a_misspelt_word_is_one_line_with_the_nearest(words, hint, capsys):
    with pytest.raises(SystemExit, match="^2$"):
        main(words.split())
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("gtrans: error: ") and hint in line and not printed.out


@pytest.mark.parametrize(
    ("at", "error", "line"),
    [
        (working_on("a.en"), OSError(5, "No device", "model.pt"), "a.en: model.pt: No device"),
        (working_on("a.en"), RuntimeError("\n no\n k"), "a.en: RuntimeError: no"),
        (working_on("a.en"), KeyError("cfg"), "a.en: KeyError: 'cfg'"),
        (working_on("a.en"), MemoryError(), "a.en: MemoryError"),
        (nullcontext(), ValueError("unequal"), "gtrans score: ValueError: unequal"),
    ],
)
def test_an_unexpected_error_is_one_line(at, error, line, monkeypatch, capsys):
    with suppress(type(error)), at:
        raise error

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("gtrans.cli.score.run", fails)
    words = ["score", "--hyp", "a", "--ref", "b"]
    assert main(words) == 1
    message = f"gtrans: error: {line}"
    assert capsys.readouterr().err == f"{message} (--verbose shows where)\n"
    assert main([*words, "--verbose"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback") and shown.endswith(f"{message}\n")


@pytest.mark.parametrize(
    "command",
    others_long(["--help", "score --help", "train --help-all", "show"], ["--help"]),
)
def test_a_closed_pipe_is_no_error_message(command, tiny):
    more = (tiny.checkpoints["document"],) if command == "show" else ()
    process = start(*command.split(), *more)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    assert (process.wait(timeout=100), errors) == (141, "")


@pytest.mark.parametrize("command", ["translate", "train"])
def test_help_before_a_command_lists_all_commands(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help", command])
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert all(f"\n    {command}" in shown for command in all_commands())


@pytest.mark.parametrize("value", ["1", "True", "yes"])
def test_commands_refuse_to_run_where_checkpoints_may_hold_code(value, monkeypatch, capsys):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", value)
    assert main(["show", "checkpoint.pt"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"gtrans: error: the environment has TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD={value}, with which"
    )


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser of every command."""
    for command in all_commands():
        module = module_of(command)
        parts = [f"{module.PARTS_IN}.{part}" for part in getattr(module, "PARTS", ())]
        for one in [module, *map(importlib.import_module, parts)]:
            if hasattr(one, "add_arguments"):
                parser = argparse.ArgumentParser(prog=f"gtrans {command}")
                declare(with_short_errors(parser), one)
                yield one.__name__, parser


def test_an_option_for_several_words_keeps_all_of_them_when_given_again() -> None:
    actions = [
        (parser, action)
        for _, parser in parsers()
        for action in parser._actions
        if action.option_strings and action.nargs in ("+", "*")
    ]
    assert len(actions) > 20
    for parser, action in actions:
        given = argparse.Namespace(**{action.dest: action.default})
        for words in (["a"], ["b", "c"]):
            action(parser, given, words, action.option_strings[0])
        assert getattr(given, action.dest) == ["a", "b", "c"], (parser.prog, action.option_strings)


def test_help_begins_with_positionals_and_shows_every_default() -> None:
    for name, parser in parsers():
        usage = parser.format_usage()
        assert usage.endswith(" [OPTION ...]\n"), name
        for action in parser._actions:
            if (
                action.option_strings
                and action.nargs != 0
                and action.default not in (None, "", [], ())
            ):
                assert "default" in str(action.help), (name, action.option_strings)
            elif not action.option_strings:
                assert usage.index(str(action.metavar)) < usage.find(" --") % 10**6, name


def test_what_libraries_log_for_their_makers_is_not_shown(monkeypatch) -> None:
    """One of fairseq's modules, imported before a command runs, shows all of it."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", logging.DEBUG)
    log_warnings_only()
    assert root.getEffectiveLevel() == logging.WARNING
