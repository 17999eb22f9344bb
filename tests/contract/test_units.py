"""Every model class reads every unit that it declares, through the commands that users type."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.contract import (
    Built,
    Case,
    batch_of,
    build,
    cases,
    classes,
    first_cases,
    loss_of,
    searched_and_read,
    undeclared,
    with_the_others_long,
)
from support.suites import others_long
from support.tiny_models import StockCommands, TinyWorld

from gtrans.cli import main
from gtrans.errors import GtransError

TRAINING = (
    *("--optimizer", "adam", "--lr", "0.003", "--max-tokens", "400", "--max-update", "2"),
    *("--criterion", "label_smoothed_cross_entropy", "--max-valid-steps", "2"),
    *("--no-epoch-checkpoints", "--num-workers", "0", "--cpu"),
)


@pytest.fixture(scope="module", params=with_the_others_long())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture(scope="module")
def checkpoint(
    case: Case,
    stock: StockCommands,
    prepared_with_bert: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A model that has been trained for two updates and validated."""
    folder = tmp_path_factory.mktemp(str(case))
    stock.succeed(
        "train", prepared_with_bert, "--user-dir", "gtrans", "--task", "document_translation",
        *case.flags, *TRAINING, "--save-dir", folder, "--bert-cache", folder.parent / "features",
    )  # fmt: skip
    # Only validation finds a best one.
    return folder / "checkpoint_best.pt"


def test_trains_and_translates(case, checkpoint, prepared_with_bert, tiny: TinyWorld, tmp_path):
    """With its data folder, and with what the checkpoint carries of it."""
    source, texts = (tiny.text / "test.en").read_text().split("\n"), []
    for name, data in (("with", ["--data", str(prepared_with_bert)]), ("without", [])):
        flags = ["--beam", "2", "--max-len-a", "0", "--max-len-b", "3", *data]
        flags += ["--input", str(tiny.text / "test.en"), "--output", str(tmp_path / name)]
        assert main(["translate", "--path", str(checkpoint), *flags]) == 0
        texts.append((tmp_path / name).read_text().split("\n"))
    assert texts[0] == texts[1]
    assert [line == "" for line in texts[0]] == [line == "" for line in source]


