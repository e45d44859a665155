"""Train one configuration, report at rungs, and say in one line why where it cannot be finished."""

import gc
from collections.abc import Callable, Iterator
from math import cos, isfinite, isnan, nan, pi
from statistics import fmean, median
from time import perf_counter

import torch
from torch import Tensor

from archopt.data.dataset import Dataset, TextDataset
from archopt.data.tasks import installed_task
from archopt.errors import DegenerateHeadError, OptionError, PluginError, TrialFailed
from archopt.evaluation.learner import Learner, Score
from archopt.evaluation.table_learner import table_learner
from archopt.evaluation.text_learner import text_learner
from archopt.evaluation.trial import METRICS, Recipe, RungReport, TrialOutcome, TrialSpec
from archopt.models.projections import mean_overlap
from archopt.theory.diversity import head_diversity_index, head_output_correlation

_EXPLODED = 1e4  # times the first loss (or 1 nat or 1 sd², where that is larger): no schedule comes back from there
_MAX_GRADIENT_NORM = 1.0
_FINAL_SHARE = 0.1  # of the peak learning rate, at the end of the cosine
_BETAS = (0.9, 0.95)  # a memory of 20 steps: trials have hundreds


def train(dataset: Dataset, spec: TrialSpec, recipe: Recipe, on_rung: Callable[[RungReport], bool]) -> TrialOutcome:
    """Train ``spec`` on the training split and score it on the validation split at each rung.

    The same arguments and number of threads give the same numbers bit for bit on a CPU; times differ. (On CUDA the
    backward passes of fused kernels may add in another order each time, unless the caller sets
    ``torch.use_deterministic_algorithms``.) Replicate r starts from the same shared parameters and sees the same
    batches in every configuration.

    Args:
        dataset: a table or a text; its test split is read only if ``spec.score_test``.
        spec: the configuration and its replicate.
        recipe: equal for all configurations of the cell.
        on_rung: called after each rung is scored; returning True stops the trial there.

    Returns:
        the outcome. Training seconds exclude scoring and ``on_rung``.

    Raises:
        TrialFailed: the loss became NaN, infinite or more than 10,000 times the first; a head collapsed; or memory
            ran out. One line; the trial's memory is free again.
        OptionError: CUDA asked for and not there, a metric of another task, xformers where it cannot run.
        DataError: fewer than two training rows, or a text too short for one window.
    """
    _refuse_mismatch(dataset, recipe)
    reason = None
    try:
        return _train(dataset, spec, recipe, on_rung)
    except TrialFailed as error:
        reason = str(error)
    except (MemoryError, RuntimeError) as error:
        reason = _out_of_memory(error, spec)
        if reason is None:
            raise
    finally:
        if recipe.device == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
    # Raised anew, outside the handlers: the first error's traceback would keep the trial's tensors alive.
    raise TrialFailed(reason)


def _train(dataset: Dataset, spec: TrialSpec, recipe: Recipe, on_rung: Callable[[RungReport], bool]) -> TrialOutcome:
    learner = _learner(dataset, spec, recipe)
    losses = training_losses(learner, spec, recipe)
    step_seconds: list[float] = []
    step, stopped = 0, False
    for rung in recipe.rungs:
        while step < rung:
            started = perf_counter()
            next(losses)
            step_seconds.append(perf_counter() - started)
            step += 1
        score = learner.score("valid")
        _refuse_broken(f"validation {recipe.metric}", score.value, float("inf"), step, spec)
        hdi, correlation = _diversity(learner, score, step)
        report = RungReport(
            step=step,
            value=score.value,
            hdi=hdi,
            output_correlation=correlation,
            train_seconds=sum(step_seconds),
            seconds_per_step=median(step_seconds),
            n_seen=step * learner.seen_per_step,
        )
        if on_rung(report) and step < recipe.n_steps:
            stopped = True
            break
    return TrialOutcome(
        value=score.value,
        test_value=learner.score("test").value if spec.score_test and not stopped else None,
        seconds_per_step=median(step_seconds),
        n_steps=step,
        stopped=stopped,
        attention=learner.attention,
        n_parameters=sum(parameter.numel() for parameter in learner.model.parameters()),
        effective_neighbours=score.effective_neighbours,
        fallback=learner.fallback,
    )


def _learner(dataset: Dataset, spec: TrialSpec, recipe: Recipe) -> Learner:
    if dataset.model_family:
        build = installed_task(dataset.model_family).learner
        assert build is not None, "load_dataset names a family only where it has a learner"
        learner = build(dataset, spec, recipe)
        if not isinstance(learner, Learner):
            raise PluginError(
                f"the learner of task {dataset.model_family!r} must return an archopt.evaluation.learner.Learner but "
                f"gave a {type(learner).__name__}: update its package"
            )
        return learner
    if isinstance(dataset, TextDataset):
        return text_learner(dataset, spec, recipe)
    return table_learner(dataset, spec, recipe)


