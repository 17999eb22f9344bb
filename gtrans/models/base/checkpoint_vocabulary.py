"""The symbols that the embeddings of a checkpoint belong to."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary, data_utils

from gtrans.checkpoint_contents import options_of
from gtrans.data.binarised import load_dictionary
from gtrans.data.symbols import MASK, language_symbol, split_languages
from gtrans.data.vocabulary import Vocabulary
from gtrans.errors import GtransError
from gtrans.model_identity import ModelIdentity


class CheckpointVocabulary:
    """The symbols of a checkpoint's embeddings, in order, for both sides.

    A checkpoint of this project carries them. For one that does not, its dictionary is named
    (``--init-dict``), or it is provably that of the data: the checkpoint lies where its run wrote
    it and names the data folder by its absolute path, and nothing has happened to the dictionary
    there since.
    """

    def __init__(
        self,
        checkpoint: Mapping[str, Any],
        path: str,
        data: str | None,
        init_dict: str | None,
    ) -> None:
        """The vocabulary of one checkpoint.

        Args:
            checkpoint: its contents.
            path: its path.
            data: data folder of the new model, if it has one.
            init_dict: ``--init-dict``: dictionaries of source and target, joined by ``:``, or one
                for both.

        Raises:
            GtransError: a dictionary is missing, or its checkpoint carries another vocabulary.
        """
        self._path = path
        self._data = data
        self._identity = ModelIdentity.of_checkpoint(checkpoint, path)
        self._options = options_of(checkpoint, "task")
        self._checkpoint_options = options_of(checkpoint, "checkpoint")
        self._bert_pieces = options_of(checkpoint, "model").get("bert_pieces")
        self._named: dict[str, Dictionary] = {}
        if init_dict:
            self._named = self._read(init_dict)

    @property
    def carried(self) -> bool:
        """Whether the checkpoint carries it."""
        return self._identity is not None

    def _read(self, init_dict: str) -> dict[str, Dictionary]:
        if self._identity is not None:
            raise GtransError(
                f"`--init-dict`: {self._path} carries its vocabulary; leave the option out."
            )
        paths = init_dict.split(os.pathsep)
        for path in paths:
            if not path or not Path(path).is_file() or len(paths) > 2:
                raise GtransError(
                    f"`--init-dict {init_dict}` must name a dictionary (dict.txt), or two joined "
                    f"by '{os.pathsep}', but '{path}' is no file."
                )
        source, target = load_dictionary(paths[0]), load_dictionary(paths[-1])
        return {"encoder": source, "decoder": target}

    def symbols(self, side: str, rows: int) -> list[str]:
        """The symbols of an embedding of ``rows`` rows; one that is unknown is empty.

        Args:
            side: ``encoder`` or ``decoder``.
            rows: size of the embedding.

        Raises:
            GtransError: they are not known, or do not fit the embedding.
        """
        if self._identity is not None:
            vocabulary = self._identity.source if side == "encoder" else self._identity.target
            return self._fitting(vocabulary.symbols, 0, rows, "the vocabulary that it carries")
        named = self._named.get(side) or self._of_data(side)
        if named is None:
            raise GtransError(
                f"--init-from {self._path}: identity unknown: it does not say which symbols its "
                f"{rows} embeddings belong to; name its dictionary with `--init-dict DICT` "
                "(dict.LANG.txt of the folder it was trained with, or the dict.txt of a "
                "published model)."
            )
        # What the checkpoint's task may have added.
        added = [*map(language_symbol, split_languages(self._options.get("langs"))), MASK]
        return self._fitting([*named.symbols, *added], len(added), rows, "its dictionary")

    def _fitting(self, symbols: Sequence[str], optional: int, rows: int, whose: str) -> list[str]:
        """The first ``rows`` symbols, which are all of them but some of the last ``optional``."""
        if not len(symbols) - optional <= rows <= len(symbols):
            raise GtransError(
                f"--init-from {self._path}: it has {rows} embeddings, but {whose} has "
                f"{len(symbols) - optional} symbols; name the dictionary it was trained with "
                "(`--init-dict`)."
            )
        return list(symbols[:rows])

    def _of_data(self, side: str) -> Dictionary | None:
        """The dictionary in the new model's data folder, if it is certainly the checkpoint's."""
        recorded = str(self._options.get("data") or "").split(os.pathsep)[0]
        if side == "encoder" and self._bert_pieces:
            return None
        if self._data is None or not os.path.isabs(recorded) or not os.path.isdir(recorded):
            return None
        if not os.path.samefile(recorded, self._data) or not self._is_as_written():
            return None
        pair = [self._options.get(f"{name}_lang") for name in ("source", "target")]
        if not all(pair):
            # Languages that the command line did not name are not in the options either.
            pair = list(data_utils.infer_language_pair(self._data))
        path = Path(self._data) / f"dict.{pair[side == 'decoder']}.txt"
        # The time of a file's last change in any way also tells of one that was put in its place.
        if not path.is_file() or path.stat().st_ctime_ns > os.stat(self._path).st_mtime_ns:
            return None
        return load_dictionary(path)

    def _is_as_written(self) -> bool:
        """Whether the checkpoint is where its run wrote it, not a later copy."""
        path = Path(self._path)
        folder = str(self._checkpoint_options.get("save_dir") or "")
        own = re.fullmatch(r"checkpoint(\d+|_\d+_\d+|_best|_last)\.pt", path.name)
        return bool(own) and os.path.isdir(folder) and path.parent.samefile(folder)


def check_stock_vocabulary(task: Any) -> None:
    """Raises GtransError if a checkpoint, whose state fairseq's task has, has other symbols."""
    recorded = ModelIdentity.of_state(task.state_dict(), "the checkpoint")
    if recorded is None:
        return
    for side in ("source", "target"):
        dictionary, old = getattr(task, f"{side}_dictionary"), getattr(recorded, side)
        here = Vocabulary.of(dictionary, len(dictionary))
        if here.symbols != old.symbols:
            if recorded.unit:
                raise GtransError(
                    "the checkpoint was trained with `--task document_translation`; give that task."
                )
            # fairseq numbers the symbols of languages in the order of the option.
            order = ", and `--langs` in its order" if getattr(task, "langs", None) else ""
            raise GtransError(
                f"the checkpoint was not made with these data, it has another {side} vocabulary "
                f"({old.difference(here)}); give the folder it was trained with{order}."
            )
