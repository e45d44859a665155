"""`archopt recommend --study`: studies in a storage, archopt's own or not."""

import json
import shlex
from pathlib import Path

import optuna
import pytest

import archopt
from archopt.cli import run


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A storage with a study of somebody else's, at every number of heads that divides 16, and some odd ones."""
    url = f"sqlite:///{tmp_path_factory.mktemp('storage') / 'study.db'}"
    space = {"num_heads": [1, 2, 4, 8, 16], "dropout": [0.0, 0.1]}
    theirs = optuna.create_study(study_name="theirs", storage=url, sampler=optuna.samplers.GridSampler(space, seed=0))

    def objective(trial: optuna.Trial) -> float:
        heads = trial.suggest_categorical("num_heads", space["num_heads"])
        return abs(heads.bit_length() - 3) + trial.suggest_categorical("dropout", space["dropout"])

    theirs.optimize(objective)
    optuna.create_study(study_name="empty", storage=url)
    optuna.create_study(study_name="two", storage=url, directions=["minimize", "maximize"])
    headless = optuna.create_study(study_name="headless", storage=url)
    headless.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    accuracy = optuna.create_study(study_name="accuracy", storage=url, direction="maximize")
    accuracy.add_trials(
        [
            optuna.create_trial(params=trial.params, distributions=trial.distributions, value=5.0 - trial.value)
            for trial in theirs.trials
        ]
    )
    return url


def test_the_answer_is_that_of_python(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--d-model", "16", "--noise-sd", "0.05", "--confidence", "0.8"]
    assert run(["recommend", "--storage", url, "--study", "theirs", *options, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    study = optuna.load_study(study_name="theirs", storage=url)
    assert found == json.loads(
        json.dumps(archopt.recommend(study, d_model=16, noise_sd=0.05, confidence=0.8).to_dict())
    )
    assert found["params"] == {"num_heads": 4, "dropout": 0.0}
    assert found["noise_sd"] == pytest.approx(0.05, rel=1e-4)
    assert found["confidence"] == 0.8


@pytest.mark.parametrize(("name", "heading"), [("theirs", "loss"), ("accuracy", "value")])
def test_the_answer_in_words(url: str, capfd: pytest.CaptureFixture[str], name: str, heading: str) -> None:
    assert run(["recommend", "--storage", url, "--study", name, "--d-model", "16"]) == 0
    out = capfd.readouterr().out
    assert "Use 4 heads x 4 (d_model 16) " in out  # without a weighting, which the study has not
    assert f"heads head_dim {heading}" in " ".join(out.split())
    assert "configuration: num_heads = 4, dropout = 0.0" in " ".join(out.split())


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("--study theirs", "give d_model beside 'num_heads'"),
        ("--study thiers", "no study 'thiers'; it has theirs, empty, two, headless, accuracy"),
        ("--study empty", "no trials yet"),
        ("--study two", "several"),
        ("--study headless", "no head parameter among [x]"),
        ("--study theirs --d-model 16 --samples 1e6", "--samples: not with --study"),
        ("--study theirs --d-model 16 --law law.json --basis law", "--law and --basis: not with --study"),
        ("--study theirs --d-model 16 --metric loss --heads-multiple-of 2", "options of columns"),
        ("--study theirs --d-model 16 --confidence 2", "confidence"),
        ("--study theirs --d-model 0", "0"),
        ("--d-model 16 --samples 1e6", "say which with --study"),
        ("--d-model 16", "--samples"),
    ],
)
def test_a_mistake_is_one_line(url: str, capfd: pytest.CaptureFixture[str], options: str, hint: str) -> None:
    capfd.readouterr()
    assert run(["recommend", "--storage", url, *shlex.split(options)]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert hint in err


def test_trials_that_a_width_leaves_out_are_counted(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["recommend", "--storage", url, "--study", "theirs", "--d-model", "7", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["allocation"] == {"n_heads": 1, "head_dim": 7}
    assert found["caveats"][-1] == "8 of 10 finished trials were left out: their 'num_heads' is no split of d_model = 7"


def test_a_file_that_is_not_there_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["recommend", "--storage", "sqlite:///stduy.db", "--study", "theirs"]) == 2
    assert "does not exist" in capfd.readouterr().err
    assert run(["recommend", "--study", "theirs"]) == 2
    assert "--storage" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
