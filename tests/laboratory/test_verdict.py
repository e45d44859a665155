"""Verdicts against SciPy's intervals, a truth table, and the error rate that the confidence promises."""

from math import inf, nan

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from archopt.laboratory.verdict import (
    FAILS,
    HOLDS,
    UNDECIDED,
    Interval,
    deciding,
    judge,
    mean_interval,
    nothing_to_measure,
    relative_change,
    signed_percent,
)


def test_the_interval_is_students():
    values = np.random.default_rng(0).normal(3.0, 2.0, 12)
    found = mean_interval(values, confidence=0.9)
    expected = ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.estimate, found.standard_error) == pytest.approx((values.mean(), values.std(ddof=1) / 12**0.5))


def test_a_relative_change_is_the_geometric_mean_of_the_ratios():
    start = np.array([1.0, 2.0, 10.0])
    found = relative_change(start, start * [0.5, 1.0, 2.0], confidence=0.9)
    assert found.estimate == pytest.approx(0.0, abs=1e-12)
    halved = relative_change(start, start / 2, confidence=0.9)
    assert (halved.estimate, halved.low, halved.high) == pytest.approx((-0.5, -0.5, -0.5))
    tiny = relative_change(start, start * [1e-6, 1e-3, 1e-9], confidence=0.99)
    assert -1.0 <= tiny.low < tiny.high
    hopeless = relative_change(start, start * [1.0, 1e3, 1e-3], confidence=1 - 1e-9)
    assert (hopeless.low, hopeless.high) == (-1.0, np.inf)
    assert judge(hopeless, (-np.inf, 0.01)) == UNDECIDED


def test_no_change_has_no_minus():
    assert [signed_percent(value) for value in (-1e-9, 0.0, 0.0123, -0.5)] == ["+0.0%", "+0.0%", "+1.2%", "-50.0%"]


def test_a_relative_change_covers_with_a_noisy_start():
    random, inside = np.random.default_rng(2), 0
    for _ in range(400):
        level = random.normal(0.0, 0.5, 8)
        found = relative_change(np.exp(level), np.exp(level + random.normal(0.3, 0.4, 8)), confidence=0.9)
        inside += found.low <= np.exp(0.3) - 1 <= found.high
    assert inside / 400 == pytest.approx(0.9, abs=0.05)  # sd 1.5 %


def test_several_comparisons_widen_it():
    values = np.random.default_rng(0).normal(size=12)
    joint, expected = mean_interval(values, confidence=0.9, comparisons=5), mean_interval(values, confidence=0.98)
    assert (joint.low, joint.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.1, 0.9, HOLDS), (0.0, 1.0, HOLDS), (1.1, 2.0, FAILS), (-2.0, -0.1, FAILS), (0.5, 1.5, UNDECIDED),
     (-1.0, 2.0, UNDECIDED), (nan, nan, UNDECIDED), (-inf, 0.5, UNDECIDED)],
)  # fmt: skip
def test_the_whole_interval_decides(low, high, verdict):
    assert judge(Interval((low + high) / 2, 0.1, low, high), (0.0, 1.0)) == verdict


def test_a_claim_about_all_fails_with_one_and_holds_with_all():
    inside, outside, across = (Interval(0.0, 0.0, *ends) for ends in ((0.2, 0.3), (2.0, 3.0), (0.5, 1.5)))
    further = Interval(0.0, 0.0, 4.0, 9.0)
    for intervals, decides, verdict in (
        ([inside, inside], 0, HOLDS),
        ([inside, across], 1, UNDECIDED),
        ([inside, across, outside], 2, FAILS),
        ([outside, further, across], 1, FAILS),
        (
            [Interval(0.0, 0.0, -5.0, 0.5), outside],
            1,
            FAILS,
        ),  # one reaches further, but only the other is wholly outside
    ):
        assert deciding(intervals, (0.0, 1.0)) == decides
        assert judge(intervals[decides], (0.0, 1.0)) == verdict


def test_a_claim_about_nothing_cannot_be_told():
    finding = nothing_to_measure("4.2", "Stated", "a claim", "one head has no pairs")
    assert (finding.verdict, finding.measured) == (UNDECIDED, "one head has no pairs")
    assert judge(finding.interval, finding.allowed) == UNDECIDED


def test_a_true_claim_is_refuted_no_more_often_than_the_confidence_says():
    # The true mean lies on the edge of what is allowed, the worst case: 5 % on either side is refuted or "holds".
    random = np.random.default_rng(1)
    verdicts = [judge(mean_interval(random.normal(0.0, 1.0, 8), confidence=0.9), (-inf, 0.0)) for _ in range(2000)]
    # sd of a share of 5 % over 2,000: 0.5 %
    assert np.mean([verdict == FAILS for verdict in verdicts]) == pytest.approx(0.05, abs=0.02)
    assert np.mean([verdict == HOLDS for verdict in verdicts]) == pytest.approx(0.05, abs=0.02)
