"""What is searched: a data set at one n, one D, and how every trial of it is trained."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from archopt.allocation import HeadAllocation
from archopt.campaign.device import resolve_device
from archopt.campaign.settings import Settings
from archopt.errors import OptionError
from archopt.evaluation import TrialSpec
from archopt.search_space import (
    DECORRELATION,
    LEARNING_RATE,
    MAX_CANDIDATES,
    N_HEADS,
    WARMUP,
    WEIGHT_DECAY,
    WEIGHTING,
    HeadParameter,
    SearchSpace,
    search_space_of,
)
from archopt.study_model import closed_form_prior
from archopt.surrogate import OptimumPrior

if TYPE_CHECKING:
    from optuna.distributions import CategoricalDistribution

    from archopt.data import Dataset, DatasetSummary
    from archopt.evaluation import Recipe
    from archopt.theory import TheoryAllocation

DECORRELATIONS = (0.0, 0.1)
LEARNING_RATES = {"table": (0.001, 0.003, 0.01, 0.03), "text": (0.003, 0.01, 0.03)}
_TUNED = (LEARNING_RATE, WEIGHT_DECAY, WARMUP)  # beside the heads: what a fair comparison may have to tune with them


@dataclass(frozen=True)
class Cell:
    """One data set, one width.

    Attributes:
        theory: what the closed form suggests (Thm 6.1), with the family's constant.
        prior: the same as the sampler's and the recommendation's expectation.
        distributions: Optuna's, of every parameter.
        space: the configurations that they allow.
    """

    dataset: "Dataset"
    summary: "DatasetSummary"
    recipe: "Recipe"
    theory: "TheoryAllocation"
    prior: OptimumPrior
    distributions: "dict[str, CategoricalDistribution]"
    head: HeadParameter
    space: SearchSpace

    def identity(self, settings: Settings) -> dict[str, Any]:
        """What makes a second run the same campaign, JSON-able."""
        recipe = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self.recipe).items()}
        # the recipe last: "auto" and None are then what they came to, however they were asked for
        tuned = {name: list(self.distributions[name].choices) for name in _TUNED if name in self.distributions}
        family = {"model_family": self.dataset.model_family} if self.dataset.model_family else {}
        return {**settings.identity(), **recipe, **family, "tuned": tuned, "data_hash": self.dataset.content_hash}


@dataclass(frozen=True)
class CellData:
    """A data set at one n, with what is known of it before any model: the same for every width."""

    dataset: "Dataset"
    summary: "DatasetSummary"


def read_data(settings: Settings) -> CellData:
    """Read, split and summarise the data.

    Raises:
        OptionError, DataError: as `archopt.search`.
    """
    from archopt.data import load_dataset, summarise

    dataset = load_dataset(
        settings.data,
        target=settings.target,
        task=settings.task,
        n_samples=settings.n_samples,
        valid_source=settings.valid,
        group_column=settings.group,
        time_column=settings.time,
        seed=settings.seed,
    )
    return CellData(dataset, summarise(dataset, seed=settings.seed))


def prepare_cell(settings: Settings, data: CellData | None = None) -> Cell:
    """Decide how trials are trained; writes nothing.

    Args:
        data: as `read_data` gives it for these settings, where it was read already.

    Raises:
        OptionError, DataError: as `archopt.search`.
    """
    from optuna.distributions import CategoricalDistribution

    from archopt.evaluation.recipe import default_recipe
    from archopt.theory import family_default, optimal_allocation

    device = resolve_device(settings.device, settings.attention)
    found = read_data(settings) if data is None else data
    dataset, summary = found.dataset, found.summary
    recipe = default_recipe(
        dataset,
        d_model=settings.d_model,
        metric=settings.metric,
        device=device,
        attention=settings.attention,
        seed=settings.seed,
        n_steps=settings.n_steps,
        weight_decay=_single(settings.weight_decay),
        warmup=_single(settings.warmup),
        precision=settings.precision,
    )
    distributions = {
        N_HEADS: CategoricalDistribution(sorted(split.n_heads for split in settings.allocations())),
        WEIGHTING: CategoricalDistribution(settings.weighting),
        DECORRELATION: CategoricalDistribution(DECORRELATIONS),
        LEARNING_RATE: CategoricalDistribution(settings.learning_rate or LEARNING_RATES[summary.family]),
    }
    for name, choices in ((WEIGHT_DECAY, settings.weight_decay), (WARMUP, settings.warmup)):
        if choices is not None and len(choices) > 1:
            distributions[name] = CategoricalDistribution(choices)
    head = HeadParameter(d_model=settings.d_model)
    space = search_space_of(distributions, head)
    if space is None or set(space.names) != set(distributions):
        n_configurations = math.prod(len(distribution.choices) for distribution in distributions.values())
        raise OptionError(
            f"{n_configurations:,} configurations are more than the {MAX_CANDIDATES:,} that can be modelled: "
            "give fewer values to search (weighting, learning_rate, weight_decay, warmup) or limit head_dim"
        )
    return Cell(
        dataset=dataset,
        summary=summary,
        recipe=recipe,
        theory=optimal_allocation(
            settings.d_model,
            dataset.n_samples,
            summary.intrinsic_dim,
            constant=family_default(summary.family).constant,
        ),
        prior=closed_form_prior(
            settings.d_model,
            n_samples=dataset.n_samples,
            intrinsic_dim=summary.intrinsic_dim,
            family=summary.family,
        ),
        distributions=distributions,
        head=head,
        space=space,
    )


def trial_spec(
    params: Mapping[str, Any], allocation: HeadAllocation, *, replicate: int, score_test: bool = False
) -> TrialSpec:
    """What to train for Optuna's parameters; those that are not searched are the recipe's."""
    return TrialSpec(
        allocation=allocation,
        weighting=params[WEIGHTING],
        decorrelation=params[DECORRELATION],
        learning_rate=params[LEARNING_RATE],
        replicate=replicate,
        score_test=score_test,
        weight_decay=params.get(WEIGHT_DECAY),
        warmup=params.get(WARMUP),
    )


def _single(choices: tuple[float, ...] | None) -> float | None:
    """The value that all trials share; None where there is none or several are searched."""
    return choices[0] if choices is not None and len(choices) == 1 else None
