"""Measure accuracy on contrastive sets, by phenomenon and distance.

An item is a source document with its right translation and one or more wrong ones, which differ
where only the context tells which is right. The model sees the item in the unit of its training,
and scores every candidate by the sum of the log-probabilities of its words and sentence ends. An
item counts as right only if the right candidate scores higher than all others. Where a set names
the documents of its items, intervals and tests are over documents.

--scores judges the scores of any other program; with several systems, each is compared with the
first by flipping its differences, document by document (items without documents: McNemar).
--output keeps the scores of every candidate.
--shuffled-context adds a control: the same items, each with the context of another. There, a model
that uses context should be no better than one without. The control also shows by how much more the
right candidate wins with its own context (its margin, in nats): unlike an accuracy, this shows a
small use of context where a model prefers one candidate whatever the context.

Published sets are read in their own formats (docs/contrastive.md describes them):

  contrapro       contrapro.json with --documents, NAME.text.en of its own script, or a folder
                  with en.txt, de.txt (<SEP> form)
  contracat       a folder of templates
  consistency     deixis_test.json, lex_cohesion_test.json, ellipsis_infl.json, ellipsis_vp.json
  discevalmt      anaphora.json, lexical-choice.json
  large-pronoun   the JSON file with --documents, or NAME.current.src next to its contexts
  discourse-zhen  a folder with pron.zh, conj.zh, ellip.zh (and .en), which has no wrong candidates
  jsonl           one JSON object per line
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gtrans.annexes import add_lab_readers
from gtrans.cli.shared.options import (
    add_chunks,
    add_context,
    add_model_files,
    add_scoring,
    check_chunks,
    check_scoring,
    context_of,
)
from gtrans.cli.shared.system_names import system_names
from gtrans.environment import ENGINE, require
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import READERS, Item, ReadOptions, read_items
from gtrans.evaluation.contrastive.accuracy import document_of, gained_margins, is_right
from gtrans.evaluation.contrastive.control import shuffled_contexts
from gtrans.evaluation.contrastive.report import SystemResult, lines_of, test_lines, to_json
from gtrans.evaluation.contrastive.results_file import (
    HIGHER,
    LOWER,
    is_results_file,
    read_scores,
    scores_line,
)
from gtrans.files import atomic_writer, check_output, check_replaceable
from gtrans.messages import json_text, print_lines, print_message
from gtrans.option_types import whole

EXAMPLE = (
    "gtrans contrast --path checkpoints/checkpoint_best.pt --data data-bin "
    "--set corpus/contrastive/*.jsonl --shuffled-context"
)
NEEDS = ()
MODEL = "model"
"""The system of ``--path``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_lab_readers()
    files = parser.add_argument_group("files")
    add_model_files(files, required=False)
    _add_files(files)
    _add_other_systems(parser.add_argument_group("other systems"))
    control = parser.add_argument_group("control")
    control.add_argument(
        "--shuffled-context",
        action="store_true",
        help="also score every item with the context of another item",
    )
    add_context(parser)
    add_scoring(parser)
    add_chunks(parser.add_argument_group("chunks"), "no limit")


def _add_files(files: argparse._ArgumentGroup) -> None:
    files.add_argument(
        "--set",
        required=True,
        nargs="+",
        metavar="FILE",
        help="contrastive sets, gzipped or not; the folder, for a set of several files",
    )
    files.add_argument(
        "--format",
        choices=READERS,
        default="jsonl",
        help="format of the sets; jsonl is that of 'gtrans make-corpus' (default: %(default)s)",
    )
    files.add_argument(
        "--documents",
        metavar="DIR",
        help="for JSON files of contrapro and large-pronoun: the folder of the documents that "
        "contain the contexts",
    )
    files.add_argument(
        "--context",
        type=whole(0),
        default=1,
        metavar="N",
        help="for contrapro, contracat and large-pronoun: the most sentences of context (default: "
        "%(default)s)",
    )
    files.add_argument(
        "--output",
        metavar="FILE",
        help="write the scores that the first system, the model if there is one, gives to the "
        "candidates of each item, as JSON lines",
    )
    files.add_argument(
        "--force",
        action="store_true",
        help="replace a file of --output that this command did not write",
    )


