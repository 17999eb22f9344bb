"""Make a document model of a sentence model, from documents, and keep the better of the two.

--path is a sentence model: one that `gtrans convert` has made of a published model, or one of your
own. The texts are prepared with its subwords. Two models start from it: one goes on with
sentences, as the baseline of the same training, and one is a G-Transformer, which begins
nearly as the sentence model (--positions sentence --gate-bias 3 --copy-local-to-global). Both are
trained until d-BLEU on the development set stops rising, and each becomes the average of its best
checkpoints. The command translates the development set with all three, prints their scores with
intervals, and copies the model with the highest d-BLEU to OUT/best.pt: the sentence model itself,
if no other one is better. With --test it prints their scores on that set, too.

Type the same command again after an interruption: it goes on where it stopped. The words behind
`--` are options of `gtrans train`, for both trainings: `-- --lr 1e-3 --max-update 2000`.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gtrans.cli.shared.dispatch import dispatch
from gtrans.errors import GtransError
from gtrans.files import copy_file
from gtrans.libraries import ENGINE
from gtrans.messages import print_lines
from gtrans.option_types import whole

EXAMPLE = (
    "gtrans adapt --path opus.pt --train docs/train --valid docs/valid --source-lang en "
    "--target-lang de --out my"
)
NEEDS = ENGINE
PASSES_ON = "gtrans train"

_SENTENCE, _CONTINUED, _DOCUMENT = "sentence", "continued", "document"
_METRIC = "d_bleu"
_BEST = 3  # checkpoints of an average
_VALUES = (
    *("encoder_layers", "decoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim"),
    *("decoder_ffn_embed_dim", "encoder_attention_heads", "decoder_attention_heads"),
    *("activation_fn", "max_positions", "sinusoid", "dropout"),
)
_SWITCHES = (
    *("encoder_normalize_before", "decoder_normalize_before", "no_decoder_final_norm"),
    *("layernorm_embedding", "learned_positions", "share_decoder_input_output_embed"),
    *("share_all_embeddings", "no_scale_embedding", "output_bias", "start_by_bos"),
)
_TRAINING = (
    *("--criterion", "chunked_cross_entropy", "--label-smoothing", "0.1"),
    *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--clip-norm", "1"),
    *("--lr-scheduler", "inverse_sqrt", "--lr", "5e-4", "--warmup-updates", "1000"),
    *("--max-tokens", "4096", "--patience", "5", "--no-epoch-checkpoints"),
    *("--save-interval", "1000000", "--validate-interval", "1000000"),
    *("--keep-interval-updates", "1", "--keep-best-checkpoints", str(_BEST)),
    *("--eval-bleu", "--best-checkpoint-metric", _METRIC, "--maximize-best-checkpoint-metric"),
    *("--log-format", "simple"),
)
_OF_DOCUMENTS = (
    *("--unit", "document", "--positions", "sentence", "--gate-bias", "3"),
    "--copy-local-to-global",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans adapt``."""
    parser.add_argument(
        "--path", type=Path, required=True, metavar="CKPT", help="the sentence model"
    )
    parser.add_argument("--source-lang", required=True, metavar="LANG", help="source language")
    parser.add_argument("--target-lang", required=True, metavar="LANG", help="target language")
    parser.add_argument(
        "--train",
        nargs="+",
        required=True,
        metavar="PREFIX",
        help="documents to train on, as for `gtrans prepare`",
    )
    parser.add_argument(
        "--valid", required=True, metavar="PREFIX", help="development set: it chooses the model"
    )
    parser.add_argument(
        "--test", metavar="PREFIX", help="further documents, on which all models are scored"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder to write, or to go on in"
    )
    parser.add_argument(
        "--every",
        type=whole(1),
        default=500,
        metavar="N",
        help="updates between two validations; training ends after 5 without a higher d-BLEU "
        "(default: %(default)s)",
    )
    parser.add_argument("--cpu", action="store_true", help="use the CPU even if there is a GPU")


def run(args: argparse.Namespace) -> None:
    """Prepare, train, average, translate, score; each step that is finished is left out.

    Raises:
        GtransError: the model is no sentence model with its preparation, or as in these steps.
    """
    sizes = _options_of(args.path)
    out, languages = args.out, ["--source-lang", args.source_lang, "--target-lang"]
    languages.append(args.target_lang)
    texts = {"valid": args.valid} | ({} if args.test is None else {"test": args.test})
    data = out / "data"
    _command(
        *("prepare", "--reuse", args.path, *languages, "--train", *args.train),
        *(word for name, prefix in texts.items() for word in (f"--{name}", prefix)),
        *("--out", data),
    )
    logging.getLogger().setLevel(logging.INFO)  # the lines of a training
    models = {_SENTENCE: args.path}
    for name, unit in ((_CONTINUED, ("--unit", "sentence")), (_DOCUMENT, _OF_DOCUMENTS)):
        folder, average = out / name, out / f"{name}.pt"
        if "--restart" in args.passed_on:  # whose checkpoints may have the names of the earlier
            average.unlink(missing_ok=True)
        every = "--save-interval-updates", args.every, "--validate-interval-updates", args.every
        _command(
            *("train", data, "--arch", "gtransformer", *sizes, *unit, "--init-from", args.path),
            *(*_TRAINING, *every, *(["--cpu"] if args.cpu else []), *args.passed_on),
            *("--save-dir", folder),
        )
        models[name] = _averaged(folder, average)
    logging.getLogger().setLevel(logging.WARNING)
    scores = {name: _scored(name, prefix, models, args) for name, prefix in texts.items()}
    best, line = choice(scores["valid"])
    copy_file(models[best], out / "best.pt")
    print_lines(f"{out / 'best.pt'}: {line}")
    if args.test is not None:
        print_lines(f"held out: {choice(scores['test'], best)[1]}")


