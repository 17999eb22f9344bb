"""A data folder of ``gtrans prepare``: its state file and its text pipelines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.identity.digests import digest
from gtrans.identity.json_files import read_json
from gtrans.identity.step_record import check_steps
from gtrans.text.bpe import load_bpe
from gtrans.text.byte_bpe_pipeline import BYTE_BPE
from gtrans.text.chinese_words import SEGMENTERS
from gtrans.text.moses_pipeline import MosesPipeline, Steps
from gtrans.text.pipeline import TextPipeline
from gtrans.text.sentencepiece_pipeline import SENTENCEPIECE
from gtrans.text.subword_model import SubwordModel
from gtrans.text.truecase import load_best_case

STATE_FILE = "prepare.json"
STATE_FORMAT = 1
LAST_STEP = "binarise"

SUBWORD_MODELS: dict[str, SubwordModel] = {model.name: model for model in (SENTENCEPIECE, BYTE_BPE)}
"""The kinds of subword models that ``gtrans prepare`` accepts, by the name of the flag."""


_STEP = re.compile(
    r"(?:tokenise|encode|bert|plain) (?:train|valid|test\d*)|"
    rf"truecase|bpe|reuse|{LAST_STEP}|{'|'.join(SUBWORD_MODELS)}"
)


def read_state(data_dir: Path) -> dict[str, Any]:
    """The contents of ``prepare.json`` of a data folder.

    Raises:
        GtransError: there is none, or it is damaged.
    """
    path = data_dir / STATE_FILE
    try:
        state = read_json(path, "; prepare the data anew")
    except FileNotFoundError:
        raise GtransError(
            f"there is no '{path}'; make it with 'gtrans prepare' (from a folder of "
            "fairseq-preprocess: 'gtrans prepare --binarised')"
        ) from None
    if not isinstance(state, dict) or state.get("format") != STATE_FORMAT:
        raise GtransError(f"'{path}' is not of format {STATE_FORMAT}; prepare the data anew")
    try:
        check_state(state)
    except ValueError as error:
        raise GtransError(f"'{path}' is damaged: {error}; prepare the data anew") from None
    return state


def check_state(state: Any) -> None:
    """Refuse what is not the state of a preparation.

    Raises:
        ValueError: saying what is wrong.
    """
    if not isinstance(state, dict):
        raise ValueError("it has no entries")
    languages = [state.get(name) for name in ("source_lang", "target_lang")]
    for name, lang in zip(("source_lang", "target_lang"), languages, strict=True):
        if not isinstance(lang, str) or not re.fullmatch(r"\w+", lang, re.ASCII):
            raise ValueError(f"no '{name}'")
    pieces, bert = state.get("pieces"), state.get("bert")
    if pieces is not None and pieces not in list(SUBWORD_MODELS):
        raise ValueError(f"it knows no pieces '{pieces}'")
    if pieces is None:
        _check_moses(state, languages)
    if bert is not None and not (
        _is_object(bert, ("name", "tokenizer")) and all(isinstance(x, str) for x in bert.values())
    ):
        raise ValueError("'bert' names none")
    for entry in ("finished", "suspended"):
        if entry in state:
            check_steps(state[entry], _STEP)


def _check_moses(state: dict[str, Any], languages: list[Any]) -> None:
    entries: list[Any] = [state.get(name) for name in ("steps", "bpe", "files")]
    steps, bpe, files = entries
    names = {field.name for field in fields(Steps)}
    if not _is_object(steps) or not names >= set(steps):
        raise ValueError("'steps' are not those of Moses")
    switches = [value for name, value in steps.items() if name != "segmenter"]
    if {*map(type, switches)} - {bool} or steps.get("segmenter") not in (None, *SEGMENTERS):
        raise ValueError("'steps' are not those of Moses")
    size = "symbols" if _is_object(bpe, ("symbols",)) else "merges"
    if not _is_object(bpe, (size, "vocabulary_threshold")) or not (
        type(bpe[size]) is int and type(bpe["vocabulary_threshold"]) in (int, type(None))
    ):
        raise ValueError("'bpe' has no merges and threshold")
    if not _is_object(files, ("codes",)):
        raise ValueError("'files' has no codes")
    by_language = [files.get(name) for name in ("truecase", "vocabulary")]
    if not all(_is_object(names, languages) for names in by_language):
        raise ValueError("'files' lacks a language")
    for name in (files["codes"], *(name for names in by_language for name in names.values())):
        plain_name(name)


def _is_object(value: Any, keys: Iterable[str] = ()) -> bool:
    """Whether a value is a JSON object that has ``keys``."""
    return isinstance(value, dict) and all(key in value for key in keys)


def check_recorded(
    data_dir: Path, names: Iterable[str], whole: bool, known: Mapping[str, str] | None = None
) -> None:
    """Compare files of a data folder with what ``gtrans prepare`` wrote.

    Files that are not recorded are left out, and so are those of a folder of another program.

    Args:
        data_dir: the folder.
        names: names of files in it.
        whole: compare the contents; False: only the sizes, which costs nothing.
        known: digests that have been computed already, by file name.

    Raises:
        GtransError: a file has changed.
    """
    if not (data_dir / STATE_FILE).is_file():
        return
    steps = read_state(data_dir).get("finished", {}).values()
    sizes = {name: size for step in steps for name, size in step["outputs"].items()}
    digests = {name: found for step in steps for name, found in step.get("digests", {}).items()}
    for name in names:
        path = data_dir / name
        if name not in sizes or not path.is_file():
            continue
        same = path.stat().st_size == sizes[name]
        if same and whole and name in digests:
            same = ((known or {}).get(name) or digest(path)) == digests[name]
        if not same:
            raise GtransError(
                f"{path}: it is not the file that `gtrans prepare` wrote; prepare the corpus "
                "again, with `--force`."
            )


def pipeline_files(state: dict[str, Any]) -> list[str]:
    """Names of the files that the pipelines of both languages read besides ``prepare.json``.

    ``state`` has the form that :func:`check_state` wants.
    """
    if state.get("pieces"):
        return list(SUBWORD_MODELS[state["pieces"]].files)
    files, languages = state["files"], (state["source_lang"], state["target_lang"])
    names = [files["codes"]]
    if Steps(**state["steps"]).truecase:
        names += [files["truecase"][lang] for lang in languages]
    if state["bpe"]["vocabulary_threshold"]:
        names += [files["vocabulary"][lang] for lang in languages]
    return names


def prepared_files(data_dir: str | Path, texts: bool = True) -> list[Path]:
    """The files that belong to a data folder, for commands that must not overwrite them.

    These are ``prepare.json``, what it records, all dictionaries and binarised texts, and with
    ``texts`` the texts that they were made from.
    """
    folder = Path(data_dir)
    names = {STATE_FILE}
    with suppress(GtransError):  # fairseq-preprocess made it
        state = read_state(folder)
        names.update(map(str, state.get("texts") or ()) if texts else ())
        for step in state.get("finished", {}).values():
            names.update(step["outputs"])
    found = {folder / name for name in names}
    return sorted(found.union(*(folder.glob(kind) for kind in ("dict.*.txt", "*.bin", "*.idx"))))


def load_pipeline(data_dir: str | Path, lang: str) -> TextPipeline:
    """The pipeline of one language of a prepared data folder.

    Raises:
        GtransError: the folder was not prepared, is incomplete, or has other languages.
    """
    folder = Path(data_dir)
    state = read_state(folder)
    languages = [state["source_lang"], state["target_lang"]]
    if lang not in languages:
        raise GtransError(
            f"'{folder}' was prepared for {languages[0]} and {languages[1]}, not for '{lang}'"
        )
    if state.get("pieces"):
        return SUBWORD_MODELS[state["pieces"]].load(lang, folder)
    steps, files = Steps(**state["steps"]), state["files"]
    truecase = folder / files["truecase"][lang] if steps.truecase else None
    codes = folder / files["codes"]
    threshold = state["bpe"]["vocabulary_threshold"]
    vocabulary = folder / files["vocabulary"][lang] if threshold else None
    best_case = None if truecase is None else load_best_case(truecase)
    return MosesPipeline(lang, steps, best_case, load_bpe(codes, vocabulary, threshold))


def plain_text(split: str, lang: str) -> str:
    """Name of the file in a data folder with the plain text of one side of a split."""
    return f"text/{split}.plain.{lang}"


def splits_of(names: Iterable[str]) -> list[str]:
    """The splits that these files of a data folder belong to, the training text first."""
    found = {name.split(".")[0] for name in names} - {"dict"}
    return sorted(found, key=lambda split: (split != "train", split != "valid", split))


def use_of(data_dir: Path, names: Iterable[str]) -> str:
    """What a data folder is good for, in words.

    Args:
        data_dir: the folder.
        names: names of its dictionaries and of the files of its splits.
    """
    splits = splits_of(names)
    lacking = [f"`--{name}`" for name in ("train", "valid") if name not in splits]
    if not lacking:
        return f"gtrans train '{data_dir}' --arch ..."
    tested = next((name for name in splits if name.startswith("test")), splits[0])
    return (
        f"gtrans generate '{data_dir}' --path ... --gen-subset {tested} (a training would need "
        f"{' and '.join(lacking)}, too)"
    )


def plain_name(name: object) -> str:
    """``name`` if it is a file name that does not point outside of a folder.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(name, str) or Path(name).name != name:
        raise ValueError(f"{name!r} is not a file name")
    return name
