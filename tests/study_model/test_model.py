"""When a study's variances are fitted again, and that remembering the fit changes nothing."""

import numpy as np
import optuna
from hypothesis import given
from hypothesis import strategies as st

from archopt.search_space import HeadParameter, read_records, search_space_of
from archopt.study_model import (
    REFIT_AFTER,
    REFIT_GROWTH,
    _fitted,
    _refit_at,
    flat_prior,
    model_study,
    modelled_distributions,
)

HEAD = HeadParameter(d_model=48)


@given(st.integers(0, 5_000))
def test_refits_use_all_of_few_trials_and_most_of_many(n_ended: int) -> None:
    used = _refit_at(n_ended)
    if n_ended <= REFIT_AFTER:
        assert used == n_ended
    else:
        assert n_ended / REFIT_GROWTH - 1 <= used <= n_ended
    assert _refit_at(n_ended + 1) >= used  # never fewer
    assert _refit_at(used) == used


def _study(n_trials: int) -> optuna.Study:
    noise = np.random.default_rng(0)
    study = optuna.create_study()
    distribution = optuna.distributions.CategoricalDistribution([1, 2, 4, 8, 16])
    for number in range(n_trials):
        n_heads = (1, 2, 4, 8, 16)[number % 5]
        value = abs(np.log2(n_heads) - 2) + 0.1 * noise.normal()
        study.add_trial(
            optuna.create_trial(
                params={"n_heads": n_heads}, distributions={"n_heads": distribution}, value=float(value)
            )
        )
    return study


def _posterior_mean(n_trials: int) -> np.ndarray:
    study = _study(n_trials)
    space = search_space_of(modelled_distributions(study.get_trials(deepcopy=False), HEAD), HEAD)
    return model_study(read_records(study, HEAD), space, flat_prior(space.log2_head_dim)).posterior.mean


def test_a_remembered_fit_is_the_one_that_a_fresh_process_makes() -> None:
    n_trials = REFIT_AFTER + 1  # decided by the first REFIT_AFTER
    _fitted.cache_clear()
    fresh = _posterior_mean(n_trials)
    assert _fitted.cache_info().misses == 1
    _posterior_mean(REFIT_AFTER)  # the same trials decide
    assert _fitted.cache_info().misses == 1
    assert np.array_equal(_posterior_mean(n_trials), fresh)
