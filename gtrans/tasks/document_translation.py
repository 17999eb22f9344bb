"""The fairseq task ``document_translation``."""

import atexit
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask, register_task
from omegaconf import DictConfig, open_dict
from torch import Tensor

from gtrans.checkpoints.fingerprint import (
    PUBLISHED,
    STATE,
    ModelFingerprint,
    check_same_data,
    published,
    report_missing_fingerprint,
    unit_differences,
)
from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy
from gtrans.data.document_dataset import DocumentDataset
from gtrans.data.examples import ExampleBuilder
from gtrans.data.frame import Frame
from gtrans.data.stream import StreamDataset
from gtrans.data.unit_options import UNIT_FIELDS
from gtrans.data.vocabulary import Vocabulary, add_language_tokens, split_languages
from gtrans.errors import GtransError, working_on
from gtrans.models.base.model import BERT_FEATURES, BERT_SUBWORDS, DocumentModel
from gtrans.models.base.presets import resolve_sizes
from gtrans.models.base.warm_start import WarmStartOptions, dictionaries_of, warm_start
from gtrans.search.generator import DocumentGenerator, refuse_unsupported
from gtrans.search.options import SearchOptions
from gtrans.tasks.command_options import check_command, resolve_paths, training_of, trains
from gtrans.tasks.data_folders import data_folders, languages_of, read_dictionary
from gtrans.tasks.interactive import (
    InteractiveDocuments,
    LineBuffer,
    NumberedSentence,
    encode_documents,
    lines_of,
)
from gtrans.tasks.options import (
    DocumentTranslationConfig,
    adopt_unit,
    check_options,
    model_class,
    read_everything,
    task_unit,
)
from gtrans.tasks.parts import Batch, Sample, TaskPart
from gtrans.tasks.parts.bert import BertPart
from gtrans.tasks.parts.eval_bleu import EvalBleu
from gtrans.tasks.parts.streams import Streams
from gtrans.tasks.parts.word_dropout import WordDropout
from gtrans.tasks.splits import SourceContexts, SplitReader, UsedEntries, training_files
from gtrans.text.pipeline import TextPipeline
from gtrans.text.prepared_folder import Preparation, read_state
from gtrans.train.run_plan import plan_under_fairseq

logger = logging.getLogger(__name__)

Step = tuple[Any, int, dict[str, Any]]
"""What fairseq's ``train_step`` returns: loss, sample size and what is logged."""

_LANGUAGES = ("source_lang", "target_lang")


