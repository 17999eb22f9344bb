"""A data folder of ``gtrans prepare``: its state file and its text pipelines."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.text.bpe import load_bpe
from gtrans.text.byte_bpe_pipeline import BYTE_BPE
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


def read_state(data_dir: Path) -> dict[str, Any]:
    """The contents of ``prepare.json`` of a data folder."""
    path = data_dir / STATE_FILE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise GtransError(
            f"there is no '{path}'; make it with 'gtrans prepare' (from a folder of "
            "fairseq-preprocess: 'gtrans prepare --binarised')"
        ) from None
    except (OSError, ValueError) as error:
        raise GtransError(f"cannot read '{path}': {error}") from None
    if not isinstance(state, dict) or state.get("format") != STATE_FORMAT:
        raise GtransError(f"'{path}' is not of format {STATE_FORMAT}; prepare the data anew")
    return state


def pipeline_files(state: dict[str, Any]) -> list[str]:
    """Names of the files that the pipelines of both languages read besides ``prepare.json``.

    Raises:
        KeyError, TypeError: ``state``, the contents of ``prepare.json``, is damaged.
    """
    if state.get("pieces"):
        return list(SUBWORD_MODELS[state["pieces"]].files)
    files, languages = state["files"], (state["source_lang"], state["target_lang"])
    names = [files["codes"]]
    if Steps(**state["steps"]).truecase:
        names += [files["truecase"][lang] for lang in languages]
    if state["bpe"]["vocabulary_threshold"]:
        names += [files["vocabulary"][lang] for lang in languages]
    return [plain_name(name) for name in names]


def prepared_files(data_dir: str | Path) -> list[Path]:
    """The files that belong to a data folder, for commands that must not overwrite them.

    These are ``prepare.json``, what it records, and all dictionaries and binarised texts.
    """
    folder = Path(data_dir)
    names = {STATE_FILE}
    with suppress(GtransError, AttributeError, KeyError, TypeError):  # fairseq-preprocess made it
        for step in read_state(folder)["finished"].values():
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
    try:
        languages = [str(state["source_lang"]), str(state["target_lang"])]
        if lang not in languages:
            raise GtransError(
                f"'{folder}' was prepared for {languages[0]} and {languages[1]}, not for '{lang}'"
            )
        if state.get("pieces"):
            return SUBWORD_MODELS[state["pieces"]].load(lang, folder)
        steps = Steps(**state["steps"])
        files = state["files"]
        truecase = folder / plain_name(files["truecase"][lang]) if steps.truecase else None
        codes = folder / plain_name(files["codes"])
        threshold = state["bpe"]["vocabulary_threshold"]
        vocabulary = folder / plain_name(files["vocabulary"][lang]) if threshold else None
    except (KeyError, TypeError) as error:
        raise GtransError(f"'{folder / STATE_FILE}' is damaged ({error}); prepare anew") from None
    best_case = None if truecase is None else load_best_case(truecase)
    return MosesPipeline(lang, steps, best_case, load_bpe(codes, vocabulary, threshold))


def plain_name(name: object) -> str:
    """``name`` if it is a file name that does not point outside of a folder.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(name, str) or Path(name).name != name:
        raise TypeError(f"{name!r} is not a file name")
    return name
