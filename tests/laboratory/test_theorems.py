"""Verdicts in settings where the answer is known: a theorem that holds, one that does not, one that nobody can tell."""

from dataclasses import replace

import numpy as np
import pytest

from archopt.errors import OptionError
from archopt.laboratory import THEOREMS, Setting, run_laboratory
from archopt.laboratory.bandwidth import check_bandwidth
from archopt.laboratory.decomposition import check_decomposition
from archopt.laboratory.design import draw_design
from archopt.laboratory.diversity_effect import check_diversity, diversity_heads, measure_diversity_levels
from archopt.laboratory.measurement import measure
from archopt.laboratory.weighting_effect import check_weighting, measure_weightings

SMALL = Setting(function="additive", intrinsic_dim=2, d_model=12, n_heads=3, n_samples=120, n_queries=40, replicates=8)
# Inputs that fill 2 of 12 directions, heads cut along them: the first head sees everything, the others nothing.
ALIGNED = replace(SMALL, embedding="linear", axes="aligned")


def verdicts(findings):
    return {(finding.theorem, finding.origin): finding.verdict for finding in findings}


@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
def test_the_decomposition_holds_for_linear_smoothers(kernel):
    finding = check_decomposition(replace(SMALL, kernel=kernel, temperature=0.3), confidence=0.95, draws=6000)
    assert finding.verdict == "holds"
    assert [row["term"] for row in finding.rows] == ["bias_squared", "variance", "covariance", "mse"]
    for row in finding.rows:
        assert abs(row["difference"]) < 4 * row["standard_error"]


def test_too_few_draws_cannot_tell_the_decomposition():
    finding = check_decomposition(replace(SMALL, noise_sd=2.0, temperature=0.05), confidence=0.95, draws=10)
    assert finding.verdict == "cannot tell"


def test_diversity_does_not_help_where_the_other_heads_see_nothing():
    # Turning heads off the only directions that carry inputs leaves them the mean of y: bias rises by construction.
    monotone, least = check_diversity(ALIGNED, measure_diversity_levels(ALIGNED), confidence=0.95)
    assert monotone.verdict == "does not hold"
    assert least.verdict == "does not hold"
    identical, orthogonal = monotone.rows[0], monotone.rows[-2]
    assert orthogonal["bias_squared"] > 2 * identical["bias_squared"]
    assert orthogonal["variance"] + orthogonal["covariance"] < identical["variance"] + identical["covariance"]


def test_with_exchangeable_heads_orthogonal_ones_beat_identical_ones_on_average():
    # Identical heads are one random head; averaging exchangeable ones cannot be worse in the mean (Jensen).
    levels = measure_diversity_levels(replace(SMALL, temperature=0.1, replicates=30))
    assert levels[-2].mse.mean() < levels[0].mse.mean()


def test_identical_heads_are_one_head():
    design = draw_design(SMALL, 0)
    identical = diversity_heads(SMALL, design, 0)["0 degrees"]
    fixed = replace(SMALL, temperature=0.1)
    together, alone = measure(fixed, design, identical), measure(fixed, design, identical[:1])
    assert together.mse.mse == pytest.approx(alone.mse.mse)
    assert together.mse.variance == pytest.approx(alone.mse.variance / 3)
    assert together.neighbours == pytest.approx(alone.neighbours)


def test_the_best_temperature_is_the_best():
    design = draw_design(SMALL, 0)
    heads = diversity_heads(SMALL, design, 0)["90 degrees"]
    found = measure(SMALL, design, heads)
    tried = [measure(replace(SMALL, temperature=2.0**o), design, heads).mse.mse for o in np.arange(-12, 4, 0.25)]
    assert found.mse.mse <= min(tried) * 1.005  # the search stops at a tenth of an octave


def test_weights_that_follow_quality_win_where_one_head_sees_everything():
    findings = check_weighting(ALIGNED, measure_weightings(ALIGNED), confidence=0.95)
    assert {finding.claim.split()[0]: finding.verdict for finding in findings} == {
        "geometric": "holds",
        "fibonacci": "holds",
        "minimum-variance": "holds",
    }
    assert findings[0].note.startswith("the worst head's error is")
    gains = {finding.claim.split()[0]: finding.interval.estimate for finding in findings}
    assert gains["minimum-variance"] < gains["fibonacci"] < gains["geometric"] < 0


def test_at_two_heads_fibonacci_is_uniform_and_nobody_can_tell_them_apart():
    two = replace(SMALL, n_heads=2)
    fibonacci = check_weighting(two, measure_weightings(two), confidence=0.95)[1]
    assert fibonacci.interval.estimate == 0.0
    # An interval of width 0 at 0 lies inside "no larger than uniform": equal is not better, and the claim says so.
    assert fibonacci.verdict == "cannot tell"


def test_the_stated_bandwidth_does_not_hold_at_a_fixed_temperature():
    linear = replace(SMALL, intrinsic_dim=12, embedding="linear", replicates=20)
    finding = check_bandwidth(linear, confidence=0.95)
    # White inputs and orthonormal projections: |kW - k'W|^2 = d_k / D |k - k'|^2 on average, so exactly -1/4.
    assert finding.interval.estimate == pytest.approx(-0.25, abs=4 * finding.interval.standard_error)
    assert finding.verdict == "does not hold"


def test_one_head_has_neither_diversity_nor_weighting():
    report = run_laboratory(replace(SMALL, n_heads=1), theorems=("4.2", "5.1", "7.1"))
    assert set(verdicts(report.findings).values()) == {"cannot tell"}
    assert len(report.findings) == 3


def test_an_optimum_on_the_edge_is_censored():
    # At temperature 1 the widest head has the narrowest kernel, and here none is narrow enough.
    report = run_laboratory(replace(SMALL, temperature=1.0), theorems=("6.1",))
    assert {finding.verdict for finding in report.findings} == {"cannot tell"}
    assert all("censored" in finding.note for finding in report.findings)
    assert all(row["best_head_dim"] == row["d_model"] for finding in report.findings for row in finding.rows)


def test_one_size_is_no_growth():
    report = run_laboratory(replace(SMALL, n_samples=10), theorems=("6.1",))
    assert report.findings[0].verdict == "cannot tell"
    assert "one size" in report.findings[0].note or "censored" in report.findings[0].note


def test_a_report_is_plain_data_and_a_function_of_the_setting():
    first, again = (run_laboratory(SMALL, theorems=("4.2", "7.1")).to_dict() for _ in range(2))
    assert first == again
    assert first["schema"] == "archopt.theory/1"
    assert [finding["theorem"] for finding in first["findings"]] == ["4.2", "7.1", "7.1", "7.1"]


def test_only_what_is_asked_for_is_measured():
    seen = []
    report = run_laboratory(SMALL, theorems=("5.1", "1"), on_start=seen.append)
    assert [finding.theorem for finding in report.findings] == ["1", "5.1"]
    assert seen == ["1", "5.1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"theorems": ("4.1",)}, "theorems must be one of"),
        ({"theorems": ()}, "theorems"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.3}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        run_laboratory(SMALL, **options)


@pytest.mark.parametrize(
    "changes", [{"noise_sd": 0.0}, {"n_samples": 2}, {"d_model": 1, "n_heads": 1}, {"n_queries": 1}]
)
def test_the_smallest_settings_run_through(changes):
    report = run_laboratory(replace(SMALL, replicates=3, **changes), theorems=THEOREMS)
    assert {finding.theorem for finding in report.findings} == set(THEOREMS)
    assert {finding.verdict for finding in report.findings} <= {"holds", "does not hold", "cannot tell"}
