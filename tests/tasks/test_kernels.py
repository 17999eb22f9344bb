"""Importing the plugin turns cuDNN's attention off, unless the environment says otherwise."""

from __future__ import annotations

import torch

from gtrans.environment import choose_kernels


def test_cudnn_attention_is_off_unless_it_is_asked_for(monkeypatch) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    monkeypatch.setenv("GTRANS_CUDNN_ATTENTION", "1")
    choose_kernels()
    assert torch.backends.cuda.cudnn_sdp_enabled()
    monkeypatch.delenv("GTRANS_CUDNN_ATTENTION")
    choose_kernels()
    assert not torch.backends.cuda.cudnn_sdp_enabled()
