"""``gtrans train --config``: a YAML file of configs/ or of the user's own.

Its keys, as for fairseq-hydra-train, become words before the user's, which therefore win.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gtrans.environment import project_file
from gtrans.errors import GtransError, did_you_mean
from gtrans.messages import print_message

FOLDER = "configs"
FLAG = "--config"
_MISSING = "???"
_SECTIONS = (
    "common",
    "task",
    "model",
    "criterion",
    "optimizer",
    "lr_scheduler",
    "optimization",
    "dataset",
    "distributed_training",
    "checkpoint",
    "ema",
    "bmuf",
)
# Flags that choose another class than the _name of a section.
_CHOICES = {
    "task": "--task",
    "model": "--arch",
    "criterion": "--criterion",
    "optimizer": "--optimizer",
    "lr_scheduler": "--lr-scheduler",
}
_DEEPEST, _MOST_ALIASES = 10, 20
_BATCH = ("--max-tokens", "--batch-size", "--update-freq")


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file; ``sections``: section -> key -> value."""

    path: Path
    sections: dict[str, dict[str, Any]]

    def words_before(self, argv: Sequence[str]) -> list[str]:
        """Return the file's options as words for the command line, before ``argv``."""
        given = {word.partition("=")[0] for word in argv}
        names_data = bool(argv) and not argv[0].startswith("-")
        words: list[str] = []
        for section, values in self.sections.items():
            if section not in _SECTIONS:
                hint = did_you_mean(section, _SECTIONS)
                raise GtransError(f"{self.path}: there is no section '{section}'{hint}")
            for key, value in values.items():
                if key == "_name" and value is None and section in _CHOICES:
                    self._check_chosen(section, given)
                # Only fairseq-hydra-train needs user_dir.
                if value is None or value is False or key == "user_dir":
                    continue
                # Nearly every file has this key, and the flag would have no effect.
                if key == "no_epoch_checkpoints" and "--keep-last-epochs" in given:
                    continue
                if key == "data":
                    if not names_data and value != _MISSING:
                        words.append(str(value))
                    continue
                flag = self._flag(section, key)
                if value != _MISSING:
                    words.append(flag if value is True else f"{flag}={_text_of(value)}")
                elif flag not in given and not {"-h", "--help"} & given:
                    raise GtransError(f"`{flag}` is missing; {self.path} leaves it open.")
        return words

    def _flag(self, section: str, key: str) -> str:
        if key != "_name":
            return f"--{key.replace('_', '-')}"
        if section not in _CHOICES:
            raise GtransError(f"{self.path}: the section '{section}' has no '_name'.")
        return _CHOICES[section]

    def _check_chosen(self, section: str, given: Set[str]) -> None:
        flag = _CHOICES[section]
        others = {"-h", "--help"}
        if section == "model":
            others.add("-a")
        if flag not in given and not others & given:
            raise GtransError(
                f"{self.path}: the '_name' of the section '{section}' has no value; write it "
                f"there, or give `{flag}`."
            )

    def check_unread(
        self, unread: Sequence[str], argv: Sequence[str], options: Iterable[str]
    ) -> None:
        """Report keys that the classes chosen by ``argv`` in place of the file's do not have.

        ``unread``: the words of these keys; ``options``: the names of all options.

        Raises:
            GtransError: ``argv`` chooses no other class, so a key is misspelt.
        """
        keys = [word.partition("=")[0].removeprefix("--").replace("-", "_") for word in unread]
        if not keys:
            return
        given = {word.partition("=")[0] for word in argv}
        if not given & {*_CHOICES.values(), "-a"}:
            hint = did_you_mean(keys[0], options)
            raise GtransError(f"{self.path}: {keys[0]}: there is no such option{hint}")
        print_message(
            f"{self.path}: {', '.join(keys)} left out: not an option of what is chosen instead"
        )

    def share_batch(self, args: argparse.Namespace, argv: Sequence[str]) -> None:
        """Divide an update's batches, which are for one device, unless ``argv`` says their size."""
        # Imported on demand: torch needs seconds.
        from gtrans.train.launch import launched

        launcher = launched(os.environ)
        if launcher is not None:
            workers = launcher.size
        else:
            workers = 1 if args.cpu else int(args.distributed_world_size)
        given = {word.partition("=")[0] for word in argv}
        if workers == 1 or given & set(_BATCH):
            return
        unit = "units" if args.batch_size else "tokens"
        size = args.batch_size or args.max_tokens
        frequency = int(args.update_freq[0])
        total = size * frequency
        batches = math.ceil(frequency / workers)
        each, rest = divmod(total, batches * workers)
        if rest:
            raise GtransError(
                f"{workers} processes cannot share the {total} {unit} of an update ({self.path}); "
                "give `--update-freq` and `--max-tokens` (or `--batch-size`)."
            )
        args.update_freq = [batches]
        if unit == "units":
            args.batch_size = args.batch_size_valid = each
        else:
            args.max_tokens = args.max_tokens_valid = each
        print_message(
            f"an update has {total} {unit}: {workers} processes, {each} {unit}, {batches} batches"
        )


def _text_of(value: Any) -> str:
    """Return a value without spaces: argparse takes a word with a space for DATA."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace(", ", ",")


def take_config(argv: Sequence[str]) -> tuple[ConfigFile | None, list[str]]:
    """Return the configuration that ``--config`` names, and the other words."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument(FLAG, action="append", nargs="?", default=[])
    # Words behind `--` are no options.
    end = argv.index("--") if "--" in argv else len(argv)
    given, rest = early.parse_known_args(list(argv[:end]))
    rest += argv[end:]
    if not given.config:
        return None, rest
    if len(given.config) > 1 or not given.config[0]:
        raise GtransError(
            f"`{FLAG}` takes one name or file; `gtrans train --help-all` lists the names."
        )
    path = find_config(given.config[0])
    return ConfigFile(path, read_config(path)), rest


def config_names() -> list[str]:
    """Return the names of the project's configurations."""
    folder = project_file(FOLDER)
    return sorted(
        path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml")
    )


def find_config(name: str) -> Path:
    """Return the file of a configuration: the user's own, or the project's."""
    own = Path(name)
    for path in (own, project_file(FOLDER) / f"{name}.yaml"):
        if path.is_file():
            return path
    if own.suffix in (".yaml", ".yml"):
        raise GtransError(f"`{FLAG} {name}`: there is no such file.")
    names = config_names()
    hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
    raise GtransError(f"`{FLAG} {name}`: there is no such configuration{hint}")


def _check_form(text: str, path: Path) -> None:
    """Reject YAML whose lists or aliases would be expanded without end."""
    depth = aliases = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
        if depth > _DEEPEST or aliases > _MOST_ALIASES:
            what = "more than 20 aliases" if aliases > _MOST_ALIASES else "lists in lists"
            raise GtransError(
                f"{path}: line {event.start_mark.line + 1}: a configuration has sections with "
                f"keys, not {what}; write the values out."
            )


def read_config(path: Path) -> dict[str, dict[str, Any]]:
    """Return the sections of a configuration."""
    try:
        text = path.read_text(encoding="utf-8")
        _check_form(text, path)
        values = OmegaConf.to_container(OmegaConf.create(text), resolve=True)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, OmegaConfBaseException) as error:
        raise GtransError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict) or not all(isinstance(keys, dict) for keys in values.values()):
        raise GtransError(
            f"{path}: a configuration has sections with keys, such as 'model:' with '_name:'."
        )
    return {str(section): dict(keys) for section, keys in values.items()}
