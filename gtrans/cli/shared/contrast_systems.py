"""The systems that ``gtrans contrast`` judges: a model, and files of other systems."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtrans.cli.shared.contrast_report import Result
from gtrans.cli.shared.model_options import context_of
from gtrans.cli.shared.system_names import system_names
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import (
    Item,
    by_group,
    gained_margins,
    outcomes_of,
    preferences,
    tabulate,
)
from gtrans.evaluation.contrastive.generated import (
    Outcome,
    judged,
    outcome_counts,
    quality,
)
from gtrans.evaluation.contrastive.results_file import (
    HIGHER,
    LOWER,
    read_scores,
    read_translations,
    scores_line,
    translation_line,
)
from gtrans.files import check_output
from gtrans.libraries import ENGINE, require

if TYPE_CHECKING:
    from gtrans.text.pipeline import TextPipeline

_OF_SETS = re.compile(r"\.(txt|tsv|src|trg|en|de|zh)(\.gz)?$")
MODEL = "model"
"""The name of the system of ``--path``."""


@dataclass(frozen=True)
class Judged:
    """The result of a system, and a JSON line for each item."""

    result: Result
    lines: Iterator[str]


def check_systems(args: argparse.Namespace) -> dict[str, str]:
    """The files of other systems by their names.

    Raises:
        GtransError: there is no system, or options contradict each other.
    """
    flag, wrong = ("translations", "scores") if args.generate else ("scores", "translations")
    if getattr(args, wrong):
        raise GtransError(
            "`--scores` are not translations; give `--translations` with `--generate`."
            if args.generate
            else "`--translations` needs `--generate`."
        )
    for option in (LOWER, HIGHER):
        if getattr(args, option[2:].replace("-", "_")) is not None and not args.scores:
            raise GtransError(f"`{option}` is of the scores of other systems, `--scores`.")
    files = system_names(getattr(args, flag), f"--{flag}")
    if args.path is None:
        if not files:
            raise GtransError(f"give a model, `--path` CKPT, or `--{flag}` FILE.")
        if args.random_context:
            raise GtransError("`--random-context` needs a model, `--path` CKPT.")
    elif MODEL in files:
        raise GtransError(
            f"--{flag} {files[MODEL]}: '{MODEL}' is the system of `--path`; give another name."
        )
    if args.output:
        check_output("--output", args.output, [*_inputs(args), *files.values()])
    return files


def _direction(
    args: argparse.Namespace, files: dict[str, str], name: str
) -> tuple[str | None, bool]:
    """Which scores of a system are better, and whether an option names the system for it.

    Raises:
        GtransError: the options contradict each other, or name a system that has no scores.
    """
    said = {flag: getattr(args, flag[2:].replace("-", "_")) for flag in (LOWER, HIGHER)}
    for flag, names in said.items():
        for other in names or ():
            if other not in files:
                raise GtransError(
                    f"`{flag}` {other}: no file of `--scores` has this name; take one of "
                    f"{', '.join(files)}."
                )
    named = [flag for flag, names in said.items() if name in (names or ())]
    flags = named or [flag for flag, names in said.items() if names == []]
    if len(flags) > 1:
        raise GtransError(f"`{LOWER}` and `{HIGHER}` are both given for {name}; name the systems.")
    return (flags[0] if flags else None), bool(named)


def _inputs(args: argparse.Namespace) -> list[str | Path]:
    """The files that the model and the sets are read from."""
    from gtrans.text.prepared_folder import prepared_files

    found: list[str | Path] = args.path.split(":") if args.path else []
    for path in map(Path, args.set):
        # A set in text may have more files next to the one that is named.
        texts = path.rglob("*") if path.is_dir() else path.parent.glob("*")
        found += [path, *(file for file in texts if _OF_SETS.search(file.name))]
    return [*found, *(prepared_files(args.data) if args.data else [])]


def judged_systems(
    args: argparse.Namespace, files: dict[str, str], variants: Sequence[Sequence[Item]]
) -> dict[str, Judged]:
    """Every system by its name, that of ``--path`` first.

    Args:
        args: the options.
        files: the files of other systems.
        variants: the items; with a control also those with random contexts.

    Raises:
        GtransError: see :func:`gtrans.cli.contrast.run`.
    """
    items = variants[0]
    # Files first: a mistake in one should not wait for a model.
    others: dict[str, Judged] = {}
    for name, path in files.items():
        if args.generate:
            others[name] = _of_translations(items, read_translations(path, items))
        else:
            direction = _direction(args, files, name)
            others[name] = _of_scores(items, read_scores(path, items, *direction))
    if args.path is None:
        return others
    return {MODEL: _of_model(args, variants), **others}


def _of_scores(items: Sequence[Item], scores: Sequence[Sequence[float]]) -> Judged:
    right = outcomes_of(items, scores)
    result = Result(
        table=tabulate(items, right),
        right=right,
        groups=by_group(items, right),
        preferences=preferences(items, scores),
    )
    return Judged(result, (scores_line(*pair) for pair in zip(items, scores, strict=True)))


def _of_translations(
    items: Sequence[Item], translations: Sequence[str], own: Sequence[Item] | None = None
) -> Judged:
    """``own``: the items with their own contexts, if these have random ones."""
    found = judged(items, translations, own)
    right = [None if one is None else one is Outcome.RIGHT for one in found]
    result = Result(
        table=tabulate(items, right),
        right=right,
        groups=by_group(items, right),
        outcomes=outcome_counts(items, found),
        quality=quality(items, translations),
    )
    lines = (
        translation_line(item, text, one and one.value)
        for item, text, one in zip(items, translations, found, strict=True)
    )
    return Judged(result, lines)


def _of_model(args: argparse.Namespace, variants: Sequence[Sequence[Item]]) -> Judged:
    """The model on the first variant; the second one is its control."""
    require(ENGINE, "gtrans contrast --path")
    # Imported on demand: torch and fairseq need seconds, which --help and a mistake in a
    # set should not.
    from gtrans.decoding.contrast import score_items, with_places
    from gtrans.decoding.loading import load_models, set_instances
    from gtrans.decoding.options import split_paths
    from gtrans.text.prepared_folder import load_pipeline

    models, task = load_models(
        split_paths(args.path), args.data, context_of(args), cpu=args.cpu, fp16=args.fp16
    )
    set_instances(task, args.max_doc_tokens, args.overlap)
    texts = (
        load_pipeline(task.data_folder, task.cfg.source_lang),
        load_pipeline(task.data_folder, task.cfg.target_lang),
    )
    join = (texts[0].detokenise, texts[1].detokenise)
    encoders = task.source_encoder(), texts[1]
    whole = args.max_doc_tokens is None and not args.overlap
    results: list[Judged] = []
    scored: list[Sequence[Sequence[float]]] = []
    for name, variant in zip(("true context", "random context"), variants, strict=False):
        plain = [item.as_text(join) for item in variant]
        placed = with_places(task, encoders[0], variant, plain, whole and not args.generate)
        if args.generate:
            found = _translations(args, models, task, texts[1], plain)
            results.append(_of_translations(placed, found, variants[0]))
        else:
            scores = score_items(
                models, task, encoders, plain, whole=whole, max_tokens=args.max_tokens,
                progress=name,
            )  # fmt: skip
            results.append(_of_scores(placed, scores))
            scored.append(scores)
    result = replace(results[0].result, unit=str(task.cfg.unit))
    if len(results) > 1:
        gains = gained_margins(variants[0], *scored) if scored else None
        result = replace(result, control=results[1].result.table, gains=gains)
    return Judged(result, results[0].lines)


def _translations(
    args: argparse.Namespace, models: Any, task: Any, target: TextPipeline, items: list[Item]
) -> list[str]:
    from gtrans.decoding.contrast import translate_items
    from gtrans.decoding.options import DecodingOptions, SearchOptions, split_paths

    options = DecodingOptions(
        paths=tuple(split_paths(args.path)),
        data=args.data,
        search=SearchOptions(beam=args.beam),
        max_tokens=args.max_tokens,
        max_doc_tokens=args.max_doc_tokens,
        overlap=args.overlap,
        cpu=args.cpu,
        fp16=args.fp16,
    )
    return translate_items(models, task, target, items, options)
