"""The English-Russian consistency sets of Voita, Sennrich and Titov (2019).

"When a Good Translation is Wrong in Context", ACL 2019; their repository
``good-translation-wrong-in-context``, folder ``consistency_testsets``: ``deixis_{dev,test}``,
``lex_cohesion_{dev,test}``, ``ellipsis_infl`` and ``ellipsis_vp``, each a JSON array of
``{"src": .., "dst": [..], "true_ind": n, "ctx_dist": n}`` with tokenised sentences joined
by ``_eos``. As in their evaluation, an instance counts as right if candidate ``true_ind`` has
the best score of all. In one of ellipsis_infl all candidates are equal; there their evaluation
takes the first, which is the right one.
"""

from __future__ import annotations

import os
from pathlib import Path

from gtrans.evaluation.contrastive.items import Item, ReadOptions, Sentences
from gtrans.evaluation.contrastive.json_file import Entry, read_entries
from gtrans.evaluation.contrastive.text_sides import joined_by_eos

# The source of the context shows which words were elided. Only its translation shows how "you"
# and names were translated.
_CUES = {"ellipsis_infl": "source", "ellipsis_vp": "source"}


def read_consistency(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """All instances, each with all its candidates, in the order of the file.

    The phenomenon is the name of the file without suffixes, so that the two splits of a set are
    told apart. Repeated candidates are kept, even if one of them is the right one.

    Raises:
        GtransError: the file cannot be read, or an instance has another form; the message
            names line and instance.
    """
    phenomenon = Path(path).name.split(".")[0]
    return [_item(entry, phenomenon) for entry in read_entries(path)]


def _item(entry: Entry, phenomenon: str) -> Item:
    source = _sentences(entry, "src", entry.text("src"))
    candidates = entry.value.get("dst")
    if not isinstance(candidates, list) or len(candidates) < 2:
        raise entry.error("'dst' must be a list of at least two candidates.")
    targets = [_sentences(entry, "dst", candidate) for candidate in candidates]
    for target in targets:
        if len(target) != len(source):
            raise entry.error(
                f"a candidate of 'dst' has {len(target)} sentences, but 'src' has {len(source)}."
            )
    right = entry.number("true_ind")
    if not 0 <= right < len(targets):
        raise entry.error(f"'true_ind' is {right}, but 'dst' has {len(targets)} candidates.")
    distance = entry.number("ctx_dist")
    if distance < 0:
        raise entry.error(f"'ctx_dist' must be at least 0, but is {distance}.")
    return Item(
        id=f"{phenomenon}-{entry.name}",
        phenomenon=phenomenon,
        distance=distance,
        cue=_CUES.get(phenomenon, "target"),
        source=source,
        target=targets[right],
        contrastive=tuple(targets[:right] + targets[right + 1 :]),
        form="tokenised",
        right_index=right,
    )


def _sentences(entry: Entry, key: str, text: object) -> Sentences:
    sentences = joined_by_eos(text) if isinstance(text, str) else ()
    if not sentences:
        raise entry.error(f"{key!r} has a sentence that is empty or not text.")
    return sentences
