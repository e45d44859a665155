"""Optuna's own pruning callback, with the heads' diversity recorded before it asks the pruner."""

import lightning.pytorch as pl
import optuna
from optuna_integration import PyTorchLightningPruningCallback
from torch import nn

import archopt
from archopt.errors import OptionError


class DiversityPruningCallback(PyTorchLightningPruningCallback):
    """Report a metric and the diversity of attention heads after every validation, and prune.

    It does what `optuna_integration.PyTorchLightningPruningCallback` does, at its steps (epochs) and in its way where
    training is distributed (call ``check_pruned()`` after ``fit``). In addition it records the subspace HDI of the
    module's attention layers with the trial before the pruner is asked, so that `archopt.HDIPruner` finds it. The
    Trainer may be that of ``lightning.pytorch`` or of the package ``pytorch_lightning``. Weights that are sharded over
    devices (FSDP, DeepSpeed stage 3) cannot be read.

    Args:
        trial: the running trial.
        monitor: name of a logged metric.
        attention: dotted name of the part of the module whose attention is measured, such as "model.encoder"; the
            whole module where None.

    Raises:
        OptionError: (when training starts) no such part, or no attention layers known in it; see
            `archopt.key_projections`.
    """

    def __init__(self, trial: optuna.Trial, monitor: str = "val_loss", attention: str | None = None) -> None:
        super().__init__(trial, monitor)
        self.attention = attention
        self._measured_epoch: int | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Refuse what cannot be measured now, rather than after an epoch."""
        super().on_fit_start(trainer, pl_module)
        archopt.module_diversity(self._measured_part(pl_module))

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record diversity, report the metric, ask the pruner."""
        epoch = pl_module.current_epoch
        reports = not trainer.sanity_checking and self.monitor in trainer.callback_metrics
        # of several validations in an epoch Optuna keeps the first one's value
        if reports and trainer.is_global_zero and epoch != self._measured_epoch:
            self._measured_epoch = epoch
            archopt.record_diversity(self._trial, epoch, archopt.module_diversity(self._measured_part(pl_module)))
        super().on_validation_end(trainer, pl_module)

    def _measured_part(self, module: pl.LightningModule) -> nn.Module:
        if not self.attention:
            return module
        try:
            return module.get_submodule(self.attention)
        except AttributeError:
            parts = ", ".join(name for name, _ in module.named_children())
            raise OptionError(
                f"attention must name a part of {type(module).__name__} but got {self.attention!r}; its parts: {parts}"
            ) from None
