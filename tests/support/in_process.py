"""A training in the process of the test, update by update."""

from __future__ import annotations

from pathlib import Path

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from gtrans.environment import import_plugin
from gtrans.train.signals import Signals
from gtrans.train.trainer import RunTrainer
from support.runs import G_TRANSFORMER, PLUGIN, TRAINING


class Training:
    """The trainer of a tiny model, which reads two batches in each update."""

    def __init__(self, data: Path, *further: str) -> None:
        import_plugin()
        system = () if "--arch" in further else G_TRANSFORMER
        words = [str(data), *PLUGIN, *TRAINING, *system, *further, "--seed", "3", "--no-save"]
        args = options.parse_args_and_arch(options.get_training_parser(), words)
        cfg = convert_namespace_to_omegaconf(args)
        torch.manual_seed(3)
        task = tasks.setup_task(cfg.task)
        task.plans_runs = False
        model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
        self.trainer = RunTrainer(cfg, task, model, criterion, Signals(speaks=False))
        batches = self.trainer.get_train_iterator(1).next_epoch_itr(shuffle=False)
        self.trainer.begin_epoch(1)
        self.batches = iter(batches)

    def update(self, count: int) -> Training:
        """Some updates; returns the training."""
        for _ in range(count):
            self.trainer.train_step([next(self.batches), next(self.batches)])
        return self

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        """Those of the model, by name."""
        return dict(self.trainer.get_model().state_dict())

    def assert_same(self, other: Training) -> None:
        """Both have the same parameters."""
        for name, value in self.parameters.items():
            found = other.parameters[name]
            torch.testing.assert_close(found, value, atol=2e-6, rtol=1e-5, msg=name)
