"""`gtrans options`, and what it writes: configuration files from recipes, tables of systems."""

from __future__ import annotations

import re
import shutil
from dataclasses import field, make_dataclass
from pathlib import Path

import pytest
import yaml
from fairseq.models import MODEL_DATACLASS_REGISTRY

from gtrans.cli import main
from gtrans.data.units import UNIT_OPTIONS
from gtrans.errors import GtransError
from gtrans.options import recipes
from gtrans.options.catalogue import architectures, model_options, task_options
from gtrans.options.recipes import COMMAND, configuration, configurations, read_recipe
from gtrans.options.tables import DOCUMENTS, documents, page_of, shortened

RECIPES = ("concat_transformer", "gtransformer_finetune", "gtransformer_mbart")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]):
    def call(*arguments: str | Path) -> str:
        status = main(["options", *map(str, arguments)])
        captured = capsys.readouterr()
        assert status == 0, captured.err
        return captured.out

    return call


@pytest.fixture
def folder(repo: Path, tmp_path: Path) -> Path:
    """A project with the recipes, and with tables to be written."""
    shutil.copytree(repo / "configs" / "recipes", tmp_path / "configs" / "recipes")
    for name, tables in DOCUMENTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        places = [f"<!-- {table}: x -->\n<!-- end of {table} -->\n" for table in tables]
        (tmp_path / name).write_text("".join(["before\n", *places, "after\n"]))
    return tmp_path


# ---- gtrans options ------------------------------------------------------------------------------


def test_every_architecture_is_listed(printed) -> None:
    listed = re.findall(r"^  (\w+) +(\d+) \+ \d+ layers, width", printed(), re.MULTILINE)
    assert [name for name, _ in listed] == list(architectures())
    assert dict(listed)["gtransformer_large"] == "12"


@pytest.mark.parametrize("arch", ["gtransformer_mbart_large", "gtrans_fusion_tiny"])
def test_every_flag_of_an_architecture_is_explained(arch: str, printed) -> None:
    text = printed(arch)
    for option in (*task_options(arch), *model_options(arch)):
        if not str(option.default).startswith("${"):
            assert re.search(rf"^  {option.flag}( |$)", text, re.MULTILINE), option.flag
            assert option.help


def test_groups_choices_and_what_the_preset_says(printed) -> None:
    text = " ".join(printed("flat_transformer_base").split())
    assert "--unit sentence|window" in text  # of the four units those that it takes
    assert "(default: window, what the model is made for" in text
    assert "the two sides" not in text and "(default: 1024, the preset's)" in text
    one, other = (text.index(flag) for flag in ("--encoder-layers", "--flat-bottom-layers"))
    assert one < text.index("Options of FlatTransformer ") < other


