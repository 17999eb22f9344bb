"""The templates of ContraCAT: English to German pronouns (Stojanovski et al. 2020).

"ContraCAT: Contrastive Coreference Analytical Templates for Machine Translation", COLING 2020;
their repository ``ContraCAT``, folder ``data/templates``. A template is a folder with ``en.txt``
and ``de.txt``, lines ``context <SEP> sentence``, and ``genders.txt``. Three lines make an example,
with er, sie and es in this order; their line of ``genders.txt`` is the gender of the right one, m,
f or n. The templates in ``0_priors`` have no right one and ask which pronoun is preferred: the
genders there are those of the two possible antecedents in their order (``mf``), or empty.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from gtrans.data.documents import resolve
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import german
from gtrans.evaluation.contrastive.items import Item, ReadOptions, Sentences
from gtrans.evaluation.contrastive.text_sides import separated, two_sides

GENDERS = "genders.txt"
"""The file that says which candidates of a template are right."""
_STEP = re.compile(r"\d_\w+")
_SIZE = 3


def read_contracat(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """All examples of a template, or of all templates in a folder, sorted by their names.

    The phenomenon is the path of the template from its step on, ``1_entity_step`` or
    ``2_coreference_step/pleonastic/rain``; examples are grouped by step and by gender.

    Raises:
        GtransError: there is no template, a file is missing or has another form; the message
            names the line.
    """
    path = Path(path)
    below = [path, *path.rglob("*")] if path.is_dir() else []
    folders = sorted(folder for folder in below if folder.is_dir() and _has_text(folder))
    if not folders:
        raise GtransError(f"{path}: must be a folder of templates, each with en.txt and {GENDERS}.")
    for folder in folders:
        if not has_genders(folder):
            raise GtransError(
                f"{folder}: has en.txt and de.txt but no {GENDERS}, which says which candidates "
                "are right; give the whole template, or folders without it."
            )
    return [item for folder in folders for item in _template(folder, options.context)]


def has_genders(folder: Path) -> bool:
    """Whether a folder is a template, whose first lines are not the right ones."""
    return _has(folder, GENDERS)


def _has_text(folder: Path) -> bool:
    return has_genders(folder) or all(_has(folder, f"{lang}.txt") for lang in ("en", "de"))


def _has(folder: Path, name: str) -> bool:
    return any((folder / f"{name}{suffix}").is_file() for suffix in ("", ".gz"))


def _template(folder: Path, context: int) -> list[Item]:
    name = _name(folder)
    files = [resolve(str(folder / side), "txt") for side in ("en", "de", "genders")]
    *texts, genders = two_sides(*files)
    sources, targets = (separated(*side) for side in zip(texts, files, strict=False))
    if len(genders) % _SIZE:
        raise GtransError(
            f"{files[2]}:{len(genders)}: an example has {_SIZE} lines, the last one "
            f"has {len(genders) % _SIZE}."
        )
    for number, gender in enumerate(genders, start=1):
        if len(gender) != len(genders[0]):
            raise GtransError(
                f"{files[2]}:{number}: has '{gender}', but line 1 has '{genders[0]}'; the lines of "
                "a template must be of one kind: a gender, two of them, or nothing."
            )
    return [
        _item(
            f"{name}-{begin // _SIZE + 1}", name, f"{files[1]}:{begin + 1}",
            sources[begin : begin + _SIZE], targets[begin : begin + _SIZE],
            genders[begin : begin + _SIZE], context,
        )
        for begin in range(0, len(genders), _SIZE)
    ]  # fmt: skip


def _name(folder: Path) -> str:
    parts = folder.absolute().parts
    steps = [place for place, part in enumerate(parts) if _STEP.fullmatch(part)]
    return "/".join(parts[steps[-1] :]) if steps else folder.name


def _item(
    id: str,
    name: str,
    place: str,
    sources: list[Sentences],
    targets: list[Sentences],
    genders: list[str],
    context: int,
) -> Item:
    """The example whose translations begin at ``place``."""
    if any(source != sources[0] for source in sources) or len(set(genders)) > 1:
        raise GtransError(f"{place}: the lines of an example must have equal source and gender.")
    if any(len(target) != len(sources[0]) for target in targets):
        raise GtransError(f"{place}: must have the same number of <SEP> as its source.")
    if not all(all(sentences) for sentences in (sources[0], *targets)):
        raise GtransError(f"{place}: a sentence of the example is empty.")
    pronouns = german.pronouns_of([target[-1] for target in targets])
    if sorted(pronouns) != sorted(german.GENDERS):
        raise GtransError(f"{place}: the lines of an example must differ in er, sie and es.")
    order = [german.GENDERS[pronoun] for pronoun in pronouns]
    gender = genders[0]
    has_right = len(gender) == 1
    if len(gender) > 2 or len(set(gender)) < len(gender) or not set(gender) <= set("mfn"):
        raise GtransError(
            f"{place}: {GENDERS} has '{gender}', not m, f or n, or two of them, or nothing."
        )
    right = order.index(gender) if has_right else 0
    first = -(context + 1)
    labels = [gender if has_right else _role(of, gender) for of in order]
    candidates = [target[first:] for target in targets]
    return Item(
        id=id,
        phenomenon=name,
        distance=1,
        cue="target",
        source=sources[0][first:],
        target=candidates[right],
        contrastive=(*candidates[:right], *candidates[right + 1 :]),
        right_index=right,
        has_right=has_right,
        labels=() if has_right else tuple(labels),
        groups={"step": name.split("/")[0], "gender": gender} if has_right else {},
    )


def _role(gender: str, antecedents: str) -> str:
    """What a pronoun of a prior stands for: an antecedent, or only its own gender."""
    if not antecedents:
        return gender
    ordinals = {0: "first", 1: "second"}
    return f"{ordinals.get(antecedents.find(gender), 'neither')} antecedent"