@pytest.mark.parametrize("case", others_long(cases(), first_cases()[1::2]), indirect=True)
def test_is_scored_on_a_contrastive_set(case, checkpoint, prepared_with_bert, tmp_path, capsys):
    items = tmp_path / "items.jsonl"
    item = {
        "id": "1", "phenomenon": "pronoun", "distance": 1, "cue": "dog",
        "source": ["The dog sleeps.", "It is old."],
        "target": ["Der Hund schläft.", "Er ist alt."],
        "contrastive": [["Der Hund schläft.", "Sie ist alt."]],
    }  # fmt: skip
    other = {
        **item, "id": "2", "source": ["We saw a lamp.", "It is new."],
        "target": ["Wir sahen eine Lampe.", "Sie ist neu."],
        "contrastive": [["Wir sahen eine Lampe.", "Er ist neu."]],
    }  # fmt: skip
    lines = "".join(f"{json.dumps(it)}\n" for it in (item, other))
    items.write_text(lines, encoding="utf-8")
    flags = ["--data", str(prepared_with_bert), "--set", str(items), "--json"]
    assert main(["contrast", "--path", str(checkpoint), *flags, "--shuffled-context"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["items"] == {"pronoun": {"1": 2}}
    gain = found["above_shuffled_context"]["all"]
    assert gain["items"] == 2
    # Only a model that reads a context scores an item otherwise in another one.
    low, high = gain["interval"]
    assert (max(abs(low), abs(high)) > 1e-5) == (case.unit != "sentence")


@pytest.mark.parametrize("case", others_long(cases(), first_cases()[::2]), indirect=True)
def test_is_analysed(case, checkpoint, prepared_with_bert, capsys):
    pytest.importorskip("gtrans.lab")
    flags = ["--data", str(prepared_with_bert), "--units", "3", "--json"]
    assert main(["analyse", "--path", str(checkpoint), *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    (facts,) = found["facts"]["checkpoints"]
    assert facts["unit"] == case.unit
    assert any("attention" in panel["title"] for panel in found["panels"])
    status = main(["analyse", "--path", str(checkpoint), *flags, "--gradients"])
    errors = capsys.readouterr().err.strip()
    assert status == 0 or (errors.startswith("gtrans: error: ") and "\n" not in errors)


@pytest.mark.parametrize("case", others_long(cases(), first_cases()[::2]), indirect=True)
def test_what_a_context_brings_is_measured(case, checkpoint, prepared_with_bert, tiny, capsys):
    """A context, a random one, and none."""
    sides = ["--src", str(tiny.text / "test.en"), "--ref", str(tiny.text / "test.de")]
    flags = ["--data", str(prepared_with_bert), *sides, "--shuffled-context", "--cpu", "--json"]
    assert main(["cxmi", "--path", str(checkpoint), *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    random, above = (
        found[name]["value"] for name in ("shuffled_context", "above_shuffled_context")
    )
    assert found["unit"] == case.unit
    assert found["value"] == pytest.approx(random + above, abs=1e-5)
    # However little an untrained model uses its context, another one changes some probability.
    assert above != 0 if case.unit != "sentence" else abs(above) < 1e-5


def check_search(built: Built, least: int) -> None:
    """Of at least so many rows the search has the scores of one pass."""
    pairs = list(searched_and_read(built))
    assert len(pairs) >= least
    for written, read in pairs:
        assert written == pytest.approx(read, abs=1e-4)


@pytest.mark.parametrize("case", cases(), ids=str, indirect=True)
@pytest.mark.parametrize("special_tokens", others_long(["both", "end", "bart"], ["both"]))
def test_search_step_by_step_is_one_pass(case, prepared_with_bert, special_tokens):
    built = build(case, prepared_with_bert, sentence_marks=special_tokens)
    check_search(built, 3)


@pytest.mark.parametrize("case", cases(), ids=str, indirect=True)
@pytest.mark.parametrize("special_tokens", others_long(["both", "end"], ["both"]))
def test_search_in_chunks_that_overlap_is_one_pass(case, prepared_with_bert, special_tokens):
    """Of every chunk the scores of its own words, behind what it only reads."""
    if case.unit != "document":
        pytest.skip("only documents have chunks")
    built = build(
        case, prepared_with_bert, sentence_marks=special_tokens, overlap=1, max_doc_tokens=10
    )
    check_search(built, 4)  # of three documents


@pytest.mark.parametrize("overlap", [0, 1])
@pytest.mark.parametrize("output", ["residual", "printed"])
def test_search_with_a_memory_between_chunks_is_one_pass(prepared_with_bert, output, overlap):
    """Of every chunk the scores of its own words, after the chunks before it."""
    case = Case("gtransformer_memory_tiny", "stream")
    options = {"max_doc_tokens": 10, "memory_output": output, "memory_layers": "all"}
    built = build(case, prepared_with_bert, overlap=overlap, **options)
    check_search(built, 4 if overlap else 3)  # of three documents


@pytest.mark.parametrize("backend", ["regroup", pytest.param("dense", marks=pytest.mark.long)])
def test_mixed_precision(case, backend, prepared_with_bert) -> None:
    """bf16 is ``--amp`` on a CPU; fp16 has the types that ``--amp`` has on CUDA."""
    built = build(case, prepared_with_bert, attention_backend=backend, dropout=0.0)
    built.model.train()
    batch = batch_of(built)
    batch["net_input"] = built.task.complete_input(batch["net_input"])
    expected = loss_of(built, batch).item()
    for precision in (torch.bfloat16, torch.float16):
        built.model.zero_grad()
        with torch.autocast("cpu", precision):
            loss = loss_of(built, batch)
        assert loss.item() == pytest.approx(expected, rel=0.02)
        loss.backward()
        for name, parameter in built.model.named_parameters():
            if parameter.requires_grad:
                assert parameter.grad is not None, name
                assert parameter.grad.dtype == torch.float32
                assert parameter.grad.isfinite().all(), name


def test_decoding_in_bf16(case, prepared_with_bert) -> None:
    """``--bf16``: the search has the scores of one pass in the same precision."""
    built = build(case, prepared_with_bert)
    built.model.bfloat16()
    pairs = list(searched_and_read(built))
    assert len(pairs) >= 3
    for written, read in pairs:
        assert written == pytest.approx(read, rel=0.01, abs=0.05)


@pytest.mark.parametrize("case", undeclared(), ids=str)
def test_what_is_not_declared_is_refused(case, prepared_with_bert):
    with pytest.raises(GtransError, match=r"^`--(unit|context-sides) \w+`: this model takes "):
        build(case, prepared_with_bert)


def test_every_class_declares_a_unit_and_has_a_tiny_architecture():
    for arch, model in classes().items():
        assert model.inputs.units and model.inputs.context_sides, arch
        assert model.__doc__ and model.options is not None and arch in model.presets
