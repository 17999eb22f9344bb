"""COMET (Rei et al. 2020, 2022) of every sentence, by the library ``unbabel-comet``.

Over context (Doc-COMET, Vernikos et al. 2022), a sentence is read after up to two before it. The
context of a translation is the reference's; a model without reference reads what the system has
translated. The encoder cuts a text at its end, so the oldest context is left out until it fits.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.scores import Measurement

CONTEXT_SENTENCES = 2
DEFAULT_MODEL = "Unbabel/wmt22-comet-da"


def comet(
    name: str,
    sources: Documents,
    references: Documents | None,
    systems: Mapping[str, Documents],
    context: bool = False,
) -> Measurement:
    """COMET of every sentence, from about 0 to 1; the corpus score is their mean.

    ``name`` is one that COMET knows, or a checkpoint. With ``context`` a sentence is read after
    those before it.

    Raises:
        GtransError: no library, no such model; no reference, no context where one is needed.
    """
    flag = f"{'--doc-comet' if context else '--comet'} {name}"
    model = _load(name, flag)
    compares = bool(model.requires_references())
    if compares and references is None:
        raise GtransError(f"{flag}: this model needs the reference; give it with --ref.")
    most = CONTEXT_SENTENCES if context else 0
    if context:
        model.enable_context()
        if not getattr(model, "use_context", False):
            raise GtransError(f"{flag}: this model reads no context; {DEFAULT_MODEL} does.")
    gpus = min(1, importlib.import_module("torch").cuda.device_count())
    statistics = {}
    for system, documents in systems.items():
        sides = {"src": (sources, sources), "mt": (documents, documents)}
        if compares and references is not None:
            sides |= {"mt": (documents, references), "ref": (references, references)}
        samples = [
            _sample(model, {key: (texts[i], of[i]) for key, (texts, of) in sides.items()}, n, most)
            for i, document in enumerate(sources)
            for n in range(len(document))
        ]
        scores = model.predict(samples, batch_size=8, gpus=gpus).scores
        statistics[system] = np.array([[score, 1] for score in scores], np.float64)
    signature = f"model:{name}|" + ("" if compares else "reference:none|")
    signature += f"context:{most},{'reference' if compares else 'own'}|" if most else ""
    return Measurement(
        key=("doc_" if context else "") + "comet" + ("" if compares else "_qe"),
        label=("Doc-COMET" if context else "COMET") + ("" if compares else " (no reference)"),
        unit="sentence", higher_is_better=True, digits=4, statistics=statistics,
        signature=f"{signature}aggregate:mean|unit:sentence",
        documents=np.repeat(np.arange(len(sources)), [*map(len, sources)]),
        compute=lambda sums: sums[0] / sums[1],
    )  # fmt: skip


def _load(name: str, flag: str) -> Any:
    if find_spec("comet") is None:
        raise GtransError(
            f"{flag} needs the library unbabel-comet; type: pip install unbabel-comet, here or, as "
            "it needs older libraries, in a second environment, whose scores --segment-scores reads"
        )
    library = importlib.import_module("comet")
    try:
        path = name if Path(name).is_file() else library.download_model(name)
        return library.load_from_checkpoint(path)
    except Exception as error:  # the library raises nothing more precise
        raise GtransError(f"{flag}: it cannot be loaded ({str(error).strip():.300}).") from None


def _sample(model: Any, sides: Mapping[str, Any], place: int, most: int) -> dict[str, str]:
    """What the model reads of a sentence; ``sides``: its documents, and those of its context."""
    tokenizer, limit = model.encoder.tokenizer, model.encoder.max_positions - 2
    for size in range(min(place, most), 0, -1):
        joined = {
            side: f" {tokenizer.sep_token} ".join([*of[place - size : place], texts[place]])
            for side, (texts, of) in sides.items()
        }
        if all(len(tokenizer(text)["input_ids"]) <= limit for text in joined.values()):
            return joined
    return {side: texts[place] for side, (texts, _) in sides.items()}
