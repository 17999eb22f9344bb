"""Folders of Hugging Face: mBART, Marian (OPUS-MT), M2M100 and NLLB-200.

No code in a folder is run. A folder with the files of its tokenizer gives a complete checkpoint:
its subwords become the dictionary, in fairseq's order, and the rows of all tables follow them.

=========  ================================================  ====================================
model      files of the tokenizer                            tokens that are no subwords
=========  ================================================  ====================================
Marian     ``source.spm``, ``target.spm``, ``vocab.json``    ``>>deu<<``, the language to write
M2M100     ``sentencepiece.bpe.model``, ``vocab.json``       ``__de__``, behind the subwords
NLLB-200   ``sentencepiece.bpe.model``                       ``deu_Latn``, behind the subwords
mBART      ``sentencepiece.bpe.model``                       ``de_DE``, behind the subwords
=========  ================================================  ====================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
import yaml
from torch import Tensor

from gtrans.checkpoints.sources import (
    BIAS,
    DECODER_TABLE,
    ENCODER_TABLE,
    MBART25,
    MBART50,
    TABLES,
    ForeignCheckpoint,
    Tokens,
    foreign,
)
from gtrans.data.vocabulary import MASK, split_languages
from gtrans.errors import GtransError
from gtrans.modules.file_values import reading
from gtrans.modules.pretrained_files import WEIGHTS, read_json, read_weights
from gtrans.text.plausibility import function_words
from gtrans.text.subwords import (
    SPACE,
    MarianPipeline,
    SentencePiecePipeline,
    check_whole_sentencepiece,
    load_sentencepiece,
    model_subwords,
)

_KINDS = ("mbart", "marian", "m2m_100")
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_MODEL, _VOCABULARY = "sentencepiece.bpe.model", "vocab.json"
_END = 2  # </s>
_TYING = ("tie_word_embeddings", "share_encoder_decoder_embeddings")
# Defaults differ from kind to kind, so that none is supposed.
_NEEDED = {
    "encoder_attention_heads": int,
    "decoder_attention_heads": int,
    "activation_function": str,
    "scale_embedding": bool,
}
_MARIAN = ("*.npz", "decoder.yml")
# The logit of an entry that a published model lacks, and that is therefore never written.
_NEVER = -100.0
# Of the subwords of a model, those that its vocabulary has, and the other way round. Published
# models have nearly all; SentencePiece drops rare ones from a text that was segmented later.
_LEAST_SHARE = 0.9
_NO_WORD = "madeupword"  # fairseq's name for a row without a word, with its number
_FEWEST = 4  # function words that tell a language
_FREQUENT = 300  # whole words of a model of subwords, which has the frequent ones first
_HEADER = re.compile(r"\s*---[ \t]*\n(.*?\n)(?:---|\.\.\.)", re.DOTALL)

M2M100 = (
    "af,am,ar,ast,az,ba,be,bg,bn,br,bs,ca,ceb,cs,cy,da,de,el,en,es,et,fa,ff,fi,fr,fy,ga,gd,gl,gu,"
    "ha,he,hi,hr,ht,hu,hy,id,ig,ilo,is,it,ja,jv,ka,kk,km,kn,ko,lb,lg,ln,lo,lt,lv,mg,mk,ml,mn,mr,"
    "ms,my,ne,nl,no,ns,oc,or,pa,pl,ps,pt,ro,ru,sd,si,sk,sl,so,sq,sr,ss,su,sv,sw,ta,th,tl,tn,tr,uk,"
    "ur,uz,vi,wo,xh,yi,yo,zh,zu"
)
"""The languages of M2M100, in the order of their tokens."""


class _Side(NamedTuple):
    """The vocabulary of one side, with the row of each entry in the published tables.

    Attributes:
        words: the four special tokens, then the subwords; None: an entry without a row.
        languages: names of the languages that have a token.
        mask: the row of the mask.
    """

    words: dict[str, int | None]
    languages: dict[str, int]
    mask: int | None = None

    @property
    def subwords(self) -> list[str]:
        """The words without the special tokens."""
        return list(self.words)[len(_SPECIAL) :]


def read_hugging_face(folder: Path) -> ForeignCheckpoint:
    """The model of Hugging Face in ``folder``.

    Raises:
        GtransError: the folder or a file is missing, or the model is of another kind.
    """
    path = folder / "config.json"
    if not path.is_file():
        _refuse_without_config(folder)
    config = read_json(path)
    kind = str(config.get("model_type"))
    if kind not in _KINDS:
        raise GtransError(
            f"{path}: the model is of type '{kind}', not mbart, marian (OPUS-MT) or m2m_100 "
            "(M2M100, NLLB-200)."
        )
    for name, wanted in _NEEDED.items():
        if type(config.get(name)) is not wanted:
            raise GtransError(
                f"{path}: '{name}' is {config.get(name)!r}, not of type {wanted.__name__}; "
                "download the file again."
            )
    options = {**config, "activation_fn": config["activation_function"]}
    options["no_scale_embedding"] = not config["scale_embedding"]
    tensors = read_weights(folder)
    if not tensors:
        raise GtransError(
            f"{folder}: there are no weights ({', '.join(WEIGHTS)}); download one of these files "
            "of the model from huggingface.co to it."
        )
    learned = "huggingface" if kind == "mbart" else "sinusoidal"
    # Tied tables are one, which may have any of their names.
    is_tied = all(config.get(name, True) for name in _TYING)
    model = foreign(learned, folder, options, tensors, is_tied)
    for side in ("encoder", "decoder"):
        layers = len({name.split(".")[2] for name in model.state if f"{side}.layers." in name})
        named = config.get(f"{side}_layers", layers)
        if named != layers:
            raise GtransError(
                f"{folder}: its weights have {layers} {side} layers, but {path.name} says {named}; "
                "download all files of the model."
            )
    bias = model.state.pop(BIAS, None)
    if bias is not None and (kind == "marian" or bool(bias.any())):
        model.state[BIAS] = bias.flatten()
    elif bias is not None:
        model.ignored += [name for name in tensors if name.endswith("final_logits_bias")]
    model.card = _card(folder, config)
    with reading(folder, "its tokenizer or config.json"):
        if kind == "marian":
            _as_marian(model, folder, config)
        elif kind == "m2m_100":
            model.special_tokens = "mbart50"
            _with_sentencepiece(model, folder)
        else:
            _as_mbart(model, folder, config)
    return model


def _refuse_without_config(folder: Path) -> NoReturn:
    """Name what the folder is, and the way to a whole model.

    Raises:
        GtransError: always.
    """
    if folder.is_file():
        raise GtransError(f"{folder} is a file; give the folder with config.json and the weights.")
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        raise GtransError(
            f"{adapter}: the folder holds a LoRA adapter, not a whole model; merge it into its "
            "base model (peft: `merge_and_unload`, then `save_pretrained`) and convert the result."
        )
    marian = sorted(path.name for pattern in _MARIAN for path in folder.glob(pattern))
    if marian:
        raise GtransError(
            f"{folder / marian[0]}: the folder is an archive of Marian itself; convert it with "
            "`python -m transformers.models.marian.convert_marian_to_pytorch` first, or download "
            "the same model from huggingface.co/Helsinki-NLP."
        )
    raise GtransError(
        f"{folder / 'config.json'}: there is no such file; give the folder of a whole model, such "
        "as `hf download Helsinki-NLP/opus-mt-en-de --local-dir opus-mt-en-de` makes."
    )


def _as_mbart(model: ForeignCheckpoint, folder: Path, config: Mapping[str, Any]) -> None:
    """Set the special tokens and languages of mBART and mBART-50."""
    starts_with_end = config.get("decoder_start_token_id") == _END
    is_mbart50 = config.get("tokenizer_class") == "MBart50Tokenizer" or starts_with_end
    model.special_tokens, langs = ("mbart50", MBART50) if is_mbart50 else ("mbart", MBART25)
    model.langs = split_languages(langs)
    if (folder / _MODEL).is_file():
        _with_sentencepiece(model, folder, model.langs)


def _as_marian(model: ForeignCheckpoint, folder: Path, config: Mapping[str, Any]) -> None:
    """Set rows, subwords and languages of OPUS-MT.

    Its first decoder input is the embedding of padding, which is zero in models that were
    converted from Marian: it becomes the row of ``<s>``, which the decoder reads in place of
    ``</s>``.

    Raises:
        GtransError: a file is missing, or vocabulary and tables do not fit together.
    """
    activation = str(config["activation_function"])
    activation = "swish" if activation == "silu" else activation
    further = {"sinusoid": "marian", "start_by_bos": True, "activation_fn": activation}
    model.options = {**model.options, **further}
    paths = [_file(folder, name) for name in MarianPipeline.files[:2]]
    separate = not config.get("share_encoder_decoder_embeddings", True)
    names = [_VOCABULARY, "target_vocab.json" if separate else _VOCABULARY]
    start = int(config["decoder_start_token_id"])
    sides = [
        _marian_side(read_json(_file(folder, name)), model.state[table].size(0), start)
        for name, table in zip(names, (ENCODER_TABLE, DECODER_TABLE), strict=True)
    ]
    if separate and any(side.languages for side in sides):
        raise GtransError(
            f"{folder}: it has language tokens and a vocabulary for each side, which gtrans does "
            "not support; take a model with one vocabulary, or for one language."
        )
    _arrange(model, sides)
    model.langs = list(sides[0].languages)
    model.special_tokens = "marian" if model.langs else "end"
    if not model.langs:
        info = _entries(folder, "tokenizer_config.json")
        model.source_lang, model.target_lang = info.get("source_lang"), info.get("target_lang")
        _check_exchanged(paths, model.source_lang, model.target_lang)
    _carry(model, MarianPipeline, sides, paths, sides)


def _marian_side(vocabulary: Mapping[str, Any], rows: int, start: int) -> _Side:
    """The vocabulary in ``vocab.json``; ``start``: the row of the first decoder input."""
    items = sorted(vocabulary.items(), key=lambda item: item[1])
    numbers = {entry: int(row) for entry, row in items}
    _check_rows(numbers)
    languages = {name: n for name, n in numbers.items() if re.fullmatch(">>.*<<", name)}
    words: dict[str, int | None] = {"<s>": start, **{word: numbers[word] for word in _SPECIAL[1:]}}
    words |= {word: n for word, n in numbers.items() if word not in languages}
    # A word for each row without an entry: it takes part in the softmax.
    if words["<s>"] != start:
        raise GtransError(
            f"its token '<s>' has the row {words['<s>']}, but texts begin with the row {start} "
            "(`decoder_start_token_id`), which gtrans does not support."
        )
    taken = set(numbers.values())
    words |= {f"{_NO_WORD}{row}": row for row in range(rows) if row not in taken}
    return _Side(words, {entry[2:-2]: number for entry, number in languages.items()})


def _with_sentencepiece(
    model: ForeignCheckpoint, folder: Path, languages: Sequence[str] = ()
) -> None:
    """Set rows, subwords and languages of mBART, M2M100 and NLLB-200.

    ``languages``: behind the subwords; none: as the files of the tokenizer say.

    Raises:
        GtransError: a file is missing, or vocabulary and tables do not fit together.
    """
    path = _file(folder, _MODEL)
    subwords = model_subwords(load_sentencepiece(path))
    numbers: dict[str, int] = _entries(folder, _VOCABULARY)
    _check_rows(numbers)
    if not numbers:
        numbers = {entry: number for number, entry in enumerate((*_SPECIAL, *subwords))}
        _check_tokenizer(folder, path, numbers)
    language_rows = {name: len(numbers) + n for n, name in enumerate(languages)}
    language_rows = language_rows or _languages(folder, len(numbers))
    words: dict[str, int | None] = {entry: numbers[entry] for entry in _SPECIAL}
    words |= {entry: numbers[entry] for entry in sorted(numbers, key=numbers.__getitem__)}
    # The first row without an entry is the mask of NLLB and mBART, and serves M2M100.
    taken = {*numbers.values(), *language_rows.values()}
    free = [row for row in range(model.state[ENCODER_TABLE].size(0)) if row not in taken]
    words |= {f"{_NO_WORD}{row}": row for row in free[1:]}
    side = _Side(words, language_rows, free[0] if free else None)
    model.without_mask = not free
    _arrange(model, [side, side])
    model.langs = list(language_rows)
    _carry(model, SentencePiecePipeline, [side, side], [path], [side])


def _check_rows(numbers: Mapping[str, int]) -> None:
    """Raises GtransError if two vocabulary entries have one row."""
    by_row: dict[int, str] = {}
    for word, row in numbers.items():
        if row in by_row:
            raise GtransError(
                f"its vocabulary has '{by_row[row]}' and '{word}' on the same row {row}; download "
                "the file again."
            )
        by_row[row] = word


def _check_tokenizer(folder: Path, path: Path, numbers: Mapping[str, int]) -> None:
    """Compare the vocabulary of a SentencePiece model with the one in ``tokenizer.json``, if any.

    Raises:
        GtransError: most entries have other rows there.
    """
    model = _entries(folder, "tokenizer.json").get("model") or {}
    vocabulary = model.get("vocab") or {}
    if isinstance(vocabulary, list):  # with the score of each subword
        vocabulary = {str(entry[0]): row for row, entry in enumerate(vocabulary)}
    same = sum(vocabulary.get(word) == row for word, row in numbers.items())
    if vocabulary and same < _LEAST_SHARE * len(numbers):
        raise GtransError(
            f"{path}: its subwords are not those in tokenizer.json; take all files from one model."
        )


def _check_subwords(paths: Sequence[Path], sides: Sequence[_Side]) -> None:
    """Compare models of subwords with the vocabulary.

    Raises:
        GtransError: a model has subwords that the vocabulary lacks, or the vocabulary has some
            that none of its models has.
    """
    models: list[set[str]] = []
    for path, side in zip(paths, sides, strict=True):
        subwords = set(model_subwords(load_sentencepiece(path)))
        check_whole_sentencepiece(path)
        if len(subwords & side.words.keys()) < _LEAST_SHARE * len(subwords):
            raise GtransError(
                f"{path}: its subwords are not those of the model; take all files from one model."
            )
        models.append(subwords)
    joint = all(side.words == sides[0].words for side in sides)
    for number, side in enumerate(sides):
        known: set[str] = set().union(*models) if joint else models[number]
        words = [word for word in side.subwords if not word.startswith(_NO_WORD)]
        missing = sum(word not in known for word in words)
        if missing > (1 - _LEAST_SHARE) * len(words):
            names = " and ".join(path.name for path in paths) if joint else paths[number].name
            raise GtransError(
                f"{paths[number].parent}: {names} lacks {missing} of the {len(words)} subwords in "
                "its vocabulary; take all files from one model."
            )


def _check_exchanged(paths: Sequence[Path], source: str | None, target: str | None) -> None:
    """Refuse models of subwords that stand for one another, as far as their words tell.

    Raises:
        GtransError: each has words of the other's language.
    """
    if source is None or target is None:
        return
    words = function_words(source), function_words(target)
    for side, path in enumerate(paths):
        own, other = words[side] - words[1 - side], words[1 - side] - words[side]
        subwords = model_subwords(load_sentencepiece(path))
        whole = [word.removeprefix(SPACE) for word in subwords if word.startswith(SPACE)]
        frequent = {word.lower() for word in whole[:_FREQUENT]}
        found = len(frequent & other)
        if found < _FEWEST or found <= 3 * len(frequent & own):
            return
    raise GtransError(
        f"{paths[0]}: {paths[0].name} has words of '{target}' and {paths[1].name} of '{source}', "
        "the other way round than tokenizer_config.json says; exchange their names, or download "
        "them again."
    )


def _carry(
    model: ForeignCheckpoint,
    pipeline: type[MarianPipeline | SentencePiecePipeline],
    sides: Sequence[_Side],
    paths: Sequence[Path],
    dictionaries: Sequence[_Side],
) -> None:
    """Store the files of the pipeline: models of subwords, then dictionaries.

    Raises:
        GtransError: a model has few of the subwords.
    """
    _check_subwords(paths, dictionaries)
    lines = ["".join(f"{word} 1\n" for word in side.subwords).encode() for side in dictionaries]
    contents = [*(path.read_bytes() for path in paths), *lines]
    files = dict(zip(pipeline.files, contents, strict=True))
    words = sides[0].subwords, sides[1].subwords
    model.tokens = Tokens(words, {"subwords": pipeline.name}, files)


def _arrange(model: ForeignCheckpoint, sides: Sequence[_Side]) -> None:
    """Put the rows of all tables in the order of the vocabulary; shared tables stay shared.

    Rows that a model lacks are zero, with a bias that keeps them from being written.

    Raises:
        GtransError: an entry has a row that a table does not have.
    """
    state = model.state
    arranged: dict[int, Tensor] = {}
    for name in (*TABLES, BIAS):
        if name not in state:
            continue
        side, table = sides[name != ENCODER_TABLE], state[name]
        rows = [*side.words.values(), *side.languages.values(), side.mask]
        if side.mask is None and model.without_mask:
            del rows[-1]  # it is added later
        index = torch.tensor([table.size(0) if row is None else row for row in rows])
        if not all(0 <= row < table.size(0) for row in rows if row is not None):
            raise GtransError(
                f"{model.path}: {name} has {table.size(0)} rows, which do not fit "
                "its vocabulary; take all files from one model."
            )
        if table.data_ptr() not in arranged:
            extra = table.new_full((1, *table.shape[1:]), _NEVER if name == BIAS else 0.0)
            arranged[table.data_ptr()] = torch.cat([table, extra])[index]
        state[name] = arranged[table.data_ptr()]
    if BIAS in state and model.options.get("start_by_bos"):
        state[BIAS][0] = _NEVER


def _languages(folder: Path, words: int) -> dict[str, int]:
    """The languages of M2M100 or NLLB-200, with their rows, which follow ``words`` others.

    Raises:
        GtransError: NLLB's are in none of the files that name them.
    """
    added = _entries(folder, "tokenizer.json").get("added_tokens", ())
    numbers = {str(token["content"]).strip("_"): int(token["id"]) for token in added}
    languages = {name: row for name, row in numbers.items() if row >= words and name != MASK}
    if languages:
        if min(languages.values()) > words:
            raise GtransError(f"{folder}: {_MODEL} and tokenizer.json are of two models.")
        return languages
    names = split_languages(M2M100) if (folder / _VOCABULARY).is_file() else []
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        info = _entries(folder, name)
        tokens = info.get("additional_special_tokens") or info.get("extra_special_tokens") or ()
        found = []
        for token in tokens:
            content = str(token["content"] if isinstance(token, dict) else token)
            if content not in _SPECIAL:
                found.append(content.strip("_"))
        names = found or names
    if names:
        return {name: words + n for n, name in enumerate(names)}
    raise GtransError(
        f"{folder}: tokenizer.json or special_tokens_map.json is missing, which names the "
        "languages of the model; download it, too."
    )


def _entries(folder: Path, name: str) -> dict[str, Any]:
    """The object in a file of JSON; empty if there is no file."""
    return read_json(folder / name) if (folder / name).is_file() else {}


def _file(folder: Path, name: str) -> Path:
    """Raises GtransError if a file of the tokenizer is missing."""
    path = folder / name
    if path.is_file():
        return path
    if name == _MODEL and (folder / "tokenizer.json").is_file():
        raise GtransError(
            f"{path}: there is no such file, which transformers 5 does not save; copy it from the "
            "folder of the base model (`hf download BASE sentencepiece.bpe.model`)."
        )
    raise GtransError(f"{path}: there is no such file; download all files of the model.")


def _card(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Name and licence of the model from its own card, the header of ``README.md``."""
    card = {"name": str(config.get("_name_or_path") or folder.resolve().name)}
    path = folder / "README.md"
    text = path.read_text("utf-8-sig", "replace") if path.is_file() else ""
    header: Any = None
    match = _HEADER.match(text)
    if match is not None:
        # A date that does not exist, brackets in brackets without end.
        with suppress(yaml.YAMLError, ValueError, RecursionError):
            header = yaml.safe_load(match[1])
    if isinstance(header, dict) and header.get("license"):
        # The hub has a name for a licence that is not in its list: `license: other`.
        names = header.get("license_name") or header["license"]
        names = names if isinstance(names, list) else [names]
        # Lists in lists may be of any length, if they are named by anchors.
        words = [name for name in names if isinstance(name, str)]
        card["licence"] = " ".join(", ".join(words).split())
    return card
