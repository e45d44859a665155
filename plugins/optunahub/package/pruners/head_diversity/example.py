"""Learning curves of which half are hopeless, reported with the diversity of random heads."""

import numpy as np
import optuna
import optunahub

import archopt


def objective(trial: optuna.Trial) -> float:
    n_heads = trial.suggest_categorical("n_heads", [2, 4, 8])
    rate = trial.suggest_float("learning_rate", 1e-4, 1.0, log=True)
    random = np.random.default_rng([n_heads, trial.number])
    key_projections = random.normal(size=(n_heads, 32, 32 // n_heads))  # your model's: (H, D, d_k)
    final = np.log10(rate / 1e-2) ** 2
    for step in range(1, 11):
        value = final + 3.0 * 0.6**step + random.normal(0, 0.01)
        hdi = archopt.theory.head_diversity_index(key_projections)
        archopt.report_diversity(trial, step, value, hdi)
        if trial.should_prune():
            raise optuna.TrialPruned
    return float(value)


if __name__ == "__main__":
    module = optunahub.load_module(package="pruners/head_diversity")
    study = optuna.create_study(pruner=module.HDIPruner(seed=0), sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=40)
    pruned = study.get_trials(states=[optuna.trial.TrialState.PRUNED])
    print(f"{len(pruned)} of {len(study.trials)} trials were stopped early; did diversity help? ", end="")
    print(archopt.diversity_worth(study, d_model=32).helped)
