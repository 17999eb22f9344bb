"""Make a document model of a sentence model, and keep it if it is better.

--path is your own sentence model, or a published one that `gtrans convert` has converted. The texts
are prepared with its subwords. Two models start from it: the baseline continues training on
sentences; the other is a G-Transformer, which begins nearly as the sentence model
(--positions sentence --gate-bias 3 --copy-local-to-global).

A third of the development set stops both trainings, when its d-BLEU stops rising; each model
becomes the average of its best checkpoints there. The command translates the other documents with
all three models and prints their scores with intervals. A trained model replaces the sentence
model in OUT/best.pt only if it is significantly better on these documents (d-BLEU, one-sided paired
test, p < 0.05). Fewer than 20 of them choose nothing: the sentence model stays. --choose
takes another model. With --test it prints the scores on that set, too.

After an interruption, type the same command again: it goes on where it stopped. The words behind
`--` are options of `gtrans train` for both trainings: `-- --lr 1e-3 --max-update 2000`.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gtrans.cli.shared.dispatch import dispatch
from gtrans.data.documents import resolve
from gtrans.environment import ENGINE
from gtrans.errors import GtransError
from gtrans.evaluation.choosing import (
    LEAST_DOCUMENTS,
    STOPPING_SHARE,
    Verdict,
    choose,
    compare_candidates,
)
from gtrans.evaluation.metrics import Corpus, Options, measure
from gtrans.evaluation.significance import seed
from gtrans.evaluation.texts import read_texts
from gtrans.files import atomic_writer, copy_file
from gtrans.messages import change_interval, in_digits, print_lines, print_message
from gtrans.option_types import whole
from gtrans.text.reader import Sides

if TYPE_CHECKING:
    from gtrans.conversion.checkpoint import Checkpoint

SentencePair = tuple[str, str]  # source and target

EXAMPLE = (
    "gtrans adapt --path opus.pt --train docs/train --valid docs/valid --source-lang en "
    "--target-lang de --out my"
)
NEEDS = ENGINE
PASSES_ON = "gtrans train"

_SENTENCE, _CONTINUED, _DOCUMENT = "sentence", "continued", "document"
_METRIC = "d_bleu"
_BEST = 3  # checkpoints of an average
# Options of a model that are taken from the checkpoint; only the dropout may be changed.
_VALUE_OPTIONS = [
    "encoder_layers",
    "decoder_layers",
    "encoder_embed_dim",
    "encoder_ffn_embed_dim",
    "decoder_ffn_embed_dim",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "activation_fn",
    "max_positions",
    "sinusoid",
    "dropout",
]
_SWITCH_OPTIONS = [
    "encoder_normalize_before",
    "decoder_normalize_before",
    "no_decoder_final_norm",
    "layernorm_embedding",
    "learned_positions",
    "share_decoder_input_output_embed",
    "share_all_embeddings",
    "no_scale_embedding",
    "output_bias",
    "start_by_bos",
]
_TRAINING = f"""
    --criterion chunked_cross_entropy --label-smoothing 0.1
    --optimizer two_rate_adam --clip-norm 1
    --lr-scheduler inverse_sqrt --lr 5e-4 --warmup-updates 1000
    --max-tokens 4096 --patience 5 --no-epoch-checkpoints
    --save-interval 1000000 --validate-interval 1000000
    --keep-interval-updates 1 --keep-best-checkpoints {_BEST}
    --eval-bleu --best-checkpoint-metric {_METRIC} --maximize-best-checkpoint-metric
    --log-format simple
