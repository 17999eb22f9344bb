"""More learned positions for a pretrained model."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from gtrans.checkpoints import read_checkpoint, write_checkpoint
from gtrans.conversion.files import check_target
from gtrans.errors import GtransError
from gtrans.models.base.checkpoint_fit import check_fit
from gtrans.modules.positions import OFFSET

_NAMES = tuple(f"{side}.embed_positions.weight" for side in ("encoder", "decoder"))


def extend_positions(
    state: dict[str, Tensor], size: int | None, wanted: int, path: Path
) -> int:
    """Extend the position tables in ``state`` from ``size`` to ``wanted`` positions, in place.

    A new position starts as a copy of the one ``size`` before it, as in Longformer (Beltagy et
    al. 2020). So what the model has learnt about neighbouring positions still holds, except at
    the seams, and nothing changes for texts of up to ``size`` tokens.

    Raises:
        GtransError: the model has no learned positions, or has enough of them.
    """
    if size is None:
        raise GtransError(
            f"{path}: its positions are not learned and have no limit; leave out "
            "`--extend-positions`."
        )
    if wanted <= size:
        raise GtransError(
            f"`--extend-positions` must be more than the model's {size} positions, but is {wanted}."
        )
    for name in _NAMES:
        table = state[name]
        copies = torch.arange(size, wanted) % size + OFFSET
        state[name] = torch.cat([table, table[copies]])
    return wanted


def extend_own(path: Path, target: Path, wanted: int) -> str:
    """Write this project's checkpoint ``path`` with ``wanted`` positions as ``target``.

    The optimizer state does not fit the new tables and is dropped: training can start from the
    new file (``--init-from``, ``--finetune-from-model``) but not resume from it.

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
    size = state[_NAMES[0]].size(0) - OFFSET if _NAMES[0] in state else None
    model["max_positions"] = extend_positions(state, size, wanted, path)
    checkpoint["last_optimizer_state"] = None
    (checkpoint.get("extra_state") or {}).pop("run_state", None)
    write_checkpoint(checkpoint, target)
    return f"{wanted} learned positions, {size} before"
