"""Adjusts fairseq's own options for this project's architectures."""

import argparse

from gtrans.errors import GtransError


def adjust_command_line(args: argparse.Namespace) -> None:
    """Give fairseq's own options the meaning that a user expects.

    * ``--bf16``: fairseq expects a TPU and fails to import its library; here it is bfloat16 on
      the available device, as ``common.bf16=true`` is under hydra.
    * ``--optimizer adam`` with ``--init-from`` becomes ``two_rate_adam`` with the same
      options, so that new and loaded parameters have different learning rates.

    Raises:
        GtransError: ``--fp16`` would flatten parameters with two learning rates into one.
    """
    if getattr(args, "bf16", False):
        args.tpu = False
    if getattr(args, "init_from", None) and getattr(args, "optimizer", None) == "adam":
        args.optimizer = "two_rate_adam"
    if getattr(args, "optimizer", None) == "two_rate_adam" and (
        getattr(args, "fp16", False)
        and not getattr(args, "memory_efficient_fp16", False)
        and not getattr(args, "fp16_no_flatten_grads", False)
    ):
        raise GtransError(
            "`--fp16` alone flattens all parameters into one, which cannot have two learning "
            "rates; add --fp16-no-flatten-grads (or use --memory-efficient-fp16, --bf16, --amp)."
        )
