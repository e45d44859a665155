"""What a study's successor is told of its optimum, and what becomes of the prior."""

import math
import pickle

import numpy as np
import optuna
import pytest

import archopt
from archopt.errors import OptionError
from archopt.search_space import HeadParameter, record_head_parameter
from archopt.study_model import informed_prior, optimum_of
from archopt.study_model.transfer import TRANSFER_SD_OCTAVES
from archopt.surrogate import OptimumPrior

HEADS = {48: [1, 2, 3, 4, 6, 8, 12, 16, 24, 48], 96: [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96]}


def _study(d_model: int, best: float, n_trials: int = 40, **options: object) -> optuna.Study:
    sampler = archopt.HeadAllocationSampler(d_model=d_model, seed=0, **options)  # type: ignore[arg-type]
    study = optuna.create_study(sampler=sampler)

    def objective(trial: optuna.Trial) -> float:
        n_heads = trial.suggest_categorical("n_heads", HEADS[d_model])
        noise = np.random.default_rng([archopt.replicate(trial), n_heads]).normal()
        return float(0.1 * (np.log2(d_model / n_heads) - best) ** 2 + 0.03 * noise)

    study.optimize(objective, n_trials=n_trials)
    return study


def test_the_optimum_of_a_study_is_where_it_was_put() -> None:
    found = optimum_of(_study(48, best=2.0))
    assert abs(found.log2_head_dim - 2.0) < 0.5  # neighbouring divisors are 0.4 to 1 octave apart
    assert 0.25 <= found.sd_octaves < 0.75


def test_precisions_add_up() -> None:
    found = informed_prior(OptimumPrior(4.0, 1.5), [OptimumPrior(2.0, 0.5), OptimumPrior(3.0, 1.0)], 64)
    precision = np.array([1 / 1.5**2, 1 / (0.25 + TRANSFER_SD_OCTAVES**2), 1 / (1.0 + TRANSFER_SD_OCTAVES**2)])
    assert found.log2_head_dim == pytest.approx(precision @ [4.0, 2.0, 3.0] / precision.sum())
    assert found.sd_octaves == pytest.approx(precision.sum() ** -0.5)
    assert informed_prior(OptimumPrior(4.0, 1.5), [OptimumPrior(9.0, 0.1)], 16).log2_head_dim <= 4.0  # within D


def test_a_later_search_begins_where_the_earlier_one_ended() -> None:
    earlier = _study(48, best=1.0)
    prior = {"n_samples": 1_000, "family": "table"}  # expects head_dim 16
    first = {}
    for name, options in {"cold": prior, "warm": {**prior, "warm_start": [earlier]}}.items():
        study = _study(96, best=1.0, n_trials=3, **options)
        first[name] = np.mean([math.log2(96 / trial.params["n_heads"]) for trial in study.trials])
    assert first["warm"] < first["cold"] - 1.0
    sampler = archopt.HeadAllocationSampler(d_model=96, seed=0, warm_start=[earlier])
    assert isinstance(pickle.loads(pickle.dumps(sampler)), archopt.HeadAllocationSampler)  # no study inside


def test_the_recommendation_expects_what_the_sampler_did() -> None:
    earlier = _study(48, best=2.0)
    study = _study(96, best=2.0, n_trials=2, warm_start=[earlier])
    recorded = OptimumPrior(*study.user_attrs["archopt:expected_optimum"])
    assert abs(recorded.log2_head_dim - 2.0) < 1.0
    assert recorded.sd_octaves < 1.0  # the flat prior's is 3
    assert archopt.recommend(study).estimates == archopt.recommend(study, prior=recorded).estimates
    assert archopt.recommend(study).estimates != archopt.recommend(study, prior=OptimumPrior(5.0, 0.5)).estimates


def test_studies_that_say_nothing_are_refused() -> None:
    with pytest.raises(OptionError, match="no head parameter"):
        archopt.HeadAllocationSampler(d_model=96, warm_start=[optuna.create_study()])
    several = optuna.create_study(directions=["minimize", "minimize"])
    with pytest.raises(OptionError, match="one objective"):
        archopt.HeadAllocationSampler(d_model=96, warm_start=[several])
    unfinished = optuna.create_study(sampler=archopt.HeadAllocationSampler(d_model=48, seed=0), study_name="empty")
    unfinished.ask().suggest_categorical("n_heads", [1, 2, 3])
    with pytest.raises(OptionError, match=r"'empty'.*has finished"):
        archopt.HeadAllocationSampler(d_model=96, warm_start=[unfinished])


@pytest.mark.parametrize("best", [1.0, 5.0])
def test_few_trials_do_not_rule_out_what_was_not_tried(best: float) -> None:
    study = optuna.create_study()
    record_head_parameter(study, HeadParameter(d_model=48))
    choices = optuna.distributions.CategoricalDistribution(HEADS[48])
    for n_heads in (3, 4, 6):  # head_dim 16, 12 and 8: the best one lies beyond
        for repeat in range(2):
            value = 0.1 * (math.log2(48 / n_heads) - best) ** 2 + 0.01 * repeat
            trial = optuna.create_trial(params={"n_heads": n_heads}, distributions={"n_heads": choices}, value=value)
            study.add_trial(trial)
    found = optimum_of(study)
    assert abs(found.log2_head_dim - best) < 2.0 * found.sd_octaves
