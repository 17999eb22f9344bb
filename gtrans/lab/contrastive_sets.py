"""Readers of published contrastive sets, besides JSON lines and ContraPro.

Each takes a path and :class:`ReadOptions`, and returns the items in their order. All raise
GtransError if a file is missing or has another form; the message names the line or the entry.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    has_genders,
    read_entries,
    read_pronoun_json,
    separated,
    two_sides,
    words_of,
)

AnyPath = str | os.PathLike[str]


def _items(path: AnyPath, read: Callable[[Entry], Iterable[Item]]) -> list[Item]:
    """The items of all entries of a file of JSON."""
    items: list[Item] = []
    for entry in read_entries(path):
        try:
            items += map(_checked, read(entry))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise entry.error(
                f"it does not have the form of this set ({one_line(error)})"
            ) from None
    return items


def _checked(item: Item) -> Item:
    """The item.

    Raises:
        ValueError: its source and candidates have not the same number of sentences, or it has no
            wrong candidate or a negative number.
    """
    if not _fit(item.source, item.candidates):
        raise ValueError("source and candidates need equally many sentences, none of them empty")
    if not item.contrastive or min(item.right_index, item.distance or 0) < 0:
        raise ValueError("two candidates, and numbers of at least 0, are needed")
    return item


def _fit(source: Sentences, candidates: Iterable[Sentences]) -> bool:
    """Whether all have equally many sentences, none of them empty."""
    texts = (source, *candidates)
    return len({*map(len, texts)}) == 1 and all(map(all, texts))


def _stripped(sentences: Iterable[str]) -> Sentences:
    return tuple(sentence.strip() for sentence in sentences)


# --- ContraCAT -----------------------------------------------------------------------------------

_PRIORS = "0_priors"
_STEP = re.compile(r"\d_\w+")
_SIZE = 3


def read_contracat(path: AnyPath, options: ReadOptions) -> list[Item]:
    """The templates of ContraCAT: English to German pronouns (Stojanovski et al. 2020).

    "ContraCAT: Contrastive Coreference Analytical Templates for Machine Translation", COLING 2020;
    their repository ``ContraCAT``, folder ``data/templates``. A template is a folder with
    ``en.txt`` and ``de.txt``, lines ``context <SEP> sentence``, and ``genders.txt``. Three lines
    make an example, with er, sie and es in this order; their line of ``genders.txt`` is the gender
    of the right one, m, f or n. The templates in ``0_priors`` have no right one and are left out.

    The phenomenon is the path of the template from its step on, ``1_entity_step`` or
    ``2_coreference_step/pleonastic/rain``; examples are grouped by step and by gender.
    """
    path = Path(path)
    below = [path, *path.rglob("*")] if path.is_dir() else []
    folders = sorted(
        folder
        for folder in below
        if folder.is_dir() and has_genders(folder) and _PRIORS not in folder.absolute().parts
    )
    if not folders:
        raise GtransError(
            f"{path}: must be a folder of templates with right candidates, each with en.txt and "
            f"{GENDERS_FILE}."
        )
    items: list[Item] = []
    for folder in folders:
        items += _template(folder, options.context)
    return items


def _template(folder: Path, context: int) -> Iterator[Item]:
    parts = folder.absolute().parts
    steps = [number for number, part in enumerate(parts) if _STEP.fullmatch(part)]
    name = "/".join(parts[steps[-1] :]) if steps else folder.name
    files = [resolve(str(folder / side), "txt") for side in ("en", "de", "genders")]
    *texts, genders = two_sides(*files)
    sources, targets = (separated(*side) for side in zip(texts, files, strict=False))
    for begin in range(0, len(genders), _SIZE):
        end = begin + _SIZE
        source, candidates, gender = sources[begin], targets[begin:end], genders[begin]
        pronouns = _pronouns_of([target[-1] for target in candidates])
        same = {*zip(sources[begin:end], genders[begin:end], strict=True)} == {(source, gender)}
        differ = sorted(pronouns) == sorted(GENDERS) and gender in GENDERS.values()
        if not same or not differ or not _fit(source, candidates):
            raise GtransError(
                f"{files[1]}:{begin + 1}: an example must have {_SIZE} lines of one source and as "
                f"many sentences, none of them empty, that differ in er, sie and es, and one "
                f"gender in {GENDERS_FILE}: m, f or n."
            )
        right = [GENDERS[pronoun] for pronoun in pronouns].index(gender)
        kept = [target[-(context + 1) :] for target in candidates]
        yield Item(
            id=f"{name}-{begin // _SIZE + 1}",
            phenomenon=name,
            distance=1,
            cue="target",
            source=source[-(context + 1) :],
            target=kept[right],
            contrastive=(*kept[:right], *kept[right + 1 :]),
            right_index=right,
            groups={"step": name.split("/")[0], "gender": gender},
        )


def _pronouns_of(texts: Sequence[str]) -> list[str]:
    """The pronoun that each text has where they all differ: er, sie, es, or '' if unknown."""
    words = [words_of(text) for text in texts]
    differing = [column for column in zip(*words, strict=False) if len(set(column)) > 1]
    if len(differing) != 1 or len({len(sentence) for sentence in words}) > 1:
        return [""] * len(texts)
    return [PRONOUN_OF.get(word, "") for word in differing[0]]


# --- Voita et al. --------------------------------------------------------------------------------

# The source of the context shows which words were elided. Only its translation shows how "you"
# and names were translated.
_CUES = {"ellipsis_infl": "source", "ellipsis_vp": "source"}


def read_consistency(path: AnyPath, options: ReadOptions) -> list[Item]:
    """The English-Russian consistency sets of Voita, Sennrich and Titov (2019).

    "When a Good Translation is Wrong in Context", ACL 2019; their repository
    ``good-translation-wrong-in-context``, folder ``consistency_testsets``: ``deixis_{dev,test}``,
    ``lex_cohesion_{dev,test}``, ``ellipsis_infl`` and ``ellipsis_vp``, each a JSON array of
    ``{"src": .., "dst": [..], "true_ind": n, "ctx_dist": n}`` with tokenised sentences joined
    by ``_eos``. As in their evaluation, an item counts as right if candidate ``true_ind`` has
    the best score of all, and repeated candidates are kept.

    The phenomenon is the name of the file without suffixes, so that the two splits of a set are
    told apart.
    """
    phenomenon = Path(path).name.split(".")[0]

    def items_of(entry: Entry) -> Iterator[Item]:
        of_file, right = entry.value, entry.number("true_ind")
        source, *targets = (
            _stripped(text.split("_eos")) for text in (of_file["src"], *of_file["dst"])
        )
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

    return _items(path, items_of)


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
    """The discourse sets of Bawden, Sennrich, Birch and Haddow (2018), English to French.

    "Evaluating Discourse Phenomena in Neural Machine Translation", NAACL 2018; their
    repository ``discourse-mt-test-sets``: ``anaphora.json`` and ``lexical-choice.json``, objects
    whose keys number the blocks. A block of the first is ``{"src": [previous, current],
    "trg": [{"correct" or "semi-correct": [..], "incorrect": [..]}, ..]}``, of the second
    ``{"type": "repet" or "disambig", "examples": [{"src": [..], "trg": {"correct": [..],
    "incorrect": [..]}}, ..]}``.

    Phenomena are ``anaphora``, ``anaphora, semi-correct`` (the right translation agrees with a
    wrong antecedent), and ``lexical choice`` with its type; both sets also have a total. Pairs of
    anaphora are grouped by the form of the French pronoun, as in the authors' table: the ``type``
    of the pair, or where there is none, the first pronoun's that differs from the wrong
    translation.
    """
    return _items(path, _block)


def _block(entry: Entry) -> Iterator[Item]:
    block = entry.value
    if "examples" in block:
        kind = block.get("type") or ""
        name, phenomenon = _LEXICAL, f"{_LEXICAL}, {kind}" if kind else _LEXICAL
        cue = _LEXICAL_CUES.get(kind, "source/target")
        pairs = [(example["src"], example["trg"]) for example in block["examples"]]
    else:
        name, phenomenon, cue = _ANAPHORA, _ANAPHORA, "target"
        pairs = [(block["src"], pair) for pair in block["trg"]]
    for number, (source, pair) in enumerate(pairs, start=1):
        right = "correct" if "correct" in pair else "semi-correct"
        target, wrong = _stripped(pair[right]), _stripped(pair["incorrect"])
        label = phenomenon if right == "correct" else f"{phenomenon}, {right}"
        forms = {"form": _form(pair.get("type") or "", target, wrong)} if name == _ANAPHORA else {}
        yield Item(
            f"{entry.name}.{number}",
            label,
            1,
            cue,
            _stripped(source),
            target,
            (wrong,),
            groups={"set": name, **forms},
            block=f"{name} {entry.name}",
        )


def _form(kind: str, right: Sentences, wrong: Sentences) -> str:
    """Gender and number of the pronoun: m.sg., f.sg., m.pl., f.pl., or other."""
    if kind.strip():
        return f"{kind.strip().rstrip('.')}."
    changed = changed_words(" ".join(right), [" ".join(wrong)])
    return next((_FORM_OF[word] for word in changed if word in _FORM_OF), "other")


# --- Lopes et al. --------------------------------------------------------------------------------

_TEXT, _SIDES = ".current.src", ("src", "trg")
_PRONOUNS = {"il": "it", "elle": "it", "ils": "they", "elles": "they"}


def read_large_pronoun(path: AnyPath, options: ReadOptions) -> list[Item]:
    """The large English-French pronoun sets (Lopes, Farajian, Bawden, Zhang and Martins 2020).

    "Document-level Neural MT: A Systematic Comparison", EAMT 2020; their repository
    ``Large-contrastive-pronoun-testset-EN-FR``. Two forms are published:

    * the JSON file with its documents (``--documents``), as of ContraPro; segments count from 0.
    * the extracted text, a folder or ``NAME.current.src``: ``NAME.current.src`` and ``.trg``, in
      which every right line is followed by a wrong one, and ``NAME.cN.context.src`` and ``.trg``
      with N lines of context for each line.

    Phenomena are pairs of pronouns, ``they:elles``. In the text form they are taken from the
    first pronoun that differs, and the distance is unknown.
    """
    path = Path(path)
    if path.is_dir():
        texts = sorted(f for f in path.iterdir() if f.name.removesuffix(".gz").endswith(_TEXT))
        if len(texts) != 1:
            raise GtransError(f"{path}: must hold one file *{_TEXT}, but holds {len(texts)}.")
        path = texts[0]
    name = str(path).removesuffix(".gz")
    if not name.endswith(_TEXT):
        return read_pronoun_json(path, "fr", 0, options)
    prefix = name.removesuffix(_TEXT)
    sources, targets = two_sides(*(resolve(f"{prefix}.current", side) for side in _SIDES))
    if len(sources) % 2:
        raise GtransError(f"{path}:{len(sources)}: a right line without its wrong one.")
    contexts = _contexts(prefix, len(sources), options.context)
    items = []
    for number in range(0, len(sources), 2):
        if (contexts[number], sources[number]) != (contexts[number + 1], sources[number + 1]):
            raise GtransError(
                f"{path}:{number + 1}: has another context or source than the next line, the "
                "source of the wrong translation."
            )
        before = tuple(target for _, target in contexts[number])
        right, wrong = targets[number : number + 2]
        items.append(
            Item(
                id=str(number + 1),
                phenomenon=_pronouns(right, wrong),
                distance=None,
                cue="target",
                source=(*(source for source, _ in contexts[number]), sources[number]),
                target=(*before, right),
                contrastive=((*before, wrong),),
            )
        )
    return items


def _contexts(prefix: str, lines: int, context: int) -> list[list[tuple[str, str]]]:
    """Source and target of up to ``context`` sentences before each line of the set.

    ``NAME.cN.context`` has empty lines where the document has fewer than N sentences before;
    ``NAME.cM.context`` with the largest M < N has the existing ones.

    Raises:
        GtransError: a file cannot be read, or has another number of lines, or fewer sentences than
            ``context``.
    """
    contexts: list[list[tuple[str, str]]] = [[] for _ in range(lines)]
    for size in range(context, 0, -1):
        name = f"{prefix}.c{size}.context"
        if size < context and not any(Path(f"{name}.src{end}").exists() for end in ("", ".gz")):
            continue
        files = [resolve(name, side) for side in _SIDES]
        sides = two_sides(*files)
        width, rest = divmod(len(sides[0]), lines) if lines else (0, 1)
        if rest or width < size:
            raise GtransError(
                f"{files[0]}: has {len(sides[0])} lines for the {lines} of the set; `--context` "
                f"{size} needs as many lines for each of them, {size} or more."
            )
        for number in range(lines):
            end = (number + 1) * width
            pairs = zip(*(side[end - size : end] for side in sides), strict=True)
            contexts[number] = contexts[number] or [pair for pair in pairs if all(pair)]
    return contexts


def _pronouns(right: str, wrong: str) -> str:
    for word, other in zip(words_of(right), words_of(wrong), strict=False):
        if word != other and word in _PRONOUNS:
            return f"{_PRONOUNS[word]}:{word}"
    return "other"


# --- Cai and Xiong -------------------------------------------------------------------------------

_PHENOMENA = {"pron": "pronoun", "conj": "connective", "ellip": "ellipsis"}


def read_discourse_zhen(path: AnyPath, options: ReadOptions) -> list[Item]:
    """The Chinese-English discourse test suite of Cai and Xiong (2020).

    "A Test Suite for Evaluating Discourse Phenomena in Document-level Neural Machine Translation",
    WDLF 2020; repository ``Discourse-Phenomena-in-Document-level-Neural-Machine-Translation``:
    ``pron``, ``conj`` and ``ellip`` with ``.zh`` and ``.en``, a line for each item, sentences
    joined by ``_eos``. It has no wrong translations, so no accuracy can be measured. Where one side
    lacks ``_eos``, as in line 52 of ``pron.zh``, the item is one sentence.

    The path is one file, ``pron.zh``, or the folder of the three.
    """
    path = Path(path)
    if path.is_dir():
        items: list[Item] = []
        for name in _PHENOMENA:
            items += _suite(path / name)
        return items
    plain = str(path).removesuffix(".gz")
    if not plain.endswith((".zh", ".en")):
        raise GtransError(f"{path}: must be a folder, or a file such as pron.zh next to pron.en.")
    return _suite(Path(plain[:-3]))


def _suite(prefix: Path) -> list[Item]:
    files = [resolve(str(prefix), side) for side in ("zh", "en")]
    phenomenon = _PHENOMENA.get(prefix.name, prefix.name)
    items = []
    for number, lines in enumerate(zip(*two_sides(*files), strict=True), start=1):
        source, target = (_stripped(line.split("_eos")) for line in lines)
        for file, sentences in zip(files, (source, target), strict=True):
            if not all(sentences):
                raise GtransError(f"{file}:{number}: has a sentence that is empty.")
        if len(source) != len(target):
            source, target = (" ".join(source),), (" ".join(target),)
        items.append(Item(f"{phenomenon}-{number}", phenomenon, 1, "source", source, target, ()))
    return items
