"""One more machine for a campaign: what it takes, refuses, and when it leaves."""

import gc
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest

import archopt
from archopt.campaign import joining
from archopt.campaign.joining import CAMPAIGN_KEY
from archopt.campaign.storage import STOPPED_KEY
from archopt.cli import run
from archopt.errors import OptionError, StorageError

pytestmark = pytest.mark.torch

N_BEFORE = 3


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data.csv, and a campaign over it that has come to its end."""
    from sklearn.datasets import load_iris

    folder = tmp_path_factory.mktemp("searched")
    load_iris(as_frame=True).frame.to_csv(folder / "data.csv", index=False)
    archopt.search(
        folder / "data.csv",
        8,
        target="target",
        task="classification",
        n_steps=20,
        n_trials=N_BEFORE,
        n_workers=1,
        out=folder / "out",
        quiet=True,
    )
    return folder


@pytest.fixture
def campaign(searched: Path, tmp_path: Path) -> Iterator[optuna.Study]:
    """A copy of its study, as a search that wants three trials more would leave it: nobody runs that search."""
    shutil.copy(searched / "out" / "study.db", tmp_path / "study.db")
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'study.db'}")
    study = optuna.load_study(study_name="data-d8", storage=storage)
    recorded = study.user_attrs[CAMPAIGN_KEY]
    study.set_user_attr(CAMPAIGN_KEY, {**recorded, "settings": {**recorded["settings"], "n_trials": N_BEFORE + 3}})
    yield study
    storage.remove_session()
    storage.engine.dispose()


def _url(study: optuna.Study) -> str:
    return str(study._storage._backend.url)  # type: ignore[attr-defined]


def _join(study: optuna.Study, **options: Any) -> archopt.WorkDone:
    return archopt.join_campaign(_url(study), "data-d8", n_workers=1, quiet=True, **options)


def test_it_trains_what_is_left_and_leaves_no_record_of_an_end(campaign: optuna.Study, searched: Path) -> None:
    shutil.copy(searched / "data.csv", searched / "elsewhere.csv")
    stopped = campaign.user_attrs[STOPPED_KEY]
    done = _join(campaign, data=searched / "elsewhere.csv")
    assert (done.campaign, done.n_trials, done.interrupted) == ("data-d8", 3, False)
    assert done.stopped_because == f"the budget of {N_BEFORE + 3} trials is spent"
    states = [trial.state.name for trial in campaign.get_trials(deepcopy=False)]
    assert sum(state in ("COMPLETE", "PRUNED") for state in states) == N_BEFORE + 3
    assert "RUNNING" not in states
    assert campaign.user_attrs[STOPPED_KEY] == stopped
    assert optuna.get_all_study_names(campaign._storage) == ["data-d8"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are read from /proc")
def test_the_storage_is_closed_when_it_leaves(searched: Path, tmp_path: Path) -> None:
    shutil.copy(searched / "out" / "study.db", tmp_path / "study.db")
    gc.disable()  # which would close it some time
    try:
        archopt.join_campaign(f"sqlite:///{tmp_path / 'study.db'}", "data-d8", n_workers=1, quiet=True)
        still_open = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    finally:
        gc.enable()
    assert str(tmp_path / "study.db") not in still_open


def test_other_data_are_refused_by_their_content(campaign: optuna.Study, searched: Path, tmp_path: Path) -> None:
    lines = (searched / "data.csv").read_text().splitlines()
    lines[1] = lines[1].replace("5.1", "5.2", 1)
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    n_before = len(campaign.trials)
    with pytest.raises(StorageError, match=r"differs from the data of campaign 'data-d8' \(sha256 .* here, .* there\)"):
        _join(campaign, data=tmp_path / "data.csv")
    assert len(campaign.trials) == n_before


def test_data_that_are_not_here_are_asked_for(campaign: optuna.Study) -> None:
    recorded = campaign.user_attrs[CAMPAIGN_KEY]
    campaign.set_user_attr(CAMPAIGN_KEY, {**recorded, "settings": {**recorded["settings"], "data": "/no/such.csv"}})
    with pytest.raises(OptionError, match="which is not here: give the file with --data"):
        _join(campaign)
    with pytest.raises(OptionError, match="has no valid file of its own: leave out --valid"):
        _join(campaign, data="sklearn:iris", valid="other.csv")


def test_it_leaves_a_campaign_that_is_over_before_it_trains(searched: Path) -> None:
    done = archopt.join_campaign(f"sqlite:///{searched / 'out' / 'study.db'}", "data-d8", n_workers=1, quiet=True)
    assert done.n_trials == 0
    assert done.stopped_because.startswith(f"the budget of {N_BEFORE} trials") or "is over" in done.stopped_because


def test_it_leaves_where_no_search_shows_life(campaign: optuna.Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(joining, "SILENT_SECONDS", 0.5)
    recorded = campaign.user_attrs[CAMPAIGN_KEY]
    campaign.set_user_attr(CAMPAIGN_KEY, {**recorded, "settings": {**recorded["settings"], "n_trials": 500}})
    done = _join(campaign)
    assert done.stopped_because.startswith("no search has run this campaign")
    assert "RUNNING" not in {trial.state.name for trial in campaign.get_trials(deepcopy=False)}


def test_it_leaves_after_its_own_time(
    campaign: optuna.Study, searched: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = campaign.user_attrs[CAMPAIGN_KEY]
    campaign.set_user_attr(CAMPAIGN_KEY, {**recorded, "settings": {**recorded["settings"], "n_trials": 500}})
    options = ["--storage", _url(campaign), "--name", "data-d8", "--workers", "1", "--timeout", "4", "--json", "-q"]
    assert run(["worker", *options]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert said.err == ""
    assert set(found) == {"schema", "campaign", "n_trials", "seconds", "stopped_because", "interrupted"}
    assert found["stopped_because"] == "the time limit of 4 s is reached"
    assert 1.0 < found["seconds"] < 20.0
    states = [trial.state.name for trial in campaign.get_trials(deepcopy=False)]
    assert len([state for state in states if state in ("COMPLETE", "PRUNED")]) == N_BEFORE + found["n_trials"]
    assert "RUNNING" not in states


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--name", "other"], "holds no campaign 'other'; its studies: 'data-d8'"),
        (["--name", "data-d8", "--workers", "0"], "n_workers must be a whole number from 1"),
        (["--name", "data-d8", "--timeout", "-1"], "timeout_seconds must be above 0"),
        (["--name", "data-d8", "--timeout", "nan"], "timeout"),
        (["--name", "data-d8", "--data", "/no/such.csv"], "/no/such.csv"),
        (["--storage", "sqlite:////no/such.db", "--name", "data-d8"], "does not exist"),
    ],
)
def test_mistakes_are_one_line(
    options: list[str], said: str, searched: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{searched / 'out' / 'study.db'}"
    assert run(["worker", "--storage", url, "--quiet", *options]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert said in line
    assert len(line) < 300
    assert captured.out == ""
