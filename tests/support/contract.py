"""Every model class of the project at tiny size, in memory, for the tests of the contract.

Classes, units, context sides and options are read from the registries: a new system is tested
like all others as soon as it is registered.
"""

from __future__ import annotations

import dataclasses
import random
import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf
from torch import Tensor

from gtrans.data.examples import ExampleBuilder
from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.data.units import CONTEXT_SIDES, UNITS, ChunkStreamUnit, Unit, UnitSpan
from gtrans.environment import import_plugin
from gtrans.errors import GtransError
from gtrans.models.base.model import BERT_FEATURES, BERT_SUBWORDS, DocumentModel
from gtrans.models.base.presets import resolve_sizes
from gtrans.tasks.data_folders import read_dictionary
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig
from support.suites import others_long

SIZES: dict[str, int] = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 64,
    "decoder_ffn_embed_dim": 64,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}
# Where the models' own defaults are for more layers than there are here.
FEWER = {"global_layers": 1, "group_size": 1}


@dataclass(frozen=True)
class Case:
    """A model class with a unit that it declares.

    Attributes:
        arch: the smallest architecture of the class.
        sides: context sides of windows, else None.
    """

    arch: str
    unit: str
    sides: str | None = None

    def __str__(self) -> str:
        return "-".join(filter(None, (self.arch, self.unit, self.sides)))

    @property
    def model(self) -> type[DocumentModel]:
        """The class."""
        import_plugin()
        return ARCH_MODEL_REGISTRY[self.arch]

    @property
    def flags(self) -> list[str]:
        """What fairseq-train is told."""
        flags = ["--arch", self.arch, "--unit", self.unit, "--max-doc-tokens", "60"]
        if self.sides is not None:
            flags += ["--context-sides", self.sides]
        for name, value in {**sizes_of(self.model), **_made_for(self)}.items():
            flags += [f"--{name.replace('_', '-')}", str(value)]
        return flags


# The smallest architecture of its class reads no BERT's output.
WITH_BERT = Case("bert_context_transformer_tiny", "window", "source")


def classes() -> dict[str, type[DocumentModel]]:
    """Each model class once, by its smallest architecture."""
    import_plugin()
    smallest: dict[type[DocumentModel], str] = {}
    for arch, model in ARCH_MODEL_REGISTRY.items():
        ours = isinstance(model, type) and issubclass(model, DocumentModel)
        if ours and (model not in smallest or arch.endswith("_tiny")):
            smallest[model] = arch
    return {arch: model for model, arch in smallest.items()}


def cases() -> list[Case]:
    """Every class with every unit and context side that it declares, and a frozen BERT."""
    found = []
    for arch, model in classes().items():
        for unit in model.inputs.units:
            sides = model.inputs.context_sides if unit == "window" else (None,)
            found += [Case(arch, unit, side) for side in sides]
    return [*found, WITH_BERT]


def first_cases() -> list[Case]:
    """Each class with its first unit."""
    found: dict[type[DocumentModel], Case] = {}
    for case in cases():
        found.setdefault(case.model, case)
    return list(found.values())


def with_the_others_long() -> list[Any]:
    """Parameters of a test: each class with its first unit, and in the long suite with all."""
    return others_long(cases(), first_cases())


def undeclared() -> list[Case]:
    """Every class with every unit and side that it does not declare."""
    found = []
    for arch, model in classes().items():
        found += [Case(arch, unit) for unit in UNITS if unit not in model.inputs.units]
        if "window" in model.inputs.units:
            others = [side for side in CONTEXT_SIDES if side not in model.inputs.context_sides]
            found += [Case(arch, "window", side) for side in others]
    return found


def sizes_of(model: type[DocumentModel]) -> dict[str, int]:
    """Tiny sizes of a class: the common ones, and fewer special layers than its default."""
    sizes = dict(SIZES)
    for field in dataclasses.fields(model.options):
        for ending, value in FEWER.items():
            if field.name.endswith(ending) and field.default > value:
                sizes[field.name] = value
    return sizes


