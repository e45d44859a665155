"""The sampler in Hydra's Optuna sweeper: an application started as a user starts it."""

import inspect
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import optuna
import pytest

import archopt

pytest.importorskip("hydra_plugins.archopt_hydra", reason="pip install ./plugins/hydra")

PLUGIN = Path(__file__).parents[3] / "plugins" / "hydra"


def _run(folder: Path, *arguments: str, path: Path | None = None) -> "subprocess.CompletedProcess[str]":
    paths = [str(each) for each in (path, os.environ.get("PYTHONPATH")) if each]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, "app.py", *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """A copy of the plugin's example."""
    return Path(shutil.copytree(PLUGIN / "example", tmp_path / "application"))


def test_a_multirun_finds_the_best_split(application: Path) -> None:
    done = _run(application, "--multirun", "hydra.sweeper.n_trials=16")
    assert done.returncode == 0, done.stderr
    study = optuna.load_study(study_name="heads", storage=f"sqlite:///{application / 'heads.db'}")
    assert len(study.trials) == 16
    assert {trial.state.name for trial in study.trials} == {"COMPLETE"}
    found = archopt.recommend(study)
    assert found.allocation == archopt.HeadAllocation(4, 16)  # where the example's bowl has its minimum
    assert found.params["model.n_heads"] == 4


def test_the_same_seed_proposes_the_same_splits_as_the_sampler_itself(application: Path) -> None:
    done = _run(
        application,
        "--multirun",
        "hydra.sweeper.n_trials=6",
        "hydra.sweeper.sampler.seed=3",
        "~hydra.sweeper.params.learning_rate",
    )
    assert done.returncode == 0, done.stderr
    swept = optuna.load_study(study_name="heads", storage=f"sqlite:///{application / 'heads.db'}")

    sampler = archopt.HeadAllocationSampler(
        d_model=64, n_samples=2e6, family="text", head_param="model.n_heads", seed=3
    )
    study = optuna.create_study(sampler=sampler)
    for before in swept.trials:
        trial = study.ask()
        trial.suggest_categorical("model.n_heads", [1, 2, 4, 8, 16])
        study.tell(trial, before.value)
    assert [trial.params for trial in study.trials] == [trial.params for trial in swept.trials]


def test_only_feasible_splits_where_the_width_is_swept_too(application: Path) -> None:
    done = _run(
        application,
        "--multirun",
        "hydra.sweeper.n_trials=12",
        "hydra.sweeper.sampler.d_model=model.d_model",
        "model.d_model=choice(48,64)",
        "model.n_heads=choice(1,2,3,4,6,8)",
    )
    assert done.returncode == 0, done.stderr
    study = optuna.load_study(study_name="heads", storage=f"sqlite:///{application / 'heads.db'}")
    pairs = [(trial.params["model.d_model"], trial.params["model.n_heads"]) for trial in study.trials]
    assert {width for width, _ in pairs} == {48, 64}
    assert all(width % n_heads == 0 for width, n_heads in pairs)


def test_a_bad_setting_of_the_sampler_is_said_in_one_line(application: Path) -> None:
    done = _run(application, "--multirun", "hydra.sweeper.sampler.head_param_kind=heads")
    assert done.returncode != 0
    assert "head_param_kind must be one of n_heads, head_dim, allocation but got 'heads'" in done.stderr


def test_versions_that_do_not_fit_are_named_with_those_that_do(application: Path, tmp_path: Path) -> None:
    older = tmp_path / "site" / "hydra_optuna_sweeper-1.3.0.dist-info"  # found before the one that is installed
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: hydra-optuna-sweeper\nVersion: 1.3.0\n")
    done = _run(application, "--multirun", path=older.parent)
    assert done.returncode != 0
    assert "hydra-optuna-sweeper 1.3.0 does not fit (>=1.4.0rc3,<2; 1.3 needs an Optuna before 3)" in done.stderr
    assert "pip install 'hydra-core==1.4.0rc3' 'hydra-optuna-sweeper==1.4.0rc3'" in done.stderr


def test_the_configuration_has_the_samplers_arguments_and_defaults() -> None:
    from hydra_plugins.archopt_hydra import HeadAllocationSamplerConfig

    arguments = inspect.signature(archopt.HeadAllocationSampler).parameters
    expected = {name: argument.default for name, argument in arguments.items() if name != "warm_start"}
    given = {field.name: field.default for field in fields(HeadAllocationSamplerConfig) if field.name != "_target_"}
    assert given == expected
