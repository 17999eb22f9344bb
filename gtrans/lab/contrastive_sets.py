"""Readers of published contrastive sets, besides JSON lines and ContraPro.

GtransError names the line or entry of another form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from gtrans.data.documents import resolve
from gtrans.errors import GtransError, one_line
from gtrans.evaluation.contrastive.items import Item, ReadOptions, Sentences
from gtrans.lab.contrapro import (
    GENDERS,
    GENDERS_FILE,
    PRONOUN_OF,
    Entry,
    changed_words,
    context_size,
    has_genders,
    lower_words,
    read_entries,
    read_pronoun_json,
    separated,
    two_sides,
)

AnyPath = str | os.PathLike[str]


def _items(path: AnyPath, read: Callable[[Entry], Iterable[Item]]) -> list[Item]:
    items: list[Item] = []
    for entry in read_entries(path):
        try:
            for item in read(entry):
                _check(item)
                items.append(item)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise entry.error(
                f"it does not have the form of this set ({one_line(error)})"
            ) from None
    return items


def _check(item: Item) -> None:
    if not _are_parallel(item.source, item.candidates):
        raise ValueError("source and candidates need equally many sentences, none of them empty")
    if not item.contrastive or item.right_index < 0 or (item.distance or 0) < 0:
        raise ValueError("two candidates, and numbers of at least 0, are needed")


def _are_parallel(source: Sentences, candidates: Iterable[Sentences]) -> bool:
    for candidate in candidates:
        if len(candidate) != len(source) or not all(candidate):
            return False
    return all(source)


def _stripped(sentences: Iterable[str]) -> Sentences:
    return tuple(sentence.strip() for sentence in sentences)


# --- ContraCAT -----------------------------------------------------------------------------------

_PRIORS = "0_priors"
_STEP = re.compile(r"\d_\w+")
_EXAMPLE_LINES = 3


def read_contracat(path: AnyPath, options: ReadOptions) -> list[Item]:
    """Read the templates of ContraCAT, English to German (Stojanovski et al., COLING 2020).

    A template is a folder of their ``data/templates`` with ``en.txt`` and ``de.txt``, lines
    ``context <SEP> sentence``, and ``genders.txt``. An example has three lines, with er, sie and
    es; each names the gender of the right one, m, f or n. ``0_priors`` has no right ones.

    The phenomenon is the path from the step on, ``2_coreference_step/pleonastic/rain``.
    """
    path = Path(path)
    folders = []
    if path.is_dir():
        for folder in (path, *path.rglob("*")):
            is_template = folder.is_dir() and has_genders(folder)
            if is_template and _PRIORS not in folder.absolute().parts:
                folders.append(folder)
    if not folders:
        raise GtransError(
            f"{path}: must be a folder of templates with right candidates, each with en.txt and "
            f"{GENDERS_FILE}."
        )
    items: list[Item] = []
    for folder in sorted(folders):
        items += _read_template(folder, options.context)
    return items


def _read_template(folder: Path, context: int) -> Iterator[Item]:
    name = _template_name(folder)
    files = [resolve(str(folder / side), "txt") for side in ("en", "de", "genders")]
    source_lines, target_lines, genders = two_sides(*files)
    sources = separated(source_lines, files[0])
    targets = separated(target_lines, files[1])
    for start in range(0, len(genders), _EXAMPLE_LINES):
        stop = start + _EXAMPLE_LINES
        source = sources[start]
        candidates = targets[start:stop]
        gender = genders[start]
        pronouns = _differing_pronouns([target[-1] for target in candidates])
        has_one_source = set(sources[start:stop]) == {source}
        has_one_gender = set(genders[start:stop]) == {gender} and gender in GENDERS.values()
        has_all_pronouns = sorted(pronouns) == sorted(GENDERS)
        is_consistent = has_one_source and has_one_gender and has_all_pronouns
        if not is_consistent or not _are_parallel(source, candidates):
            raise GtransError(
                f"{files[1]}:{start + 1}: an example must have {_EXAMPLE_LINES} lines of one "
                f"source and as many sentences, none of them empty, that differ in er, sie and es, "
                f"and one gender in {GENDERS_FILE}: m, f or n."
            )
        candidate_genders = [GENDERS[pronoun] for pronoun in pronouns]
        right = candidate_genders.index(gender)
        kept = [target[-(context + 1) :] for target in candidates]
        yield Item(
            id=f"{name}-{start // _EXAMPLE_LINES + 1}",
            phenomenon=name,
            distance=1,
            cue="target",
            source=source[-(context + 1) :],
            target=kept[right],
            contrastive=(*kept[:right], *kept[right + 1 :]),
            right_index=right,
            groups={"step": name.split("/")[0], "gender": gender},
        )


def _template_name(folder: Path) -> str:
    parts = folder.absolute().parts
    name = folder.name
    for number, part in enumerate(parts):
        if _STEP.fullmatch(part):
            name = "/".join(parts[number:])
    return name


def _differing_pronouns(texts: Sequence[str]) -> list[str]:
    """Return the differing pronoun of each text; '': unclear."""
    words = [lower_words(text) for text in texts]
    columns = zip(*words, strict=False)
    differing = [column for column in columns if len(set(column)) > 1]
    lengths = {len(sentence) for sentence in words}
    if len(differing) != 1 or len(lengths) > 1:
        return [""] * len(texts)
    return [PRONOUN_OF.get(word, "") for word in differing[0]]


# --- Voita et al. --------------------------------------------------------------------------------

# The source of the context shows which words were elided. Only its translation shows how "you"
# and names were translated.
_CUES = {"ellipsis_infl": "source", "ellipsis_vp": "source"}


def read_consistency(path: AnyPath, options: ReadOptions) -> list[Item]:
    """Read the English-Russian consistency sets of Voita, Sennrich and Titov (ACL 2019).

    They are in ``consistency_testsets`` of ``good-translation-wrong-in-context``: JSON arrays of
    ``{"src": .., "dst": [..], "true_ind": n, "ctx_dist": n}`` with tokenised sentences joined by
    ``_eos``. As in their evaluation, repeated candidates are kept.

    The phenomenon is the name of the file without suffixes, ``deixis_test``.
    """
    phenomenon = Path(path).name.split(".")[0]
    return _items(path, partial(_consistency_item, phenomenon))


def _consistency_item(phenomenon: str, entry: Entry) -> Iterator[Item]:
    right = entry.number("true_ind")
    source = _joined_sentences(entry.value["src"])
    targets = [_joined_sentences(text) for text in entry.value["dst"]]
    yield Item(
        id=f"{phenomenon}-{entry.name}",
        phenomenon=phenomenon,
        distance=entry.number("ctx_dist"),
        cue=_CUES.get(phenomenon, "target"),
        source=source,
        target=targets[right],
        contrastive=tuple(targets[:right] + targets[right + 1 :]),
        form="tokenised",
        right_index=right,
    )


def _joined_sentences(text: str) -> Sentences:
    return _stripped(text.split("_eos"))


# --- Bawden et al. -------------------------------------------------------------------------------

_FORMS = {
    "m.sg.": ("il", "le", "lui", "celui", "mien", "tien", "sien", "un", "ce", "cet"),
    "f.sg.": ("elle", "la", "celle", "mienne", "tienne", "sienne", "une", "cette"),
    "m.pl.": ("ils", "eux", "ceux", "miens", "tiens", "siens"),
    "f.pl.": ("elles", "celles", "miennes", "tiennes", "siennes"),
}
_FORM_OF: dict[str, str] = {}
for _number, _words in _FORMS.items():
    _FORM_OF |= dict.fromkeys(_words, _number)
_ANAPHORA, _LEXICAL = "anaphora", "lexical choice"
_LEXICAL_CUES = {"repet": "target", "disambig": "source"}


def read_discevalmt(path: AnyPath, options: ReadOptions) -> list[Item]:
    """Read the English-French discourse sets of Bawden, Sennrich, Birch and Haddow (NAACL 2018).

    ``anaphora.json`` and ``lexical-choice.json`` of ``discourse-mt-test-sets`` are objects of
    numbered blocks: ``{"src": [previous, current], "trg": [{"correct" or "semi-correct": [..],
    "incorrect": [..]}, ..]}``, and ``{"type": "repet" or "disambig", "examples": [{"src": [..],
    "trg": {"correct": [..], "incorrect": [..]}}, ..]}``. A semi-correct translation agrees with a
    wrong antecedent. Anaphora are grouped by the form of the French pronoun.
    """
    return _items(path, _block_items)


def _block_items(entry: Entry) -> Iterator[Item]:
    block = entry.value
    if "examples" in block:
        kind = block.get("type") or ""
        name = _LEXICAL
        phenomenon = f"{_LEXICAL}, {kind}" if kind else _LEXICAL
        cue = _LEXICAL_CUES.get(kind, "source/target")
        pairs = [(example["src"], example["trg"]) for example in block["examples"]]
    else:
        name, phenomenon, cue = _ANAPHORA, _ANAPHORA, "target"
        pairs = [(block["src"], pair) for pair in block["trg"]]
    for number, (source, pair) in enumerate(pairs, start=1):
        right = "correct" if "correct" in pair else "semi-correct"
        target = _stripped(pair[right])
        wrong = _stripped(pair["incorrect"])
        groups = {"set": name}
        if name == _ANAPHORA:
            groups["form"] = _pronoun_form(pair.get("type") or "", target, wrong)
        yield Item(
            id=f"{entry.name}.{number}",
            phenomenon=phenomenon if right == "correct" else f"{phenomenon}, {right}",
            distance=1,
            cue=cue,
            source=_stripped(source),
            target=target,
            contrastive=(wrong,),
            groups=groups,
            block=f"{name} {entry.name}",
        )


def _pronoun_form(kind: str, right: Sentences, wrong: Sentences) -> str:
    if kind.strip():
        return f"{kind.strip().rstrip('.')}."
    changed = changed_words(" ".join(right), [" ".join(wrong)])
    for word in changed:
        if word in _FORM_OF:
            return _FORM_OF[word]
    return "other"


# --- Lopes et al. --------------------------------------------------------------------------------

_TEXT, _SIDES = ".current.src", ("src", "trg")
_PRONOUNS = {"il": "it", "elle": "it", "ils": "they", "elles": "they"}


def read_large_pronoun(path: AnyPath, options: ReadOptions) -> list[Item]:
    """Read the English-French pronoun sets of Lopes et al. (EAMT 2020).

    ``Large-contrastive-pronoun-testset-EN-FR`` has two forms:

    * JSON with documents (``--documents``), as ContraPro; segments count from 0.
    * text: ``NAME.current.{src,trg}``, in which a wrong line follows every right one, and
      ``NAME.cN.context.{src,trg}`` with N lines of context for each line. The path is the folder
      or ``NAME.current.src``. The first pronoun that differs gives the phenomenon, ``they:elles``.
    """
    path = Path(path)
    if path.is_dir():
        texts = [*path.glob(f"*{_TEXT}"), *path.glob(f"*{_TEXT}.gz")]
        if len(texts) != 1:
            raise GtransError(f"{path}: must hold one file *{_TEXT}, but holds {len(texts)}.")
        path = texts[0]
    name = str(path).removesuffix(".gz")
    if not name.endswith(_TEXT):
        return read_pronoun_json(path, "fr", 0, options)
    prefix = name.removesuffix(_TEXT)
    files = [resolve(f"{prefix}.current", side) for side in _SIDES]
    sources, targets = two_sides(*files)
    if len(sources) % 2:
        raise GtransError(f"{path}:{len(sources)}: a right line without its wrong one.")
    contexts = _contexts(prefix, len(sources), options.context)
    items = []
    for number in range(0, len(sources), 2):
        same_context = contexts[number] == contexts[number + 1]
        if not same_context or sources[number] != sources[number + 1]:
            raise GtransError(
                f"{path}:{number + 1}: has another context or source than the next line, the "
                "source of the wrong translation."
            )
        source_context = tuple(source for source, _ in contexts[number])
        target_context = tuple(target for _, target in contexts[number])
        right, wrong = targets[number : number + 2]
        item = Item(
            id=str(number + 1),
            phenomenon=_pronoun_pair(right, wrong),
            distance=None,
            cue="target",
            source=(*source_context, sources[number]),
            target=(*target_context, right),
            contrastive=((*target_context, wrong),),
        )
        items.append(item)
    return items


def _contexts(prefix: str, lines: int, context: int) -> list[list[tuple[str, str]]]:
    """Return source and target of up to ``context`` sentences before each line of the set.

    Where a document has fewer than N before, ``NAME.cN.context`` has empty lines, and the largest
    M < N is taken.
    """
    contexts: list[list[tuple[str, str]]] = [[] for _ in range(lines)]
    for size in range(context, 0, -1):
        name = f"{prefix}.c{size}.context"
        exists = Path(f"{name}.src").exists() or Path(f"{name}.src.gz").exists()
        if size < context and not exists:
            continue
        files = [resolve(name, side) for side in _SIDES]
        sources, targets = two_sides(*files)
        width = context_size(files[0], len(sources), lines, size)
        for number in range(lines):
            if contexts[number]:
                continue
            stop = (number + 1) * width
            start = stop - size
            pairs = zip(sources[start:stop], targets[start:stop], strict=True)
            contexts[number] += [pair for pair in pairs if all(pair)]
    return contexts


def _pronoun_pair(right: str, wrong: str) -> str:
    pairs = zip(lower_words(right), lower_words(wrong), strict=False)
    for word, other in pairs:
        if word != other and word in _PRONOUNS:
            return f"{_PRONOUNS[word]}:{word}"
    return "other"


# --- Cai and Xiong -------------------------------------------------------------------------------

_PHENOMENA = {"pron": "pronoun", "conj": "connective", "ellip": "ellipsis"}


def read_discourse_zhen(path: AnyPath, options: ReadOptions) -> list[Item]:
    """Read the Chinese-English discourse test suite of Cai and Xiong (WDLF 2020).

    ``pron``, ``conj`` and ``ellip`` with ``.zh`` and ``.en`` have a line for each item, sentences
    joined by ``_eos``. There are no wrong translations, so no accuracy. The path is one file,
    ``pron.zh``, or the folder of the three.
    """
    path = Path(path)
    if path.is_dir():
        items: list[Item] = []
        for name in _PHENOMENA:
            items += _read_suite(path / name)
        return items
    plain = str(path).removesuffix(".gz")
    if not plain.endswith((".zh", ".en")):
        raise GtransError(f"{path}: must be a folder, or a file such as pron.zh next to pron.en.")
    return _read_suite(Path(plain[:-3]))


def _read_suite(prefix: Path) -> list[Item]:
    files = [resolve(str(prefix), side) for side in ("zh", "en")]
    phenomenon = _PHENOMENA.get(prefix.name, prefix.name)
    pairs = zip(*two_sides(*files), strict=True)
    items = []
    for number, (chinese, english) in enumerate(pairs, start=1):
        source = _joined_sentences(chinese)
        target = _joined_sentences(english)
        for file, sentences in zip(files, (source, target), strict=True):
            if not all(sentences):
                raise GtransError(f"{file}:{number}: has a sentence that is empty.")
        if len(source) != len(target):
            source = (" ".join(source),)
            target = (" ".join(target),)
        item = Item(
            id=f"{phenomenon}-{number}",
            phenomenon=phenomenon,
            distance=1,
            cue="source",
            source=source,
            target=target,
            contrastive=(),
        )
        items.append(item)
    return items
