"""The same options from the command line, from presets and from configuration files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.runs import log_of
from support.suites import others_long

if TYPE_CHECKING:
    from support.tiny_models import Finished, TinyWorld


LAYERS = {"encoder_layers": 2, "decoder_layers": 2}
SIZES = {
    **LAYERS,
    "encoder_embed_dim": 32,
    "encoder_ffn_embed_dim": 64,
    "decoder_ffn_embed_dim": 64,
    **{f"{side}_attention_heads": 2 for side in ("encoder", "decoder")},
    "encoder_global_layers": 1,
    "decoder_global_layers": 1,
    "cross_global_layers": 1,
}
CONFIGS = ("gtransformer_sentence", "gtransformer_randinit", "gtransformer_finetune")
# What stands in the configurations, as flags: of each, of all, and of these tests.
FLAGS = {
    "gtransformer_sentence": ("--unit", "sentence", "--doc-mode", "full"),
    "gtransformer_randinit": (
        *("--unit", "document", "--word-dropout", "0.3", "--word-dropout-epochs", "30"),
    ),
    "gtransformer_finetune": (
        *("--unit", "document", "--word-dropout", "0.1", "--word-dropout-epochs", "40"),
    ),
}
RECIPE = (
    *("--share-all-embeddings", "--dropout", "0.3", "--optimizer", "adam"),
    *("--adam-betas", "(0.9, 0.98)", "--lr", "5e-4", "--lr-scheduler", "inverse_sqrt"),
    *("--warmup-updates", "4000", "--criterion", "chunked_cross_entropy"),
    *("--label-smoothing", "0.1", "--update-freq", "4"),
)
RUN = ("--max-tokens", "512", "--num-workers", "0", "--log-format", "json", "--log-interval", "1",
       "--disable-validation", "--no-epoch-checkpoints", "--cpu")  # fmt: skip


def size_flags(sizes: dict[str, int]) -> list[str]:
    return [part for k, v in sizes.items() for part in (f"--{k.replace('_', '-')}", str(v))]


def train(tiny: TinyWorld, save: Path, *options: str | Path, updates: int = 2) -> Finished:
    """``fairseq-train`` for some updates, with the sizes of ``SIZES``."""
    return tiny.run(
        "train", tiny.data, "--user-dir", "gtrans", "--task", "document_translation",
        "--arch", "gtransformer_tiny", *size_flags(SIZES), *RECIPE, *RUN,
        "--max-update", str(updates), "--save-dir", save, *options,
    )  # fmt: skip


def hydra(
    tiny: TinyWorld,
    repo: Path,
    config: str,
    save: Path,
    *overrides: str,
    sizes: dict[str, int] = SIZES,
    updates: int = 2,
) -> Finished:
    """``fairseq-hydra-train`` with a file of configs/, the same changes made to it."""
    return tiny.run(
        "hydra_train", "--config-dir", repo / "configs", "--config-name", config,
        f"common.user_dir={repo / 'gtrans'}", f"task.data={tiny.data}",
        f"checkpoint.save_dir={save}", f"hydra.run.dir={save}.hydra",
        "model._name=gtransformer_tiny", *(f"++model.{k}={v}" for k, v in sizes.items()),
        "common.cpu=true", "common.log_format=json", "common.log_interval=1",
        "dataset.max_tokens=512", "dataset.num_workers=0", "dataset.disable_validation=true",
        f"optimization.max_update={updates}", *overrides,
    )  # fmt: skip


def read(path: Path) -> dict[str, Any]:
    """A checkpoint, read with torch's own check in force."""
    import torch

    from gtrans.checkpoints import register_safe_globals

    register_safe_globals()
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


def losses(done: Finished) -> list[str]:
    return re.findall(r'"loss": "([\d.]+)"', log_of(done))


def parameters(done: Finished) -> list[str]:
    return re.findall(r"num\. shared model params: ([\d,]+)", log_of(done))


def refusal(done: Finished) -> str:
    """The last line that the command line has printed."""
    assert done.status != 0
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr.strip().splitlines()[-1]


# ---- the same model from everywhere --------------------------------------------------------------


