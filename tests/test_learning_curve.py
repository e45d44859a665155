"""Final values predicted from curves: against scikit-learn's independent ridge, and for calibration."""

import numpy as np
import pytest
from scipy.stats import kstest
from scipy.stats import t as student_t

from archopt.learning_curve import PRIOR_VARIANCE, FinalValue, FinalValueModel


def predict_final(
    curve: np.ndarray,
    final: np.ndarray,
    now: np.ndarray,
    *,
    diversity: np.ndarray | None = None,
    diversity_now: np.ndarray | None = None,
    log_scale: bool = False,
) -> FinalValue:
    return FinalValueModel(curve, final, diversity=diversity, log_scale=log_scale).predict(now, diversity_now)


def _curves(rng: np.random.Generator, n: int, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    features = rng.normal(size=(n, 3))
    return features, features @ np.array([0.8, -0.3, 0.1]) + 2.0 + noise * rng.normal(size=n)


def test_mean_is_the_ridge_estimate() -> None:
    rng = np.random.default_rng(0)
    features, final = _curves(rng, 20)
    now = rng.normal(size=3)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    outcome = (final - final.mean()) / final.std()
    # independent: the normal equations of ridge with penalty 1 / prior variance, intercept free (columns are centred)
    coefficients = np.linalg.lstsq(
        np.vstack([scaled, np.eye(3) / np.sqrt(PRIOR_VARIANCE)]), np.concatenate([outcome, np.zeros(3)]), rcond=None
    )[0]
    expected = final.mean() + final.std() * (((now - features.mean(axis=0)) / features.std(axis=0)) @ coefficients)
    assert predict_final(features, final, now).location == pytest.approx(expected, rel=1e-5)


def test_predictions_are_calibrated() -> None:
    rng = np.random.default_rng(1)
    ranks = []
    for _ in range(300):
        features, final = _curves(rng, 21)
        found = predict_final(features[:20], final[:20], features[20])
        ranks.append(student_t.cdf((final[20] - found.location) / found.scale, found.degrees))
    # 300 ranks uniform under calibration; the weak prior on the residual widens a little, hence not a 5 % test
    assert kstest(ranks, "uniform").pvalue > 0.001


def test_diversity_is_used_where_it_predicts_and_not_where_it_is_noise() -> None:
    rng = np.random.default_rng(2)
    used_signal, used_noise = 0, 0
    for _ in range(40):
        features, final = _curves(rng, 30, noise=0.3)
        signal = rng.normal(size=(30, 2))
        found = predict_final(
            features, final + 0.6 * signal[:, 0], features[0], diversity=signal, diversity_now=signal[0]
        )
        used_signal += found.used_diversity
        noise = predict_final(features, final, features[0], diversity=signal, diversity_now=signal[0])
        used_noise += noise.used_diversity
    assert used_signal == 40
    assert used_noise <= 10  # leave-one-out favours a useless pair of columns by 2 % in about one case of eight


def test_one_head_has_no_diversity_and_is_judged_by_its_curve() -> None:
    rng = np.random.default_rng(3)
    features, final = _curves(rng, 30)
    missing = np.full((30, 2), np.nan)
    plain = predict_final(features, final, features[0])
    assert predict_final(features, final, features[0], diversity=missing, diversity_now=missing[0]) == plain
    some = rng.normal(size=(30, 2))
    some[::3] = np.nan
    found = predict_final(features, final, features[0], diversity=some, diversity_now=np.array([np.nan, np.nan]))
    assert np.isfinite([found.location, found.scale]).all()


def test_probability_below_is_monotone_and_symmetric() -> None:
    rng = np.random.default_rng(4)
    found = predict_final(*_curves(rng, 12), np.zeros(3))
    assert found.probability_below(found.median) == pytest.approx(0.5)
    low, high = found.location - found.scale, found.location + found.scale
    assert found.probability_below(low) + found.probability_below(high) == pytest.approx(1.0)
    assert found.sd > found.scale  # Student t is wider than its scale


def test_logarithms_give_the_same_chances_and_units_of_the_objective() -> None:
    rng = np.random.default_rng(5)
    features, final = _curves(rng, 12)
    plain = predict_final(features, final, features[0])
    log = predict_final(features, final, features[0], log_scale=True)
    assert log.median == pytest.approx(np.exp(plain.median))
    assert log.probability_below(np.exp(1.7)) == pytest.approx(plain.probability_below(1.7))
    assert log.sd == pytest.approx(log.median * plain.sd)
    assert log.probability_below(0.0) == log.probability_below(-1.0) == 0.0


def test_constant_columns_and_values_do_no_harm() -> None:
    found = predict_final(np.ones((6, 3)), np.full(6, 0.5), np.ones(3))
    assert found.location == pytest.approx(0.5)
    assert np.isfinite(found.scale)
