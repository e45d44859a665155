"""MLflow keeps the trials, by the callback of Optuna's integration package."""

from pathlib import Path

import optuna
import pytest

import archopt

mlflow = pytest.importorskip("mlflow", reason="pip install mlflow-skinny")
integration = pytest.importorskip("optuna_integration", reason="pip install optuna-integration")


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.filterwarnings("ignore:MLflowCallback has been deprecated:FutureWarning")  # until Optuna 6
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's store
def test_every_trial_is_a_run_with_its_heads_and_diversity(tmp_path: Path) -> None:
    keep = integration.MLflowCallback(tracking_uri=f"sqlite:///{tmp_path / 'runs.db'}", metric_name="loss")

    def objective(trial: optuna.Trial) -> float:
        n_heads = trial.suggest_categorical("n_heads", [1, 2, 4, 8])
        archopt.report_diversity(trial, 1, 1.0 / n_heads, 0.9)
        return abs(n_heads - 4)

    study = optuna.create_study(
        study_name="heads", sampler=archopt.HeadAllocationSampler(d_model=64, seed=0), pruner=archopt.HDIPruner(seed=0)
    )
    study.optimize(objective, n_trials=6, callbacks=[keep])

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    runs = mlflow.MlflowClient().search_runs([mlflow.get_experiment_by_name("heads").experiment_id])
    assert sorted((run.data.params["n_heads"], run.data.metrics["loss"]) for run in runs) == sorted(
        (str(trial.params["n_heads"]), trial.value) for trial in study.trials
    )
    assert all("[[1, 0.9, null]]" in run.data.tags["archopt:diversity"].replace("None", "null") for run in runs)
