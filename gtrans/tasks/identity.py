"""What the models of a task are made from, and its comparison with what checkpoints carry."""

from pathlib import Path
from typing import Any, Optional

from fairseq.data import Dictionary

from gtrans.checkpoints.identity import ModelIdentity, say_unknown, unit_differences
from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.data.vocabulary import Vocabulary, split_languages
from gtrans.errors import GtransError
from gtrans.models.base.model import BERT_PIECES
from gtrans.tasks.options import data_folders
from gtrans.tasks.parts.bert import BertPart
from gtrans.text.prepared_folder import Preparation

LANGUAGES = ("source_lang", "target_lang")


class TaskIdentity:
    """The identity of what a task reads, for the checkpoints that it writes and reads."""

    def __init__(
        self, cfg: Any, dictionaries: tuple[Dictionary, Dictionary], words: tuple[int, int]
    ) -> None:
        """For a task.

        Args:
            cfg: its options.
            dictionaries: of source and target.
            words: how many symbols of each are the dictionary's own.
        """
        self._cfg = cfg
        self._dictionaries = dictionaries
        self.words = words
        self._recorded: Any = None
        self._units: Optional[dict[str, Any]] = None
        self._first: Optional[ModelIdentity] = None

    def here(self, bert: Optional[BertPart]) -> ModelIdentity:
        """The identity of a model that is made now; ``bert`` is what the task reads of a BERT.

        Raises:
            GtransError: a file of the data folder is missing or damaged.
        """
        preparation = None
        if self._cfg.data:
            reads = bert is not None and bert.use == BERT_PIECES
            tokenizer = bert.pieces.files() if bert is not None and reads else None
            preparation = Preparation.read(Path(data_folders(self._cfg)[0]), tokenizer)
        source, target = map(Vocabulary.of, self._dictionaries, self.words)
        languages = str(self._cfg.source_lang), str(self._cfg.target_lang)
        return ModelIdentity(languages, source, target, preparation, units_of(self._cfg))

    def record(self, task_state: dict[str, Any]) -> None:
        """Remember what the checkpoint carries whose model is built next."""
        self._recorded = task_state

    def check_trained(self, cfg: Any) -> None:
        """Refuse a model that does not fit the task, or the models before it.

        Args:
            cfg: the options in its checkpoint.

        Raises:
            GtransError: it has other languages, or another unit or other marks than the models
                before.
        """
        sides = cfg, self._cfg
        trained, here = ("-".join(str(of.get(name)) for name in LANGUAGES) for of in sides)
        if cfg.get("source_lang") and trained != here:
            raise GtransError(
                f"the checkpoint translates {trained}, but the languages of the data folder are "
                f"{here}; give --source-lang and --target-lang, or another folder."
            )
        units = units_of(cfg)
        differences = [] if self._units is None else unit_differences(units, self._units)
        if differences:
            raise GtransError(
                f"the model was trained with {', '.join(differences)} as the other models of "
                "`--path`; they cannot decode together."
            )
        self._units = units

    def check(self, bert: Optional[BertPart]) -> None:
        """Compare what the checkpoint carries with what the task reads.

        Raises:
            GtransError: vocabulary or preparation differ.
        """
        state, self._recorded = self._recorded, None
        if state is None:
            return
        folder = data_folders(self._cfg)[0] if self._cfg.data else None
        recorded = ModelIdentity.of_state(state, "the checkpoint")
        if recorded is None:
            say_unknown("the checkpoint")
            return
        self._first = self._first or recorded
        together = recorded.differences(self._first)
        if together:
            raise GtransError(
                f"the model has other {'; '.join(together)} as the first one of `--path`; they "
                "cannot decode together."
            )
        differences = recorded.differences(self.here(bert))
        if differences:
            raise GtransError(
                f"the checkpoint was not made with '{folder}', it has other "
                f"{'; '.join(differences)}; give the data folder it was trained with (`gtrans "
                "translate` needs none)."
            )


def units_of(cfg: Any) -> dict[str, Any]:
    """The options of units and marks among ``cfg``, as plain values."""
    values = {name: cfg.get(name) for name in UNIT_FIELDS}
    values["langs"] = ",".join(split_languages(values["langs"])) or None
    return {
        name: value if value is None or isinstance(value, int) else str(value)
        for name, value in values.items()
    }
