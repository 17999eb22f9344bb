"""A data folder of ``gtrans prepare``: its state, and its text pipelines.

``prepare.json`` records how text becomes tokens, the finished steps and their files. Checkpoints
store a :class:`Preparation`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gtrans.data.documents import decoded
from gtrans.errors import GtransError
from gtrans.files import (
    atomic_writer,
    binary_writer,
    digest,
    digest_of_bytes,
    digest_of_values,
    parse_json,
    read_object,
)
from gtrans.text.moses import MosesPipeline, MosesSteps, best_case_of
from gtrans.text.pipeline import TextPipeline
from gtrans.text.subwords import SUBWORD_MODELS, bpe_of, subwords_in

if TYPE_CHECKING:
    from gtrans.modules.bert import BertSubwords

STATE_FILE = "prepare.json"
STATE_FORMAT = 1
LAST_STEP = "binarise"
CODES_FILE, TRUECASE_FILE = "codes.bpe", "truecase.{}"
"""Names of the joint codes of BPE, and of the truecaser of a language."""
VOCABULARY_FILE = "vocabulary.{}"
"""Name of the dictionary of a language that was trimmed."""

_PREPARE = (
    "prepare it first: gtrans prepare --source-lang en --target-lang de --train corpus/train "
    "--valid corpus/valid --out data-bin"
)
_TOKENIZER_FOLDER = "bert"
# What prepare.json says of the pipeline; the other entries are about the corpus.
_ENTRIES = ("source_lang", "target_lang", "steps", "bpe", "subwords", "bert")


def check_data_folder(folder: Path) -> None:
    """Raise GtransError if a folder holds no binarised data."""
    if any(folder.glob("dict.*.txt")) or any(folder.glob("*.idx")):
        return
    texts = sorted(path.name for path in folder.parent.glob(f"{folder.name}.*"))
    if folder.is_dir():
        files = sorted(path.name for path in folder.iterdir() if path.is_file())
        found = ", ".join(files[:3]) or "no files"
        what = f"no data folder (it has {found})"
    elif folder.is_file():
        what = "a file and no data folder"
    elif texts:
        what = f"text ({', '.join(texts[:2])})"
    else:
        raise GtransError(f"{folder}: there is no such data folder.")
    raise GtransError(f"{folder}: this is {what}; {_PREPARE}.")


# ---- prepare.json --------------------------------------------------------------------------------


_Version = tuple[int, int, int]
# After this time a change of a file gives it another time, on every file system.
_SETTLED_NANOSECONDS = 10 * 10**9


class _ReadState(NamedTuple):
    version: _Version
    state: dict[str, Any]


_read_states: dict[Path, _ReadState] = {}


def read_state(data_dir: Path) -> dict[str, Any]:
    """Return the contents of ``prepare.json``; an unchanged file is read once."""
    path = data_dir / STATE_FILE
    version = _settled_version(path)
    earlier = _read_states.get(path)
    if earlier is not None and earlier.version == version:
        return deepcopy(earlier.state)
    try:
        state = read_object(path, "; prepare the data anew")
    except FileNotFoundError:
        raise GtransError(
            f"there is no '{path}'; make it with 'gtrans prepare', from the text"
        ) from None
    try:
        check_state(state)
    except ValueError as error:
        raise GtransError(f"'{path}' is damaged: {error}; prepare the data anew") from None
    if version is not None:
        _read_states[path] = _ReadState(version, deepcopy(state))
    return state


def _settled_version(path: Path) -> _Version | None:
    """Return inode, time of change and size; None if the file is new or missing."""
    try:
        status = path.stat()
    except OSError:  # reading says what is wrong
        return None
    if time.time_ns() - status.st_ctime_ns < _SETTLED_NANOSECONDS:
        return None
    return status.st_ino, status.st_ctime_ns, status.st_size


def check_state(state: Any) -> None:
    """Raise ValueError if ``state`` is no state of a preparation."""
    try:
        if state.get("format", STATE_FORMAT) != STATE_FORMAT:
            raise ValueError(f"it is not of format {STATE_FORMAT}")
        for entry in ("source_lang", "target_lang"):
            plain_name(state[entry])
        pipeline_files(state)
        if state.get("bert") is not None:
            _ = state["bert"]["name"], state["bert"]["tokenizer"]
        for step in state.get("finished", {}).values():
            for name in step["outputs"]:
                if Path(name).is_absolute() or ".." in Path(name).parts:
                    raise ValueError(f"no step can have written '{name}'")
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def pipeline_files(state: Mapping[str, Any]) -> list[str]:
    """Return the names of the files of the text pipelines."""
    if state.get("subwords"):
        return list(SUBWORD_MODELS[state["subwords"]].files)
    languages = (state["source_lang"], state["target_lang"])
    files = [CODES_FILE]
    if MosesSteps(**state["steps"]).truecase:
        files += [TRUECASE_FILE.format(lang) for lang in languages]
    if state["bpe"].get("trimmed"):
        files += [VOCABULARY_FILE.format(lang) for lang in languages]
    return files


def plain_name(name: object) -> str:
    """Return ``name``; raises ValueError if it is no plain file name."""
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise ValueError(f"{name!r} is not a file name")
    return name


def check_recorded(
    data_dir: Path, names: Iterable[str], whole: bool, computed: Mapping[str, str] | None = None
) -> None:
    """Raise GtransError if a file of a data folder has changed since ``gtrans prepare``.

    Args:
        names: files; the ones that are not recorded are not checked.
        whole: compare the contents; False: only the sizes.
        computed: known digests by file name.
    """
    if (data_dir / STATE_FILE).is_file():
        _check_recorded(read_state(data_dir), data_dir, names, whole, computed or {})


def _check_recorded(
    state: Mapping[str, Any],
    data_dir: Path,
    names: Iterable[str],
    whole: bool,
    computed: Mapping[str, str],
) -> None:
    sizes: dict[str, int] = {}
    digests: dict[str, str] = {}
    for step in state.get("finished", {}).values():
        sizes |= step["outputs"]
        digests |= step.get("digests", {})
    for name in names:
        path = data_dir / name
        if name not in sizes or not path.is_file():
            continue
        same = path.stat().st_size == sizes[name]
        if same and whole and name in digests:
            same = (computed.get(name) or digest(path)) == digests[name]
        if not same:
            raise GtransError(
                f"{path}: it is not the file that `gtrans prepare` wrote; prepare the corpus "
                "again, with `--force`."
            )


def prepared_files(data_dir: str | Path) -> list[Path]:
    """Return the files that commands must not overwrite: a data folder's, and its texts."""
    folder = Path(data_dir)
    paths = {folder / STATE_FILE}
    with suppress(GtransError):  # fairseq-preprocess made it
        state = read_state(folder)
        names = list(state.get("texts") or ())
        for step in state.get("finished", {}).values():
            names += step["outputs"]
        paths.update(folder / name for name in names)
    for kind in ("dict.*.txt", "*.bin", "*.idx"):
        paths.update(folder.glob(kind))
    return sorted(paths)


