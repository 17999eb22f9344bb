"""COMET (Rei et al., 2020, 2022), with and without reference, over sentences and over context.

COMET runs in an environment of its own, see :mod:`gtrans.evaluation.external`. Its models are
never downloaded here; the commands that the user is told to run there do that.

Doc-COMET (Vernikos et al., 2022) reads up to two preceding sentences of the document before each
sentence. The context of a translation is that of the reference; for a model without reference it
is what the system has translated. COMET's encoder cuts a text at about 510 tokens, where the scored
sentence stands. So our program drops the oldest context until all sides fit, and counts that.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gtrans.errors import GtransError
from gtrans.evaluation.external import (
    AGAIN,
    RESULT,
    Instructions,
    ToolTexts,
    flat,
    lines,
    matrix,
    read_result,
    result_of,
    write_texts,
)
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.scores import Measurement, Statistics

CONTEXT_SENTENCES = 2
COMET_MODEL = "Unbabel/wmt22-comet-da"

# 2.2.3 is the first version on PyPI whose models have enable_context.
_INSTALL = (
    "python3 -m venv comet-env && . comet-env/bin/activate",
    "pip install 'unbabel-comet>=2.2.3'",
)
_PROGRAM_NAME = "doc_comet.py"
_TEXTS = "contexts.json"
_PROGRAM = '''\
"""Scores contexts.json with COMET over context: run it where unbabel-comet is installed.

