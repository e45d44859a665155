"""Ask and suggest, against TPE in the same run: what a proposal costs early, at trial 1,000 and at trial 10,000."""

import time

import numpy as np
import optuna
import pytest

import archopt

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

HEADS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 48]
WEIGHTINGS = ["uniform", "geometric", "fibonacci", "learned"]
RATES = [0.001, 0.003, 0.01, 0.03]


def _suggest(trial: optuna.Trial) -> tuple[int, str, float, float]:
    return (
        trial.suggest_categorical("n_heads", HEADS),
        trial.suggest_categorical("weighting", WEIGHTINGS),
        trial.suggest_categorical("decorrelation", [0.0, 0.1]),
        trial.suggest_categorical("learning_rate", RATES),
    )


def _value(chosen: tuple[int, str, float, float], rng: np.random.Generator) -> float:
    n_heads, weighting, decorrelation, rate = chosen
    bowl = 0.05 * (np.log2(48 / n_heads) - 3) ** 2 + 0.1 * np.log10(rate / 0.01) ** 2
    return float(bowl + 0.02 * (weighting == "geometric") + 0.1 * decorrelation + 0.05 * rng.normal())


def _seconds(sampler: optuna.samplers.BaseSampler, until: int, windows: dict[str, range]) -> dict[str, np.ndarray]:
    """Of ask and suggest at the trials of each window; trials between the windows are added, not asked for."""
    rng = np.random.default_rng(0)
    study = optuna.create_study(sampler=sampler)
    distributions = None
    spent: dict[int, float] = {}
    asked = {number for window in windows.values() for number in window}
    for number in range(until):
        if number in asked or number < 20:
            begun = time.perf_counter()
            trial = study.ask()
            chosen = _suggest(trial)
            spent[number] = time.perf_counter() - begun
            study.tell(trial, _value(chosen, rng))
            distributions = trial.distributions
        else:  # as a study that this process did not run: contenders more often than the rest
            chosen = (
                HEADS[int(np.clip(rng.normal(4, 1.5), 0, 9))],
                WEIGHTINGS[int(rng.integers(4))],
                [0.0, 0.1][int(rng.integers(2))],
                RATES[int(rng.integers(4))],
            )
            names = ("n_heads", "weighting", "decorrelation", "learning_rate")
            study.add_trial(
                optuna.create_trial(
                    params=dict(zip(names, chosen, strict=True)), distributions=distributions, value=_value(chosen, rng)
                )
            )
    return {name: np.array([spent[number] for number in window]) for name, window in windows.items()}


def _ours() -> archopt.HeadAllocationSampler:
    return archopt.HeadAllocationSampler(d_model=48, n_samples=1_000, family="table", seed=0)


def test_a_proposal_costs_a_quarter_of_tpes_and_stays_so():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    windows = {"100": range(80, 160), "1,000": range(940, 1060)}
    theirs = _seconds(optuna.samplers.TPESampler(seed=0), 1060, windows)
    ours = _seconds(_ours(), 10_060, {**windows, "10,000": range(9_960, 10_060)})
    for who, found in (("TPE", theirs), ("archopt", ours)):
        for name, seconds in found.items():
            print(
                f"\n{who} at {name}: median {1e3 * np.median(seconds):.2f} ms, mean {1e3 * seconds.mean():.2f}, "
                f"95th percentile {1e3 * np.quantile(seconds, 0.95):.2f}",
                end="",
            )
    print()
    assert np.median(ours["1,000"]) <= 0.25 * np.median(theirs["1,000"])
    assert ours["1,000"].mean() <= theirs["1,000"].mean()
    assert np.quantile(ours["1,000"], 0.95) <= np.quantile(theirs["1,000"], 0.95)
    assert np.median(ours["10,000"]) <= 1.5 * np.median(ours["100"])
