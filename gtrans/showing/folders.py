"""What a prepared folder or a run folder is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.model_identity import ModelIdentity
from gtrans.showing.checkpoint import of_checkpoint, of_preparation
from gtrans.showing.facts import Facts
from gtrans.text.carried_preparation import Preparation
from gtrans.text.prepared_folder import LAST_STEP, STATE_FILE, check_recorded, read_state

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
    from gtrans.data.binarised import load_lines
    from gtrans.data.document_units import check_sides
    from gtrans.data.vocabulary import Vocabulary
    from gtrans.tasks.options import read_dictionary

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
    dictionaries = [read_dictionary(str(path), lang) for lang in languages]
    splits: dict[str, Any] = {}
    for name in sorted({step.split()[1] for step in finished if step.startswith("encode ")}):
        prefix = path / f"{name}.{'-'.join(languages)}"
        # The sizes are in a mapped file, which is closed with its dataset.
        lines = [
            load_lines(f"{prefix}.{lang}", symbols, len(symbols))
            for lang, symbols in zip(languages, dictionaries, strict=True)
        ]
        sides = [side.sizes for side in lines]
        check_sides(sides[0] == 1, sides[1] == 1, str(prefix))
        sentences = int((sides[0] > 1).sum())
        documents = int(((sides[0] > 1) & _after_boundary(sides[0])).sum())
        splits[name] = f"{sentences:,} sentences in {documents:,} documents"
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


def _after_boundary(sizes: Any) -> Any:
    """``(lines,)``: whether a line is the first one or stands after an empty one."""
    import numpy as np

    return np.concatenate([[True], sizes[:-1] == 1])


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
