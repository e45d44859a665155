"""The packages for OptunaHub, loaded as the hub loads them."""

import pickle
import runpy
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
import yaml

import archopt

optunahub = pytest.importorskip("optunahub", reason="pip install optunahub")

REGISTRY = Path(__file__).parents[3] / "plugins" / "optunahub" / "package"
PACKAGES = ("samplers/head_allocation", "pruners/head_diversity")


@pytest.mark.parametrize("package", PACKAGES)
def test_the_folder_has_what_the_registry_asks_for(package: str) -> None:
    folder = REGISTRY / package
    assert {"README.md", "LICENSE", "__init__.py", "example.py", "requirements.txt"} <= {
        path.name for path in folder.iterdir()
    }
    _, front, body = (folder / "README.md").read_text().split("---\n", 2)
    matter = yaml.safe_load(front)
    assert set(matter) == {"author", "title", "description", "tags", "optuna_versions", "license"}
    assert package.split("/")[0].removesuffix("s") in matter["tags"]
    assert matter["license"] == "MIT License"
    assert all(isinstance(version, str) for version in matter["optuna_versions"])
    headings = [line.removeprefix("## ") for line in body.splitlines() if line.startswith("## ")]
    assert headings == ["Abstract", "APIs", "Installation", "Example", "Others"]


def test_the_sampler_is_archopts_and_searches() -> None:
    module = optunahub.load_local_module("samplers/head_allocation", registry_root=str(REGISTRY))
    assert module.HeadAllocationSampler is archopt.HeadAllocationSampler
    study = optuna.create_study(sampler=module.HeadAllocationSampler(d_model=64, seed=0))
    study.optimize(lambda trial: abs(trial.suggest_categorical("n_heads", [1, 2, 4, 8]) - 4), n_trials=12)
    assert archopt.recommend(study).allocation == archopt.HeadAllocation(4, 16)


def test_a_sampler_of_the_hub_is_unpickled_in_another_process() -> None:
    module = optunahub.load_local_module("samplers/head_allocation", registry_root=str(REGISTRY))
    pickled = pickle.dumps(module.HeadAllocationSampler(d_model=64, seed=0))
    script = "import pickle, sys; print(type(pickle.load(sys.stdin.buffer)).__name__)"
    done = subprocess.run([sys.executable, "-c", script], input=pickled, capture_output=True, check=True, timeout=60)
    assert done.stdout.strip() == b"HeadAllocationSampler"


def test_the_pruner_stops_hopeless_trials_and_not_all() -> None:
    module = optunahub.load_local_module("pruners/head_diversity", registry_root=str(REGISTRY))
    assert module.HDIPruner is archopt.HDIPruner

    def objective(trial: optuna.Trial) -> float:
        level = trial.suggest_float("level", 0, 10)
        for step in range(1, 9):
            module.report_diversity(trial, step, level + 0.5**step, 0.9)
            if trial.should_prune():
                raise optuna.TrialPruned
        return level

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), pruner=module.HDIPruner(seed=0))
    study.optimize(objective, n_trials=40)
    pruned = [trial for trial in study.trials if trial.state.name == "PRUNED"]
    assert 5 <= len(pruned) <= 32  # many are hopeless; at most 80 % may be stopped
    assert min(trial.params["level"] for trial in pruned) > study.best_value


@pytest.mark.parametrize("package", PACKAGES)
def test_the_example_runs(package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def from_here(package: str) -> object:  # the hub itself is out of reach
        return optunahub.load_local_module(package, registry_root=str(REGISTRY))

    monkeypatch.setattr(optunahub, "load_module", from_here)
    runpy.run_path(str(REGISTRY / package / "example.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert ("4 heads of 16" if "samplers" in package else "trials were stopped early") in said


def test_what_is_installed_offline_is_the_registry_folder() -> None:
    installed = pytest.importorskip("archopt_optunahub", reason="pip install ./plugins/optunahub")
    for package in PACKAGES:
        for path in (REGISTRY / package).glob("*.*"):
            assert (Path(installed.REGISTRY_ROOT) / package / path.name).read_text() == path.read_text()
