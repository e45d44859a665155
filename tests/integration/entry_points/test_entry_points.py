"""A package that adds a data set, a family of models and an extractor, installed and used as a user uses it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import archopt

pytest.importorskip("archopt_demo", reason="pip install ./tests/integration/entry_points/package")
pytestmark = pytest.mark.torch


def _search(folder: Path, *arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "archopt", "search", *arguments, "--json", "--workers", "1", "--out", "found"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_family_of_models_is_searched_on_another_tasks_data(tmp_path: Path) -> None:
    common = ("feature-tokens:rings:3", "--d-model", "8", "--weighting", "uniform", "--samples", "300")
    found = _search(tmp_path, *common, "--trials", "5", "--steps", "60")
    data = found["data"]
    assert isinstance(data, dict)
    assert (data["name"], data["n_samples"]) == ("feature-tokens:rings:3", 300)
    trials = pd.read_csv(tmp_path / "found" / "trials.csv")
    rungs = pd.read_csv(tmp_path / "found" / "rungs.csv").merge(trials[["number", "n_heads"]], on="number")
    assert rungs.hdi[rungs.n_heads > 1].between(0.0, 1.0).all()
    assert rungs.hdi[rungs.n_heads == 1].isna().all()


def test_a_family_takes_the_users_own_file_with_its_options(tmp_path: Path) -> None:
    from archopt.data import TableDataset, load_dataset

    table = pd.DataFrame({"a": range(200), "b": [7 * row % 13 for row in range(200)]})
    path = tmp_path / "own.csv"
    table.assign(target=table.a * 0.01 + table.b).to_csv(path, index=False)
    dataset = load_dataset(f"feature-tokens:{path}", target="target")
    assert isinstance(dataset, TableDataset)
    assert (dataset.model_family, dataset.target_name, dataset.n_features) == ("feature-tokens", "target", 2)


def test_the_familys_own_model_is_what_trains() -> None:
    from archopt.data import load_dataset
    from archopt.evaluation import TrialSpec, default_recipe
    from archopt.evaluation.training import train

    dataset = load_dataset("feature-tokens:sklearn:iris")
    recipe = default_recipe(dataset, d_model=8, n_steps=40)
    spec = TrialSpec(
        allocation=archopt.HeadAllocation(2, 4), weighting="uniform", decorrelation=0.1, learning_rate=0.01, replicate=0
    )
    reports = []
    outcome = train(dataset, spec, recipe, lambda report: reports.append(report) or False)
    # scale and shift 4 x 8 each, query, key and value 8 x 8 each, readout 8 x 3
    assert outcome.n_parameters == 2 * 32 + 3 * 64 + 24
    assert outcome.value < math.log(3)  # better than not knowing
    assert reports[-1].hdi > 0
    assert math.isnan(reports[-1].output_correlation)


def test_an_extractor_of_another_package_is_found_by_the_name_of_its_layer() -> None:
    import torch
    from archopt_demo.feature_tokens import FeatureTokens

    model = FeatureTokens(4, 3, n_heads=2, head_dim=4, generator=torch.Generator().manual_seed(0))
    found = archopt.key_projections(model)
    assert list(found) == ["attention"]
    assert torch.equal(found["attention"], model.attention.key)
