"""The best of five splits of a width of 64 under noise, and how sure that is."""

import numpy as np
import optuna
import optunahub

import archopt


def objective(trial: optuna.Trial) -> float:
    n_heads = trial.suggest_categorical("n_heads", [1, 2, 4, 8, 16])
    seed = archopt.replicate(trial)  # a repeated configuration is its next replicate
    noise = np.random.default_rng([n_heads, seed]).normal(0, 0.05)
    return 1.0 + 0.1 * np.log2(64 / n_heads / 16) ** 2 + noise  # stands for training a model


if __name__ == "__main__":
    module = optunahub.load_module(package="samplers/head_allocation")
    sampler = module.HeadAllocationSampler(d_model=64, n_samples=2_000_000, family="text", seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=30)
    print(archopt.recommend(study).reason)