python doc_comet.py [GPUS]
"""
import hashlib, json, os, pathlib, sys
import torch
from comet import download_model, load_from_checkpoint

folder = pathlib.Path(__file__).parent
text = (folder / "contexts.json").read_bytes()
given = json.loads(text)
name = given["model"]
model = load_from_checkpoint(name if os.path.exists(name) else download_model(name))
if model.requires_references() != given["reference"]:
    sys.exit(
        name + " needs no reference; give --comet-without-reference" if given["reference"] else
        name + " needs a reference; leave out --comet-without-reference, and 'qe' and 'kiwi' in "
        "its name and path"
    )
model.eval()
model.enable_context()
if not getattr(model, "use_context", False):
    sys.exit(name + " cannot read context; choose another --comet-model")
tokenizer, limit = model.encoder.tokenizer, model.encoder.max_positions - 2
separator = " " + tokenizer.sep_token + " "


def joined(segment, context):
    """Every side with so many sentences of context."""
    return {side: separator.join(texts[-1 - context:]) for side, texts in segment.items()}


def fits(texts):
    return all(len(tokenizer(text)["input_ids"]) <= limit for text in texts.values())


gpus = int(sys.argv[1]) if len(sys.argv) > 1 else min(1, torch.cuda.device_count())
systems = {}
for system, segments in given["systems"].items():
    samples, kept = [], []
    for segment in segments:
        context = min(len(texts) for texts in segment.values()) - 1
        while context and not fits(joined(segment, context)):
            context -= 1
        samples.append(joined(segment, context))
        kept.append(context)
    scores = model.predict(samples, batch_size=8, gpus=gpus).scores
    systems[system] = [[float(score), context] for score, context in zip(scores, kept)]
checked = hashlib.sha256(text).hexdigest()
(folder / "scores.json").write_text(json.dumps({"texts": checked, "systems": systems}))
'''


def is_reference_free(model: str) -> bool:
    """Whether the name of a COMET model, or its path, says that it needs no reference."""
    return re.search(r"(?<![a-z])qe(?![a-z])|kiwi", model, re.IGNORECASE) is not None


def comet(
    folder: Path, texts: ToolTexts, model: str, context: bool = False, with_reference: bool = True
) -> tuple[Instructions, Measurement | None]:
    """COMET of every sentence.

    Args:
        folder: where the files for this model are.
        texts: all texts.
        model: a name that COMET knows, or the path of a checkpoint.
        context: every sentence is read after those before it.
        with_reference: the model compares with the reference.

    Returns:
        instructions, and the scores (from about 0 to 1) if they have been computed.

    Raises:
        GtransError: there is no source or reference, the model cannot read context, or the
            scores belong to other texts.
    """
    label = "Doc-COMET" if context else "COMET"
    if texts.sources is None:
        raise GtransError(f"{label} needs the source; give it with --src")
    if with_reference and texts.references is None:
        raise GtransError(
            f"{model} needs the reference; give it with --ref, or a --comet-model without one"
        )
    if context and re.search("kiwi|xcomet|unite(?![a-z])", model, re.IGNORECASE):
        raise GtransError(
            f"--doc-comet: {model} cannot read context; take {COMET_MODEL}, or "
            "Unbabel/wmt20-comet-qe-da without reference"
        )
    score = _over_context if context else _by_sentence
    # The commands run in another folder.
    place = str(Path(model).resolve()) if Path(model).is_file() else model
    instructions, statistics = score(folder, texts, place, with_reference, label)
    if statistics is None:
        return instructions, None
    signature = f"model:{model}|"
    if not with_reference:
        signature += "reference:none|"
    if context:
        signature += f"context:{CONTEXT_SENTENCES},{'reference' if with_reference else 'own'}|"
        if shortened := _shortened(texts.shape, list(statistics.values())):
            signature += f"shortened:{shortened}|"
    return instructions, Measurement(
        key=("doc_" if context else "") + "comet" + ("" if with_reference else "_qe"),
        label=label + ("" if with_reference else " (no reference)"),
        unit="sentence",
        higher_is_better=True,
        signature=f"{signature}aggregate:mean|unit:sentence",
        statistics={
            name: np.column_stack([rows[:, 0], np.ones(len(rows))])
            for name, rows in statistics.items()
        },
        documents=texts.document_of_sentences(),
        compute=lambda sums: sums[0] / sums[1],
        digits=4,
    )


def _by_sentence(
    folder: Path, texts: ToolTexts, model: str, with_reference: bool, label: str
) -> tuple[Instructions, dict[str, Statistics] | None]:
    """Scores of ``comet-score``, (sentences, 1)."""
    columns = {"src.txt": flat(texts.sources or ())}
    if with_reference:
        columns["ref.txt"] = flat(texts.references or ())
    columns |= {f"hyp.{name}.txt": flat(system) for name, system in texts.systems.items()}
    write_texts(folder, {name: lines(column) for name, column in columns.items()}, texts.files)
    files = [f"hyp.{name}.txt" for name in texts.systems]
    command = ["comet-score", "-s", "src.txt", "-t", *files]
    command += ["-r", "ref.txt"] if with_reference else []
    command += ["--model", model, "--to_json", RESULT]
    instructions = Instructions(label, folder, _INSTALL, (shlex.join(command),))
    result = read_result(folder / RESULT)
    if result is None:
        return instructions, None
    given = {"src": "src.txt"} | ({"ref": "ref.txt"} if with_reference else {})
    return instructions, {
        name: _sentence_scores(
            folder / RESULT,
            result,
            file,
            {side: (column, columns[column]) for side, column in ({"mt": file} | given).items()},
        )
        for name, file in zip(texts.systems, files, strict=True)
    }


def _sentence_scores(
    path: Path, result: Any, file: str, given: dict[str, tuple[str, list[str]]]
) -> Statistics:
    """The scores of a file of translations; ``given``: what COMET read, file and lines by side."""
    found = {Path(name).name: entries for name, entries in result.items()}.get(file)
    if found is None:
        raise GtransError(f"{path} has no scores of {file}; {AGAIN}")
    try:
        read = {side: [str(entry[side]) for entry in found] for side in given}
        scores = [[float(entry["COMET"])] for entry in found]
    except (KeyError, TypeError, ValueError):
        raise GtransError(f"{path} is not what comet-score --to_json writes") from None
    for side, (column, expected) in given.items():
        for number, line in enumerate(expected):
            if number >= len(scores) or read[side][number].strip() != line.strip():
                raise GtransError(
                    f"{path} holds the scores of other texts: it lacks line {number + 1} of "
                    f"{column}; {AGAIN}"
                )
    return matrix(scores, (len(given["mt"][1]), 1), str(path))


def _over_context(
    folder: Path, texts: ToolTexts, model: str, with_reference: bool, label: str
) -> tuple[Instructions, dict[str, Statistics] | None]:
    """Scores of our program, and how many sentences of context each has read, (sentences, 2)."""
    sources, references = texts.sources or (), texts.references
    systems = {}
    for name, system in texts.systems.items():
        before = references if with_reference and references is not None else system
        sides = {"src": _contexts(sources, sources), "mt": _contexts(system, before)}
        if with_reference and references is not None:
            sides["ref"] = _contexts(references, references)
        systems[name] = [
            dict(zip(sides, one, strict=True)) for one in zip(*sides.values(), strict=True)
        ]
    given = json.dumps(
        {"model": model, "reference": with_reference, "systems": systems}, ensure_ascii=False
    )
    write_texts(folder, {_TEXTS: given, _PROGRAM_NAME: _PROGRAM}, texts.files)
    instructions = Instructions(label, folder, _INSTALL, (f"python {_PROGRAM_NAME}",))
    result = result_of(folder / RESULT, given, _PROGRAM_NAME)
    if result is None:
        return instructions, None
    return instructions, {
        name: matrix(
            result["systems"].get(name), (sum(texts.shape), 2), f"{folder / RESULT}: {name}"
        )
        for name in texts.systems
    }


def _contexts(documents: Documents, before: Documents) -> list[list[str]]:
    """Every sentence, after the sentences of ``before`` that precede it in its document."""
    return [
        [*context[max(0, number - CONTEXT_SENTENCES) : number], sentence]
        for document, context in zip(documents, before, strict=True)
        for number, sentence in enumerate(document)
    ]


def _shortened(shape: Sequence[int], statistics: Sequence[Statistics]) -> int:
    """How many sentences have less context in a system than their document has."""
    most = [min(number, CONTEXT_SENTENCES) for size in shape for number in range(size)]
    return int(np.any([rows[:, 1] < np.array(most) for rows in statistics], axis=0).sum())
