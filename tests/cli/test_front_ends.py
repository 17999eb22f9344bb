"""The same options from the command line and from configuration files; two learning rates."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from support.folders import REPO
from support.runs import PLUGIN, differing, log_of, refusal, train
from support.suites import others_long

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.cli.shared.config_file import take_config

if TYPE_CHECKING:
    from support.tiny_models import Finished, TinyWorld

SIZES = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_embed_dim": 32,
    "encoder_ffn_embed_dim": 64, "decoder_ffn_embed_dim": 64,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2,
}  # fmt: skip
GLOBAL = {f"{side}_global_layers": 1 for side in ("encoder", "decoder", "cross")}
# What the sentence model of these tests does not have.
OF_BART = ("learned_positions", "layernorm_embedding", "no_scale_embedding", "activation_fn")
CONFIGS = {
    "gtransformer_sentence": ("gtransformer_tiny", GLOBAL),
    "gtransformer_randinit": ("gtransformer_tiny", GLOBAL),
    "gtransformer_finetune": ("gtransformer_tiny", GLOBAL),
    "memory_transformer": ("memory_transformer_tiny", {}),
    "flat_transformer": ("flat_transformer_tiny", {}),
    "concat_transformer": ("concat_transformer_tiny", {}),
    "gtrans_fusion": ("gtrans_fusion_tiny", {}),
    "bert_context_transformer": ("bert_context_transformer_tiny", {}),
    "gtransformer_bert": ("gtransformer_bert_tiny", {**GLOBAL, "encoder_embed_dim": 16}),
}


def small(tiny: TinyWorld, folder: Path, config: str, data: Path | None = None) -> Path:
    """A file of configs/ for the tiny corpus and two updates of a tiny model."""
    sections = yaml.safe_load((REPO / "configs" / f"{config}.yaml").read_text("utf-8"))
    arch, more = CONFIGS[config]
    for name in OF_BART:
        sections["model"].pop(name, None)
    sections["model"] |= {"_name": arch, **SIZES, **more}
    sections["common"] |= {
        "user_dir": str(REPO / "gtrans"), "cpu": True, "log_format": "json", "log_interval": 1,
    }  # fmt: skip
    sections["task"]["data"] = str(data or tiny.data)
    if "init_from" in sections["task"]:
        sections["task"]["init_from"] = str(tiny.checkpoints["sentence"])
    sections["dataset"] |= {"max_tokens": 512, "num_workers": 0, "disable_validation": True}
    sections["optimization"]["max_update"] = 2
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(sections), "utf-8")
    return path


def hydra(tiny: TinyWorld, file: Path, save: Path, *overrides: str) -> Finished:
    """``fairseq-hydra-train`` with a file."""
    return tiny.run(
        "hydra_train", "--config-dir", file.parent, "--config-name", file.stem,
        f"checkpoint.save_dir={save}", f"hydra.run.dir={save}.hydra", *overrides,
    )  # fmt: skip


def losses(done: Finished) -> list[str]:
    return re.findall(r'"loss": "([\d.]+)"', log_of(done))


@pytest.mark.parametrize("config", others_long(CONFIGS, ["gtransformer_randinit"]))
def test_a_file_and_its_options_on_the_command_line_give_the_same_model(
    config, tiny, tmp_path, request
):
    data = request.getfixturevalue("prepared_with_bert") if "bert" in config else tiny.data
    file = small(tiny, tmp_path, config, data)
    read, _ = take_config(["--config", str(file)])
    assert read is not None
    words = [*read.words_before([]), "--user-dir", "gtrans", "--save-dir", tmp_path / "flags"]
    by_flags = tiny.run("train", *words)
    by_file = hydra(tiny, file, tmp_path / "file")
    assert losses(by_flags) == losses(by_file) and len(losses(by_flags)) == 2
    paths = (tmp_path / name / "checkpoint_last.pt" for name in ("flags", "file"))
    assert differing(*(dict(read_checkpoint(path)["model"]) for path in paths)) == []
    if config == "gtransformer_randinit":
        search = ("--beam", "1", "--max-len-b", "3", "--cpu", "--path")
        path = tmp_path / "file" / "checkpoint_last.pt"
        done = tiny.run.succeed("generate", tiny.data, *PLUGIN, *search, path)
        numbers = sorted(number for number, _ in done.lines("H"))
        assert numbers == list(range(len(tiny.subwords("en"))))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.droput=0.1", "Key 'droput' is not in struct"),
        ("+model.doc_mode=half", "Invalid value 'half', expected one of [partial, full]"),
        ("task.unit=chapter", "Invalid value 'chapter', expected one of [sentence, window, "),
    ],
)
def test_a_mistake_in_a_configuration_is_rejected(override, message, tiny, tmp_path):
    file = small(tiny, tmp_path, "gtransformer_randinit")
    done = hydra(tiny, file, tmp_path / "out", override)
    assert done.status != 0 and message in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_option_of_decoding_that_has_no_effect_is_rejected(tiny, tmp_path):
    file = small(tiny, tmp_path, "gtransformer_randinit")
    done = hydra(tiny, file, tmp_path / "out", "generation.sampling=true")
    assert refusal(done).startswith("`--sampling` is not supported: documents are decoded by one")


# ---- two learning rates ------------------------------------------------------------------------


def rates(folder: Path) -> list[float]:
    """The learning rates of a checkpoint's optimizer, highest first."""
    state = read_checkpoint(folder / "checkpoint_last.pt")["last_optimizer_state"]
    return sorted((group["lr"] for group in state["param_groups"]), reverse=True)


