"""`optuna.visualization` draws archopt's studies; its warnings are errors here, as everywhere in the tests."""

import warnings
from collections.abc import Callable
from typing import Any

import optuna
import pytest
from optuna import visualization

pytest.importorskip("torch")
pytest.importorskip("plotly")
pytestmark = pytest.mark.torch

PLOTS: dict[str, Callable[[optuna.Study], Any]] = {
    "history": visualization.plot_optimization_history,
    "intermediate values": visualization.plot_intermediate_values,
    "importances": visualization.plot_param_importances,
    "slice": visualization.plot_slice,
    "contour": visualization.plot_contour,
    "parallel coordinate": visualization.plot_parallel_coordinate,
    "edf": visualization.plot_edf,
    "rank": visualization.plot_rank,
    "timeline": visualization.plot_timeline,
}


@pytest.mark.parametrize("which", ["search", "asked"])
@pytest.mark.parametrize("plot", PLOTS)
def test_every_plot_of_a_study_with_one_objective_has_data(written: Any, plot: str, which: str) -> None:
    figure = PLOTS[plot](written.study(getattr(written, which)))
    assert len(figure.data) > 0
    assert figure.to_json()


def test_the_search_shows_every_curve_and_every_trial(written: Any) -> None:
    study = written.study(written.search)
    curves = [trial for trial in study.trials if trial.intermediate_values]
    assert len(visualization.plot_intermediate_values(study).data) == len(curves)
    history = visualization.plot_optimization_history(study)
    finished = [trial for trial in study.trials if trial.value is not None and trial.state.name == "COMPLETE"]
    assert len(history.data[0].x) == len(finished)


def test_the_terminator_reads_a_search(written: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # it is one, of Optuna's own
        figure = visualization.plot_terminator_improvement(written.study(written.search))
    assert len(figure.data) > 0
