"""Verdicts in settings where the answer is known: a theorem that holds, one that does not, one that nobody can tell."""

from dataclasses import replace

import numpy as np
import pytest

from archopt.errors import OptionError
from archopt.laboratory import THEOREMS, Setting, run_laboratory
from archopt.laboratory.decomposition import check_decomposition
from archopt.laboratory.design import draw_design, noise_draws
from archopt.laboratory.diversity_effect import check_diversity, diversity_heads, measure_diversity_levels
from archopt.laboratory.measurement import measure
from archopt.laboratory.verdict import judge

SMALL = Setting(function="additive", intrinsic_dim=2, d_model=12, n_heads=3, n_samples=120, n_queries=40, replicates=8)
# Inputs that fill 2 of 12 directions, heads cut along them: the first head sees everything, the others nothing.
ALIGNED = replace(SMALL, embedding="linear", axes="aligned")


def verdicts(findings):
    return {(finding.theorem, finding.origin): finding.verdict for finding in findings}


@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
def test_the_decomposition_holds_for_linear_smoothers(kernel):
    finding = check_decomposition(replace(SMALL, kernel=kernel, temperature=0.3), confidence=0.95, draws=20_000)
    assert finding.verdict == "holds"
    assert [row["term"] for row in finding.rows] == ["bias^2", "variance", "covariance", "MSE"]
    for row in finding.rows:
        assert abs(row["difference"]) < 4 * row["difference_se"]


def test_a_term_that_is_wrong_does_not_hold_however_small_it_is(monkeypatch):
    # Noise that the two halves of the rows share: the exact terms assume independence, and the truth is another.
    def shared(setting, replicate, n_samples, draws):
        half = noise_draws(setting, replicate, n_samples // 2, draws)
        return np.concatenate([half, half], axis=1)

    monkeypatch.setattr("archopt.laboratory.decomposition.noise_draws", shared)
    finding = check_decomposition(replace(ALIGNED, temperature=0.1), confidence=0.95)
    rows = {row["term"]: row for row in finding.rows}
    assert rows["covariance"]["exact"] < 0.05 * rows["MSE"]["exact"]
    assert finding.verdict == "does not hold"


def test_without_noise_and_with_one_head_only_what_is_there_is_compared():
    for changes, terms in (
        ({"noise_sd": 0.0}, ["bias^2", "MSE"]),
        ({"noise_sd": 1e-16}, ["bias^2", "MSE"]),
        ({"n_heads": 1}, ["bias^2", "variance", "MSE"]),
    ):
        finding = check_decomposition(replace(SMALL, temperature=0.3, **changes), confidence=0.95)
        assert [row["term"] for row in finding.rows] == terms
        assert finding.verdict == "holds"


def test_a_true_decomposition_is_refuted_no_more_often_than_the_confidence_says():
    refuted = [
        check_decomposition(replace(SMALL, temperature=0.3, seed=seed), confidence=0.9, draws=20).verdict
        == "does not hold"
        for seed in range(40)
    ]
    assert sum(refuted) <= 8  # 4 expected at most (a margin protects too), standard deviation 1.9


def test_too_few_draws_cannot_tell_the_decomposition():
    finding = check_decomposition(replace(SMALL, noise_sd=2.0, temperature=0.05), confidence=0.95, draws=10)
    assert finding.verdict == "cannot tell"


def test_diversity_does_not_help_where_the_other_heads_see_nothing():
    # Turning heads off the only directions that carry inputs leaves them the mean of y: bias rises by construction.
    monotone, least = check_diversity(ALIGNED, measure_diversity_levels(ALIGNED), confidence=0.95)
    assert monotone.verdict == "does not hold"
    assert least.verdict == "does not hold"
    for finding in (monotone, least):
        assert finding.verdict == judge(finding.interval, finding.allowed)
    levels = {row["heads"]: row for row in monotone.rows if "heads" in row}
    identical, orthogonal = levels["0 degrees"], levels["90 degrees"]
    assert orthogonal["bias_squared"] > 2 * identical["bias_squared"]
    assert orthogonal["variance"] + orthogonal["covariance"] < identical["variance"] + identical["covariance"]


def test_diversity_helps_where_the_error_is_noise():
    # Hardly any smoothing and much noise: what is left is variance, which independent averages bring down.
    setting = Setting(n_heads=12, n_samples=30, n_queries=20, replicates=250, temperature=0.02, noise_sd=3.0)
    monotone, least = check_diversity(setting, measure_diversity_levels(setting), confidence=0.95)
    for finding in (monotone, least):
        assert finding.verdict == "holds"
        assert finding.verdict == judge(finding.interval, finding.allowed)
    steps = [row for row in monotone.rows if "from" in row]
    assert [step["from"] for step in steps] == ["0 degrees", "30 degrees", "45 degrees", "60 degrees", "75 degrees"]
    assert all(step["high"] <= 0.01 for step in steps)


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


def test_one_head_has_neither_diversity_nor_weighting():
    report = run_laboratory(replace(SMALL, n_heads=1), theorems=("4.2", "5.1", "7.1"))
    assert set(verdicts(report.findings).values()) == {"cannot tell"}
    assert [finding.theorem for finding in report.findings] == ["4.2", "5.1", "7.1", "7.1", "7.1"]


def test_a_report_is_plain_data_and_a_function_of_the_setting():
    first, again = (run_laboratory(SMALL, theorems=("4.2", "7.1")).to_dict() for _ in range(2))
    assert first == again
    assert first["schema"] == "archopt.theory/1"
    assert [finding["theorem"] for finding in first["findings"]] == ["4.2", "7.1", "7.1", "7.1"]


def test_only_what_is_asked_for_is_measured():
    seen = []
    report = run_laboratory(SMALL, theorems=("5.1", "3.1"), on_start=seen.append)
    assert [finding.theorem for finding in report.findings] == ["3.1", "5.1"]
    assert seen == ["3.1", "5.1"]


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