@cache
def _made_for(case: Case) -> dict[str, str]:
    """The option without which declared context sides are refused, as the refusal proposes it."""
    if case.sides is None:
        return {}
    cfg = OmegaConf.structured(case.model.options)
    cfg._name, cfg.unit, cfg.context_sides = case.arch, case.unit, case.sides
    cfg.context_before, cfg.context_after = case.model.inputs.context_size
    cfg.share_all_embeddings = False
    try:
        case.model.check(resolve_sizes(cfg, case.model.options, case.model.presets), None)
    except GtransError as refusal:
        proposed = re.findall(r"--([a-z-]+) (\w+)", str(refusal).rpartition("give ")[2])
        found = {name.replace("-", "_"): value for name, value in proposed}
        del found["context_sides"]
        return found
    return {}


# ---- in memory ---------------------------------------------------------------------------------


@dataclass
class Built:
    """A task with an untrained model, and random documents for them."""

    task: DocumentTranslationTask
    model: Any
    documents: list[Document]


@dataclass
class Document:
    """Random sentences, each with its ``</s>``."""

    source: list[Tensor]
    target: list[Tensor]
    bert_subwords: list[Tensor] | None

    def row(
        self, builder: Any, span: UnitSpan, target: Sequence[Tensor] | None = None, first: int = 0,
        chunks: list[int] | None = None,
    ) -> Any:  # fmt: skip
        """An example; ``target``: translations from sentence ``first`` on, None: there is none."""
        subwords = self.bert_subwords
        return builder.example(
            span,
            [self.source[n] for n in span.source],
            None if target is None else [target[n - first] for n in span.target],
            None if subwords is None else [subwords[n] for n in span.source],
            chunks,
        )


def build(case: Case, data: Path, seed: int = 1, **options: Any) -> Built:
    """A task and an untrained model of ``case``.

    Args:
        case: which.
        data: a data folder, prepared with a BERT.
        seed: of parameters and documents.
        options: of the model or the task.
    """
    model_names = {field.name for field in dataclasses.fields(case.model.options)}
    task_cfg = OmegaConf.structured(DocumentTranslationConfig)
    task_cfg.data, task_cfg.source_lang, task_cfg.target_lang = str(data), "en", "de"
    task_cfg.unit, task_cfg.context_sides, task_cfg.max_doc_tokens = case.unit, case.sides, 60
    task_cfg.seed, task_cfg.update_freq = 1, [1]
    task_cfg.train_subset = "train"
    cfg = OmegaConf.structured(case.model.options)
    cfg._name = case.arch
    for name, value in {**sizes_of(case.model), **_made_for(case), **options}.items():
        of_model = name in model_names and name not in UNIT_FIELDS
        setattr(cfg if of_model else task_cfg, name, value)
    torch.manual_seed(seed)
    task = DocumentTranslationTask(
        task_cfg, read_dictionary(str(data), "en"), read_dictionary(str(data), "de")
    )
    model = task.build_model(cfg)
    return Built(task, model, documents(task, case.model.bert_use(cfg), seed))


def documents(task: Any, bert: str | None, seed: int) -> list[Document]:
    """Documents of 3, 1 and 2 sentences."""
    draw = random.Random(seed)
    source = task.source_dictionary
    words = range(source.nspecial, 60)
    if bert == BERT_SUBWORDS:
        words = range(task.bert.subwords.first_word, task.bert.subwords.first_word + 40)
    end = source.eos()
    found = []
    for count in (3, 1, 2):
        sides = [
            [
                torch.tensor([*(draw.choice(vocabulary) for _ in range(draw.randint(1, 5))), end])
                for _ in range(count)
            ]
            for vocabulary in (words, range(task.target_dictionary.nspecial, 60))
        ]
        subwords = None
        if bert == BERT_FEATURES:
            texts = [draw.choice(["the dog", "it was sad", "a table"]) for _ in range(count)]
            subwords = task.bert.subwords.encode(texts)
        found.append(Document(*sides, subwords))
    return found


def lengths(sentences: Sequence[Tensor]) -> list[int]:
    """Tokens of each sentence without its ``</s>``."""
    return [len(sentence) - 1 for sentence in sentences]


def chunks_of(unit: Unit, source: Sequence[Tensor]) -> list[int] | None:
    """How a search cuts a document, which knows no translation."""
    return unit.steps(lengths(source)) if isinstance(unit, ChunkStreamUnit) else None


