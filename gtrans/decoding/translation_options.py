"""What to translate, with which models and how: the flags of ``gtrans translate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from gtrans.data.documents import STANDARD_STREAM
from gtrans.decoding.search_options import SearchOptions
from gtrans.errors import GtransError
from gtrans.identity.files import is_file
from gtrans.text.reader import ANY, Choice

MIN_DOC_TOKENS = 8
# Source tokens of a batch: enough rows for fast products, few enough keys for a processor's cache.
MAX_TOKENS = 16000


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """Which models translate, and how.

    Attributes:
        paths: checkpoints; several are an ensemble.
        data: the data folder that the models were trained with; None: what the first
            checkpoint carries of it.
        search: beam and lengths.
        max_tokens: most source tokens of a batch, with marks and padding; a longer row is a
            batch of its own. Short rows are fewer, as
            :func:`gtrans.decoding.batching.rows_at_once` says.
        max_doc_tokens: most tokens of a document unit; None: the checkpoint's.
        overlap: sentences of the instance before that an instance of a document begins with.
        context: options instead of the checkpoint's: ``context_kind``, ``context_sentence``,
            and those of ``--model-overrides``.
        cpu: use the CPU even if there is a CUDA device.
        tokens: write Moses' tokens, which the model's pieces make up, instead of plain text.
        fp16: half precision (CUDA).
        bf16: bfloat16.
        force: translate anew, even if the output or a part of it is finished.
        nbest: how many translations of a sentence are written as JSON lines, with their scores;
            0: the text of the best one.
        choice: what to read of rows with several texts or directions.
    """

    paths: tuple[str, ...]
    data: str | None = None
    search: SearchOptions = field(default_factory=SearchOptions)
    max_tokens: int = MAX_TOKENS
    max_doc_tokens: int | None = None
    overlap: int = 0
    context: Mapping[str, Any] = field(default_factory=dict)
    cpu: bool = False
    fp16: bool = False
    bf16: bool = False
    tokens: bool = False
    force: bool = False
    nbest: int = 0
    choice: Choice = ANY

    def __post_init__(self) -> None:
        """Raises GtransError for options that contradict each other."""
        for flag, value, least in (
            ("overlap", self.overlap, 0),
            ("max-tokens", self.max_tokens, 1),
            ("max-doc-tokens", self.max_doc_tokens, MIN_DOC_TOKENS),
            ("nbest", self.nbest, 0),
        ):
            if value is not None and value < least:
                raise GtransError(f"`--{flag}` must be at least {least}, but is {value}.")
        if self.nbest > self.search.beam:
            raise GtransError(
                f"`--nbest` {self.nbest}: a search with `--beam` {self.search.beam} finds no more "
                "translations than that; give a larger beam."
            )
        if self.nbest and self.search.free:
            raise GtransError(
                "`--json` needs the score of every sentence, which `--free` does not have; leave "
                "one of them out."
            )


class HowToDecode(TypedDict, total=False):
    """The fields of :class:`DecodingOptions` for calls from Python, all of them optional."""

    data: str | None
    search: SearchOptions
    max_tokens: int
    max_doc_tokens: int | None
    overlap: int
    context: Mapping[str, Any]
    cpu: bool
    fp16: bool
    bf16: bool
    tokens: bool
    nbest: int
    choice: Choice


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(DecodingOptions):
    """A text or a binarised split to translate.

    Attributes:
        output: file to write, or ``-``.
        input: text file, or ``-``; None: translate ``split``.
        split: binarised split of ``data``; None: translate ``input``.
    """

    output: str
    input: str | None = None
    split: str | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the output is a file, which can have a partial translation and a record."""
        return self.output != STANDARD_STREAM and is_file(self.output)

    def __post_init__(self) -> None:
        """Raises GtransError for options that contradict each other."""
        if (self.input is None) == (self.split is None):
            raise GtransError("give either `--input` FILE or `--split` NAME.")
        if self.split is not None and self.data is None:
            raise GtransError("`--split` needs `--data`, the folder of the binarised split.")
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class FilesOptions(DecodingOptions):
    """Files and folders of documents to translate.

    Attributes:
        sources: files, and folders of them.
        output_dir: folder to write the translations into.
        format: the format of all files; None: by their names.
        split_sentences: plain text and rows are running text, not one sentence each.
    """

    sources: tuple[str, ...]
    output_dir: str
    format: str | None = None
    split_sentences: bool = False

    def __post_init__(self) -> None:
        """Raises GtransError for options that contradict each other."""
        if self.search.free:
            raise GtransError(
                "`--free` gives no translation for each sentence, which a document needs to keep "
                "its form; translate text with `--input`."
            )
        super().__post_init__()
