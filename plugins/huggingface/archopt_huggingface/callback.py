"""The Trainer reports each evaluation to Optuna itself; this adds the heads' diversity just before."""

import inspect
from collections.abc import Callable
from typing import Any

import optuna
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import archopt
from archopt.errors import OptionError


class DiversityCallback(TrainerCallback):
    """Record the diversity of a model's attention heads with the Optuna trial that trains it.

    Callbacks are not told of the trial, but ``model_init`` is: give the Trainer this object's. At every evaluation the
    subspace HDI of the model's attention layers is recorded at the Trainer's global step, under which the Trainer then
    reports the value and asks the pruner. Outside ``hyperparameter_search`` the callback does nothing.

    Args:
        model_init: what the Trainer would have got: from the trial (None outside a search) to a model.

    Raises:
        OptionError: ``model_init`` does not take the trial alone; or, when training starts, the search does not use
            Optuna or this object's ``model_init``, or no attention layers are known in the model (see
            `archopt.key_projections`).

    Example:
        .. code-block:: python

            diversity = DiversityCallback(model_init)
            trainer = Trainer(model_init=diversity.model_init, callbacks=[diversity], ...)
            trainer.hyperparameter_search(
                backend="optuna",
                sampler=archopt.HeadAllocationSampler(d_model=768, head_param="num_attention_heads"),
                pruner=archopt.HDIPruner(),
            )
    """

    def __init__(self, model_init: Callable[[Any], nn.Module]) -> None:
        if not callable(model_init) or len(inspect.signature(model_init).parameters) != 1:
            raise OptionError(
                f"model_init must be a function of the trial alone, which suggests the heads, but got {model_init!r}"
            )
        self._model_init = model_init
        self._trial: Any = None

    def model_init(self, trial: Any) -> nn.Module:
        """The model of a trial: for the Trainer's argument of the same name."""
        self._trial = trial
        return self._model_init(trial)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Refuse what cannot be measured now, rather than after the first evaluation."""
        if not state.is_hyper_param_search:
            return
        if not isinstance(self._trial, optuna.trial.BaseTrial):
            raise OptionError(
                "DiversityCallback has not seen the search's trial: it needs Trainer(model_init=callback.model_init) "
                "and hyperparameter_search(backend='optuna')"
            )
        archopt.module_diversity(kwargs["model"])

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Record diversity: the Trainer reports the value right afterwards."""
        if self._trial is not None and state.is_world_process_zero:
            archopt.record_diversity(self._trial, state.global_step, archopt.module_diversity(kwargs["model"]))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluations from now on are none of the trial's."""
        self._trial = None