def plain_text(split: str, lang: str) -> str:
    """Return the name of the plain text of one side."""
    return f"text/{split}.plain.{lang}"


# ---- pipelines -----------------------------------------------------------------------------------


def load_pipeline(data_dir: str | Path, lang: str) -> TextPipeline:
    """Return the pipeline of one language of a data folder."""
    folder = Path(data_dir)
    return Preparation.of_state(read_state(folder), folder).pipeline(lang)


def recorded_bert_subwords(data_dir: str | Path) -> BertSubwords:
    """Load the BERT tokenizer of a data folder; raise GtransError if it has changed."""
    from gtrans.modules.bert import BertSubwords

    folder = Path(data_dir)
    recorded = read_state(folder).get("bert")
    if not recorded:
        raise _wrong_bert(folder, "holds no subwords of")
    subwords = BertSubwords(recorded["name"])
    if subwords.fingerprint != recorded["tokenizer"]:
        raise _wrong_bert(folder, "has other subwords than")
    return subwords


def _wrong_bert(folder: Path, wrong: str) -> GtransError:
    return GtransError(f"'{folder}' {wrong} a BERT; run its 'gtrans prepare' again with --bert.")


@dataclass(frozen=True)
class Preparation:
    """How text was prepared.

    Attributes:
        state: the entries of ``prepare.json`` about the pipeline and BERT.
        files: contents of the pipeline's files, by name.
        tokenizer: contents of the files of BERT's tokenizer.
    """

    state: Mapping[str, Any]
    files: Mapping[str, bytes]
    tokenizer: Mapping[str, bytes] = field(default_factory=dict)
    folder: Path = field(default=Path(), compare=False)

    @classmethod
    def read(cls, folder: Path, tokenizer: Mapping[str, bytes] | None = None) -> Preparation | None:
        """Return the preparation of a data folder; None: ``fairseq-preprocess`` made it."""
        if not (folder / STATE_FILE).is_file():
            return None
        state = read_state(folder)
        if "finished" in state and LAST_STEP not in state["finished"]:
            raise GtransError(
                f"'{folder}' is not prepared to its end; run its `gtrans prepare` again."
            )
        return cls.of_state(state, folder, tokenizer)

    @classmethod
    def of_state(
        cls, state: Mapping[str, Any], folder: Path, tokenizer: Mapping[str, bytes] | None = None
    ) -> Preparation:
        """Return the preparation of a data folder, by its ``prepare.json``."""
        try:
            files = {name: (folder / name).read_bytes() for name in pipeline_files(state)}
        except OSError as error:
            raise GtransError(f"cannot read '{error.filename}': {error.strerror}") from None
        digests = {name: digest_of_bytes(contents) for name, contents in files.items()}
        _check_recorded(state, folder, files, whole=True, computed=digests)
        entries = {name: state.get(name) for name in _ENTRIES}
        return cls(entries, files, tokenizer or {}, folder)

    @classmethod
    def of_checkpoint(cls, state: Any, files: Any, tokenizer: Any, path: Path) -> Preparation:
        """Return the preparation of a checkpoint.

        Raises:
            TypeError, ValueError, KeyError: it is damaged.
        """
        state = parse_json(state, "the preparation")
        check_state(state)
        for name in (*files, *tokenizer):
            plain_name(name)
        if set(pipeline_files(state)) != set(files):
            raise ValueError("files of the preparation are missing")
        return cls(state, files, tokenizer, path)

    def pipeline(self, lang: str) -> TextPipeline:
        """Return the pipeline of one of the two languages."""
        languages = [self.state["source_lang"], self.state["target_lang"]]
        if lang not in languages:
            raise GtransError(
                f"'{self.folder}' was prepared for {languages[0]} and {languages[1]}, not for "
                f"'{lang}'"
            )
        if self.state.get("subwords"):
            kind = SUBWORD_MODELS[self.state["subwords"]]
            return kind(lang, self.files, languages.index(lang), self.folder)
        steps = MosesSteps(**self.state["steps"])
        best_case = None
        if steps.truecase:
            best_case = best_case_of(self._text(TRUECASE_FILE.format(lang)))
        vocabulary = None
        if self.state["bpe"].get("trimmed"):
            name = VOCABULARY_FILE.format(lang)
            vocabulary = subwords_in(self._text(name), self.folder / name)
        bpe = bpe_of(self._text(CODES_FILE), self.folder / CODES_FILE, vocabulary)
        return MosesPipeline(lang, steps, best_case, bpe)

    def _text(self, name: str) -> str:
        return decoded(self.files[name], self.folder / name)

    @property
    def parts(self) -> dict[str, str]:
        """Digests of all that turns text into tokens, by name."""
        languages = f"{self.state['source_lang']}-{self.state['target_lang']}"
        steps = [self.state.get(name) for name in ("steps", "subwords")]
        parts = {"languages": languages, "text steps": digest_of_values(steps, None)}
        for name, contents in self.files.items():
            parts[name] = digest_of_bytes(contents)
        return parts

    @property
    def digest(self) -> str:
        """A digest of all parts."""
        return digest_of_values(self.parts)

    def differences(self, other: Preparation) -> list[str]:
        """Return the names of the parts that differ."""
        here = self.parts
        there = other.parts
        return [name for name in {**here, **there} if here.get(name) != there.get(name)]

    def write(self, folder: Path) -> None:
        """Write ``prepare.json`` and the files of a data folder."""
        state = {"format": STATE_FORMAT, **self.state}
        files = dict(self.files)
        bert = state.get("bert")
        if self.tokenizer and bert:
            tokenizer = folder / _TOKENIZER_FOLDER
            tokenizer.mkdir()
            state["bert"] = {**bert, "name": str(tokenizer)}
            for name, contents in self.tokenizer.items():
                files[f"{_TOKENIZER_FOLDER}/{name}"] = contents
        for name, contents in files.items():
            with binary_writer(folder / name) as written:
                written.write(contents)
        with atomic_writer(folder / STATE_FILE) as file:
            json.dump(state, file, indent=2)
