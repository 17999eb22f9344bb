"""More learned positions for a pretrained model."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from gtrans.checkpoints.reading import read_checkpoint, write_checkpoint
from gtrans.conversion.files import check_target
from gtrans.errors import GtransError
from gtrans.models.base.checkpoint_fit import check_fit
from gtrans.modules.positions import OFFSET

# The table of each side, and the option that has its size.
_TABLES = {
    "encoder.embed_positions.weight": "max_positions",
    "decoder.embed_positions.weight": "max_positions",
}
# An encoder that is a BERT has a size of its own, and no vectors before the first position.
_OF_BERT = "bert_positions"


def extend_positions(
    state: dict[str, Tensor], wanted: int, path: Path, is_bert: bool = False
) -> dict[str, int]:
    """Extend the position tables in ``state`` to ``wanted`` positions, in place.

    A new position starts as a copy of the one that is a table's size before it, as in Longformer
    (Beltagy et al. 2020). So what the model has learnt about neighbouring positions still holds,
    except at the seams, and nothing changes for texts of up to the old size.

    Args:
        state: parameters by name.
        wanted: positions of every table that has fewer.
        path: the file, for messages.
        is_bert: the encoder is a BERT.

    Returns:
        the options of the model that are ``wanted`` now, each with its value before.

    Raises:
        GtransError: the model has no learned positions, or has enough of them.
    """
    sizes: dict[str, int] = {}
    for name, option in _TABLES.items():
        if name not in state:
            continue
        offset = OFFSET
        if is_bert and name.startswith("encoder."):
            option, offset = _OF_BERT, 0
        table = state[name]
        sizes[option] = size = table.size(0) - offset
        if wanted > size:
            copies = torch.arange(size, wanted) % size + offset
            state[name] = torch.cat([table, table[copies]])
    if not sizes:
        raise GtransError(
            f"{path}: its positions are not learned and have no limit; leave out "
            "`--extend-positions`."
        )
    before = {option: size for option, size in sizes.items() if wanted > size}
    if not before:
        raise GtransError(
            f"`--extend-positions` must be more than the model's {min(sizes.values())} positions, "
            f"but is {wanted}."
        )
    return before


def extend_own(path: Path, target: Path, wanted: int) -> str:
    """Write this project's checkpoint ``path`` with ``wanted`` positions as ``target``.

    The optimizer state does not fit the new tables and is dropped: training can start from the
    new file (``--init-from``, ``--finetune-from-model``) but not resume from it. A model whose
    encoder is a BERT is for translating only: a training has the positions of its BERT.

    Returns:
        a line that says what was done.

    Raises:
        GtransError: the checkpoint is unreadable, or as in :func:`extend_positions`.
    """
    check_target(path, target)
    checkpoint = read_checkpoint(path)
    check_fit(checkpoint, path)
    state = checkpoint["model"]
    model = (checkpoint.get("cfg") or {}).get("model")
    if not isinstance(model, dict) or not str(model.get("_name")).startswith("gtransformer"):
        raise GtransError(f"{path}: not a checkpoint of this project's G-Transformer.")
    before = extend_positions(state, wanted, path, model.get(_OF_BERT) is not None)
    model.update(dict.fromkeys(before, wanted))
    checkpoint["last_optimizer_state"] = None
    (checkpoint.get("extra_state") or {}).pop("run_state", None)
    write_checkpoint(checkpoint, target)
    return f"{wanted} learned positions, {min(before.values())} before"