def test_hydra_form_can_be_read_and_is_all_defaults(printed) -> None:
    text = printed("memory_transformer_tiny", "--yaml")
    sections = yaml.safe_load(text)
    assert sections["task"].pop("_name") == "document_translation"
    assert sections["model"].pop("_name") == "memory_transformer_tiny"
    for options in (task_options, model_options):
        for option in options("memory_transformer_tiny"):
            if not str(option.default).startswith("${"):
                assert sections[option.section].pop(option.name) == option.default
    assert sections == {"task": {}, "model": {}}
    assert "--" not in re.sub(r"`[^`]*`", "", text)  # keys, not flags


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gtransformer_bsae"], "no architecture 'gtransformer_bsae'"),
        (["transformer"], "no architecture 'transformer' in this project"),
        (["--yaml"], "`--yaml` needs an architecture"),
        (["gtransformer", "--write"], "leave out ARCH and --yaml"),
        (["--write", "nowhere"], "nowhere/configs/recipes: there are no recipes"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], message: str, capsys) -> None:
    assert main(["options", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gtrans: error: ") and message in line


# ---- configuration files -------------------------------------------------------------------------


def test_committed_files_are_what_the_generator_writes(repo: Path) -> None:
    wanted = configurations(repo / "configs")
    assert set(wanted) == set((repo / "configs").glob("*.yaml"))
    for path, text in wanted.items():
        same = path.read_text(encoding="utf-8") == text
        assert same, f"{path} is not what its recipe and the options say: run `{COMMAND}`"


def test_files_are_written_where_they_differ(folder: Path, repo: Path, printed) -> None:
    wanted = [*configurations(repo / "configs"), *documents(repo)]
    assert printed("--write", folder).count(" written\n") == len(wanted)
    changed = folder / "configs" / "gtrans_fusion.yaml"
    changed.write_text("model: {}\n")
    assert printed("--write", folder) == f"{changed} written\n"
    assert changed.read_text() == (repo / "configs" / changed.name).read_text()


def test_the_tables_name_options_that_exist(repo: Path) -> None:
    found: dict[str, set[str]] = {}
    for path in (repo / "configs").glob("*.yaml"):
        for section, group in yaml.safe_load(path.read_text()).items():
            found.setdefault(section, set()).update(group)
    for section, texts in recipes.FAIRSEQ.items():
        assert set(texts) <= found[section]
    assert {option.name for option in task_options("gtransformer")} >= UNIT_OPTIONS


@pytest.mark.parametrize("name", RECIPES)
def test_a_file_has_what_its_recipe_says_and_else_defaults(name: str, repo: Path) -> None:
    place = repo / "configs" / "recipes"
    recipe = read_recipe(place / f"{name}.yaml").on(read_recipe(place / "every.yaml"))
    values = yaml.safe_load((repo / "configs" / f"{name}.yaml").read_text())
    for section, group in recipe.values.items():
        for key, value in group.items():
            assert values[section].pop(key) == value
    arch = recipe.values["model"]["_name"]
    defaults = {option.name: option.default for option in model_options(arch)}
    assert values["model"] == {key: defaults[key] for key in values["model"]}
    assert not {"_name", *recipe.values["model"]} & values["model"].keys()


def test_a_reason_follows_the_meaning(repo: Path) -> None:
    text = (repo / "configs" / "memory_transformer.yaml").read_text()
    comments = " ".join(re.sub(r"\n +#", "", text).split())
    assert "Here: this and adam_eps: as in the authors' program adam_eps:" in comments


def test_a_new_option_appears_in_its_group_by_itself(
    repo: Path, printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = make_dataclass(
        "Toy",
        [("toy_size", int, field(default=3, metadata={"help": "size of a toy"}))],
        bases=(MODEL_DATACLASS_REGISTRY["flat_transformer"],),
        namespace={"__doc__": "Options of :class:`gtrans.Toy`, which is new.\n\nMore of it."},
    )
    toy.__module__ = "gtrans.models.toy"
    monkeypatch.setitem(MODEL_DATACLASS_REGISTRY, "flat_transformer", toy)
    assert (
        "\nOptions of Toy, which is new\n  --toy-size N              size of a toy (default: 3)"
        in printed("flat_transformer_tiny")
    )
    text = configuration(repo / "configs" / "recipes" / "flat_transformer.yaml")
    assert "\n  # Options of Toy, which is new\n  toy_size: 3 " in text
    assert " # size of a toy; default 3\n" in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "model:\n  _name: flat_transformer_base\n  dropuot: 0.1",
            "model.dropuot: there is no such",
        ),
        ("model:\n  _name: flat_base", "there is no architecture 'flat_base'"),
        ("modle:\n  _name: flat_transformer_base", "model._name, the architecture, is missing"),
        ("model:\n  _name: gtransformer\nmodels:\n  x: 1", "unknown section 'models'"),
        (
            "model:\n  _name: gtransformer\noptimizer:\n  _name: adma",
            "optimizer._name 'adma' is un",
        ),
        ("model: flat_transformer_base", "a recipe must have sections with keys"),
        ("model: [", "x.yaml: while parsing"),
    ],
)
def test_a_wrong_recipe_is_refused(line: str, message: str, folder: Path) -> None:
    path = folder / "configs" / "recipes" / "x.yaml"
    path.write_text(f"# heading\n\n{line}\n")
    with pytest.raises(GtransError, match=re.escape(message)) as error:
        configuration(path)
    assert str(error.value).startswith(str(path))


# ---- tables of systems ---------------------------------------------------------------------------


def test_committed_tables_are_what_the_generator_writes(repo: Path) -> None:
    for path, text in documents(repo).items():
        same = path.read_text(encoding="utf-8") == text
        assert same, f"the table of {path} is not what the classes say: run `{COMMAND}`"


def test_a_table_has_a_row_for_every_class(folder: Path) -> None:
    before, *rows, after = documents(folder)[folder / "docs/systems/index.md"].splitlines()
    assert (before, after) == ("before", "after")
    assert len(rows) == 4 + len(set(architectures().values()))
    row = "| [Concatenation](concat_transformer.md): a window of sentences is read as one text | "
    assert row + "`concat_transformer_tiny`, `base` | window, sentence |" in rows


def test_every_system_has_a_page(repo: Path) -> None:
    for model in set(architectures().values()):
        assert page_of(model) and (repo / "docs/systems" / f"{page_of(model)}.md").is_file(), model


def test_names_are_written_in_full_where_they_have_another_stem() -> None:
    names = ["m", "m_tiny", "m_bart_base", "other_tiny", "other_base"]
    assert shortened(names) == ["m_tiny", "bart_base", "other_tiny", "base"]
    assert shortened(["m"]) == ["m"]


def test_a_document_without_its_table_is_refused(folder: Path) -> None:
    page = folder / "docs/systems/index.md"
    page.write_text("no table\n")
    with pytest.raises(GtransError, match=rf"^{page}: has no place for the table 'systems'"):
        documents(folder)
    page.unlink()
    with pytest.raises(GtransError, match=rf"^{page}: there is no such file"):
        documents(folder)
