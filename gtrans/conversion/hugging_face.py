"""Folders of Hugging Face: mBART, Marian (OPUS-MT), M2M100 and NLLB-200.

The subwords of a tokenizer become the dictionary, in fairseq's order, and the rows of all tables
follow them.

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
from collections.abc import Mapping, Sequence, Set
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
    MARIAN_SUFFIX,
    MBART25,
    MBART50,
    TABLES,
    ForeignCheckpoint,
    Tokens,
    foreign_checkpoint,
    refuse_marian,
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
_MARIAN = (f"*{MARIAN_SUFFIX}", "decoder.yml")
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
    """The vocabulary of one side, with the rows in the published tables.

    ``words`` begins with the four special tokens; None: no row.
    """

    words: dict[str, int | None]
    languages: dict[str, int]
    mask: int | None = None

    @property
    def subwords(self) -> list[str]:
        return list(self.words)[len(_SPECIAL) :]


def read_hugging_face(folder: Path) -> ForeignCheckpoint:
    """Read a model of Hugging Face in a folder."""
    path = folder / "config.json"
    if not path.is_file():
        _refuse_without_config(folder)
    config = read_json(path)
    _check_config(config, path)
    kind = config["model_type"]
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
    model = foreign_checkpoint(learned, folder, options, tensors, is_tied)
    for side in ("encoder", "decoder"):
        _check_layers(model, config, side)
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


def _check_config(config: Mapping[str, Any], path: Path) -> None:
    kind = str(config.get("model_type"))
    if kind not in _KINDS:
        raise GtransError(
            f"{path}: the model is of type '{kind}', not mbart, marian (OPUS-MT) or m2m_100 "
            "(M2M100, NLLB-200)."
        )
    for name, needed in _NEEDED.items():
        value = config.get(name)
        if type(value) is not needed:
            raise GtransError(
                f"{path}: '{name}' is {value!r}, not of type {needed.__name__}; "
                "download the file again."
            )


def _check_layers(model: ForeignCheckpoint, config: Mapping[str, Any], side: str) -> None:
    layers = set()
    for name in model.state:
        if f"{side}.layers." in name:
            layers.add(name.split(".")[2])
    count = config.get(f"{side}_layers", len(layers))
    if count != len(layers):
        raise GtransError(
            f"{model.path}: its weights have {len(layers)} {side} layers, but config.json says "
            f"{count}; download all files of the model."
        )


def _refuse_without_config(folder: Path) -> NoReturn:
    if folder.is_file():
        if folder.suffix == MARIAN_SUFFIX:
            refuse_marian(folder)
        raise GtransError(f"{folder} is a file; give the folder with config.json and the weights.")
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        raise GtransError(
            f"{adapter}: the folder holds a LoRA adapter, not a whole model; merge it into its "
            "base model (peft: `merge_and_unload`, then `save_pretrained`) and convert the result."
        )
    marian: list[Path] = []
    for pattern in _MARIAN:
        marian += folder.glob(pattern)
    if marian:
        refuse_marian(min(marian))
    raise GtransError(
        f"{folder / 'config.json'}: there is no such file; give the folder of a whole model, such "
        "as `hf download Helsinki-NLP/opus-mt-en-de --local-dir opus-mt-en-de` makes."
    )


def _as_mbart(model: ForeignCheckpoint, folder: Path, config: Mapping[str, Any]) -> None:
    starts_with_end = config.get("decoder_start_token_id") == _END
    is_mbart50 = config.get("tokenizer_class") == "MBart50Tokenizer" or starts_with_end
    model.special_tokens = "mbart50" if is_mbart50 else "mbart"
    model.langs = split_languages(MBART50 if is_mbart50 else MBART25)
    if (folder / _MODEL).is_file():
        _with_sentencepiece(model, folder, model.langs)


def _as_marian(model: ForeignCheckpoint, folder: Path, config: Mapping[str, Any]) -> None:
    """Set rows, subwords and languages of OPUS-MT.

    Its first decoder input, the embedding of padding (zero after Marian's conversion), becomes the
    row of ``<s>``, which the decoder reads in place of ``</s>``.
    """
    activation = str(config["activation_function"])
    activation = "swish" if activation == "silu" else activation
    model.options = {
        **model.options,
        "sinusoid": "marian",
        "start_by_bos": True,
        "activation_fn": activation,
    }
    paths = [_file(folder, name) for name in MarianPipeline.files[:2]]
    separate = not config.get("share_encoder_decoder_embeddings", True)
    target_vocabulary = "target_vocab.json" if separate else _VOCABULARY
    start = int(config["decoder_start_token_id"])
    sides = []
    for name, table in ((_VOCABULARY, ENCODER_TABLE), (target_vocabulary, DECODER_TABLE)):
        vocabulary = read_json(_file(folder, name))
        sides.append(_marian_side(vocabulary, model.state[table].size(0), start))
    if separate and any(side.languages for side in sides):
        raise GtransError(
            f"{folder}: it has language tokens and a vocabulary for each side, which gtrans does "
            "not support; take a model with one vocabulary, or for one language."
        )
    _reorder_tables(model, sides)
    model.langs = list(sides[0].languages)
    model.special_tokens = "marian" if model.langs else "end"
    if not model.langs:
        info = _entries(folder, "tokenizer_config.json")
        model.source_lang = info.get("source_lang")
        model.target_lang = info.get("target_lang")
        _check_exchanged(paths, model.source_lang, model.target_lang)
    _store_pipeline(model, MarianPipeline, sides, paths, sides)


def _marian_side(vocabulary: Mapping[str, Any], rows: int, start: int) -> _Side:
    """Return the vocabulary in ``vocab.json``; ``start``: the row of the first decoder input."""
    numbers = {}
    for entry in sorted(vocabulary, key=vocabulary.__getitem__):
        numbers[entry] = int(vocabulary[entry])
    _check_rows(numbers)
    languages: dict[str, int] = {}
    words: dict[str, int | None] = {"<s>": start}
    for word in _SPECIAL[1:]:
        words[word] = numbers[word]
    for entry, row in numbers.items():
        if re.fullmatch(">>.*<<", entry):
            languages[entry[2:-2]] = row
        else:
            words[entry] = row
    if words["<s>"] != start:
        raise GtransError(
            f"its token '<s>' has the row {words['<s>']}, but texts begin with the row {start} "
            "(`decoder_start_token_id`), which gtrans does not support."
        )
    # A word for each row without an entry: it takes part in the softmax.
    taken = set(numbers.values())
    for row in range(rows):
        if row not in taken:
            words[f"{_NO_WORD}{row}"] = row
    return _Side(words, languages)


def _with_sentencepiece(
    model: ForeignCheckpoint, folder: Path, languages: Sequence[str] = ()
) -> None:
    """Set rows, subwords and languages of mBART, M2M100 and NLLB-200.

    ``languages``: behind the subwords; none: by the tokenizer's files.
    """
    path = _file(folder, _MODEL)
    subwords = model_subwords(load_sentencepiece(path))
    numbers: dict[str, int] = _entries(folder, _VOCABULARY)
    _check_rows(numbers)
    if not numbers:
        numbers = {entry: row for row, entry in enumerate((*_SPECIAL, *subwords))}
        _check_tokenizer(folder, path, numbers)
    if languages:
        language_rows = {name: row for row, name in enumerate(languages, start=len(numbers))}
    else:
        language_rows = _languages(folder, len(numbers))
    words: dict[str, int | None] = {}
    for entry in (*_SPECIAL, *sorted(numbers, key=numbers.__getitem__)):
        words[entry] = numbers[entry]
    # The first row without an entry is the mask of NLLB and mBART, and serves M2M100.
    taken = {*numbers.values(), *language_rows.values()}
    free = [row for row in range(model.state[ENCODER_TABLE].size(0)) if row not in taken]
    for row in free[1:]:
        words[f"{_NO_WORD}{row}"] = row
    side = _Side(words, language_rows, mask=free[0] if free else None)
    model.without_mask = not free
    _reorder_tables(model, [side, side])
    model.langs = list(language_rows)
    _store_pipeline(model, SentencePiecePipeline, [side, side], [path], [side])


def _check_rows(numbers: Mapping[str, int]) -> None:
    by_row: dict[int, str] = {}
    for word, row in numbers.items():
        if row in by_row:
            raise GtransError(
                f"its vocabulary has '{by_row[row]}' and '{word}' on the same row {row}; download "
                "the file again."
            )
        by_row[row] = word


def _check_tokenizer(folder: Path, path: Path, numbers: Mapping[str, int]) -> None:
    """Raise GtransError if most entries have other rows in ``tokenizer.json``."""
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
    """Raise GtransError if many subwords of the models are not in the vocabulary."""
    models: list[set[str]] = []
    for path, side in zip(paths, sides, strict=True):
        subwords = set(model_subwords(load_sentencepiece(path)))
        check_whole_sentencepiece(path)
        if len(subwords & side.words.keys()) < _LEAST_SHARE * len(subwords):
            raise GtransError(
                f"{path}: its subwords are not those of the model; take all files from one model."
            )
        models.append(subwords)
    if all(side.words == sides[0].words for side in sides):
        names = " and ".join(path.name for path in paths)
        _check_known(sides[0], set().union(*models), paths[0].parent, names)
        return
    for side, subwords, path in zip(sides, models, paths, strict=True):
        _check_known(side, subwords, path.parent, path.name)


def _check_known(side: _Side, known: set[str], folder: Path, names: str) -> None:
    words = [word for word in side.subwords if not word.startswith(_NO_WORD)]
    missing = sum(word not in known for word in words)
    if missing > (1 - _LEAST_SHARE) * len(words):
        raise GtransError(
            f"{folder}: {names} lacks {missing} of the {len(words)} subwords in its vocabulary; "
            "take all files from one model."
        )


def _check_exchanged(paths: Sequence[Path], source: str | None, target: str | None) -> None:
    if source is None or target is None:
        return
    source_words = function_words(source)
    target_words = function_words(target)
    only_source = source_words - target_words
    only_target = target_words - source_words
    if not _is_of(paths[0], only_target, only_source):
        return
    if not _is_of(paths[1], only_source, only_target):
        return
    raise GtransError(
        f"{paths[0]}: {paths[0].name} has words of '{target}' and {paths[1].name} of '{source}', "
        "the other way round than tokenizer_config.json says; exchange their names, or download "
        "them again."
    )


def _is_of(path: Path, words: Set[str], others: Set[str]) -> bool:
    """Return whether frequent subwords of a model are ``words`` of a language, not ``others``."""
    subwords = model_subwords(load_sentencepiece(path))
    whole_words = [subword for subword in subwords if subword.startswith(SPACE)]
    frequent: set[str] = set()
    for subword in whole_words[:_FREQUENT]:
        frequent.add(subword.removeprefix(SPACE).lower())
    found = len(frequent & words)
    return found >= _FEWEST and found > 3 * len(frequent & others)


def _store_pipeline(
    model: ForeignCheckpoint,
    pipeline: type[MarianPipeline | SentencePiecePipeline],
    sides: Sequence[_Side],
    paths: Sequence[Path],
    dictionaries: Sequence[_Side],
) -> None:
    _check_subwords(paths, dictionaries)
    contents = [path.read_bytes() for path in paths]
    for side in dictionaries:
        contents.append("".join(f"{word} 1\n" for word in side.subwords).encode())
    files = dict(zip(pipeline.files, contents, strict=True))
    words = sides[0].subwords, sides[1].subwords
    model.tokens = Tokens(words, {"subwords": pipeline.name}, files)


def _reorder_tables(model: ForeignCheckpoint, sides: Sequence[_Side]) -> None:
    """Put the rows of all tables in the order of the vocabulary; shared tables stay shared.

    Missing rows are zero, with a bias that keeps them from being written.
    """
    state = model.state
    arranged: dict[int, Tensor] = {}
    for name in (*TABLES, BIAS):
        if name not in state:
            continue
        side = sides[0] if name == ENCODER_TABLE else sides[1]
        table = state[name]
        rows = [*side.words.values(), *side.languages.values()]
        if side.mask is not None or not model.without_mask:  # else it is added later
            rows.append(side.mask)
        index = []
        for row in rows:
            if row is not None and not 0 <= row < table.size(0):
                raise GtransError(
                    f"{model.path}: {name} has {table.size(0)} rows, which do not fit "
                    "its vocabulary; take all files from one model."
                )
            index.append(table.size(0) if row is None else row)
        if table.data_ptr() not in arranged:
            extra = table.new_full((1, *table.shape[1:]), _NEVER if name == BIAS else 0.0)
            arranged[table.data_ptr()] = torch.cat([table, extra])[torch.tensor(index)]
        state[name] = arranged[table.data_ptr()]
    if BIAS in state and model.options.get("start_by_bos"):
        state[BIAS][0] = _NEVER


def _languages(folder: Path, words: int) -> dict[str, int]:
    """Return the rows of the languages of M2M100 or NLLB-200, behind ``words`` others."""
    added = _entries(folder, "tokenizer.json").get("added_tokens", ())
    languages: dict[str, int] = {}
    for token in added:
        name, row = str(token["content"]).strip("_"), int(token["id"])
        if row >= words and name != MASK:
            languages[name] = row
    if languages:
        if min(languages.values()) > words:
            raise GtransError(f"{folder}: {_MODEL} and tokenizer.json are of two models.")
        return languages
    names = split_languages(M2M100) if (folder / _VOCABULARY).is_file() else []
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        names = _added_tokens(_entries(folder, file)) or names
    if names:
        return {name: row for row, name in enumerate(names, start=words)}
    raise GtransError(
        f"{folder}: tokenizer.json or special_tokens_map.json is missing, which names the "
        "languages of the model; download it, too."
    )


def _added_tokens(info: Mapping[str, Any]) -> list[str]:
    tokens = info.get("additional_special_tokens") or info.get("extra_special_tokens") or ()
    names = []
    for token in tokens:
        content = str(token["content"] if isinstance(token, dict) else token)
        if content not in _SPECIAL:
            names.append(content.strip("_"))
    return names


def _entries(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder / name) if (folder / name).is_file() else {}


def _file(folder: Path, name: str) -> Path:
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
    """Return name and licence in the header of ``README.md``."""
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
