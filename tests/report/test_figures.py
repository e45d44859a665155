import json
import math

import plotly.graph_objects as go
import pytest

from archopt.report.allocation_figures import pareto_front
from archopt.report.figure import BAND, INK, RAMP, RECOMMENDED, THEORY, colour, log_axis, readable_range
from archopt.report.figures import draw
from archopt.report.files import json_ready
from archopt.report.training_figures import MOST_CURVES, diversity_points


def trace(figure, name):
    (found,) = [trace for trace in figure.data if trace.get("name") == name]
    return found


def test_all_figures_are_drawn_in_order_and_plotly_takes_them(recommendation, rows):
    figures = draw(recommendation, rows).in_order()
    keys = [figure.key for figure in figures]
    assert keys == [
        "loss-head-dim",
        "loss-time",
        "weighting",
        "hdi-raw",
        "hdi-excess",
        "output-correlation",
        "learning-curves",
    ]
    for figure in figures:
        go.Figure({"data": figure.data, "layout": figure.layout})  # raises on an attribute that plotly does not know
        assert json.loads(json.dumps(json_ready(figure.data), allow_nan=False))
        assert figure.alternative
        assert figure.caption


def test_every_trial_stands_at_its_own_head_dim_and_value(recommendation, rows):
    figure = draw(recommendation, rows).head_dim
    drawn = trace(figure, "finished trial")
    complete = [row for row in rows if row["state"] == "complete"]
    assert list(drawn["x"]) == [row["head_dim"] for row in complete]
    assert drawn["y"] == pytest.approx([row["value"] for row in complete], rel=1e-4)
    assert figure.layout["xaxis"]["type"] == "log"
    pruned = trace(figure, "pruned, last score")
    assert [number for number, _ in pruned["customdata"]] == [row["number"] for row in rows if row["state"] == "pruned"]
    assert [float(told.split(",")[0]) for _, told in pruned["customdata"]] == pytest.approx(
        [row["curve"][-1][1] for row in rows if row["state"] == "pruned"], rel=1e-4
    )


def test_posterior_closed_form_and_recommendation_are_marked(recommendation, rows):
    figure = draw(recommendation, rows).head_dim
    assert trace(figure, "posterior mean")["y"] == pytest.approx(
        [entry["mean"] for entry in recommendation["allocations"]], rel=1e-4
    )
    assert trace(figure, "closed form: 16.6")["x"] == [16.6, 16.6]
    assert trace(figure, "recommended")["x"] == [12.0]
    assert sorted(trace(figure, "cannot be told apart")["x"]) == [8.0, 16.0]
    band = trace(figure, "closed form, one sd either way")["x"]
    assert (min(band), max(band)) == pytest.approx((16.6 / 2**1.5, 16.6 * 2**1.5), rel=1e-3)


def test_one_diverging_trial_does_not_flatten_the_others(recommendation, rows):
    rows[0]["value"], rows[1]["value"] = 1e6, 250.0
    figure = draw(recommendation, rows).head_dim
    top = figure.layout["yaxis"]["range"][1]
    assert top < 2.0
    drawn = trace(figure, "finished trial")
    assert drawn["y"][:2] == pytest.approx([top, top], rel=1e-4)
    told = [told.split(",")[0] for _, told in drawn["customdata"][:2]]
    assert told == ["1000000.0", "250.0"]  # the true value is in the hover text
    assert "beyond the scale" in figure.caption


def test_pareto_front_by_hand():
    assert pareto_front([(3, 1.0), (1, 3.0), (2, 2.0), (2, 2.5), (4, 1.5)]) == [1, 2, 0]
    assert pareto_front([(1, 1.0), (2, 3.0)], minimize=False) == [0, 1]
    assert pareto_front([]) == []


def test_the_time_figure_needs_two_measured_allocations(recommendation, rows):
    for entry in recommendation["allocations"][1:]:
        entry["seconds_per_step"] = None
    assert draw(recommendation, rows).time is None


