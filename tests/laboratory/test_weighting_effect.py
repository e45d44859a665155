"""Weightings against a plain computation, and settings in which the winner is known."""

from dataclasses import replace

import numpy as np
import pytest

from archopt.laboratory import Setting
from archopt.laboratory.design import draw_design, noise_draws
from archopt.laboratory.heads import orthogonal_heads
from archopt.laboratory.temperatures import unit_keys
from archopt.laboratory.verdict import judge
from archopt.laboratory.weighting_effect import SCHEMES, check_weighting, weighting_errors
from archopt.theory import head_smoothers, head_weights

SMALL = Setting(function="additive", intrinsic_dim=2, d_model=12, n_heads=3, n_samples=120, n_queries=40, replicates=8)
ALIGNED = replace(SMALL, embedding="linear", axes="aligned")


def by_hand(setting, replicate, scheme):
    """One fixed temperature: leave rows out by deleting them, order the heads by their errors, score at the queries."""
    design = draw_design(setting, replicate)
    heads = unit_keys(orthogonal_heads(design.axes, setting.n_heads), design.inputs)
    totals = []
    for noise in noise_draws(setting, replicate, setting.n_samples, 8):
        y = design.truth_at_inputs + noise
        squares = np.zeros(setting.n_heads)
        for row in range(setting.n_samples):
            others = np.delete(np.arange(setting.n_samples), row)
            S = head_smoothers(heads, design.inputs[[row]], design.inputs[others], temperature=setting.temperature)
            squares += (S[:, 0] @ y[others] - y[row]) ** 2
        weights = np.empty(setting.n_heads)
        weights[np.argsort(squares)] = head_weights(scheme, setting.n_heads)
        S = head_smoothers(heads, design.queries, design.inputs, temperature=setting.temperature)
        totals.append(((weights @ (S @ y) - design.truth_at_queries) ** 2).mean())
    return np.mean(totals), np.std(totals, ddof=1)


@pytest.mark.parametrize("scheme", ["uniform", "geometric", "fibonacci"])
def test_errors_equal_deleting_every_row_in_turn(scheme):
    setting = replace(SMALL, n_samples=30, temperature=0.1, axes="aligned")
    found = weighting_errors(setting, 1)
    mean, sd = by_hand(setting, 1, scheme)
    assert found.mse[scheme] == pytest.approx(mean)
    assert found.mse_sd[scheme] == pytest.approx(sd)
    assert found.temperature[scheme] == 0.1


def test_the_temperature_is_chosen_for_every_scheme_and_close_to_the_best_there_is():
    found = weighting_errors(SMALL, 0)
    fixed = [weighting_errors(replace(SMALL, temperature=2.0**octave), 0).mse for octave in range(-12, 2)]
    for scheme in SCHEMES:
        best = min(errors[scheme] for errors in fixed)
        # chosen without the truth, draw by draw: no better than the best by more than luck, and not far behind
        assert 0.9 * best < found.mse[scheme] < 1.5 * best


def test_weights_that_follow_quality_win_where_one_head_sees_everything():
    findings = check_weighting(ALIGNED, confidence=0.95)
    assert [finding.verdict for finding in findings] == ["holds"] * 3
    geometric, fibonacci, least = (finding.interval.estimate for finding in findings)
    assert least < fibonacci < geometric < 0
    for finding in findings:
        assert finding.verdict == judge(finding.interval, finding.allowed)
        assert finding.note.startswith("the worst head's error is")


def test_the_best_head_alone_is_found_by_minimum_variance_weights():
    # The others predict the mean of y, error 1: their weight tends to 0, and the error to that of one head.
    found = weighting_errors(replace(ALIGNED, n_samples=400), 0)
    assert found.quality_spread > 10
    assert found.mse["minimum-variance"] < 0.2 * found.mse["uniform"]


def test_at_two_heads_fibonacci_is_uniform_and_there_is_nothing_to_measure():
    fibonacci = check_weighting(replace(SMALL, n_heads=2), confidence=0.95)[1]
    assert (fibonacci.verdict, fibonacci.measured) == ("cannot tell", "at H = 2 they are uniform")
