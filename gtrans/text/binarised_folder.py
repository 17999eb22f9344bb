"""A folder that somebody's own ``fairseq-preprocess`` has written, as the end of a preparation.

``gtrans prepare --binarised`` copies its dictionaries and splits to a data folder, beside the
subword model that its text was segmented with. The text of such a corpus is what it was before
that model: no other step is run on text, nor undone.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.identity.files import copy_file
from gtrans.messages import say
from gtrans.text.pipeline import TextPipeline

# Sentences of a split and language that are segmented anew, and how many must come out the same:
# not all, because BPE may have been applied with dropout or with a vocabulary.
_CHECKED_SENTENCES = 500
_SAME = 0.9


def files_of(folder: Path, source_lang: str, target_lang: str) -> list[str]:
    """Names of the files that a data folder needs: dictionaries, and all splits of the pair.

    Raises:
        GtransError: a dictionary or a file of a split is missing, or there is no split.
    """
    pair = f"{source_lang}-{target_lang}"
    splits = _splits_of(folder, pair)
    if not splits:
        found = sorted({path.name.split(".")[1] for path in folder.glob("*.*-*.*.idx")})
        other = f"; it has {', '.join(found)}" if found else ""
        raise GtransError(
            f"`--binarised` '{folder}' has no split SPLIT.{pair}.{source_lang}.idx, as "
            f"fairseq-preprocess writes it{other}."
        )
    names = file_names(splits, (source_lang, target_lang))
    for name in names:
        if not (folder / name).is_file():
            raise GtransError(f"`--binarised` '{folder}' has no file {name}.")
    return names


def file_names(splits: Iterable[str], languages: tuple[str, str]) -> list[str]:
    """Names of the files that ``fairseq-preprocess`` writes for these splits."""
    return [f"dict.{lang}.txt" for lang in languages] + [
        f"{split}.{'-'.join(languages)}.{lang}.{kind}"
        for split in splits
        for lang in languages
        for kind in ("bin", "idx")
    ]


def check_segmentation(folder: Path, pipelines: Iterable[TextPipeline], pair: str) -> None:
    """Segment a part of every split anew, and say how many documents each has.

    Args:
        folder: what ``fairseq-preprocess`` has written.
        pipelines: of both languages, without any step but the subword model.
        pair: the languages, such as ``en-de``.

    Raises:
        GtransError: a split cannot be read, or the model does not segment its text as it is.
    """
    for pipeline in pipelines:
        for split in _splits_of(folder, pair):
            _check_split(folder, f"{split}.{pair}.{pipeline.lang}", pipeline)


def take(folder: Path, out: Path, languages: tuple[str, str]) -> None:
    """Copy dictionaries and splits to a data folder, which has the subword model already."""
    for name in files_of(folder, *languages):
        copy_file(folder / name, out / name)


def _splits_of(folder: Path, pair: str) -> list[str]:
    end = f".{pair}.{pair.partition('-')[0]}.idx"
    return sorted(path.name.removesuffix(end) for path in folder.glob(f"*{end}"))


def _check_split(folder: Path, name: str, pipeline: TextPipeline) -> None:
    """Segment sentences of a split anew, and say how many documents it has."""
    from gtrans.data.binarised import load_dictionary, load_lines

    dictionary = load_dictionary(folder / f"dict.{pipeline.lang}.txt")
    data = load_lines(str(folder / name), dictionary, len(dictionary))
    checked = same = boundaries = sentences = 0
    for number, size in enumerate(data.sizes):
        boundaries += size <= 1
        sentences += size > 1
        if size > 1 and checked < _CHECKED_SENTENCES:
            ids = data[number]
            if (ids == dictionary.unk()).any():
                continue
            pieces = dictionary.string(ids)
            checked += 1
            same += pipeline.segment(pipeline.unsegment(pieces)) == pieces
    if same < _SAME * checked:
        raise GtransError(
            f"of {checked} sentences of {name} in '{folder}', the subword model makes only {same} "
            "again; give the one that the text was segmented with (`--bpe-codes`, "
            "`--sentencepiece`, `--byte-bpe`)."
        )
    documents = f"{boundaries} empty lines between documents"
    if not boundaries:
        documents = "no empty line"
    say(f"{name}: {sentences} sentences, {documents}")