@register_task("document_translation", dataclass=DocumentTranslationConfig)
class DocumentTranslationTask(FairseqTask):
    """Translation of documents or sentences from one binarised corpus.

    Attributes:
        parts: parts of training and validation, in the order in which they see a batch.
        plans_runs: whether the task plans its run; ``gtrans train`` does it itself.
        published: see :func:`gtrans.checkpoints.fingerprint.published`.
        reported: splits whose units longer than ``--max-tokens`` were reported.
    """

    cfg: DocumentTranslationConfig

    def __init__(
        self, cfg: DocumentTranslationConfig, source: Dictionary, target: Dictionary
    ) -> None:
        super().__init__(cfg)
        self._source = source
        self._target = target
        # How many entries of each are the dictionary's own; the task adds others.
        self._source_entries = len(source)
        self._target_entries = len(target)
        self._contexts = SourceContexts(cfg, source)
        self._fingerprint: Optional[ModelFingerprint] = None
        # Of a checkpoint in place of a data folder.
        self._stored_fingerprint: Optional[ModelFingerprint] = None
        # Of the checkpoint whose model is built next.
        self._checkpoint_state: Optional[dict[str, Any]] = None
        # Of the first checkpoint of an ensemble, which the others must fit.
        self._unit_options: Optional[dict[str, Any]] = None
        self._first_fingerprint: Optional[ModelFingerprint] = None
        self._model: Any = None  # in training
        self._pipelines: dict[str, TextPipeline] = {}
        self._interactive_lines: Optional[LineBuffer] = None
        self._most_tokens = (sys.maxsize, sys.maxsize)  # of a unit, on both sides
        self.bert: Optional[BertPart] = None
        self.parts: list[TaskPart] = []
        self.plans_runs = True
        self.published: dict[str, str] = {}
        self.reported: set[str] = set()
        self._add_language_tokens()

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "DocumentTranslationTask":
        """Check all options and read the dictionaries."""
        root: Any = cfg._get_parent() if isinstance(cfg, DictConfig) else None
        check_options(cfg)
        # The options in a checkpoint are those of its training, which is over.
        if root is not None and not kwargs.get("from_checkpoint"):
            resolve_paths(cfg, root)
            check_command(root)
        folder, *others = data_folders(cfg)
        languages = languages_of(cfg, folder)
        with open_dict(cfg):
            cfg.source_lang, cfg.target_lang = languages
        check_same_data(folder, others, languages)
        source, target = languages
        task = cls(cfg, read_dictionary(folder, source), read_dictionary(folder, target))
        if root is not None and not trains(root):
            task._interactive_lines = lines_of(root)
        return task

    @classmethod
    def of_checkpoint(cls, cfg: Any, fingerprint: ModelFingerprint) -> "DocumentTranslationTask":
        """Return a task without data folder; set the languages in ``cfg``."""
        with open_dict(cfg):
            cfg.data = None
            cfg.source_lang, cfg.target_lang = fingerprint.languages
        check_options(cfg)
        source = fingerprint.source.dictionary(added=False)
        target = fingerprint.target.dictionary(added=False)
        task = cls(cfg, source, target)
        task._stored_fingerprint = fingerprint
        return task

    @property
    def source_dictionary(self) -> Dictionary:
        """Dictionary of the source."""
        return self._source

    @property
    def target_dictionary(self) -> Dictionary:
        """Dictionary of the target."""
        return self._target

    @property
    def data_folder(self) -> Path:
        """The first data folder, or a temporary folder with a checkpoint's files."""
        if self._stored_fingerprint is None:
            return Path(data_folders(self.cfg)[0])
        return self._temporary_folder

    @cached_property
    def _temporary_folder(self) -> Path:
        assert self._stored_fingerprint is not None
        folder = self._stored_fingerprint.data_folder()
        atexit.register(folder.cleanup)
        return Path(folder.name)

    @cached_property
    def preparation(self) -> Optional[Preparation]:
        """How text becomes tokens, if the data folder says it."""
        if self._stored_fingerprint is not None:
            return self._stored_fingerprint.preparation
        return Preparation.read(self.data_folder) if self.cfg.data else None

    def pipeline(self, lang: str) -> TextPipeline:
        """Return the text pipeline of a language."""
        if lang not in self._pipelines:
            if self.preparation is None:
                read_state(self.data_folder)  # raises, and says what is missing
            assert self.preparation is not None
            self._pipelines[lang] = self.preparation.pipeline(lang)
        return self._pipelines[lang]

    @property
    def frame(self) -> Frame:
        """Special tokens of rows."""
        return Frame.of(self.cfg, self._source, self._target)

    @property
    def examples(self) -> ExampleBuilder:
        """Builder of examples and batches from units."""
        unit = task_unit(self.cfg)  # rejects options before a text is read
        bert_subwords = None
        if self.bert is not None and self.bert.use == BERT_FEATURES:
            bert_subwords = self.bert.examples
        replaced = None
        if str(self.cfg.context_kind) in ("fixed", "random"):
            replaced = self._contexts.text(self.bert)
        return ExampleBuilder(self.frame, unit, replaced, bert_subwords)

    def _add_language_tokens(self) -> None:
        languages = split_languages(self.cfg.langs)
        add_language_tokens(self._source, self._source_entries, languages)
        add_language_tokens(self._target, self._target_entries, languages)

    # -------------------------------------------------------------- fingerprint

    @property
    def fingerprint(self) -> ModelFingerprint:
        """The fingerprint of the model, fixed when it is built."""
        fixed = self._fingerprint or self._stored_fingerprint
        if fixed is not None:
            return fixed
        preparation = self.preparation
        if preparation is not None and self.bert is not None and self.bert.use == BERT_SUBWORDS:
            preparation = replace(preparation, tokenizer=self.bert.subwords.files())
        source = Vocabulary.of(self._source, self._source_entries)
        target = Vocabulary.of(self._target, self._target_entries)
        languages = str(self.cfg.source_lang), str(self.cfg.target_lang)
        return ModelFingerprint(languages, source, target, preparation, _units_of(self.cfg))

    def state_dict(self) -> dict[str, Any]:
        """Return fingerprint and provenance for a checkpoint."""
        state: dict[str, Any] = super().state_dict().copy()
        state[STATE] = self.fingerprint.state()
        if self.published:
            state[PUBLISHED] = self.published
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep a checkpoint's state until its model is built."""
        self._checkpoint_state = state_dict
        self.published = published({"task_state": state_dict})

    def _check_recorded(self) -> None:
        state = self._checkpoint_state
        self._checkpoint_state = None
        if state is None:
            return
        recorded = ModelFingerprint.of_state(state, "the checkpoint")
        if recorded is None:
            report_missing_fingerprint("the checkpoint")
            return
        self._first_fingerprint = self._first_fingerprint or recorded
        differences = recorded.differences(self.fingerprint)
        if differences and self._stored_fingerprint is None:
            raise GtransError(
                f"the checkpoint was not made with '{self.data_folder}', it has other "
                f"{'; '.join(differences)}; give the data folder it was trained with (`gtrans "
                "translate` needs none)."
            )
        _check_together([f"other {part}" for part in recorded.differences(self._first_fingerprint)])

    def _adopt(self, cfg: Any) -> None:
        """Take over the unit in a checkpoint's model options."""
        trained = f"{cfg.get('source_lang')}-{cfg.get('target_lang')}"
        here = f"{self.cfg.source_lang}-{self.cfg.target_lang}"
        if cfg.get("source_lang") and trained != here:
            if self._stored_fingerprint is not None:
                _check_together([f"languages {trained}, not {here}"])
            raise GtransError(
                f"the checkpoint translates {trained}, but the languages of the data folder are "
                f"{here}; give --source-lang and --target-lang, or another folder."
            )
        units = _units_of(cfg)
        if self._unit_options is not None:
            _check_together(unit_differences(units, self._unit_options))
        self._unit_options = units
        read_everything(self.cfg)
        with open_dict(self.cfg):
            for name in UNIT_FIELDS:
                if cfg.get(name) is not None:
                    setattr(self.cfg, name, cfg[name])
        self._add_language_tokens()

    # ------------------------------------------------------------------ data

    def load_dataset(
        self, split: str, combine: bool = False, task_cfg: Any = None, epoch: int = 1, **_: Any
    ) -> None:
        """Load ``split`` in units."""
        if combine:
            _check_whole(data_folders(self.cfg), split)
        source = UsedEntries(self._source, self._source_entries)
        target = UsedEntries(self._target, self._target_entries)
        reader = SplitReader(self.cfg, source, target, self.bert)
        with working_on(f"{self.cfg.data}, split '{split}'"):
            dataset = reader.read(split, self.examples, self._most_tokens, epoch)
        self.datasets[split] = dataset
        for part in self.parts:
            part.loaded(split, dataset)

    def has_sharded_data(self, split: str) -> bool:
        """Return whether an epoch reads one of several folders."""
        return self.cfg.mix is None and bool(super().has_sharded_data(split))

    def max_positions(self) -> tuple[int, int]:
        """No limit for fairseq: :meth:`load_dataset` checks lengths."""
        return sys.maxsize, sys.maxsize

    # ----------------------------------------------------------------- model

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model; a checkpoint's keeps the unit of its training.

        Raises:
            GtransError: the model or the checkpoint does not fit the data folder.
        """
        model_type = model_class(cfg)
        if from_checkpoint:
            self._adopt(cfg)
        else:
            with open_dict(cfg):
                adopt_unit(self.cfg, model_type, cfg)
                for name in (*UNIT_FIELDS, *_LANGUAGES):
                    cfg[name] = getattr(self.cfg, name)
                model_type.adapt_to_unit(cfg, str(self.cfg.unit))
        self._use_bert(model_type, cfg, from_checkpoint)
        self._check_recorded()
        model = super().build_model(cfg, from_checkpoint)
        self._most_tokens = model.max_positions()
        self._model = None if from_checkpoint else model
        if not from_checkpoint:
            self._fingerprint = None
            self._fingerprint = self.fingerprint
            self._start(model, cfg)
        self.parts = self._make_parts(model, from_checkpoint)
        training = None if from_checkpoint else training_of(cfg)
        if training is not None and self.plans_runs:
            plan_under_fairseq(training, self, model)
        return model

    def _make_parts(self, model: Any, from_checkpoint: bool) -> list[TaskPart]:
        parts: list[TaskPart] = []
        if self.cfg.word_dropout and not from_checkpoint:
            special_ids = self.frame.special_ids
            parts.append(WordDropout(self.cfg, self._source, self._target, special_ids))
        if self.bert is not None:
            parts.append(self.bert)
        if str(self.cfg.unit) == "stream":
            parts.append(Streams(self.cfg))
        if self.cfg.eval_bleu and not from_checkpoint:
            parts.append(EvalBleu(self, model))
        return parts

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """As in fairseq; reject a criterion that does not fit the decoder."""
        criterion = super().build_criterion(cfg, from_checkpoint)
        if self._model is not None and isinstance(criterion, ChunkedCrossEntropy):
            used = self._model.decoder.layer_groups
            criterion.check_groups(used.stop - used.start)
        return criterion

    def _use_bert(self, model: type[DocumentModel], cfg: Any, from_checkpoint: bool) -> None:
        use = model.bert_use(cfg)
        if use is None:
            return
        self.bert = BertPart(use, str(self.data_folder), self.cfg)
        if from_checkpoint:
            self.bert.check(cfg)
        else:
            with open_dict(cfg):
                cfg.update(self.bert.traits)
        if use == BERT_SUBWORDS:
            self.bert.become_source(self._source)
            self._source_entries = len(self._source)
            self._add_language_tokens()

    def _start(self, model: Any, cfg: Any) -> None:
        if self.bert is not None:
            self.bert.start(model)
        path = self.cfg.init_from
        # A resumed run does not need the file; a new one is rejected when it begins.
        if not path or not os.path.isfile(path):
            return
        options = WarmStartOptions(
            copy_local_to_global=self.cfg.copy_local_to_global,
            init_dict=self.cfg.init_dict,
            other_vocabulary=self.cfg.init_other_vocabulary,
            special_tokens=str(self.cfg.sentence_marks),
            model=resolve_sizes(cfg, model.options, model.presets),
            languages=(str(self.cfg.source_lang), str(self.cfg.target_lang)),
        )
        report = warm_start(model, path, dictionaries_of(self), options)
        self.published = report.published

    # -------------------------------------------------------------- training

    def training_files(self) -> list[Path]:
        """Return the training files."""
        return training_files(self.cfg, self.bert)

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """As in fairseq, for all parts."""
        super().begin_epoch(epoch, model)
        for part in self.parts:
            part.begin_epoch(epoch, model, self.datasets[self.cfg.train_subset])

    def begin_valid_epoch(self, epoch: int, model: Any) -> None:
        """As in fairseq, for all parts."""
        for part in self.parts:
            part.begin_validation()

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """As in fairseq, but streams keep their order and resumed runs their batches."""
        workers = int(kwargs.get("num_shards", 1))
        epoch = int(kwargs.get("epoch", 1))
        for part in self.parts:
            part.begin_batches(dataset, workers, epoch)
        if self._model is not None and isinstance(dataset, DocumentDataset):
            # The processes that load data plan batches for the model where it is now.
            dataset.plan_batch = self._model.planner.batch
        if kwargs.get("shard_id", 0) == 0:
            self._report_long_units(dataset, kwargs.get("max_tokens"))
        anew = kwargs.get("disable_iterator_cache") or kwargs.get("update_epoch_batch_itr")
        if not anew and self.can_reuse_epoch_itr(dataset):
            # fairseq forms these batches once, in the first epoch of a process. What is random in
            # them depends on that epoch, which for a resumed run must be the same.
            run_seed = int(self.cfg.seed)
            seed = kwargs.get("seed", 1)
            if seed == run_seed + epoch:  # --update-ordered-indices-seed
                seed = run_seed + 1
            kwargs |= {"seed": seed, "epoch": 1}
        iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        if isinstance(dataset, StreamDataset):
            iterator.disable_shuffling = True
            iterator.shuffle = False
        return iterator

    def _report_long_units(self, dataset: Any, limit: Optional[int]) -> None:
        names = [name for name, loaded in self.datasets.items() if loaded is dataset]
        if limit is None or not names:
            return
        name = names[0]
        if name in self.reported:
            return
        self.reported.add(name)
        parts = dataset.smallest_parts
        too_long = int((parts.tokens > limit).sum())
        if too_long:
            flag = "--max-tokens" if name == self.cfg.train_subset else "--max-tokens-valid"
            logger.warning(
                f"{flag} {limit}: {too_long} of {len(parts.tokens)} {parts.name} of '{name}' are "
                f"longer, the longest has {parts.tokens.max()} tokens; each of them is a batch of "
                "its own"
            )

    def train_step(
        self,
        sample: Sample,
        model: Any,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
    ) -> Step:
        """As in fairseq, on the batch that the parts return.

        Batches in ``sample["parts"]`` are read one by one: losses are sums, so gradients add up.
        Only the last exchanges gradients with other processes, which may have more or fewer.
        """
        parts: list[Sample] = sample.get("parts") or [sample]
        loss: Any = 0
        size: Any = 0
        logged: dict[str, Any] = {}
        for number, part in enumerate(parts, 1):
            batch = self._before(Batch(part, model, "train", update_num, ignore_grad))
            keeps_gradients = number < len(parts) and hasattr(model, "no_sync")
            with model.no_sync() if keeps_gradients else nullcontext():
                part_loss, part_size, part_log = super().train_step(
                    batch.sample, model, criterion, optimizer, update_num, ignore_grad
                )
            self._after(batch)
            loss = loss + part_loss
            size = size + part_size
            for key, value in part_log.items():
                logged[key] = logged.get(key, 0) + value
        return loss, size, logged

    def valid_step(self, sample: Sample, model: Any, criterion: Any) -> Step:
        """As in fairseq, on the batch that the parts return."""
        if self.cfg.overlap:
            raise GtransError(
                f"`--overlap {self.cfg.overlap}` is for translation; here leave it out."
            )
        batch = self._before(Batch(sample, model, "valid"))
        result: Step = super().valid_step(batch.sample, model, criterion)
        self._after(batch)
        return result

    def _before(self, batch: Batch) -> Batch:
        for part in self.parts:
            batch = part.before_batch(batch)
        return batch

    def _after(self, batch: Batch) -> None:
        for part in self.parts:
            part.after_batch(batch)

    # ---------------------------------------------------- input and decoding

    def complete_input(self, net_input: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``net_input`` with BERT's output for its subwords."""
        if self.bert is None:
            return dict(net_input)
        return self.bert.complete(net_input)

    def source_encoder(self) -> Any:
        """Return an object that can ``encode`` a plain sentence as tokens."""
        if self.bert is not None and self.bert.use == BERT_SUBWORDS:
            return self.bert
        return self.pipeline(str(self.cfg.source_lang))

    def bert_subwords(self, sentences: Sequence[str]) -> list[Tensor] | None:
        """Return ``(subwords + 1,)`` of each sentence, or None if the model reads none."""
        if self.bert is None or self.bert.use == BERT_SUBWORDS:
            return None
        return self.bert.subwords.encode(sentences)

    def get_interactive_tokens_and_lengths(
        self, lines: list[str], encode_fn: Any
    ) -> tuple[list[list[NumberedSentence]], list[int]]:
        """Return the documents that ``lines`` complete, and their tokens."""
        if self.bert is not None:
            raise GtransError(
                "fairseq-interactive reads prepared text, but this model needs plain text for "
                "BERT; use `gtrans translate --input -`."
            )
        if self._interactive_lines is None:
            self._interactive_lines = LineBuffer(flush=True)
        documents = encode_documents(self._interactive_lines.add(lines), encode_fn, self._source)
        lengths = []
        for document in documents:
            lengths.append(sum(len(sentence.ids) for sentence in document))
        return documents, lengths

    def build_dataset_for_inference(
        self, src_tokens: Any, src_lengths: Any, **kwargs: Any
    ) -> InteractiveDocuments:
        """Return the dataset of ``fairseq-interactive``."""
        return InteractiveDocuments(src_tokens, self.frame.pad)

    def build_generator(
        self,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Any = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> DocumentGenerator:
        """Return the document search."""
        refuse_unsupported(args)
        nbest = int(getattr(args, "nbest", 1))
        return DocumentGenerator(models, self, SearchOptions.from_flags(args), nbest)

    def inference_step(
        self,
        generator: DocumentGenerator,
        models: Any,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
    ) -> list[list[dict[str, Any]]]:
        """Return the hypotheses of every sentence."""
        if "id" not in sample:
            return generator.document(sample["net_input"]["src_tokens"])
        return generator.batch(sample)


def _check_whole(folders: Sequence[str], split: str) -> None:
    for folder in folders:
        if any(Path(folder).glob(f"{split}1.*.idx")):
            raise GtransError(
                f"{folder}: the split '{split}' has parts ({split}1), which are not joined; "
                "binarise it as one text, with an empty line between them."
            )


def _check_together(differences: Sequence[str]) -> None:
    if differences:
        raise GtransError(
            f"the checkpoint does not fit the first of `--path`: {'; '.join(differences)}; give "
            "models of one data folder and one unit, or one model alone."
        )


def _units_of(cfg: Any) -> dict[str, Any]:
    values = {name: cfg.get(name) for name in UNIT_FIELDS}
    values["langs"] = ",".join(split_languages(values["langs"])) or None
    for name, value in values.items():
        if value is not None and not isinstance(value, int):
            values[name] = str(value)
    return values
