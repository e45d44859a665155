"""What a campaign leaves for other machines, and how they learn that it is over."""

import time
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest

from archopt.campaign import joining
from archopt.campaign.joining import CAMPAIGN_KEY, CampaignEnd, record_campaign, record_end, recorded_campaign
from archopt.campaign.patient_storage import PatientStorage
from archopt.campaign.settings import Settings
from archopt.campaign.storage import SPENT_KEY, open_storage
from archopt.errors import StorageError


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[PatientStorage]:
    made = open_storage(f"sqlite:///{tmp_path / 'study.db'}")
    yield made
    made.remove_session()
    made.engine.dispose()


@pytest.fixture
def study(storage: PatientStorage) -> optuna.Study:
    return optuna.create_study(study_name="iris-d12", storage=storage)


def _settings(n_trials: int | None = 10, timeout_seconds: float | None = None) -> Settings:
    url = "postgresql+psycopg://me:secret@host/db"
    return Settings("sklearn:iris", 12, storage=url, n_trials=n_trials, timeout_seconds=timeout_seconds, n_workers=1)


def test_what_was_recorded_makes_the_same_settings_and_holds_no_password(
    study: optuna.Study, storage: PatientStorage
) -> None:
    record_campaign(study, _settings(), "cpu")
    found = recorded_campaign(storage, "iris-d12", storage.url)
    assert "secret" not in str(study.user_attrs)
    assert Settings(**found["settings"]).identity() == {**_settings().identity(), "device": "cpu"}
    assert found["campaign"] == "iris-d12"


def test_a_grid_is_found_by_its_own_name_and_by_a_cell_s(storage: PatientStorage) -> None:
    cell = optuna.create_study(study_name="c-n40-d8", storage=storage)
    record_campaign(cell, Settings("sklearn:iris", 8, name="c"), "cpu", [8, 12], [40])
    for name in ("c", "c-n40-d8"):
        found = recorded_campaign(storage, name, storage.url)
        assert (found["campaign"], found["d_models"], found["n_samples"]) == ("c", [8, 12], [40])


def test_a_grid_is_found_while_its_search_still_records_it(storage: PatientStorage) -> None:
    first, second = (optuna.create_study(study_name=f"c-n40-d{width}", storage=storage) for width in (8, 12))
    record_campaign(second, Settings("sklearn:iris", 8, name="c"), "cpu", [8, 12], [40])
    assert recorded_campaign(storage, "c", storage.url)["d_models"] == [8, 12]
    with pytest.raises(StorageError, match="begun by an older archopt"):
        recorded_campaign(storage, first.study_name, storage.url)


@pytest.mark.parametrize(
    "change",
    [
        3,
        [],
        {},
        {"campaign": "a b"},
        {"settings": {"d_model": 12}},
        {"settings": 3},
        {"d_models": None},
        {"settings": {"data": "x", "d_model": 8, "optimiser": "muon"}},
    ],
)
def test_what_another_version_recorded_says_so(study: optuna.Study, storage: PatientStorage, change: object) -> None:
    record_campaign(study, _settings(), "cpu")
    recorded = study.user_attrs[CAMPAIGN_KEY]
    study.set_user_attr(CAMPAIGN_KEY, {**recorded, **change} if isinstance(change, dict) and change else change)
    with pytest.raises(StorageError, match=r"'iris-d12' was begun by another version .*'archopt:campaign'"):
        recorded_campaign(storage, "iris-d12", storage.url)


def test_what_cannot_be_joined_is_one_line(study: optuna.Study, storage: PatientStorage) -> None:
    with pytest.raises(StorageError, match="begun by an older archopt, or is none: run its `archopt search` again"):
        recorded_campaign(storage, "iris-d12", storage.url)
    with pytest.raises(StorageError, match="holds no campaign 'other'; its studies: 'iris-d12'"):
        recorded_campaign(storage, "other", storage.url)


def test_it_is_over_when_its_search_says_so_and_goes_on_with_other_limits(
    study: optuna.Study, storage: PatientStorage
) -> None:
    record_campaign(study, _settings(), "cpu")
    assert CampaignEnd([study], storage)() is None
    record_end(study, _settings(), "certain enough")
    assert CampaignEnd([study], storage)() == "the campaign is over: certain enough"
    record_campaign(study, _settings(n_trials=20), "cpu")
    assert CampaignEnd([study], storage)() is None


def test_it_is_over_when_its_time_is_spent_in_all_cells_together(study: optuna.Study, storage: PatientStorage) -> None:
    other = optuna.create_study(study_name="other", storage=storage)
    record_campaign(study, _settings(n_trials=None, timeout_seconds=10.0), "cpu")
    study.set_user_attr(SPENT_KEY, 6.0)
    assert CampaignEnd([study, other], storage)() is None
    other.set_user_attr(SPENT_KEY, 4.0)
    assert CampaignEnd([study, other], storage)() == "the campaign is over: its 10 s are spent"


def test_a_silent_search_is_left_but_not_for_an_outage(
    study: optuna.Study, storage: PatientStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(joining, "SILENT_SECONDS", 0.2)
    record_campaign(study, _settings(), "cpu")
    end = CampaignEnd([study], storage)
    assert end() is None
    time.sleep(0.3)
    study.set_user_attr(SPENT_KEY, 1.0)  # it lives
    assert end() is None
    time.sleep(0.3)
    storage.back_since = time.monotonic()  # nobody could show it
    assert end() is None
    time.sleep(0.3)
    assert end() == "no search has run this campaign for 0 s: start its `archopt search` again"