def _add_other_systems(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--scores",
        nargs="+",
        default=[],
        metavar="[NAME=]FILE",
        help="scores of other systems: a line per candidate in the order of the set, or what "
        "--output wrote; the tests compare all others with the first system",
    )
    group.add_argument(
        LOWER,
        nargs="*",
        metavar="NAME",
        help="scores are losses: those of the systems named, or of all (without this option they "
        "are log-probabilities, none above 0)",
    )
    group.add_argument(
        HIGHER,
        nargs="*",
        metavar="NAME",
        help="scores are better, the higher they are, also above 0: those of the systems named, or "
        "of all",
    )


def run(args: argparse.Namespace) -> None:
    """Print the accuracies of all systems."""
    files = _checked_files(args)
    items = _items_of(args)
    variants = [items]
    if args.shuffled_context:
        control, notes = shuffled_contexts(items)
        variants.append(control)
        for note in notes:
            print_message(note)
    # Files first: a mistake in one should not wait for a model.
    results: dict[str, SystemResult] = {}
    for name, path in files.items():
        results[name] = _result_of_file(args, name, path, items)
    if args.path is not None:
        results = {MODEL: _result_of_model(args, variants), **results}
    first_result = next(iter(results.values()))
    if args.output:
        with atomic_writer(args.output) as file:
            file.writelines(f"{line}\n" for line in first_result.lines)
    _warn_of_unknown_documents(items)
    if args.json:
        print(json_text(to_json(results)))
    elif len(results) == 1:
        print_lines(*lines_of(first_result))
    else:
        for name, result in results.items():
            print_lines(f"{name}:", *lines_of(result), "")
        print_lines(*test_lines(results))


def _warn_of_unknown_documents(items: Sequence[Item]) -> None:
    count = sum(not document_of(item) for item in items)
    if count:
        print_message(
            f"{count} of {len(items)} items name no document and count as independent; if several "
            "are of one document, intervals are too narrow and p-values too small"
        )


def _items_of(args: argparse.Namespace) -> list[Item]:
    """Read the items of all sets; raise GtransError if two sets share one."""
    options = ReadOptions(args.documents and Path(args.documents), args.context)
    items: list[Item] = []
    origins: dict[tuple[object, ...], str] = {}
    for path in args.set:
        keys: list[tuple[object, ...]] = []
        for item in read_items(path, args.format, options):
            key = (item.phenomenon, item.source, *item.candidates)
            if key in origins:
                raise GtransError(
                    f"`--set`: item '{item.id}' of {path} is also in {origins[key]} and would "
                    "count twice; give each item once."
                )
            keys.append(key)
            items.append(item)
        # Some published sets repeat an item.
        origins.update(dict.fromkeys(keys, path))
    if not any(item.contrastive for item in items):
        raise GtransError(
            f"`--set` {' '.join(args.set)}: has no wrong candidates, so there is nothing to choose "
            "from; write its sentences in lines (`sed 's/ _eos /\\n/; s/$/\\n/'`), translate them "
            "with `gtrans translate`, and compare with the reference by `gtrans score`."
        )
    return items


# --- the systems ----------------------------------------------------------------------------------


def _checked_files(args: argparse.Namespace) -> dict[str, str]:
    """Check the options; return the files of other systems by name."""
    check_scoring(args)
    check_chunks(args)
    files = system_names(args.scores, "--scores")
    if args.path is None and not files:
        raise GtransError("give a model, `--path` CKPT, or `--scores` FILE.")
    _check_names(LOWER, args.lower_is_better, files)
    _check_names(HIGHER, args.higher_is_better, files)
    for name in files:
        _direction_of_scores(args, name)
    if args.path is None and args.shuffled_context:
        raise GtransError("`--shuffled-context` needs a model, `--path` CKPT.")
    if args.path is not None and MODEL in files:
        raise GtransError(
            f"--scores {files[MODEL]}: '{MODEL}' is the system of `--path`; give another name."
        )
    if args.output:
        check_output("--output", args.output, [*_inputs(args), *files.values()])
        check_replaceable("--output", args.output, is_results_file, args.force)
    return files


