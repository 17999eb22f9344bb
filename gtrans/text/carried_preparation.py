"""The preparation of a data folder as a value, which a checkpoint carries.

It holds everything that turns plain text into tokens and back: languages, steps, and the contents
of the files of BPE, SentencePiece, byte-level BPE and truecasing. Written to an empty folder, it
serves every command that needs the text pipeline of a data folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.identity.digests import digest_of_bytes, fingerprint
from gtrans.identity.files import atomic_writer, binary_writer
from gtrans.identity.json_files import parse_json
from gtrans.text.prepared_folder import (
    LAST_STEP,
    STATE_FILE,
    STATE_FORMAT,
    check_state,
    pipeline_files,
    plain_name,
    read_state,
)

_TOKENIZER_FOLDER = "bert"
# What prepare.json says of the pipeline; the other entries are about the corpus.
_ENTRIES = ("source_lang", "target_lang", "steps", "bpe", "files", "pieces")


@dataclass(frozen=True)
class Preparation:
    """How text was prepared.

    Attributes:
        state: the entries of ``prepare.json`` that describe the pipeline, and ``bert``, the name
            and the fingerprint of the BERT whose word pieces a folder has.
        files: contents of the pipeline's files, by their names.
        tokenizer: contents of the files of BERT's tokenizer, if the model reads word pieces.
    """

    state: Mapping[str, Any]
    files: Mapping[str, bytes]
    tokenizer: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, tokenizer: Mapping[str, bytes] | None = None) -> Preparation | None:
        """The preparation of a data folder; None if ``gtrans prepare`` did not make it.

        Raises:
            GtransError: a file is missing or damaged.
        """
        if not (folder / STATE_FILE).is_file():
            return None
        state = read_state(folder)
        if "finished" in state and LAST_STEP not in state["finished"]:
            raise GtransError(
                f"'{folder}' is not prepared to its end; run its `gtrans prepare` again."
            )
        try:
            files = {name: (folder / name).read_bytes() for name in pipeline_files(state)}
        except OSError as error:
            raise GtransError(f"cannot read '{error.filename}': {error.strerror}") from None
        kept = {name: state.get(name) for name in (*_ENTRIES, "bert")}
        return cls(kept, files, tokenizer or {})

    @classmethod
    def of(cls, state: Any, files: Any, tokenizer: Any) -> Preparation:
        """From parts of a checkpoint, which may be damaged.

        Raises:
            TypeError, ValueError, KeyError: they are.
        """
        state = parse_json(state, "the preparation")
        check_state(state)
        for name in (*files, *tokenizer):
            plain_name(name)
        if set(pipeline_files(state)) != set(files):
            raise ValueError("files of the preparation are missing")
        return cls(state, files, tokenizer)

    @property
    def parts(self) -> dict[str, str]:
        """Digests of everything that turns text into tokens, by what it is."""
        languages = f"{self.state['source_lang']}-{self.state['target_lang']}"
        steps = [self.state.get(name) for name in ("steps", "pieces")]
        bpe = self.state.get("bpe") or {}
        threshold = None if self.state.get("pieces") else bpe.get("vocabulary_threshold")
        digests = {name: digest_of_bytes(contents) for name, contents in self.files.items()}
        return {"languages": languages, "text steps": fingerprint(steps, threshold), **digests}

    @property
    def digest(self) -> str:
        """The identity of the preparation."""
        return fingerprint(self.parts)

    def differences(self, other: Preparation) -> list[str]:
        """What differs: names of files, ``languages``, ``text steps``."""
        here, there = self.parts, other.parts
        return [name for name in {**here, **there} if here.get(name) != there.get(name)]

    def write(self, folder: Path) -> None:
        """Write ``prepare.json`` and the files, as they are in a data folder."""
        state = {"format": STATE_FORMAT, **self.state}
        files, bert = dict(self.files), state.get("bert")
        if self.tokenizer and bert:
            (folder / _TOKENIZER_FOLDER).mkdir()
            state["bert"] = {**bert, "name": str(folder / _TOKENIZER_FOLDER)}
            files |= {f"{_TOKENIZER_FOLDER}/{name}": of for name, of in self.tokenizer.items()}
        for name, contents in files.items():
            with binary_writer(folder / name) as written:
                written.write(contents)
        with atomic_writer(folder / STATE_FILE) as file:
            json.dump(state, file, indent=2)
