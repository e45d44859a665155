"""What is searched: a data set at one n, one D, and how every trial of it is trained."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from archopt.campaign.device import resolve_device
from archopt.campaign.settings import Settings
from archopt.search_space import (
    DECORRELATION,
    LEARNING_RATE,
    N_HEADS,
    WEIGHTING,
    HeadParameter,
    SearchSpace,
    search_space_of,
)
from archopt.study_model import closed_form_prior
from archopt.surrogate import OptimumPrior

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from archopt.data import Dataset, DatasetSummary
    from archopt.evaluation import Recipe
    from archopt.theory import TheoryAllocation

DECORRELATIONS = (0.0, 0.1)
LEARNING_RATES = {"table": (0.001, 0.003, 0.01, 0.03), "text": (0.003, 0.01, 0.03)}


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
    distributions: "dict[str, BaseDistribution]"
    head: HeadParameter
    space: SearchSpace

    def identity(self, settings: Settings) -> dict[str, Any]:
        """What makes a second run the same campaign, JSON-able."""
        recipe = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self.recipe).items()}
        # the recipe last: "auto" and None are then what they came to, however they were asked for
        return {**settings.identity(), **recipe, "data_hash": self.dataset.content_hash}


def prepare_cell(settings: Settings) -> Cell:
    """Read the data and decide how trials are trained; writes nothing.

    Raises:
        OptionError, DataError: as `archopt.search`.
    """
    from optuna.distributions import CategoricalDistribution

    from archopt.data import load_dataset, summarise
    from archopt.evaluation.recipe import default_recipe
    from archopt.theory import family_default, optimal_allocation

    device = resolve_device(settings.device, settings.attention)
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
    recipe = default_recipe(
        dataset,
        d_model=settings.d_model,
        metric=settings.metric,
        device=device,
        attention=settings.attention,
        seed=settings.seed,
        n_steps=settings.n_steps,
    )
    summary = summarise(dataset, seed=settings.seed)
    distributions: dict[str, BaseDistribution] = {
        N_HEADS: CategoricalDistribution(sorted(split.n_heads for split in settings.allocations())),
        WEIGHTING: CategoricalDistribution(settings.weighting),
        DECORRELATION: CategoricalDistribution(DECORRELATIONS),
        LEARNING_RATE: CategoricalDistribution(LEARNING_RATES[summary.family]),
    }
    head = HeadParameter(d_model=settings.d_model)
    space = search_space_of(distributions, head)
    if space is None:
        raise AssertionError("feasible splits were checked with the settings")
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