def choice(scores: Mapping[str, float], best: str | None = None) -> tuple[str, str]:
    """The system with the highest score, and a line about it; the first one wins a tie.

    Args:
        scores: d-BLEU of each system, the sentence model first.
        best: the system that was chosen already.
    """
    best = max(scores, key=scores.__getitem__) if best is None else best
    if best == _SENTENCE:
        others = ", ".join(
            f"{score - scores[best]:+.2f} {name}" for name, score in scores.items() if name != best
        )
        return best, f"the sentence model itself; d-BLEU of the others: {others}"
    what = {_CONTINUED: "the sentence model, continued", _DOCUMENT: "the document model"}[best]
    return best, f"{what}, {scores[best] - scores[_SENTENCE]:+.2f} d-BLEU to the sentence model"


def _options_of(path: Path) -> list[str]:
    """The options of ``gtrans train`` that describe the sentence model in a checkpoint.

    Raises:
        GtransError: it holds another model, or not what it needs to read text.
    """
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.conversion.checkpoint import Checkpoint
    from gtrans.translating.loading import check_described, import_plugin

    import_plugin()
    checkpoint = Checkpoint.read(path, in_memory=False)
    check_described(checkpoint.state, path)
    model, task = checkpoint.options("model"), checkpoint.options("task")
    name, unit = str(model.get("_name")), model.get("unit")
    if not name.startswith("gtransformer") or unit != "sentence":
        raise GtransError(
            f"{path}: it is '{name}' of the unit {unit}; give a sentence model (--arch "
            "gtransformer* --unit sentence), or what `gtrans convert` has made of one."
        )
    identity = checkpoint.identity
    if identity is None or identity.preparation is None:
        raise GtransError(f"{path}: it does not store its subwords; prepare and train it here.")
    values = {option: model.get(option) for option in _VALUES}
    values |= {"sentence_marks": model.get("sentence_marks"), "langs": task.get("langs")}
    layers = min(int(model["encoder_layers"]), int(model["decoder_layers"]), 2)
    values |= {f"{part}_global_layers": layers for part in ("encoder", "decoder", "cross")}
    words: list[str] = []
    for option, value in values.items():
        words += [] if value is None else [_flag(option), str(value)]
    return words + [_flag(option) for option in _SWITCHES if model.get(option)]


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _averaged(folder: Path, target: Path) -> Path:
    """The mean of the best checkpoints of a finished training, unless it is there already."""
    from gtrans.conversion.checkpoint import AVERAGE_OF, Checkpoint, average_checkpoints

    paths = sorted(folder.glob(f"checkpoint.best_{_METRIC}_*.pt"))
    names = [path.name for path in paths]
    known = Checkpoint.read(target, in_memory=False).state if target.is_file() else {}
    if known.get(AVERAGE_OF) != names:
        average_checkpoints(paths, target)
    print_lines(f"{target}: average of {', '.join(names)}")
    return target


def _scored(
    name: str, prefix: str, models: Mapping[str, Path], args: argparse.Namespace
) -> dict[str, float]:
    """Translate a text with all models, print the table, and return d-BLEU of each."""
    from gtrans.data.documents import resolve

    source, reference = (resolve(prefix, lang) for lang in (args.source_lang, args.target_lang))
    outputs = {system: args.out / f"{name}.{system}.{args.target_lang}" for system in models}
    for system, path in models.items():
        _command(
            *("translate", "--path", path, "--input", source, "--output", outputs[system]),
            *(["--cpu"] if args.cpu else []),
        )
    scores = args.out / f"{name}.json"
    print_lines("", {"valid": "Development set:", "test": "Test set:"}[name])
    _command(
        *("score", "--hyp", *(f"{system}={path}" for system, path in outputs.items())),
        *("--ref", reference, "--src", source, "--target-lang", args.target_lang),
        *("--metrics", "s_bleu", _METRIC, "chrf", "--json", scores),
    )
    systems: dict[str, Any] = json.loads(scores.read_text("utf-8"))["systems"]
    return {system: float(systems[system][_METRIC]["score"]) for system in models}


def _command(*words: object) -> None:
    """Run a command of ``gtrans`` in this process."""
    dispatch(list(map(str, words)))
