"""Verdicts against SciPy's intervals, a truth table, and the error rate that the confidence promises."""

from math import inf, nan

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from archopt.laboratory.verdict import FAILS, HOLDS, UNDECIDED, Interval, judge, judge_all, mean_interval


def test_the_interval_is_students():
    values = np.random.default_rng(0).normal(3.0, 2.0, 12)
    found = mean_interval(values, confidence=0.9)
    expected = ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.estimate, found.standard_error) == pytest.approx((values.mean(), values.std(ddof=1) / 12**0.5))


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
    assert judge_all([inside, inside], (0.0, 1.0)) == HOLDS
    assert judge_all([inside, across], (0.0, 1.0)) == UNDECIDED
    assert judge_all([inside, across, outside], (0.0, 1.0)) == FAILS


def test_a_true_claim_is_refuted_no_more_often_than_the_confidence_says():
    # The true mean lies on the edge of what is allowed, the worst case: 5 % on either side is refuted or "holds".
    random = np.random.default_rng(1)
    verdicts = [judge(mean_interval(random.normal(0.0, 1.0, 8), confidence=0.9), (-inf, 0.0)) for _ in range(2000)]
    # sd of a share of 5 % over 2,000: 0.5 %
    assert np.mean([verdict == FAILS for verdict in verdicts]) == pytest.approx(0.05, abs=0.02)
    assert np.mean([verdict == HOLDS for verdict in verdicts]) == pytest.approx(0.05, abs=0.02)
