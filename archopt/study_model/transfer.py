"""What earlier studies, at another n or D, say of where the best head_dim is."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from archopt.errors import OptionError
from archopt.search_space import read_history, recognise_head_parameter, search_space_of
from archopt.study_model.model import model_study
from archopt.study_model.prior import flat_prior
from archopt.surrogate import OptimumPrior

if TYPE_CHECKING:
    import optuna

# Between two sizes of one data set: on our grids the best head_dim moved by 0.4 and 0.7 octaves (digits, Friedman-1)
TRANSFER_SD_OCTAVES = 0.75
SMALLEST_SD_OCTAVES = 0.25  # half the distance between neighbouring divisors, which no search looks between
DRAWS = 1_000


def optimum_of(study: "optuna.Study") -> OptimumPrior:
    """Where a study's best log2 head_dim is, by its trials alone.

    Configurations that were not tried may be the best too: among the few that were, after eight trials, an optimum two
    octaves away would be missed with a stated standard deviation of half an octave.

    Raises:
        OptionError: no head parameter, several objectives, or no finished trial.
    """
    if len(study.directions) > 1:
        raise OptionError(f"warm_start needs studies with one objective; {study.study_name!r} has several")
    head = recognise_head_parameter(study)
    history = read_history(study, head)
    space = search_space_of(history.distributions(), head)
    if space is None or not any(record.value is not None for record in history.ended):
        raise OptionError(f"warm_start: no trial of {study.study_name!r} with a feasible {head.name!r} has finished")
    model = model_study(history, space, flat_prior(space.log2_head_dim))
    draws = model.posterior.sample(np.random.default_rng(0), DRAWS)
    draws[:, model.infeasible] = np.inf
    best = space.log2_head_dim[draws.argmin(axis=1)]
    return OptimumPrior(float(best.mean()), max(float(best.std()), SMALLEST_SD_OCTAVES))


def informed_prior(prior: OptimumPrior, earlier: Sequence[OptimumPrior], d_model: int) -> OptimumPrior:
    """``prior`` combined with what earlier studies found, each taken to be off by `TRANSFER_SD_OCTAVES` here.

    The log-law has d_k* independent of D, and nearly so of n, so that nothing is shifted. Precisions add up, as for
    normal errors that are independent.

    Args:
        prior: before those.
        earlier: the optima of the earlier studies.
        d_model: D; the expectation is kept within [1, D].
    """
    means = np.array([prior.log2_head_dim, *[each.log2_head_dim for each in earlier]])
    variances = np.array([0.0, *[TRANSFER_SD_OCTAVES**2] * len(earlier)]) + np.array(
        [prior.sd_octaves**2, *[each.sd_octaves**2 for each in earlier]]
    )
    precision = 1.0 / variances
    mean = float(precision @ means / precision.sum())
    return OptimumPrior(min(max(mean, 0.0), math.log2(d_model)), float(precision.sum() ** -0.5))
