"""METEOR 1.5 (Denkowski and Lavie, 2014), by its own program.

``meteor-1.5.jar`` is a Java program with tables of paraphrases. It writes the counts of every
sentence, and its corpus score follows from their sums, which allows intervals and tests. The
parameters are the program's own for each language; they are given to it, so that a score does not
depend on a default.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.evaluation.external import Instructions, ToolTexts, flat, lines, matrix, write_texts
from gtrans.evaluation.scores import Measurement, Statistics

JAR = "meteor-1.5.jar"

# Code of the program, alpha, beta, gamma and delta, and modules with their weights, by language:
# what version 1.5 prints for them.
_LANGUAGES: dict[str, tuple[str, tuple[float, ...], dict[str, float]]] = {
    "cs": ("cz", (0.95, 0.2, 0.6, 0.8), {"exact": 1.0, "paraphrase": 0.4}),
    "de": ("de", (0.95, 1.0, 0.55, 0.55), {"exact": 1.0, "stem": 0.8, "paraphrase": 0.2}),
    "en": (
        "en",
        (0.85, 0.2, 0.6, 0.75),
        {"exact": 1.0, "stem": 0.6, "synonym": 0.8, "paraphrase": 0.6},
    ),
    "es": ("es", (0.65, 1.3, 0.5, 0.8), {"exact": 1.0, "stem": 0.8, "paraphrase": 0.6}),
    "fr": ("fr", (0.9, 1.4, 0.6, 0.65), {"exact": 1.0, "stem": 0.2, "paraphrase": 0.4}),
    "ru": ("ru", (0.75, 1.4, 0.7, 0.5), {"exact": 1.0, "stem": 0.5, "paraphrase": 0.5}),
}
_COLUMNS = 23
_LENGTHS, _MODULES, _CHUNKS, _MATCHED = slice(0, 4), slice(4, 20), 20, slice(21, 23)


def meteor15(
    folder: Path, texts: ToolTexts, target_lang: str, jar: str = JAR
) -> tuple[Instructions, Measurement | None]:
    """METEOR 1.5 of every system, times 100.

    Its results are named after the texts that they belong to, so those of other texts are not
    read.

    Args:
        folder: where the files of this tool are.
        texts: all texts.
        target_lang: the language of the translations.
        jar: the path of the program.

    Raises:
        GtransError: the language is not supported, there is no reference, or a result is damaged.
    """
    if target_lang not in _LANGUAGES:
        raise GtransError(
            f"--meteor15: METEOR 1.5 has parameters for {', '.join(_LANGUAGES)}; "
            f"--target-lang is '{target_lang}'"
        )
    if texts.references is None:
        raise GtransError("--meteor15 needs the reference; give it with --ref")
    language, parameters, modules = _LANGUAGES[target_lang]
    reference = lines(flat(texts.references))
    systems = {name: lines(flat(system)) for name, system in texts.systems.items()}
    files = {f"hyp.{name}.txt": text for name, text in systems.items()}
    write_texts(folder, {"ref.txt": reference} | files, texts.files)
    options = ["-l", language, "-norm", "-m", " ".join(modules)]
    options += ["-p", " ".join(map(str, parameters))]
    options += ["-w", " ".join(map(str, modules.values())), "-ssOut"]
    results, commands = {}, []
    if Path(jar).is_file():
        jar = str(Path(jar).resolve())  # the commands run in another folder
    for name, text in systems.items():
        digest = hashlib.sha256(f"{language}\0{reference}\0{text}".encode()).hexdigest()
        results[name] = folder / f"counts.{name}.{digest[:16]}.txt"
        command = ["java", "-Xmx2G", "-jar", jar, f"hyp.{name}.txt", "ref.txt", *options]
        # Renamed when it is complete, because the name says that it is.
        target = shlex.quote(results[name].name)
        commands.append(f"{shlex.join(command)} > counts.partial && mv counts.partial {target}")
    instructions = Instructions(
        "METEOR 1.5",
        folder,
        (
            "install a Java runtime, and unpack meteor-1.5.tar.gz from "
            "https://www.cs.cmu.edu/~alavie/METEOR (--meteor-jar says where meteor-1.5.jar is)",
        ),
        tuple(commands),
    )
    if not all(path.exists() for path in results.values()):
        return instructions, None
    sentences = sum(texts.shape)
    return instructions, Measurement(
        key="meteor_15",
        label="METEOR 1.5",
        unit="sentence",
        higher_is_better=True,
        signature="|".join(
            (
                f"lang:{language}",
                "norm:yes",
                f"modules:{'+'.join(f'{name}({weight})' for name, weight in modules.items())}",
                f"parameters:{','.join(map(str, parameters))}",
                "version:1.5",
                "unit:sentence",
            )
        ),
        statistics={name: _counts(path, sentences) for name, path in results.items()},
        documents=texts.document_of_sentences(),
        compute=partial(score, parameters=parameters, weights=tuple(modules.values())),
    )


def _counts(path: Path, sentences: int) -> Statistics:
    """The counts of every sentence, (sentences, 23)."""
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return whole_matches_unbroken(matrix(rows, (sentences, _COLUMNS), str(path)))


def whole_matches_unbroken(counts: Statistics) -> Statistics:
    """The counts with no chunk where all words of both sides match in one chunk.

    The program counts so when it adds up sentences.
    """
    matches = counts[:, _MODULES].reshape(len(counts), 8, 2).sum(1)
    whole = (matches == counts[:, :2]).all(1) & (counts[:, _CHUNKS] == 1)
    unbroken = counts.copy()
    unbroken[whole, _CHUNKS] = 0
    return unbroken


def score(sums: Sequence[float], parameters: Sequence[float], weights: Sequence[float]) -> float:
    """METEOR 1.5, times 100, from sums of its counts (Denkowski and Lavie, 2014, section 2).

    Args:
        sums: lengths of translation and reference, and how many of their words are function
            words; for each of four modules, matched content words of translation and reference and
            matched function words of both; chunks; matched words of translation and reference.
        parameters: alpha, beta, gamma, delta.
        weights: of the modules.
    """
    alpha, beta, gamma, delta = parameters
    lengths, modules = sums[_LENGTHS], sums[_MODULES]

    def share(side: int) -> float:
        total = delta * (lengths[side] - lengths[2 + side]) + (1 - delta) * lengths[2 + side]
        matched = sum(
            weight * (delta * modules[4 * i + side] + (1 - delta) * modules[4 * i + 2 + side])
            for i, weight in enumerate(weights)
        )
        return matched / total if total else 0.0

    precision, recall = share(0), share(1)
    if not precision or not recall:
        return 0.0
    mean = precision * recall / (alpha * precision + (1 - alpha) * recall)
    fragmentation = 2 * sums[_CHUNKS] / sum(sums[_MATCHED])
    result: float = 100 * mean * (1 - gamma * fragmentation**beta)
    return result