def _check_names(flag: str, names: Sequence[str] | None, files: Mapping[str, str]) -> None:
    if names is None:
        return
    if not files:
        raise GtransError(f"`{flag}` is about `--scores`, which are missing.")
    for name in names:
        if name not in files:
            raise GtransError(
                f"`{flag}` {name}: no file of `--scores` has this name; take one of "
                f"{', '.join(files)}."
            )


def _inputs(args: argparse.Namespace) -> list[str | Path]:
    from gtrans.text.prepared_folder import prepared_files

    inputs: list[str | Path] = []
    if args.path:
        inputs += args.path.split(":")
    for path in map(Path, args.set):
        if not path.is_dir():
            inputs.append(path)
            continue
        inputs += [file for file in path.rglob("*") if file.suffix != ".jsonl"]
    if args.data:
        inputs += prepared_files(args.data)
    return inputs


def _result_of_file(
    args: argparse.Namespace,
    name: str,
    path: str,
    items: Sequence[Item],
) -> SystemResult:
    direction = _direction_of_scores(args, name)
    scores = read_scores(path, items, direction.flag, direction.is_named)
    return _result_of_scores(items, scores)


class _Direction(NamedTuple):
    """The option for the direction of a system's scores, and whether it names the system."""

    flag: str | None
    is_named: bool


def _direction_of_scores(args: argparse.Namespace, name: str) -> _Direction:
    systems = {HIGHER: args.higher_is_better, LOWER: args.lower_is_better}
    naming = [flag for flag, names in systems.items() if names and name in names]
    without_names = [flag for flag, names in systems.items() if names == []]
    flags = naming or without_names
    if len(flags) > 1:
        raise GtransError(f"`{LOWER}` and `{HIGHER}` are both given for {name}; name the systems.")
    return _Direction(flags[0] if flags else None, bool(naming))


def _result_of_scores(items: Sequence[Item], scores: Sequence[Sequence[float]]) -> SystemResult:
    right = list(map(is_right, items, scores))
    lines = list(map(scores_line, items, scores))
    return SystemResult(items, right, lines)


def _result_of_model(
    args: argparse.Namespace,
    variants: Sequence[Sequence[Item]],
) -> SystemResult:
    """Score the first variant; the second variant is the control."""
    require(ENGINE, "gtrans contrast --path")
    # Imported on demand: torch and fairseq need seconds, which --help and a mistake in a
    # set should not.
    from gtrans.search.options import split_paths
    from gtrans.translating.force_decode import score_items, with_cue_places
    from gtrans.translating.loading import load_models, set_chunks

    models, task = load_models(
        split_paths(args.path),
        args.data,
        context_of(args),
        cpu=args.cpu,
        fp16=args.fp16,
    )
    set_chunks(task, args.max_doc_tokens, args.overlap)
    source = task.pipeline(str(task.cfg.source_lang))
    target = task.pipeline(str(task.cfg.target_lang))
    encoders = task.source_encoder(), target
    whole = args.max_doc_tokens is None and not args.overlap
    results: list[SystemResult] = []
    scored: list[Sequence[Sequence[float]]] = []
    for name, variant in zip(("true context", "shuffled context"), variants, strict=False):
        plain = [item.as_text(source.detokenise, target.detokenise) for item in variant]
        scores = score_items(
            models,
            task,
            encoders,
            plain,
            whole=whole,
            max_tokens=args.max_tokens,
            progress=name,
        )
        scored.append(scores)
        items = with_cue_places(task, encoders[0], variant, plain, whole)
        results.append(_result_of_scores(items, scores))
    result = replace(results[0], unit=str(task.cfg.unit))
    if len(results) > 1:
        gains = gained_margins(variants[0], *scored)
        result = replace(result, control=results[1].right, gains=gains)
    return result
