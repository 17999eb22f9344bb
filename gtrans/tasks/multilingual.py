"""fairseq's multilingual task with a sampling temperature that rises from epoch to epoch.

So the GTRANS program trains on OPUS-100: at temperature 1 languages are drawn as often as they
have sentences, at 5 almost equally often.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fairseq.data.multilingual.sampled_multi_dataset import SampledMultiDataset
from fairseq.data.multilingual.sampling_method import SamplingMethod, temperature_sampling
from fairseq.tasks import register_task
from fairseq.tasks.translation_multi_simple_epoch import TranslationMultiSimpleEpochTask

from gtrans.errors import GtransError
from gtrans.tasks.command_options import training_of
from gtrans.train.run_plan import plan_under_fairseq


class LinearTemperature(SamplingMethod):
    """Sampling by a temperature that grows by the same amount in every epoch.

    Attributes:
        epoch: the epoch, from 1, that :meth:`sampling_method_selector` is for.
    """

    def __init__(self, args: Any, task: Any) -> None:
        super().__init__(args, task)
        self.epoch = 1

    def temperature(self, epoch: int) -> float:
        """The temperature of an epoch: it reaches the largest one after the epochs of warm-up."""
        least, most = self.args.min_sampling_temperature, self.args.sampling_temperature
        step = (most - least) / self.args.sampling_warmup_epochs
        return float(min(least + step * (epoch - 1), most))

    def sampling_method_selector(self) -> Callable[[Sequence[int]], list[float]]:
        """From the sizes of the corpora how often each is drawn, not normalised."""
        return partial(temperature_sampling, temp=self.temperature(self.epoch))


@register_task("translation_multi_linear")
class LinearTemperatureTask(TranslationMultiSimpleEpochTask):
    """``translation_multi_simple_epoch``; its temperature rises to ``--sampling-temperature``.

    Attributes:
        plans_runs: whether the task decides what a training does in its folder, as under
            fairseq's own command; ``gtrans train`` decides it itself.
    """

    @staticmethod
    def add_args(parser: argparse.ArgumentParser) -> None:
        """Declare the options of fairseq's task, and the temperature's."""
        TranslationMultiSimpleEpochTask.add_args(parser)
        parser.add_argument(
            "--min-sampling-temperature",
            type=float,
            default=1.0,
            metavar="T",
            help="sampling temperature of the first epoch (default: %(default)s)",
        )
        parser.add_argument(
            "--sampling-warmup-epochs",
            type=int,
            default=5,
            metavar="N",
            help="epochs after which it is --sampling-temperature (default: %(default)s)",
        )

    def __init__(self, args: Any, langs: Any, dicts: Any, training: bool) -> None:
        """As fairseq's task.

        Raises:
            GtransError: temperatures or epochs out of range.
        """
        super().__init__(args, langs, dicts, training)
        self.plans_runs = True
        least, most = args.min_sampling_temperature, args.sampling_temperature
        if not 0 < least <= most or args.sampling_warmup_epochs < 1:
            raise GtransError(
                f"`--min-sampling-temperature` {least} must be above 0 and at most "
                f"`--sampling-temperature` {most}, `--sampling-warmup-epochs` "
                f"{args.sampling_warmup_epochs} at least 1."
            )
        self.sampling_method = self.data_manager.sampling_method = LinearTemperature(args, self)

    def build_model(self, args: Any, from_checkpoint: bool = False) -> Any:
        """As fairseq's task; a training of fairseq's own command begins or goes on.

        Raises:
            GtransError: see :func:`gtrans.train.run_plan.plan_under_fairseq`.
        """
        model = super().build_model(args, from_checkpoint)
        training = None if from_checkpoint else training_of(args)
        if training is not None and self.plans_runs:
            plan_under_fairseq(training, self, model)
        return model

    def load_dataset(self, split: str, epoch: int = 1, **named: Any) -> None:
        """Load a split as it is drawn in ``epoch``."""
        self.sampling_method.epoch = epoch
        super().load_dataset(split, epoch, **named)

    def create_batch_sampler_func(self, *arguments: Any, **named: Any) -> Callable[..., Any]:
        """What forms the batches of an epoch; the training data are then drawn for that epoch."""
        batches = super().create_batch_sampler_func(*arguments, **named)

        def sampler(dataset: Any, epoch: int | None) -> Any:
            sampled = isinstance(dataset, SampledMultiDataset) and dataset.sample_ratios is not None
            if sampled and epoch is not None and epoch != self.sampling_method.epoch:
                self.sampling_method.epoch = epoch
                drawn = self.sampling_method.sampling_method_selector()
                sizes = [len(corpus) for corpus in dataset.datasets]
                dataset.setup_sampling(drawn(sizes), self.args.virtual_data_size)
            return batches(dataset, epoch)

        return sampler