def read_in_turn(
    builder: ExampleBuilder, model: Any, source: Sequence[Tensor], target: Sequence[Tensor]
) -> list[tuple[range, float]]:
    """Of every chunk its own sentences, and their score where it alone is read.

    The memory is carried from one to the next.
    """
    found, memory = [], model.new_memory()
    for span in builder.unit.parts(lengths(source)):
        sides = ([side[n] for n in span.source] for side in (source, target))
        row = builder.example(span._replace(predicted=span.kept), *sides, chunks=[len(span.source)])
        batch = builder.collate([row])
        logits = model(**batch["net_input"], memory=memory)[0].float()
        memory = memory.following(torch.tensor([0]))
        log_probs = model.search_scores(logits).gather(2, batch["target"][:, :, None])
        words = batch["target"].ne(builder.frame.pad)
        found.append((span.kept, float((log_probs.squeeze(2) * words).sum())))
    return found


def batch_of(built: Built) -> Any:
    """All documents as one batch, with their targets."""
    builder = built.task.examples
    rows = [
        document.row(builder, span, document.target)
        for document in built.documents
        for span in builder.unit.cut(lengths(document.source))
    ]
    return builder.collate(rows)


def loss_of(built: Built, batch: Any) -> Tensor:
    """The cross-entropy of a batch."""
    logits = built.model(**built.task.complete_input(batch["net_input"]))[0]
    target = batch["target"]
    return torch.nn.functional.cross_entropy(
        logits.float().transpose(1, 2), target, ignore_index=built.task.frame.pad
    )


def sources_of(built: Built) -> tuple[dict[str, Any], list[list[int]], list[tuple[Any, Any]]]:
    """What a search reads of all documents.

    Returns:
        the batch of sources, the words of each sentence of its rows, and of each row its document
        and span.
    """
    builder, found, spans = built.task.examples, [], []
    for document in built.documents:
        for span in builder.unit.cut_to_translate(lengths(document.source)):
            found.append(document.row(builder, span))
            spans.append((document, span))
    source = builder.collate(found)["net_input"]
    return source, [lengths(row) for row in builder.sources_to_translate(source)], spans


@torch.no_grad()
def searched_and_read(built: Built) -> Iterator[tuple[float, float]]:
    """For every row: the score of what the search wrote, and of the same words in one pass.

    Without the token at the end of a document, of which the search has no choice.
    """
    task, model = built.task, built.model
    model.eval()
    builder, unit = task.examples, task.examples.unit
    options = {"beam": 2, "max_len_a": 0, "max_len_b": 4, "min_len": 1, "nbest": 1}
    generator = task.build_generator([model], Namespace(**options))
    source, counts, spans = sources_of(built)
    searched = generator.search.search([model], task.complete_input(source), counts)
    hypotheses = [best[0] for best in searched]
    written: list[float] = []
    read = []
    for (document, span), hypothesis in zip(spans, hypotheses, strict=True):
        translation = [torch.tensor(sentence.tokens) for sentence in hypothesis.sentences]
        scores = [sum(sentence.scores) for sentence in hypothesis.sentences]
        own = [span]
        in_parts = unit.sentence_by_sentence or unit.tokens_at_once is not None
        if isinstance(unit, ChunkStreamUnit) and unit.overlap:
            for part, score in read_in_turn(builder, model, document.source, translation):
                yield sum(scores[n] for n in part), score
            continue
        if in_parts:
            own = unit.cut(lengths(document.source))
        for row in own:
            first = 0 if in_parts else row.target.start
            chunks = chunks_of(unit, [document.source[n] for n in row.source])
            read.append(document.row(builder, row, translation, first, chunks))
            written.append(sum(scores[n - first] for n in row.predicted))
    if not read:
        return
    batch = builder.collate(read)
    logits = model(**task.complete_input(batch["net_input"]))[0].float()
    target = batch["target"]
    log_probs = model.search_scores(logits).gather(2, target[:, :, None]).squeeze(2)
    words = target.ne(task.frame.pad)
    if task.frame.document_token is not None:
        words &= target.ne(task.frame.document_token)
    sums = (log_probs * words).sum(1).tolist()
    yield from zip(written, sums, strict=True)
