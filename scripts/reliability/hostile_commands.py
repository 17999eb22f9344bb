"""Valid small files of every kind, and the commands that read them."""

from __future__ import annotations

import gzip
import importlib
import json
import shutil
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases import ROOT
from forked import Order, run
from world import WorldError, code, make

_WORLD = (
    *("corpus", "bert", "pieces", "bytes", "prepare", "prepare-bert", "train-sentence"),
    *("train-document", "train-flat", "train-stream", "train-bert", "train-marks"),
)
_MODELS = {
    "sentence": "sentence", "document": "document", "window": "flat", "stream": "stream",
    "context": "bert", "marks": "marks",
}  # fmt: skip
_DOCUMENTS = 3  # of the texts that are translated


@dataclass(frozen=True)
class Command:
    """A command that reads files.

    Attributes:
        words: as they are typed, in a folder with the files of the kit.
        uses: files and folders of the kit that must be there.
        subjects: patterns of the files that are damaged.
        output: what it writes; it may not be there if the command fails. Empty: nothing.
        source: text of which the output has a line for each line.
        leaves: patterns of the files that may be left when it fails.
    """

    words: tuple[str, ...]
    uses: tuple[str, ...]
    subjects: tuple[str, ...]
    output: str = ""
    source: str = ""
    leaves: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What the table calls it."""
        return f"`{' '.join(self.words[: 1 + (self.words[0] == 'gtrans')])}`"


# ---- the kit -------------------------------------------------------------------------------------


def build(place: Path) -> Path:
    """Make the folder of valid files; returns it.

    Raises:
        WorldError: a command failed that makes a part of it.
    """
    world, kit = place / "world", place / "kit"
    make(world, _WORLD)
    done = place / "kit.done"
    known = code("hostile_commands.py", "cases.py")
    if done.is_file() and done.read_text("utf-8") == known:
        return kit
    done.unlink(missing_ok=True)
    shutil.rmtree(kit, ignore_errors=True)
    shutil.copytree(world / "corpus" / "corpus", kit / "corpus")
    for lang in ("en", "de"):
        documents = (kit / "corpus" / f"valid.{lang}").read_text("utf-8").strip().split("\n\n")
        small = "\n\n".join(documents[:_DOCUMENTS]) + "\n"
        (kit / f"small.{lang}").write_text(small, "utf-8")
    with gzip.open(kit / "packed.en.gz", "wb") as packed:
        packed.write((kit / "small.en").read_bytes())
    for source, name in (("bert/bert", "bert"), ("bytes", "bytes")):
        shutil.copytree(world / source, kit / name, ignore=shutil.ignore_patterns("std*", "done"))
    shutil.copy(world / "pieces" / "pieces.model", kit)
    for model, case in _MODELS.items():
        shutil.copy(world / f"train-{case}" / "run" / "checkpoint_best.pt", kit / f"{model}.pt")
    frozen = ROOT / "tests" / "frozen" / "0.1.0"
    shutil.copytree(frozen, kit / "old", ignore=shutil.ignore_patterns("*former*.json"))
    _write_sets(kit / "sets")
    _write_pretrained(kit)
    _write_sgm(kit / "sgm")
    (kit / "done").mkdir()
    for command in _MAKING:
        ended = run(Order(("gtrans", *command), kit, computing=600))
        if ended.status:
            raise WorldError(f"{' '.join(command)}: status {ended.status}: {ended.said}")
    done.write_text(known, "utf-8")
    return kit


def _write_sets(folder: Path) -> None:
    """Contrastive sets in the published formats."""
    folder.mkdir()
    sides = ["You came .", "You left ."], ["Du kamst .", "Du gingst .", "Sie gingen ."]
    choice = {"src": " _eos ".join(sides[0]), "true_ind": 1, "ctx_dist": 1}
    choice["dst"] = [" _eos ".join(pair) for pair in (sides[1][::2], sides[1][:2])]
    block = {"src": sides[0], "trg": [{"correct": sides[1][:2], "incorrect": sides[1][::2]}]}
    for name, content in (("deixis_test", [choice] * 2), ("anaphora", {"1": block, "2": block})):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1), "utf-8")
    (folder / "contrapro").mkdir()
    hund = [f"ein Hund . <SEP> {pronoun} schläft ." for pronoun in ("er", "sie")]
    for lang, lines in (("en", ["a dog . <SEP> it sleeps ."] * 2), ("de", hund)):
        (folder / "contrapro" / f"{lang}.txt").write_text("\n".join(lines) + "\n", "utf-8")
    columns = "first_line\tvariants\treference_pronoun\tantecedent_distance\n1\t2\ter\t1\n"
    (folder / "contrapro" / "groups.tsv").write_text(columns, "utf-8")
    (folder / "scores").write_text("-1.5\n-2.5\n-3\n-2\n", "utf-8")
    rain = [f"ein Hund . <SEP> {pronoun} regnet ." for pronoun in ("er", "sie", "es")]
    (folder / "rain").mkdir()
    genders, dog = ["n"] * 3, ["a dog . <SEP> it rains ."] * 3
    for name, lines in (("en", dog), ("de", rain), ("genders", genders)):
        (folder / "rain" / f"{name}.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "large").mkdir()
    for side, lines in (("src", ["it sleeps ."] * 2), ("trg", ["il dort .", "elle dort ."])):
        (folder / "large" / f"a.current.{side}").write_text("\n".join(lines) + "\n", "utf-8")
        context = ["a dog ."] * 2
        (folder / "large" / f"a.c1.context.{side}").write_text("\n".join(context) + "\n", "utf-8")


def _write_sgm(folder: Path) -> None:
    """A test set of WMT, as it is and in an archive."""
    (folder / "plain").mkdir(parents=True)
    (folder / "packed").mkdir()
    for side, lang, kind in (("src", "en", "srcset"), ("ref", "de", "refset")):
        docs = "".join(
            f'<doc docid="{n}" sysid="ref">\n<seg id="1">{lang} & {n}</seg>\n</doc>\n'
            for n in range(3)
        )
        text = f'<{kind} setid="newstest2016" srclang="any">\n{docs}</{kind}>\n'
        (folder / "plain" / f"newstest2016-ende-{side}.{lang}.sgm").write_text(text, "utf-8")
    with tarfile.open(folder / "packed" / "test.tgz", "w:gz") as archive:
        archive.add(folder / "plain", "test")


def _write_pretrained(kit: Path) -> None:
    """Models as other programs write them, and a finished run folder, those of the tests."""
    sys.path.append(str(ROOT / "tests"))
    authors_format, pretrained_models, reference = (
        importlib.import_module(f"support.{name}")
        for name in ("authors_format", "pretrained_models", "reference")
    )
    data = pretrained_models.write_dictionaries(kit / "toy")
    pretrained_models.hugging_face_model("bart", kit / "hugging", data)
    pretrained_models.fairseq_model("bart", kit / "bart", data)
    reference.write_corpus(kit / "toy-authors", ["valid"])
    (kit / "authors").mkdir()
    authors_format.save_fixture(kit / "authors" / "model.pt")
    importlib.import_module("support.run_folders").finished_run(kit / "finished")


_LANGUAGES = ("--source-lang", "en", "--target-lang", "de")
_TEXT = ("--train", "corpus/train", "--valid", "small", "--test", "small")
_SEARCH = ("--beam", "1", "--max-len-a", "0", "--max-len-b", "5", "--cpu")
_FORCED = ("--cpu", "--max-tokens", "2000")
_DONE = ("translate", "--path", "sentence.pt", "--input", "small.en", *_SEARCH)


def _prepare(out: str, *options: str) -> tuple[str, ...]:
    return ("prepare", *_LANGUAGES, *_TEXT, *options, "--out", out)


_SIZE = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "64"),
    *("--encoder-ffn-embed-dim", "128", "--decoder-ffn-embed-dim", "128"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
    "--share-all-embeddings",
)
_TRAINING = (
    *("--optimizer", "adam", "--lr", "0.003", "--criterion", "label_smoothed_cross_entropy"),
    *("--max-tokens", "2000", "--max-update", "1", "--num-workers", "0", "--cpu"),
)
_SENTENCE = ("--arch", "gtransformer_tiny", "--unit", "sentence", "--doc-mode", "full", *_SIZE)


_MAKING = (
    _prepare("data", "--bpe-merges", "300"),
    _prepare("bertdata", "--bpe-merges", "300", "--bert", "bert"),
    _prepare("spm", "--sentencepiece", "pieces.model"),
    _prepare("bytesdata", "--byte-bpe", "bytes"),
    (*_DONE, "--output", "done/out.de"),
    ("train", "data", *_SENTENCE, *_TRAINING, "--max-update", "2", "--save-interval-updates", "1",
     "--save-dir", "run"),
)  # fmt: skip


# ---- the commands --------------------------------------------------------------------------------


def _gtrans(
    words: Sequence[str], uses: Sequence[str], subjects: Sequence[str], **more: Any
) -> Command:
    return Command(("gtrans", *words), tuple(uses), tuple(subjects), **more)


def _translate(model: str, *words: str, uses: tuple[str, ...], subjects: tuple[str, ...],
               source: str = "small.en") -> Command:  # fmt: skip
    words = ("translate", "--path", model, *words, *_SEARCH, "--output", "out.de")
    return _gtrans(words, (model.split("/")[0], "small.en", *uses), subjects, output="out.de",
                   source=source, leaves=("out.de.partial",))  # fmt: skip


def _contrast(*sets: str, subjects: tuple[str, ...], model: str = "sentence.pt") -> Command:
    return _gtrans(("contrast", "--path", model, "--set", *sets, *_FORCED),
                   (model, sets[0].split("/")[0]), subjects)  # fmt: skip


_TEXTS = ("small.en", "small.de")
_PREPARED = ("data/prepare.json", "data/dict.*.txt")
_LEARNT = (*_PREPARED, "data/codes.bpe", "data/truecase.*")
_MADE = ("new/**",)
_PLUGIN = ("--user-dir", str(ROOT / "gtrans"), "--task", "document_translation")
_BERT = ("--arch", "bert_context_transformer_tiny", "--unit", "window", *_SIZE)
def _train(program: tuple[str, ...], *words: str, uses: tuple[str, ...],
           subjects: tuple[str, ...], save: str = "new") -> Command:  # fmt: skip
    return Command((*program, *_TRAINING, *words, "--save-dir", save), uses, subjects,
                   leaves=("new/**", "run/**"))  # fmt: skip


COMMANDS: tuple[Command, ...] = (
    *(
        _translate(f"{name}.pt", "--input", "small.en", uses=(), subjects=(f"{name}.pt",))
        for name in ("sentence", "document", "window", "stream", "marks")
    ),
    *(
        _translate(f"old/{name}.pt", "--data", "old/data", "--input", "small.en", uses=(),
                   subjects=(f"old/{name}.pt",))
        for name in ("gtrans_fusion", "han_transformer", "gtransformer-like-mbart",
                     "document_aware_transformer")
    ),
    _translate("context.pt", "--input", "small.en", "--data", "bertdata",
               uses=("bert", "bertdata"),
               subjects=("context.pt", "bert/*", "bertdata/prepare.json")),
    _translate("sentence.pt", "--input", "small.en", uses=(), subjects=("small.en",)),
    _translate("sentence.pt", "--input", "packed.en.gz", uses=("packed.en.gz",),
               subjects=("packed.en.gz",)),
    _translate("sentence.pt", "--input", "small.en", "--data", "data", uses=("data",),
               subjects=_LEARNT),
    _translate("sentence.pt", "--split", "test", "--data", "data", uses=("data",),
               subjects=("data/test.*", *_PREPARED)),
    _translate("context.pt", "--split", "test", "--data", "bertdata", uses=("bert", "bertdata"),
               subjects=("bertdata/test.*.bert.*",)),
    _gtrans((*_DONE, "--output", "done/out.de"), ("done", "sentence.pt", "small.en"),
            ("done/out.de", "done/out.de.made.json"), output="done/out.de", source="small.en"),
    _gtrans(("score", "--hyp", "done/out.de", "--src", "small.en", "--ref", "small.de", "--metrics",
             "s_bleu", "d_bleu", "chrf"), ("done", *_TEXTS), ("done/out.de", *_TEXTS)),
    _contrast("corpus/contrastive/pronoun.jsonl", subjects=("corpus/contrastive/pronoun.jsonl",)),
    _contrast("corpus/contrastive/pronoun.jsonl", subjects=("document.pt",), model="document.pt"),
    _contrast("sets/deixis_test.json", "--format", "consistency", subjects=("sets/deixis*",)),
    _contrast("sets/anaphora.json", "--format", "discevalmt", subjects=("sets/anaphora*",)),
    _contrast("sets/contrapro", "--format", "contrapro", subjects=("sets/contrapro/*",)),
    _contrast("sets/large", "--format", "large-pronoun", subjects=("sets/large/*",)),
    _contrast("sets/rain", "--format", "contracat", subjects=("sets/rain/*",)),
    _gtrans(("contrast", "--set", "sets/deixis_test.json", "--format", "consistency", "--scores",
             "sets/scores"), ("sets",), ("sets/scores",)),
    _gtrans(("cxmi", "--path", "document.pt", "--src", "small.en", "--ref", "small.de", *_FORCED,
             "--output", "new.tsv"), ("document.pt", *_TEXTS), ("document.pt", *_TEXTS),
            output="new.tsv"),
    _gtrans(("analyse", "--path", "document.pt", "--data", "data", "--units", "4", *_FORCED),
            ("document.pt", "data"), ("document.pt", "data/valid.*", *_PREPARED)),
    _gtrans(("report", "finished", "--ref", "test.en", "--src", "test.de", "--output", "new.html"),
            ("finished", "test.en", "test.de"), ("finished/*", "finished/*/*", "test.*"),
            output="new.html"),
    _gtrans(("average", "--last-updates", "2", "--output", "new.pt", "run"), ("run",),
            ("run/checkpoint_1_*",), output="new.pt"),
    _gtrans(("convert", "--from", "huggingface", "--data", "toy", *_LANGUAGES, "hugging", "new.pt"),
            ("hugging", "toy"), ("hugging/*", "toy/*"), output="new.pt"),
    _gtrans(("convert", "--from", "fairseq", "--data", "toy", *_LANGUAGES, "bart/model.pt",
             "new.pt"), ("bart", "toy"), ("bart/*", "toy/*"), output="new.pt"),
    _gtrans(("convert", "--from", "g-transformer", "--data", "toy-authors", "authors/model.pt",
             "new.pt"), ("authors", "toy-authors"), ("authors/*", "toy-authors/dict*"),
            output="new.pt"),
    _gtrans(("convert", "--from", "gtrans", "--extend-positions", "300",
             "old/gtransformer-like-mbart.pt", "new.pt"), ("old",),
            ("old/gtransformer-like-mbart.pt",), output="new.pt"),
    _gtrans(("trim-vocab", "--data", "spm", "--splits", "test", "--out", "new", "marks.pt"),
            ("spm", "marks.pt"), ("marks.pt", "spm/*.json", "spm/dict*", "spm/sent*", "spm/test.*"),
            output="new"),
    *(
        _gtrans(("show", *form, shown), (shown.split("/")[0],), subjects)
        for form in ((), ("--json",))
        for shown, subjects in (
            ("document.pt", ("document.pt",)), ("data", _PREPARED), ("run", ("run/*",)),
            ("done/out.de", ("done/out.de*",)),
        )
    ),
    _gtrans(("show", "--card", "sentence.pt"), ("sentence.pt",), ("sentence.pt",)),
    _gtrans(("get-corpus", "own", "--from", "corpus", *_LANGUAGES, "--splits", "test", "--out",
             "new"), ("corpus",), ("corpus/test.*",), leaves=_MADE),
    *(
        _gtrans(("get-corpus", "newstest2016", "--from", folder, "--out", "new"), ("sgm",),
                (f"{folder}/*",), leaves=_MADE)
        for folder in ("sgm/plain", "sgm/packed")
    ),
    _gtrans(("corpus-report", "corpus", *_LANGUAGES), ("corpus",), ("corpus/test.*",)),
    _gtrans(("corpus-report", "data"), ("data",), ("data/text/test.bpe.*", *_PREPARED)),
    _gtrans(_prepare("new", "--bpe-merges", "30"), ("corpus", *_TEXTS), ("corpus/train.*", *_TEXTS),
            leaves=_MADE),
    _gtrans(_prepare("data", "--bpe-merges", "300"), ("corpus", "data", *_TEXTS),
            (*_LEARNT, "data/text/*", "data/*.idx"), leaves=("data/**",)),
    *(
        _gtrans(("prepare", *_LANGUAGES, "--test", "small", *words, "--out", "new"),
                (*_TEXTS, used), subjects, leaves=_MADE)
        for used, words, subjects in (
            ("data", ("--reuse", "data"), _LEARNT),
            ("spm", ("--reuse", "spm"), ("spm/*.json", "spm/*.txt", "spm/*.model")),
            ("bytesdata", ("--reuse", "bytesdata"), ("bytesdata/byte*", "bytesdata/*.json")),
            ("pieces.model", ("--sentencepiece", "pieces.model"), ("pieces.model",)),
            ("bytes", ("--byte-bpe", "bytes"), ("bytes/*",)),
        )
    ),
    _gtrans(_prepare("new", "--bpe-merges", "30", "--bert", "bert"), ("corpus", "bert", *_TEXTS),
            ("bert/*",), leaves=_MADE),
    *(
        _train((*program, "data"), *_SENTENCE, *words, uses=("data", *uses), subjects=subjects,
               save=save)
        for program in (("gtrans", "train"), ("fairseq-train", *_PLUGIN))
        for words, uses, subjects, save in (
            ((), (), ("data/*.idx", "data/*.bin", *_PREPARED), "new"),
            (("--init-from", "sentence.pt"), ("sentence.pt",), ("sentence.pt",), "new"),
            (("--restore-file", "sentence.pt", "--reset-optimizer"), ("sentence.pt",),
             ("sentence.pt",), "new"),
            (("--max-update", "3"), ("run",), ("run/checkpoint_last.pt",), "run"),
        )
    ),
    _train(("gtrans", "train", "bertdata"), *_BERT, uses=("bertdata", "bert"),
           subjects=("bert/*", "bertdata/*.bert.*")),
    *(
        Command((*words, "--path", "sentence.pt", *more), ("sentence.pt", "data", "small.en"),
                ("sentence.pt", "data/test.*", *_PREPARED))
        for words, more in (
            (("gtrans", "generate", "data"), ("--max-len-b", "5", "--beam", "1", "--cpu")),
            (("fairseq-generate", "data", *_PLUGIN), ("--max-len-b", "5", "--beam", "1", "--cpu")),
            (("fairseq-validate", "data", *_PLUGIN),
             ("--valid-subset", "test", "--max-tokens", "2000", "--cpu")),
            (("fairseq-interactive", "data", *_PLUGIN),
             ("--input", "small.en", "--max-len-b", "5", "--beam", "1", "--cpu")),
        )
    ),
)  # fmt: skip
