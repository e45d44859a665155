"""SMAC3 and NePS on the tables, in an environment of their own (``pip install smac neural-pipeline-search``).

``python replay_others.py smac|smac-prior|neps-priorband [--seeds N]`` adds to ``replays/``, as `replay` does.
"""

import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import replay
from make_tables import HERE, read
from replay import CHECKPOINTS, FAMILY, N_SAMPLES, Answers, Cell, Draws, canonical, choices

from archopt.theory import family_default, optimal_allocation


def _expected_split(table: Answers) -> int:
    """The place in the list of splits that the closed form is nearest to: what the peers' priors are told."""
    default = family_default(FAMILY[table.name])
    law = optimal_allocation(
        table.d_model, N_SAMPLES[table.name], default.intrinsic_dim, constant=default.constant
    ).head_dim
    heads = choices(table)[0]
    return min(range(len(heads)), key=lambda i: abs(np.log2(table.d_model / heads[i] / law)))


def smac(*, with_prior: bool):
    """SMAC3's facade for tuning, told that the objective is noisy, so that it re-evaluates incumbents."""

    def run(table: Answers, seed: int) -> list[tuple[int, Cell, dict]]:
        from ConfigSpace import (
            CategoricalHyperparameter,
            ConfigurationSpace,
            NormalIntegerHyperparameter,
            UniformIntegerHyperparameter,
        )
        from smac import HyperparameterOptimizationFacade, Scenario
        from smac.acquisition.function import PriorAcquisitionFunction
        from smac.main.exceptions import ConfigurationSpaceExhaustedException
        from smac.runhistory import TrialValue

        heads, weightings, decorrelations = choices(table)
        space = ConfigurationSpace(seed=seed)
        if with_prior:
            split = NormalIntegerHyperparameter("split", _expected_split(table), 2.0, 0, len(heads) - 1)
        else:
            split = UniformIntegerHyperparameter("split", 0, len(heads) - 1)
        space.add(split)
        space.add(CategoricalHyperparameter("weighting", weightings))
        space.add(UniformIntegerHyperparameter("penalty", 0, len(decorrelations) - 1))
        draws, found = Draws(table, seed), []
        with tempfile.TemporaryDirectory() as folder:
            scenario = Scenario(space, n_trials=CHECKPOINTS[-1], seed=seed, output_directory=Path(folder))
            extra = {}
            if with_prior:
                function = HyperparameterOptimizationFacade.get_acquisition_function(scenario)
                decay = CHECKPOINTS[-1] / 10  # SMAC's own default
                extra["acquisition_function"] = PriorAcquisitionFunction(function, decay_beta=decay)
            optimiser = HyperparameterOptimizationFacade(
                scenario,
                lambda config, seed=0: 0.0,
                initial_design=HyperparameterOptimizationFacade.get_initial_design(scenario, n_configs=10),
                logging_level=False,
                overwrite=True,
                **extra,
            )
            for number in range(1, CHECKPOINTS[-1] + 1):
                try:
                    info = optimiser.ask()
                except ConfigurationSpaceExhaustedException:  # it tried everything that it will try
                    found += [(at, draws.kindest(), {}) for at in CHECKPOINTS if at >= number]
                    break
                config = info.config
                penalty = decorrelations[int(config["penalty"])]
                value, _ = draws.run(heads[int(config["split"])], str(config["weighting"]), penalty)
                optimiser.tell(info, TrialValue(cost=value, time=0.01))
                if number in CHECKPOINTS:
                    found.append((number, draws.kindest(), {}))
        return found

    return run


def priorband(table: Answers, seed: int) -> list[tuple[int, Cell, dict]]:
    """NePS's PriorBand, with the closed form as its prior; a trial at a rung costs the rung's share of a full one."""
    import neps
    import torch
    from neps.optimizers.algorithms import priorband as algorithm
    from neps.space import HPOCategorical, HPOInteger, SearchSpace

    np.random.seed(seed)  # noqa: NPY002, NePS draws from it
    torch.manual_seed(seed)
    heads, weightings, decorrelations = choices(table)
    curves, steps = _curves(table)
    space = SearchSpace(
        {
            "split": HPOInteger(0, len(heads) - 1, prior=_expected_split(table), prior_confidence="medium"),
            "weighting": HPOCategorical(weightings, prior="uniform"),
            "penalty": HPOInteger(0, len(decorrelations) - 1, prior=0),
            "steps": HPOInteger(1, steps[-1], is_fidelity=True),
        }
    )
    optimiser = neps.AskAndTell(algorithm(space, eta=3))
    draws, found, spent, waiting = Draws(table, seed), [], 0.0, list(CHECKPOINTS)
    runs: dict[str, tuple[int, int]] = {}  # by trial, its place in the order of replicates and its steps
    n_runs: Counter[Cell] = Counter()
    shown: dict[int, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    while waiting:
        trial = optimiser.ask()
        config = trial.config
        cell = canonical(
            table, (heads[int(config["split"])], config["weighting"], decorrelations[int(config["penalty"])])
        )
        rung = next(step for step in steps if step >= int(config["steps"]))  # the next one that was recorded
        before = trial.metadata.previous_trial_id
        if before is None:
            place, done = n_runs[cell] % len(draws.order), 0
            n_runs[cell] += 1
        else:
            place, done = runs[before]  # the same run goes on
        value = curves[cell][draws.order[place]][steps.index(rung)]
        runs[trial.id] = (place, rung)
        spent += max(0, rung - done) / steps[-1]
        shown[rung][cell].append(value)
        optimiser.tell(trial, value)
        while waiting and spent >= waiting[0]:
            full = shown[max(shown)]
            found.append((waiting.pop(0), min(full, key=lambda cell: np.mean(full[cell])), {}))
    return found


def _curves(table: Answers) -> tuple[dict[Cell, list[list[float]]], list[int]]:
    rows = read(HERE / f"{table.name}.csv")
    steps = sorted(int(name.removeprefix("value_")) for name in rows[0] if name.startswith("value_"))
    curves: dict[Cell, list[list[float]]] = {}
    for row in sorted(rows, key=lambda row: int(row["replicate"])):
        if int(row["replicate"]) < len(replay.DRAWN):
            cell = (int(row["n_heads"]), row["weighting"], float(row["decorrelation"]))
            curves.setdefault(cell, []).append([float(row[f"value_{step}"] or "inf") for step in steps])
    return curves, steps


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    replay.METHODS.update(
        {"smac": smac(with_prior=False), "smac-prior": smac(with_prior=True), "neps-priorband": priorband}
    )
    sys.exit(replay.main())