@pytest.mark.parametrize(
    "precision",
    others_long(
        [
            (), ("--bf16",), ("--amp",),
        ],
        [(), ("--bf16",)],
    ),
)  # fmt: skip
def test_loaded_and_new_parameters_have_two_rates(precision, tiny, tmp_path):
    start = ("--doc-mode", "partial", "--init-from", tiny.checkpoints["sentence"])
    start += ("--optimizer", "two_rate_adam")
    log_of(train(tiny.run, tiny.data, tmp_path, *start, *precision, updates=2))
    assert rates(tmp_path) == pytest.approx([0.003, 0.2 * 0.003])
    # fairseq writes parameters of every type as fp32
    values = read_checkpoint(tmp_path / "checkpoint_last.pt")["model"].values()
    halved = all(value.bfloat16().float().equal(value) for value in values)
    assert halved == ("--bf16" in precision)


@pytest.mark.long
def test_two_rates_need_a_start_and_a_start_two_rates(tiny, tmp_path):
    done = train(tiny.run, tiny.data, tmp_path / "flags", "--optimizer", "two_rate_adam")
    assert "finds no pretrained parameters; give --init-from (task.init_from)" in refusal(done)
    file = small(tiny, tmp_path, "gtransformer_finetune")
    done = hydra(tiny, file, tmp_path / "file", "optimizer._name=adam")
    assert done.status != 0 and "needs the optimizer two_rate_adam" in done.stderr


def test_adam_stays_adam_and_says_at_which_rate_it_trains(tiny, tmp_path):
    start = ("--doc-mode", "partial", "--init-from", tiny.checkpoints["sentence"])
    log = log_of(train(tiny.run, tiny.data, tmp_path, *start, updates=1))
    assert "train at the same rate as new ones (adam); `--optimizer two_rate_adam`" in log
    history = read_checkpoint(tmp_path / "checkpoint_last.pt")["optimizer_history"]
    assert history[-1]["optimizer_name"] == "FairseqAdam"


@pytest.mark.long
def test_paths_are_those_of_the_folder_in_which_hydra_is_started(tiny, tmp_path):
    file = small(tiny, tmp_path, "gtransformer_finetune")
    done = hydra(tiny, file, tmp_path / "run", "task.init_from=no.pt")
    assert f"--init-from {REPO / 'no.pt'}: there is no such checkpoint." in refusal(done)
    done = hydra(tiny, file, tmp_path / "run", "task.data=nowhere")
    assert refusal(done) == f"{REPO / 'nowhere'}: there is no such data folder."
    data = os.path.relpath(tiny.data, REPO)
    start = os.path.relpath(tiny.checkpoints["sentence"], REPO)
    done = hydra(tiny, file, tmp_path / "run", f"task.data={data}", f"task.init_from={start}")
    assert done.status == 0, done.stderr