def test_curves_of_pruned_trials_are_dashed_and_all_scores_are_drawn(recommendation, rows):
    figure = draw(recommendation, rows).curves
    drawn = [row for row in rows if len(row["curve"]) >= 2]
    for dashed in (True, False):
        traces = [trace for trace in figure.data if (trace["line"]["dash"] == "dash") == dashed]
        members = [row for row in drawn if (row["state"] == "pruned") == dashed]
        assert sum(value is not None for trace in traces for value in trace["y"]) == sum(
            len(row["curve"]) for row in members
        )
    assert sum(trace["showlegend"] for trace in figure.data) == len({row["head_dim"] for row in drawn})


def test_thousands_of_curves_are_thinned_and_it_is_said(recommendation, make_rows):
    figure = draw(recommendation, make_rows(1000)).curves
    numbers = {number for trace in figure.data for number in trace["customdata"] if number is not None}
    assert len(numbers) == MOST_CURVES
    assert f"{MOST_CURVES} of " in figure.caption


def test_excess_diversity_of_one_head_is_absent_and_of_random_heads_zero(recommendation, rows):
    for row in rows:
        if row["n_heads"] > 1:
            row["diversity"] = [[20, 0.0, 0.1], [360, 1 - row["head_dim"] / 48, 0.5]]
    points = diversity_points(recommendation, rows)
    assert {point.number for point in points} == {
        row["number"] for row in rows if row["state"] == "complete" and row["n_heads"] > 1
    }
    assert all(abs(point.excess) < 1e-9 and point.output_correlation == 0.5 for point in points)


def test_output_correlation_may_be_missing(recommendation, rows):
    for row in rows:
        row["diversity"] = [[step, hdi, math.nan] for step, hdi, _ in row["diversity"]]
    assert [figure.key for figure in draw(recommendation, rows).diversity] == ["hdi-raw", "hdi-excess"]


@pytest.mark.parametrize("states", [("failed",), ("pruned",), ()])
def test_without_finished_trials_nothing_breaks(nothing, rows, states):
    figures = draw(nothing, [row for row in rows if row["state"] in states])
    assert [figure.key for figure in figures.in_order()] == (["learning-curves"] if states == ("pruned",) else [])


def test_a_single_allocation_is_drawn(recommendation, rows):
    recommendation["allocations"] = [entry for entry in recommendation["allocations"] if entry["head_dim"] == 12]
    figures = draw(recommendation, [row for row in rows if row["head_dim"] == 12])
    assert figures.head_dim is not None
    low, high = figures.head_dim.layout["xaxis"]["range"]
    assert low < math.log10(12) < high


def test_one_head_only(recommendation, rows):
    single = [row for row in rows if row["n_heads"] == 1]
    figures = draw(recommendation, single)
    assert figures.weighting is None
    assert figures.diversity == ()


def test_names_are_text_in_plots(recommendation, rows):
    for row in rows:
        row["weighting"] = {"uniform": "<a href='http://x'>u</a>"}.get(row["weighting"], row["weighting"])
    recommendation["metric"] = "<b>loss</b>"
    figures = draw(recommendation, rows)
    texts = json.dumps([[figure.data, figure.layout] for figure in figures.in_order()])
    assert "<a" not in texts
    assert "<b>" not in texts
    assert "&lt;b&gt;loss" in texts


def luminance(hexadecimal):
    channels = [int(hexadecimal[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("page", ["#ffffff", "#14171b"])
def test_lines_and_marks_have_contrast_on_both_pages(page):
    # WCAG 2.2, success criterion 1.4.11: graphical objects 3:1.
    for drawn in [*RAMP, *(colour(k, 11) for k in range(11)), INK, RECOMMENDED, THEORY]:
        light, dark = sorted((luminance(drawn), luminance(page)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3.0, drawn
    assert BAND.startswith("rgba")


def test_axes():
    axis = log_axis("d", [1, 48], [1, 2, 3, 4, 6, 8, 12, 16, 24, 48])
    assert axis["ticktext"] == [str(value) for value in axis["tickvals"]]
    assert axis["tickvals"][0] == 1
    assert axis["range"][0] < 0 < math.log10(48) < axis["range"][1]
    assert len(log_axis("d", [1, 720], range(1, 721))["tickvals"]) <= 24
    assert max(readable_range([1, 1.1, 1.2, 1.3, 1.4, 1e9])) == 1.4
    assert readable_range([5.0, 5.0, 5.0, 9.0], [2.0]) == [5.0, 5.0, 5.0, 9.0, 2.0]