def training_losses(learner: Learner, spec: TrialSpec, recipe: Recipe) -> Iterator[float]:
    """Train the learner's model, one of the recipe's steps for each value that is asked for.

    Yields:
        the data loss of each step's batch before the step, without the penalty.

    Raises:
        TrialFailed: the loss became NaN, infinite or more than 10,000 times the first.
    """
    optimiser = _adamw(learner.model, recipe.weight_decay if spec.weight_decay is None else spec.weight_decay)
    largest_loss = None
    for step in range(recipe.n_steps):
        loss = _step(learner, optimiser, spec, recipe, step)
        largest_loss = largest_loss or _EXPLODED * max(loss, 1.0)
        _refuse_broken("loss", loss, largest_loss, step + 1, spec)
        yield loss


def learning_rate_at(step: int, peak: float, *, warmup_steps: int, n_steps: int) -> float:
    """Rate of step 0, 1, ...: rises linearly over ``warmup_steps``, then falls as a cosine to a tenth of the peak."""
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    done = (step - warmup_steps) / max(1, n_steps - 1 - warmup_steps)
    return peak * (_FINAL_SHARE + (1 - _FINAL_SHARE) * 0.5 * (1 + cos(pi * done)))


def _step(learner: Learner, optimiser: torch.optim.Optimizer, spec: TrialSpec, recipe: Recipe, step: int) -> float:
    """One optimiser step; returns the data loss before it, without the penalty. Waits for the device."""
    warmup_steps = recipe.warmup_steps if spec.warmup is None else round(spec.warmup * recipe.n_steps)
    rate = learning_rate_at(step, spec.learning_rate, warmup_steps=warmup_steps, n_steps=recipe.n_steps)
    for group in optimiser.param_groups:
        group["lr"] = rate
    data_loss = learner.loss(step)
    total: Tensor = data_loss
    if spec.decorrelation > 0 and spec.allocation.n_heads > 1:
        total = data_loss + spec.decorrelation * mean_overlap(learner.key_projections())
    optimiser.zero_grad(set_to_none=True)
    total.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(learner.model.parameters(), _MAX_GRADIENT_NORM)
    optimiser.step()
    if recipe.device == "cuda":
        torch.cuda.synchronize()  # or the step's time would be that of queueing it
    return float(data_loss.detach())


def _adamw(model: torch.nn.Module, weight_decay: float) -> torch.optim.Optimizer:
    parameters = list(model.parameters())
    matrices = [p for p in parameters if p.ndim > 1]
    scalars = [p for p in parameters if p.ndim <= 1]  # biases, norms, temperatures: decay would bias them
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": scalars, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=_BETAS, fused=True)


def _diversity(learner: Learner, score: Score, step: int) -> tuple[float, float]:
    """Raw subspace HDI and correlation of head outputs, each the mean over layers; NaN for one head."""
    projections = [layer.detach().cpu().numpy() for layer in learner.key_projections()]
    if len(projections[0]) == 1:
        return nan, nan
    try:
        hdi = fmean(head_diversity_index(layer) for layer in projections)
    except DegenerateHeadError as error:
        raise TrialFailed(f"{error} (step {step})") from error
    by_layer = [head_output_correlation(outputs.numpy()) for outputs in score.head_outputs]
    defined = [value for value in by_layer if not isnan(value)]  # constant outputs have none
    return hdi, fmean(defined) if defined else nan


def _refuse_broken(name: str, value: float, limit: float, step: int, spec: TrialSpec) -> None:
    if isfinite(value) and value <= limit:
        return
    what = "NaN" if isnan(value) else "infinite" if not isfinite(value) else f"{value:.3g}, above {limit:.3g},"
    raise TrialFailed(f"{name} became {what} at step {step} (learning_rate {spec.learning_rate:g})")


def _refuse_mismatch(dataset: Dataset, recipe: Recipe) -> None:
    task = "text" if isinstance(dataset, TextDataset) else dataset.task
    if recipe.metric not in METRICS[task]:
        raise OptionError(f"metric for {task} must be one of {', '.join(METRICS[task])} but got {recipe.metric!r}")
    if recipe.device == "cuda" and not torch.cuda.is_available():
        raise OptionError("device 'cuda' was asked for but torch sees no CUDA device here: use device 'cpu'")


def _out_of_memory(error: MemoryError | RuntimeError, spec: TrialSpec) -> str | None:
    """The reason to record if the error is about memory, else None."""
    told = " ".join(str(error).split())
    on_cuda = isinstance(error, torch.OutOfMemoryError)
    on_cpu = isinstance(error, MemoryError) or "DefaultCPUAllocator" in told or "can't allocate memory" in told
    if not (on_cuda or on_cpu):
        return None
    where = "CUDA" if on_cuda else "CPU"
    return f"{where} out of memory with {spec.allocation.n_heads} heads of {spec.allocation.head_dim}: {told[:160]}"
