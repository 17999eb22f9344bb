"""fairseq's multilingual task with a rising sampling temperature, as GTRANS trains on OPUS-100.

At temperature 1 languages are drawn in proportion to their sentences, at 5 almost equally.
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

    ``epoch``: whose batches are drawn, from 1.
    """

    def __init__(self, args: Any, task: Any) -> None:
        super().__init__(args, task)
        self.epoch = 1

    def temperature(self, epoch: int) -> float:
        """Return the temperature of an epoch, the largest after the warm-up."""
        least, most = self.args.min_sampling_temperature, self.args.sampling_temperature
        step = (most - least) / self.args.sampling_warmup_epochs
        return float(min(least + step * (epoch - 1), most))

    def sampling_method_selector(self) -> Callable[[Sequence[int]], list[float]]:
        """Return a function from sizes of corpora to weights, not normalised."""
        return partial(temperature_sampling, temp=self.temperature(self.epoch))


@register_task("translation_multi_linear")
class LinearTemperatureTask(TranslationMultiSimpleEpochTask):
    """``translation_multi_simple_epoch`` with a temperature that rises."""

    @staticmethod
    def add_args(parser: argparse.ArgumentParser) -> None:
        """Declare fairseq's options and those for the temperature."""
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
        """As in fairseq; under ``fairseq-train``, plan the run."""
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
        """Return what forms the batches of an epoch."""
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
