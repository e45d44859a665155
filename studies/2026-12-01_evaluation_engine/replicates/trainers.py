"""Trainers of replicates, one optimiser step at a time: in sequence with archopt's own step, or together."""

import torch
from cells import Batches, dataset_and_recipe, learner_of
from forwards import by_hand, vmapped
from torch.func import stack_module_state

from archopt.evaluation import training

FORWARDS = {"vmap": vmapped, "hand": by_hand}


class Alone:
    """One replicate, as ``archopt.evaluation.training.train`` trains it."""

    def __init__(self, shape, replicate, learner=None):
        _, self.recipe = dataset_and_recipe(shape.data)
        self.spec = shape.spec(replicate)
        self.learner = learner_of(shape, replicate) if learner is None else learner
        self.optimiser = training._adamw(self.learner.model, self.recipe.weight_decay)

    def step(self, step):
        """The data loss before the step."""
        return [
            training._step(self.learner, self.optimiser, self.spec, self.recipe, min(step, self.recipe.n_steps - 1))
        ]


class Together:
    """R replicates of one configuration with stacked parameters; AdamW is elementwise, clipping is per replicate."""

    def __init__(self, shape, replicates, how, dtype=torch.float32):
        _, self.recipe = dataset_and_recipe(shape.data)
        self.rate = shape.spec(0).learning_rate
        models = [learner_of(shape, replicate).model.to(dtype) for replicate in replicates]
        penalised = shape.decorrelation if shape.n_heads > 1 else 0.0
        self.losses = FORWARDS[how](models[0], penalised)
        self.parameters, self.buffers = stack_module_state(models)
        self.batches = Batches(shape, replicates, dtype)
        tensors = list(self.parameters.values())
        decayed = [each for each in tensors if each.ndim > 2]  # matrices of one replicate
        rest = [each for each in tensors if each.ndim <= 2]
        groups = [{"params": decayed, "weight_decay": self.recipe.weight_decay}, {"params": rest, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, betas=training._BETAS, fused=True)
        self.tensors = tensors

    def step(self, step):
        """The data losses before the step, one a replicate."""
        n_steps = self.recipe.n_steps
        rate = training.learning_rate_at(
            min(step, n_steps - 1), self.rate, warmup_steps=self.recipe.warmup_steps, n_steps=n_steps
        )
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        total, data_losses = self.losses(self.parameters, self.buffers, self.batches.next())
        self.optimiser.zero_grad(set_to_none=True)
        total.sum().backward()  # replicates share no parameter: each gets its own gradient
        clip_each([each.grad for each in self.tensors], training._MAX_GRADIENT_NORM)
        self.optimiser.step()
        return data_losses.detach().tolist()


@torch.no_grad()
def clip_each(gradients, limit):
    """``clip_grad_norm_`` for every replicate by itself: gradients have R first."""
    by_tensor = [torch.linalg.vector_norm(each.flatten(1), dim=1) for each in gradients]
    norms = torch.linalg.vector_norm(torch.stack(by_tensor), dim=0)
    factors = (limit / (norms + 1e-6)).clamp(max=1.0)
    for each in gradients:
        each.mul_(factors.view(-1, *[1] * (each.ndim - 1)))
