"""Settings of the environment and of torch under which all commands of this project run."""

from __future__ import annotations

import os

from gtrans.errors import GtransError

_UNSAFE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
_CUDNN = "GTRANS_CUDNN_ATTENTION"


def check_environment() -> None:
    """Refuse an environment in which torch would run code that is in a checkpoint.

    Raises:
        GtransError: ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`` is set; fairseq's own functions, which
            do not ask torch for ``weights_only=True``, would then load anything.
    """
    value = os.environ.get(_UNSAFE, "0")
    if value.lower() in ("1", "y", "yes", "true"):  # the values that torch knows
        raise GtransError(
            f"the environment has {_UNSAFE}={value}, with which torch runs code that is in a "
            f"checkpoint; unset {_UNSAFE}."
        )


def choose_kernels() -> None:
    """Let torch compute attention on CUDA by other kernels than cuDNN's.

    On Hopper and later GPUs torch prefers cuDNN in half precision. For every new shape of a batch
    cuDNN builds a plan on the host, which takes tens of milliseconds, and the batches of a corpus
    have many shapes. ``GTRANS_CUDNN_ATTENTION=1`` leaves torch's choice as it is.
    """
    if os.environ.get(_CUDNN, "0") != "1":
        import torch

        torch.backends.cuda.enable_cudnn_sdp(False)