@pytest.mark.parametrize("config", others_long(CONFIGS, ["gtransformer_randinit"]))
def test_command_line_and_configuration_give_the_same_model(config, tiny, repo, tmp_path):
    start = tiny.checkpoints["sentence"] if config.endswith("finetune") else None
    flags = [*FLAGS[config], *(["--init-from", start] if start else [])]
    by_flags = train(tiny, tmp_path / "flags", *flags)
    overrides = [f"task.init_from={start}"] if start else []
    by_file = hydra(tiny, repo, config, tmp_path / "file", *overrides)
    assert parameters(by_flags) == parameters(by_file)
    assert len(losses(by_flags)) == 2
    assert losses(by_flags) == losses(by_file)
    one, other = (read(tmp_path / x / "checkpoint_last.pt")["model"] for x in ("flags", "file"))
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)

    if config.endswith("randinit"):
        decoded = tiny.run.succeed(
            "generate", tiny.data, "--user-dir", "gtrans", "--task", "document_translation",
            "--path", tmp_path / "file" / "checkpoint_last.pt", "--beam", "1", "--max-len-b", "3",
            "--cpu",
        )  # fmt: skip
        sentences = sum(map(len, tiny.source()))
        assert sorted(number for number, _ in decoded.lines("H")) == list(range(sentences))


@pytest.mark.long
def test_a_preset_gives_its_sizes_in_a_configuration(tiny, repo, tmp_path):
    """Only the layers are given here: widths are those of gtransformer_tiny."""
    overrides = ("++model.encoder_global_layers=1", "++model.decoder_global_layers=1")
    done = hydra(tiny, repo, "gtransformer_randinit", tmp_path, *overrides, sizes=LAYERS, updates=1)
    log_of(done)
    model = read(tmp_path / "checkpoint_last.pt")["model"]
    assert model["encoder.layers.1.fc1.weight"].shape == (1024, 256)
    assert "encoder.layers.2.fc1.weight" not in model


# ---- configuration files -------------------------------------------------------------------------


# Task options that concern windows only; configurations of other units do without them.
TYPOS = [
    ("model.droput=0.1", "Key 'droput' is not in struct"),
    ("+model.droput=0.1", "Key 'droput' not in 'GTransformerConfig'"),
    ("task.max_doc_token=9", "Key 'max_doc_token' is not in struct"),
    ("+task.max_doc_token=9", "Key 'max_doc_token' not in 'DocumentTranslationConfig'"),
    ("+model.doc_mode=half", "Invalid value 'half', expected one of [partial, full]"),
    ("task.unit=chapter", "Invalid value 'chapter', expected one of [sentence, window, "),
]


@pytest.mark.parametrize("typo", others_long(TYPOS, [TYPOS[0], TYPOS[4]]))
def test_a_typo_in_a_configuration_is_refused(typo, tiny, repo, tmp_path):
    override, message = typo
    done = hydra(tiny, repo, "gtransformer_randinit", tmp_path / "out", override)
    assert done.status != 0
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--droput", "0.1"), "unrecognized arguments: --droput 0.1"),
        (("--doc-mode", "half"), "argument --doc-mode: invalid choice: 'half'"),
        (("--arch", "gtransformer_tinny"), "argument --arch/-a: invalid choice"),
    ],
)
def test_a_typo_on_the_command_line_is_refused(option, message, tiny, tmp_path):
    assert message in refusal(train(tiny, tmp_path, *option))


# ---- precision -----------------------------------------------------------------------------------


def is_bfloat16(path: Path) -> bool:
    """Whether parameters were of that type in training; fairseq writes them as fp32."""
    return all(x.bfloat16().float().equal(x) for x in read(path)["model"].values())


@pytest.mark.long
def test_bf16_from_both(tiny, repo, tmp_path):
    start = tiny.checkpoints["sentence"]
    flags = (*FLAGS["gtransformer_finetune"], "--init-from", start, "--bf16")
    by_flags = train(tiny, tmp_path / "flags", *flags)
    by_file = hydra(
        tiny, repo, "gtransformer_finetune", tmp_path / "file", f"task.init_from={start}",
        "common.bf16=true",
    )  # fmt: skip
    assert losses(by_flags) == losses(by_file)
    assert not is_bfloat16(start)
    assert is_bfloat16(tmp_path / "flags" / "checkpoint_last.pt")
    assert is_bfloat16(tmp_path / "file" / "checkpoint_last.pt")


def rates(path: Path) -> list[float]:
    """The learning rates of a checkpoint's optimizer, highest first."""
    groups = read(path)["last_optimizer_state"]["param_groups"]
    return sorted((group["lr"] for group in groups), reverse=True)


@pytest.mark.parametrize(
    "precision",
    [
        (),
        pytest.param(("--amp",), marks=pytest.mark.long),
        ("--bf16",),
        pytest.param(("--fp16", "--memory-efficient-fp16"), marks=pytest.mark.long),
        pytest.param(("--fp16", "--fp16-no-flatten-grads"), marks=pytest.mark.long),
    ],
)
def test_loaded_and_new_parameters_have_two_rates(precision, tiny, tmp_path):
    """After 2 of 4000 warm-up updates, at 5e-4."""
    start = tiny.checkpoints["sentence"]
    log_of(train(tiny, tmp_path, "--doc-mode", "partial", "--init-from", start, *precision))
    lr = 5e-4 * 2 / 4000
    assert rates(tmp_path / "checkpoint_last.pt") == pytest.approx([lr, 0.2 * lr])


