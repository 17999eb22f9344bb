"""More learned positions for a pretrained model."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from gtrans.checkpoints import read_checkpoint, write_checkpoint
from gtrans.conversion.files import check_target
from gtrans.errors import GtransError
from gtrans.modules.positions import OFFSET

_NAMES = tuple(f"{side}.embed_positions.weight" for side in ("encoder", "decoder"))


def extend_positions(
    state: dict[str, Tensor], size: int | None, wanted: int, path: Path
) -> int:
    """Give the tables in ``state`` ``wanted`` positions instead of ``size``, in place.

    A new position begins as a copy of the one ``size`` before it, as Longformer's
    (Beltagy et al. 2020): what the model has learnt of near positions then holds
    everywhere but at the seams, and nothing changes for texts of up to ``size`` tokens.

    Raises:
        GtransError: the model has no learned positions, or has enough of them.
    """
    if size is None:
        raise GtransError(
            f"{path}: its positions are not learned and know no limit; leave out "
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

    Optimiser states of the tables no longer fit, so training starts from the new file
    (``--init-from``, ``--finetune-from-model``) and does not resume in it.

    Returns:
        what was done, in a line.

    Raises:
        GtransError: as :func:`extend_positions`, or an unreadable checkpoint.
    """
    check_target(path, target)
    checkpoint = read_checkpoint(path)
    state = checkpoint["model"]
    cfg = checkpoint.get("cfg") or {}
    model = cfg.get("model") if isinstance(cfg, dict) else None
    if not isinstance(model, dict) or not str(model.get("_name")).startswith("gtransformer"):
        raise GtransError(f"{path}: not a checkpoint of this project's G-Transformer.")
    size = state[_NAMES[0]].size(0) - OFFSET if _NAMES[0] in state else None
    model["max_positions"] = extend_positions(state, size, wanted, path)
    checkpoint["last_optimizer_state"] = None
    write_checkpoint(checkpoint, target)
    return f"{wanted} learned positions, {size} before"