""".split()
_BETAS = ["--adam-betas", "(0.9, 0.98)"]
_SENTENCES = ["--unit", "sentence"]
_DOCUMENTS = [
    "--unit",
    "document",
    "--positions",
    "sentence",
    "--gate-bias",
    "3",
    "--copy-local-to-global",
]
_TITLES = {
    _SENTENCE: "the sentence model",
    _CONTINUED: "the sentence model, continued",
    _DOCUMENT: "the document model",
}
# Options behind `--` that are rejected, with the way out.
_DECIDED = {
    "--unit": "the unit is decided for each model",
    "--save-dir": "checkpoints go to folders in `--out`",
    "--init-from": "both models start from `--path`",
    "--finetune-from-model": "both models start from `--path`",
    "--restore-file": "both models start from `--path`",
    "--arch": "the architecture is that in `--path`",
    "--config": "the architecture is that in `--path`; give single options",
    "--task": "the task is document_translation",
    "--source-lang": "give it before `--`",
    "--target-lang": "give it before `--`",
    "--cpu": "give it before `--`",
    "--validate-interval-updates": "give `--every` before `--`",
    "--save-interval-updates": "give `--every` before `--`",
    "--disable-validation": "validations pick the checkpoints",
    "--valid-subset": "`--valid` gives the development set",
    "--train-subset": "`--train` gives the training text",
}
# Allowed options that are the beginning of a rejected one.
_MAY_CHANGE = ["--save-interval", "--validate-interval"]
_SHORT = {"-a": "--arch", "-s": "--source-lang", "-t": "--target-lang"}
_FROM_CHECKPOINT = "it is taken from `--path`"
_DECIDES_AVERAGES = "it decides which checkpoints are averaged"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
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
        "--valid",
        required=True,
        metavar="PREFIX",
        help="development set: a third of its documents stops the trainings, the others choose the "
        "model (at least 30 documents)",
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
    parser.add_argument(
        "--choose",
        choices=list(_TITLES),
        help="the model that becomes best.pt, whatever the scores say",
    )
    parser.add_argument("--cpu", action="store_true", help="use the CPU even if there is a GPU")


def run(args: argparse.Namespace) -> None:
    """Prepare, train, average, translate and score; skip finished steps."""
    _check_passed_on(args.passed_on)
    seed()  # `gtrans score` would reject a wrong one only after both trainings
    sizes = _options_of(args.path, (args.source_lang, args.target_lang))
    stopping, choosing = _split_development_set(args)
    data = args.out / "data"
    languages = ["--source-lang", args.source_lang, "--target-lang", args.target_lang]
    texts = ["--train", *args.train, "--valid", stopping]
    if args.test is not None:
        texts += ["--test", args.test]
    _command("prepare", "--reuse", args.path, *languages, *texts, "--out", data)
    models = {
        _SENTENCE: args.path,
        _CONTINUED: _trained(_CONTINUED, data, [*sizes, *_SENTENCES], args),
        _DOCUMENT: _trained(_DOCUMENT, data, [*sizes, *_DOCUMENTS], args),
    }
    can_choose = choosing != stopping
    part = "the documents that choose" if can_choose else "too small to choose"
    print_lines("", f"Development set, {part}:")
    verdicts = _compared("valid", choosing, models, args)
    chosen = _SENTENCE
    if args.choose:
        chosen = args.choose
    elif can_choose:
        chosen = choose(_SENTENCE, verdicts)
    copy_file(models[chosen], args.out / "best.pt")
    held_out: list[Verdict] = []
    if args.test is not None:
        print_lines("", "Test set:")
        held_out = _compared("test", args.test, models, args)
    line = conclusion(chosen, verdicts, can_choose, is_given=args.choose is not None)
    print_lines(f"{args.out / 'best.pt'}: {line}")
    if held_out:
        print_lines(f"held out: {'; '.join(map(finding, held_out))}")


def _check_passed_on(words: Sequence[str]) -> None:
    reasons = _decided_options()
    for word in words:
        flag = _decided_flag(word, reasons)
        if flag is not None:
            raise GtransError(f"`{word}` behind `--`: {reasons[flag]}; leave it out there.")


def _decided_options() -> dict[str, str]:
    reasons = dict(_DECIDED)
    for option in (*_VALUE_OPTIONS, *_SWITCH_OPTIONS, "langs", "sentence_marks"):
        if option != "dropout":
            reasons[_flag(option)] = _FROM_CHECKPOINT
    for flag in ("--eval-bleu", "--best-checkpoint-metric", "--keep-best-checkpoints"):
        reasons[flag] = _DECIDES_AVERAGES
    return reasons


def _decided_flag(word: str, decided: Collection[str]) -> str | None:
    """Return the flag in ``decided`` that argparse would read, or None."""
    given, _, _ = word.partition("=")
    given = _SHORT.get(given, given)
    if given in decided:
        return given
    if not given.startswith("--") or given == "--" or given in _MAY_CHANGE:
        return None
    # argparse takes the beginning of an option for the option.
    return next((flag for flag in decided if flag.startswith(given)), None)


def _split_development_set(args: argparse.Namespace) -> tuple[Path, Path]:
    """Divide the development set into documents that stop the trainings, and others that choose.

    Returns their names without the language; the same twice if there are too few to choose.
    """
    languages = args.source_lang, args.target_lang
    documents = _documents(args.valid, languages)
    stop = documents[::STOPPING_SHARE]
    others = [document for n, document in enumerate(documents) if n % STOPPING_SHARE]
    folder = args.out / "valid"
    folder.mkdir(parents=True, exist_ok=True)
    if len(others) < LEAST_DOCUMENTS:
        needed = LEAST_DOCUMENTS * STOPPING_SHARE // (STOPPING_SHARE - 1)
        print_message(
            f"warning: {args.valid} has {len(documents)} documents, too few to choose a model by "
            f"({needed} are needed); the sentence model stays, unless `--choose` names another"
        )
        _write_documents(folder / "stopping", languages, documents)
        return folder / "stopping", folder / "stopping"
    _write_documents(folder / "stopping", languages, stop)
    _write_documents(folder / "choosing", languages, others)
    return folder / "stopping", folder / "choosing"


def _documents(prefix: str, languages: tuple[str, str]) -> list[list[SentencePair]]:
    source = resolve(prefix, languages[0])
    target = resolve(prefix, languages[1])
    documents: list[list[SentencePair]] = [[]]
    for pair in Sides(source, target).read():
        if pair is not None:
            documents[-1].append(pair)
        elif documents[-1]:
            documents.append([])
    if not documents[-1]:
        documents.pop()
    return documents


def _write_documents(
    prefix: Path, languages: Sequence[str], documents: Sequence[Sequence[SentencePair]]
) -> None:
    """Write both sides as plain text; keep a file with the same text."""
    for side, lang in enumerate(languages):
        lines = ["\n".join(pair[side] for pair in document) for document in documents]
        text = "\n\n".join(lines) + "\n"
        path = Path(f"{prefix}.{lang}")
        if not path.is_file() or path.read_bytes() != text.encode():
            with atomic_writer(path) as file:
                file.write(text)


def _trained(name: str, data: Path, options: Sequence[str], args: argparse.Namespace) -> Path:
    """Train a model, and return the average of its best checkpoints."""
    folder = args.out / name
    average = args.out / f"{name}.pt"
    if "--restart" in args.passed_on:  # new checkpoints may have the names of the earlier ones
        average.unlink(missing_ok=True)
    intervals = ["--save-interval-updates", args.every, "--validate-interval-updates", args.every]
    device = ["--cpu"] if args.cpu else []
    words = ["train", data, "--arch", "gtransformer", *options, "--init-from", args.path]
    words += [*_TRAINING, *_BETAS, *intervals, *device, *args.passed_on, "--save-dir", folder]
    logging.getLogger().setLevel(logging.INFO)
    _command(*words)
    logging.getLogger().setLevel(logging.WARNING)
    from gtrans.train.signals import end_if_signalled

    end_if_signalled("the same command goes on")
    return _averaged(folder, average)


def conclusion(
    chosen: str, verdicts: Sequence[Verdict], can_choose: bool = True, is_given: bool = False
) -> str:
    """Say which model was chosen, and how the trained models compare with the sentence model.

    Unless the documents ``can_choose``, the verdicts are on those that stopped the trainings.
    """
    name = _TITLES[chosen] + (" itself" if chosen == _SENTENCE else "")
    reason = " (--choose)" if is_given else ""
    if can_choose:
        return f"{name}{reason}; {'; '.join(map(finding, verdicts))}"
    changes = ", ".join(map(_change, verdicts))
    return (
        f"{name}{reason}; undecided, too few documents to choose by; {changes} on those that "
        "stopped the training"
    )


def _change(verdict: Verdict) -> str:
    return f"{verdict.system} {in_digits(verdict.difference, 2, '+')} d-BLEU"


def finding(verdict: Verdict) -> str:
    """Say how a trained model compares with the sentence model."""
    words = _change(verdict)
    if verdict.interval is not None:
        words += f" ({change_interval(verdict.interval, 2)})"
    if not verdict.is_possible:
        return f"{words}, too few documents to decide ({verdict.documents})"
    return f"{words}, p {verdict.p:.4f}, {verdict.answer} ({verdict.documents} documents)"


def _options_of(path: Path, languages: tuple[str, str]) -> list[str]:
    """Return the options of ``gtrans train`` for the size of the sentence model."""
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.conversion.checkpoint import Checkpoint
    from gtrans.environment import import_plugin
    from gtrans.translating.loading import check_described

    import_plugin()
    checkpoint = Checkpoint.read(path, in_memory=False)
    check_described(checkpoint.state, path)
    _check_sentence_model(checkpoint, path, languages)
    model = checkpoint.options("model")
    values = {option: model.get(option) for option in _VALUE_OPTIONS}
    values["sentence_marks"] = model.get("sentence_marks")
    values["langs"] = checkpoint.options("task").get("langs")
    layers = min(int(model["encoder_layers"]), int(model["decoder_layers"]), 2)
    for part in ("encoder", "decoder", "cross"):
        values[f"{part}_global_layers"] = layers
    words: list[str] = []
    for option, value in values.items():
        if value is not None:
            words += [_flag(option), str(value)]
    words += [_flag(option) for option in _SWITCH_OPTIONS if model.get(option)]
    return words


def _check_sentence_model(checkpoint: Checkpoint, path: Path, languages: tuple[str, str]) -> None:
    model = checkpoint.options("model")
    name = str(model.get("_name"))
    unit = model.get("unit")
    if not name.startswith("gtransformer") or unit != "sentence":
        raise GtransError(
            f"{path}: it is '{name}' of the unit {unit}; give a sentence model (--arch "
            "gtransformer* --unit sentence), or what `gtrans convert` has made of one."
        )
    fingerprint = checkpoint.fingerprint
    if fingerprint is None or fingerprint.preparation is None:
        raise GtransError(f"{path}: it does not store its subwords; prepare and train it here.")
    if all(fingerprint.languages) and fingerprint.languages != languages:
        source, target = fingerprint.languages
        raise GtransError(
            f"{path}: it translates from {source} to {target}; give `--source-lang {source} "
            f"--target-lang {target}`."
        )


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _averaged(folder: Path, target: Path) -> Path:
    from gtrans.conversion.checkpoint import AVERAGE_OF, Checkpoint, average_checkpoints

    paths = sorted(folder.glob(f"checkpoint.best_{_METRIC}_*.pt"))
    names = [path.name for path in paths]
    averaged = None
    if target.is_file():
        average = Checkpoint.read(target, in_memory=False)
        averaged = average.state.get(AVERAGE_OF)
    if averaged != names:
        average_checkpoints(paths, target)
    print_lines(f"{target}: average of {', '.join(names)}")
    return target


def _compared(
    name: str, prefix: str | Path, models: Mapping[str, Path], args: argparse.Namespace
) -> list[Verdict]:
    """Translate a text with all models, print the table, and compare the trained ones.

    ``models``: the sentence model first.
    """
    source = str(resolve(str(prefix), args.source_lang))
    reference = str(resolve(str(prefix), args.target_lang))
    outputs = {}
    for system, path in models.items():
        outputs[system] = str(args.out / f"{name}.{system}.{args.target_lang}")
        device = ["--cpu"] if args.cpu else []
        words = ["--path", path, "--input", source, "--output", outputs[system]]
        _command("translate", *words, *device)
    systems = [f"{system}={path}" for system, path in outputs.items()]
    texts = ["--hyp", *systems, "--ref", reference, "--src", source]
    metrics = ["--metrics", "s_bleu", _METRIC, "chrf", "--json", args.out / f"{name}.json"]
    _command("score", *texts, "--target-lang", args.target_lang, *metrics)
    read = read_texts([reference], source, outputs, "aligned")
    documents = read.references[0]
    corpus = Corpus(documents, [[range(len(document))] for document in documents])
    options = Options(target_lang=args.target_lang)
    measurement = measure(corpus, read.systems, [_METRIC], options)[_METRIC]
    return compare_candidates(measurement)


def _command(*words: object) -> None:
    dispatch(list(map(str, words)))
