"""Readings of a rung: against independent regressions, for calibration, and for rungs that say nothing."""

import numpy as np
import pytest

from archopt.learning_curve import RungModel

WIDTH = np.zeros(400)


def _runs(rng: np.random.Generator, n: int, slope: float, noise: float) -> tuple[np.ndarray, np.ndarray]:
    final = 2.0 + 0.3 * rng.normal(size=n)
    return (1.0 + slope * final + noise * rng.normal(size=n))[:, None], final


def test_of_many_runs_it_is_the_inverse_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    shown, final = _runs(rng, 400, 0.8, 0.1)
    found = RungModel(shown, final, WIDTH).read(np.array([2.9]), 0.0)
    slope, intercept = np.polyfit(final, shown[:, 0], 1)
    assert found is not None
    # the priors weigh as much as a handful of the 400 runs
    assert found.value == pytest.approx((2.9 - intercept) / slope, abs=0.02)
    assert np.sqrt(found.variance) == pytest.approx(0.1 / 0.8, rel=0.15)


def test_readings_are_calibrated_whether_the_finished_were_good_or_any() -> None:
    rng = np.random.default_rng(1)
    for only_good in (False, True):
        errors = []
        for _ in range(200):
            shown, final = _runs(rng, 60, 0.8, 0.1)
            keep = np.argsort(final)[: 30 if only_good else 60]
            now, end = _runs(rng, 1, 0.8, 0.1)
            found = RungModel(shown[keep], final[keep], WIDTH[keep]).read(now[0], 0.0)
            assert found is not None
            errors.append((found.value - end[0]) / np.sqrt(found.variance))
        # 200 standardised errors; the weak priors widen
        assert abs(np.mean(errors)) < 0.35
        assert 0.6 < np.std(errors) < 1.2


def test_a_rung_that_says_nothing_gives_a_reading_without_weight() -> None:
    rng = np.random.default_rng(2)
    shown, final = rng.normal(size=(100, 1)), 2.0 + 0.3 * rng.normal(size=100)
    model = RungModel(shown, final, WIDTH[:100])
    found = model.read(np.array([-2.0]), 0.0)
    expected, variance = model.expect(found)
    assert found is None or found.variance > 4 * final.var()
    assert expected == pytest.approx(final.mean(), abs=final.std())
    assert variance < 1.2 * final.var()


def test_a_second_sensor_is_used_where_it_tells_more_and_missing_ones_do_no_harm() -> None:
    rng = np.random.default_rng(3)
    shown, final = _runs(rng, 200, 0.8, 0.3)
    other = final + 0.05 * rng.normal(size=200)
    sensors = np.column_stack([shown[:, 0], other])
    sensors[::3, 1] = np.nan
    model = RungModel(sensors, final, WIDTH[:200])
    both, alone = model.read(np.array([2.6, 2.3]), 0.0), model.read(np.array([2.6, np.nan]), 0.0)
    assert both is not None
    assert alone is not None
    # the prior of a diversity sensor's slope is narrow: of 133 runs a seventh of a slope of 1 is still held back
    assert both.value == pytest.approx(2.3, abs=0.08)
    assert both.variance < 0.2 * alone.variance
    plain = RungModel(shown, final, WIDTH[:200]).read(np.array([2.6]), 0.0)
    assert plain is not None
    assert alone.value == pytest.approx(plain.value)


def test_far_from_the_finished_widths_a_reading_says_less() -> None:
    rng = np.random.default_rng(4)
    shown, final = _runs(rng, 40, 0.8, 0.1)
    width = rng.integers(2, 5, 40).astype(float)
    model = RungModel(shown, final, width)
    near, far = model.read(np.array([2.6]), 3.0), model.read(np.array([2.6]), 0.0)
    assert near is not None
    assert far is not None
    assert far.variance > 4 * near.variance


def test_constant_columns_and_values_do_no_harm() -> None:
    model = RungModel(np.ones((6, 2)), np.full(6, 0.5), np.ones(6))
    expected, variance = model.expect(model.read(np.ones(2), 1.0))
    assert expected == pytest.approx(0.5)
    assert np.isfinite(variance)
