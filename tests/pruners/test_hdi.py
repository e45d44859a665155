"""The pruner: what it stops, what it must not stop, and that it says why."""

import math
from typing import Any

import numpy as np
import optuna
import pytest

import archopt
from archopt.errors import OptionError
from archopt.search_space import ATTRIBUTES

STEPS = (10, 20, 40, 70, 100)


def _curve(final: float, rng: np.random.Generator, noise: float = 0.01) -> list[float]:
    return [final + (100 - step) / 200 + noise * rng.normal() * (100 - step) / 100 for step in STEPS]


def _study(pruner: optuna.pruners.BasePruner | None = None, direction: str = "minimize") -> optuna.Study:
    return optuna.create_study(
        direction=direction,
        sampler=archopt.HeadAllocationSampler(d_model=48, n_samples=1000, family="table", seed=0),
        pruner=pruner or archopt.HDIPruner(run_to_end_share=0.0),
    )


def _run(study: optuna.Study, finals: list[float], *, sign: float = 1.0, diversity: bool = True) -> list[str]:
    """Trials that end at ``finals``; returns their states."""
    for number, final in enumerate(finals):
        rng = np.random.default_rng([5, number])
        trial = study.ask()
        n_heads = trial.suggest_categorical("n_heads", [1, 2, 3, 4, 6, 8])
        # a parameter of its own for every trial: none is a replicate of a contender
        trial.suggest_float("lr", 0.0, 1.0)
        state = None
        for step, value in zip(STEPS, _curve(final, rng), strict=True):
            if diversity:
                archopt.report_diversity(trial, step, sign * value, math.nan if n_heads == 1 else 0.8)
            else:
                trial.report(sign * value, step)
            if trial.should_prune():
                state = optuna.trial.TrialState.PRUNED
                break
        study.tell(trial, sign * final if state is None else None, state=state)
    return [trial.state.name for trial in study.trials]


GOOD_THEN_BAD = [*(0.5 + 0.02 * (k % 4) for k in range(10)), 1.5, 1.5, 0.3]


@pytest.mark.parametrize("diversity", [True, False])
@pytest.mark.parametrize(("direction", "sign"), [("minimize", 1.0), ("maximize", -1.0)])
def test_losers_are_stopped_and_the_best_is_not(diversity: bool, direction: str, sign: float) -> None:
    study = _study(direction=direction)
    states = _run(study, GOOD_THEN_BAD, sign=sign, diversity=diversity)
    assert states[10:] == ["PRUNED", "PRUNED", "COMPLETE"]
    stopped = study.trials[10]
    assert stopped.last_step == 20  # patience 1: the second report, not the first
    assert "P(better than" in stopped.user_attrs[ATTRIBUTES.reason]
    decisions = stopped.user_attrs[ATTRIBUTES.pruner]
    assert [decision["prune"] for decision in decisions] == [False, True]
    # ten runs that ended within 0.06 of each other make little of how far off another may end
    assert 0.75 < sign * decisions[-1]["predicted"] < 1.6


def test_nothing_is_stopped_before_enough_trials_finished() -> None:
    states = _run(_study(archopt.HDIPruner(n_min_trials=20, run_to_end_share=0.0)), GOOD_THEN_BAD)
    assert set(states) == {"COMPLETE"}


def test_a_share_always_runs_to_the_end() -> None:
    states = _run(_study(archopt.HDIPruner(run_to_end_share=1.0)), GOOD_THEN_BAD)
    assert set(states) == {"COMPLETE"}


def test_never_all_trials() -> None:
    bad = [0.5 + 0.01 * k for k in range(8)] + [3.0] * 40
    states = _run(_study(archopt.HDIPruner(run_to_end_share=0.0, max_pruned_share=0.5)), bad)
    assert 0 < states.count("PRUNED") <= 0.5 * len(states)


def test_another_replicate_of_a_contender_runs_on() -> None:
    study = _study()

    def run_one(final: float, lr: float) -> str:
        study.enqueue_trial({"n_heads": 4, "lr": lr})
        trial = study.ask()
        trial.suggest_categorical("n_heads", [1, 2, 4])
        trial.suggest_float("lr", 0.0, 1.0)
        for step, value in zip(STEPS, _curve(final, np.random.default_rng(trial.number)), strict=True):
            trial.report(value, step)
            if trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                return "pruned"
        study.tell(trial, final)
        return "complete"

    for k in range(10):
        run_one(0.5 + 0.05 * k, k / 10)
    assert run_one(1.5, 0.95) == "pruned"
    assert run_one(1.5, 0.0) == "complete"  # an unlucky replicate of the best


def test_decisions_are_a_function_of_study_and_trial() -> None:
    study = _study()
    _run(study, GOOD_THEN_BAD[:10])
    trial = study.ask()
    trial.suggest_categorical("n_heads", [1, 2, 3, 4, 6, 8])
    for step in STEPS[:2]:
        trial.report(1.5, step)
    frozen = study.get_trials()[-1]
    pruner = archopt.HDIPruner(run_to_end_share=0.0)
    assert pruner.decide(study, frozen) == archopt.HDIPruner(run_to_end_share=0.0).decide(study, frozen)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_not_finite_ends_the_trial(value: float) -> None:
    study = _study()
    trial = study.ask()
    trial.suggest_categorical("n_heads", [1, 2])
    trial.report(value, np.int64(3))
    assert trial.should_prune()
    assert "the value at step 3 is" in study.trials[0].user_attrs[ATTRIBUTES.reason]


