"""What a prepared folder or a run folder is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gtrans.checkpoints.identity import ModelIdentity
from gtrans.errors import GtransError
from gtrans.showing.checkpoint import of_checkpoint, of_preparation
from gtrans.showing.facts import Facts
from gtrans.text.prepared_folder import (
    LAST_STEP,
    STATE_FILE,
    Preparation,
    check_recorded,
    read_state,
)

_CHECKPOINTS = "checkpoint*.pt"


def of_folder(path: Path) -> Facts:
    """What a folder is.

    Raises:
        GtransError: it is no folder of this project, or damaged.
    """
    if (path / STATE_FILE).is_file():
        return _prepared(path)
    if any(path.glob(_CHECKPOINTS)):
        return _run(path)
    raise GtransError(
        f"{path}: it holds neither a preparation ({STATE_FILE}) nor checkpoints ({_CHECKPOINTS}); "
        "name a folder of `gtrans prepare` or of a training."
    )


def _prepared(path: Path) -> Facts:
    # Imported on demand: the other folders do not need fairseq.
    from gtrans.data.vocabulary import Vocabulary
    from gtrans.tasks.options import read_dictionary
    from gtrans.text.preparation import count_split

    state = read_state(path)
    finished = state.get("finished") or {}
    languages = str(state["source_lang"]), str(state["target_lang"])
    found = Facts(str(path), "prepared folder")
    found.facts = {"languages": "-".join(languages)}
    if LAST_STEP not in finished:
        found.notes.append("not finished: run its `gtrans prepare` again")
        return found
    recorded = (name for step in finished.values() for name in step["outputs"])
    check_recorded(path, recorded, whole=True)
    splits: dict[str, Any] = {}
    for name in sorted({step.split()[1] for step in finished if step.startswith("encode ")}):
        side = count_split(path, name, languages)[0]
        splits[name] = f"{side.sentences:,} sentences in {side.documents:,} documents"
    dictionaries = [read_dictionary(str(path), lang) for lang in languages]
    source, target = (Vocabulary.of(one, len(one)) for one in dictionaries)
    preparation = Preparation.read(path)
    identity = ModelIdentity(languages, source, target, preparation, {})
    sizes = [len(vocabulary.symbols) for vocabulary in (source, target)]
    found.facts |= {
        "splits": splits,
        "symbols": sizes[0] if source == target else sizes,
        "identity of the dictionaries": identity.dictionaries,
        "preparation": of_preparation(preparation),
    }
    return found


def _run(path: Path) -> Facts:
    names = sorted(checkpoint.name for checkpoint in path.glob(_CHECKPOINTS))
    newest = path / "checkpoint_last.pt"
    if not newest.is_file():
        newest = max(path.glob(_CHECKPOINTS), key=lambda file: file.stat().st_mtime_ns)
    facts = of_checkpoint(newest)
    found = Facts(str(path), "run folder", {"checkpoints": names, "shown": newest.name})
    found.facts |= facts.facts
    found.notes = facts.notes
    return found
