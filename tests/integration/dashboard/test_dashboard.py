"""optuna-dashboard opens archopt's studies: its own WSGI application, asked what its pages ask."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any, NoReturn
from wsgiref.util import setup_testing_defaults

import optuna
import pytest

optuna_dashboard = pytest.importorskip("optuna_dashboard")
pytest.importorskip("torch")
pytestmark = pytest.mark.torch

NAMES = ("search", "asked")


@pytest.fixture(scope="module")
def get(written: Any) -> Callable[[str], str]:
    """The body of a page, whose status must be 200."""
    application = optuna_dashboard.wsgi(written.url)

    def page(path: str) -> str:
        environ: dict[str, Any] = {"PATH_INFO": path, "REQUEST_METHOD": "GET"}
        setup_testing_defaults(environ)
        statuses: list[str] = []
        body = b"".join(application(environ, lambda status, headers, exc_info=None: statuses.append(status)))
        assert statuses == ["200 OK"], (path, statuses, body[:300])
        return body.decode()

    return page


def _strict(text: str) -> Any:
    """Browsers' JSON has neither NaN nor infinities."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_both_studies_are_listed(get: Callable[[str], str], written: Any) -> None:
    listed = _strict(get("/api/studies"))["study_summaries"]
    assert {each["study_name"] for each in listed} == {written.search, written.asked}


@pytest.mark.parametrize("which", NAMES)
def test_every_trial_is_in_the_page_of_its_study(get: Callable[[str], str], written: Any, which: str) -> None:
    study = written.study(getattr(written, which))
    page = _strict(get(f"/api/studies/{study._study_id}"))
    assert page["name"] == study.study_name
    trials = study.trials
    assert [shown["number"] for shown in page["trials"]] == [trial.number for trial in trials]
    for shown, trial in zip(page["trials"], trials, strict=True):
        assert shown["state"] == trial.state.name.capitalize()
        assert {param["name"] for param in shown["params"]} == set(trial.params)
        assert {attribute["key"] for attribute in shown["user_attrs"]} == set(trial.user_attrs)
        assert len(shown["intermediate_values"]) == len(trial.intermediate_values)
    assert page["best_trials"][0]["number"] == study.best_trial.number
    assert page["has_intermediate_values"]
    assert {param["name"] for param in page["union_search_space"]} >= {"n_heads", "learning_rate"}


@pytest.mark.parametrize("which", NAMES)
def test_importances_and_plots_are_drawn(get: Callable[[str], str], written: Any, which: str) -> None:
    study = written.study(getattr(written, which))
    (importances,) = _strict(get(f"/api/studies/{study._study_id}/param_importances"))["param_importances"]
    assert "n_heads" in {each["name"] for each in importances}
    for plot in ("contour", "slice", "parallel_coordinate", "rank", "edf", "timeline"):
        assert _strict(get(f"/api/studies/{study._study_id}/plot/{plot}"))["data"], plot


def test_the_table_can_be_downloaded(get: Callable[[str], str], written: Any) -> None:
    study = written.study(written.search)
    rows = list(csv.DictReader(io.StringIO(get(f"/csv/{study._study_id}"))))
    assert [int(row["Param n_heads"]) for row in rows] == [trial.params["n_heads"] for trial in study.trials]


def test_attributes_are_small_strict_json_and_no_choice_is_a_tuple(written: Any) -> None:
    for which in NAMES:
        study = written.study(getattr(written, which))
        for attributes in (study.user_attrs, *(trial.user_attrs for trial in study.trials)):
            for key, value in attributes.items():
                assert key.startswith("archopt:")
                assert len(json.dumps(value, allow_nan=False)) < 20_000, key
        for trial in study.trials:
            for distribution in trial.distributions.values():
                choices = getattr(distribution, "choices", ())
                assert all(isinstance(choice, str | int | float) for choice in choices)


def test_a_search_leaves_the_trials_alone_that_others_ask_for(written: Any) -> None:
    """The search ran, and looked for dead trials, while trial 0 had been asked for in the same storage."""
    assert written.study(written.asked).trials[0].state == optuna.trial.TrialState.RUNNING