def test_before_any_report_nothing_happens() -> None:
    trial = _study().ask()
    assert not trial.should_prune()


@pytest.mark.filterwarnings("ignore:The reported value is ignored")
def test_steps_out_of_order_and_trials_of_other_lengths() -> None:
    study = _study()
    for k in range(12):
        trial = study.ask()
        trial.suggest_float("lr", 0, 1)
        for step in (20, 10, 20) if k % 2 else (1, 2, 3):
            trial.report(0.5 + 0.01 * k, step)
            assert trial.should_prune() in (True, False)
        study.tell(trial, 0.5 + 0.01 * k)
    assert len(study.trials) == 12


def test_a_study_without_heads_is_judged_by_curves() -> None:
    study = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed=0), pruner=archopt.HDIPruner(run_to_end_share=0.0)
    )
    states = []
    for k, final in enumerate([*(0.5 + 0.02 * (k % 5) for k in range(10)), 2.0]):
        trial = study.ask()
        trial.suggest_float("depth", 0, 1)
        state = None
        for step, value in zip(STEPS, _curve(final, np.random.default_rng(k)), strict=True):
            trial.report(value, step)
            if trial.should_prune():
                state = optuna.trial.TrialState.PRUNED
                break
        study.tell(trial, final if state is None else None, state=state)
        states.append(study.trials[-1].state.name)
    assert states[:8] == ["COMPLETE"] * 8  # n_min_trials
    assert states[-1] == "PRUNED"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"threshold": 1.5}, "threshold must be between 0 and 1 but got 1.5"),
        ({"run_to_end_share": -0.1}, "run_to_end_share must be between"),
        ({"threshold": "a"}, "threshold must be between 0 and 1 but got 'a'"),
        ({"n_min_trials": 0}, "n_min_trials must be a whole number of at least 1 but got 0"),
        ({"n_min_trials": 2.5}, "n_min_trials must be a whole number of at least 1 but got 2.5"),
        ({"patience": -1}, "patience must be a whole number of at least 0 but got -1"),
        ({"seed": "x"}, "seed must be a whole number of at least 0 but got 'x'"),
    ],
)
def test_bad_arguments(options: dict[str, Any], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        archopt.HDIPruner(**options)


def test_reports_that_are_all_the_same_stop_nothing() -> None:
    study = _study(archopt.HDIPruner(n_min_trials=6, threshold=0.2, patience=0, run_to_end_share=0.0))

    def objective(trial: optuna.Trial) -> float:
        n_heads = trial.suggest_categorical("n_heads", [1, 2, 4, 8])
        for step in STEPS:
            trial.report(1.0, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return abs(n_heads - 4) + trial.suggest_float("lr", 0.0, 1.0)

    study.optimize(objective, n_trials=30)
    assert {trial.state.name for trial in study.trials} == {"COMPLETE"}


def test_several_objectives_are_refused_in_one_line() -> None:
    study = optuna.create_study(directions=["minimize", "minimize"])
    study.add_trial(optuna.create_trial(values=[0.1, 0.2]))
    with pytest.raises(OptionError, match="HDIPruner needs a study with one objective"):
        archopt.HDIPruner().decide(study, study.trials[0])


@pytest.mark.parametrize("switch", [True, False])
def test_collapsed_heads_end_a_trial_only_where_asked(switch: bool) -> None:
    study = _study(archopt.HDIPruner(run_to_end_share=0.0, max_pruned_share=1.0, prune_collapsed=switch))
    trial = study.ask({"n_heads": optuna.distributions.CategoricalDistribution([4])})
    archopt.report_diversity(trial, 10, 1.0, 0.75)  # four heads of twelve: that of random ones
    assert not trial.should_prune()
    archopt.report_diversity(trial, 20, 0.9, 0.2)
    assert trial.should_prune() is switch
    if switch:
        assert "heads have collapsed" in study.trials[0].user_attrs[ATTRIBUTES.reason]


def test_a_configuration_is_judged_by_the_model_and_a_protected_trial_says_what_it_would_have_been() -> None:
    pruner = archopt.HDIPruner(run_to_end_share=1.0, patience=0)
    study = optuna.create_study(sampler=archopt.HeadAllocationSampler(d_model=48, seed=0), pruner=pruner)
    rng = np.random.default_rng(0)

    def run(n_heads: int, final: float) -> list[dict[str, Any]]:
        study.enqueue_trial({"n_heads": n_heads})
        trial = study.ask({"n_heads": optuna.distributions.CategoricalDistribution([1, 2, 3, 4, 6, 8])})
        for step, value in zip(STEPS, _curve(final, rng), strict=True):
            trial.report(value, step)
            assert not trial.should_prune()
        study.tell(trial, final)
        return list(study.trials[-1].user_attrs[ATTRIBUTES.pruner])

    for k in range(15):
        run([2, 3, 4, 6, 8][k % 5], 0.5 + 0.02 * rng.normal())
    bad, good = run(1, 3.0), run(4, 0.5)
    assert any(decision["would_prune"] for decision in bad)
    assert not any(decision["prune"] for decision in bad)
    assert not any(decision["would_prune"] for decision in good)
    last = bad[-1]
    assert last["p_better"] < 0.05
    assert last["predicted"] > last["incumbent"] == pytest.approx(0.5, abs=0.05)