def test_fp16_that_flattens_is_refused_with_the_advice(tiny, tmp_path):
    done = train(tiny, tmp_path, "--init-from", tiny.checkpoints["sentence"], "--fp16")
    assert refusal(done).startswith("gtrans: error: `--fp16` alone flattens all parameters")
    assert "--fp16-no-flatten-grads" in refusal(done)
    assert not list(tmp_path.iterdir())


def test_a_missing_start_is_one_line(tiny, tmp_path):
    done = train(tiny, tmp_path, "--init-from", tmp_path / "no.pt")
    assert refusal(done) == (
        f"gtrans: error: --init-from {tmp_path / 'no.pt'}: there is no such checkpoint."
    )


@pytest.mark.long
def test_two_rates_without_a_start_are_refused(tiny, repo, tmp_path):
    done = train(tiny, tmp_path, "--optimizer", "two_rate_adam")
    assert "finds no loaded parameters; give --init-from" in refusal(done)
    done = hydra(tiny, repo, "gtransformer_finetune", tmp_path / "file")
    assert done.status != 0
    assert "finds no loaded parameters; give --init-from (task.init_from)" in done.stderr
    start = f"task.init_from={tiny.checkpoints['sentence']}"
    done = hydra(
        tiny, repo, "gtransformer_finetune", tmp_path / "file", start, "optimizer._name=adam"
    )
    assert done.status != 0
    assert "needs the optimizer two_rate_adam" in done.stderr


def same(one: Path, other: Path) -> bool:
    """Whether two checkpoints hold the same parameters and optimizer states, bit for bit."""
    first, second = read(one), read(other)
    assert first["model"].keys() == second["model"].keys()
    states = [x["last_optimizer_state"]["state"] for x in (first, second)]
    assert states[0].keys() == states[1].keys()
    return all(
        tensor.equal(second["model"][name]) for name, tensor in first["model"].items()
    ) and all(
        states[0][number]["exp_avg_sq"].equal(states[1][number]["exp_avg_sq"])
        for number in states[0]
    )


@pytest.mark.long
def test_a_resumed_run_goes_on_exactly_where_it_was(tiny, tmp_path):
    """With word dropout and two rates; the sentence model has been deleted in the meantime."""
    start = tmp_path / "sentence.pt"
    shutil.copy(tiny.checkpoints["sentence"], start)
    options = (*FLAGS["gtransformer_finetune"], "--init-from", start)
    log_of(train(tiny, tmp_path / "whole", *options, updates=4))
    log_of(train(tiny, tmp_path / "parts", *options, updates=2))
    whole, parts = (tmp_path / x / "checkpoint_last.pt" for x in ("whole", "parts"))
    assert not same(whole, parts)
    start.unlink()
    done = train(tiny, tmp_path / "parts", *options, updates=4)
    assert "(epoch 1 @ 2 updates)" in log_of(done)
    assert same(whole, parts)
    assert rates(parts) == pytest.approx([5e-4 * 4 / 4000, 1e-4 * 4 / 4000])


@pytest.mark.long
def test_two_processes_stop_and_resume(tiny, repo, tmp_path):
    """Two processes on the CPU, stopped after 2 updates and resumed; like one run of 4."""
    torchrun = Path(sys.executable).with_name("torchrun")
    command = (
        'fairseq-train "$@" --distributed-world-size 2 --distributed-init-method env:// '
        "--distributed-no-spawn --distributed-backend gloo --ddp-backend legacy_ddp "
        "--distributed-rank $RANK --device-id 0"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def run(save: str, updates: int) -> None:
        done = subprocess.run(
            [
                torchrun, "--no-python", "--standalone", "--nproc_per_node", "2",
                "bash", "-c", command, "bash", tiny.data, "--user-dir", "gtrans",
                "--task", "document_translation", "--arch", "gtransformer_tiny",
                *size_flags(SIZES), *RECIPE, *RUN, *FLAGS["gtransformer_finetune"],
                "--init-from", tiny.checkpoints["sentence"], "--max-update", str(updates),
                "--save-dir", tmp_path / save,
            ],
            cwd=repo,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": path, "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    run("whole", 4)
    run("parts", 2)
    run("parts", 4)
    whole, parts = (tmp_path / x / "checkpoint_last.pt" for x in ("whole", "parts"))
    assert same(whole, parts)
    assert rates(parts) == pytest.approx([5e-4 * 4 / 4000, 1e-4 * 4 / 4000])
