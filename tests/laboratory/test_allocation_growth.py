"""Verdicts on growth from curves whose best width is known, for every claim and every answer."""

from dataclasses import replace
from math import log, log2

import numpy as np
import pytest

from archopt.laboratory import Setting
from archopt.laboratory.allocation_growth import WidthCurve, check_allocation, growth_with_samples, growth_with_width
from archopt.laboratory.verdict import judge
from archopt.laboratory.vertex import best_head_dim

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 96)
LITERAL = Setting(function="additive", intrinsic_dim=2, temperature="literal")  # beta = 2, d = 2: exponent 1/3


def curve(best, n_samples=1000, d_model=96, noise=0.01, replicates=20, seed=0):
    """A parabola in log width with its vertex at ``best``."""
    scatter = np.random.default_rng([seed, n_samples, d_model]).normal(0.0, noise, (replicates, len(WIDTHS)))
    errors = np.exp(0.1 * (np.log2(WIDTHS) - log2(best)) ** 2 + scatter)
    return WidthCurve(n_samples, d_model, WIDTHS, errors, np.ones(len(WIDTHS)), best_head_dim(errors, WIDTHS))


def by_log(exponent, **options):
    sizes = (20, 1000, 10**6, 10**12)
    return [curve(3.0 * (log(n) / log(20)) ** exponent, n, **options) for n in sizes]


@pytest.mark.parametrize(
    ("exponent", "noise", "verdict"),
    [
        (1 / 3, 0.002, "holds"),
        (1.2, 0.002, "does not hold"),
        (0.0, 0.002, "does not hold"),
        (1 / 3, 0.3, "cannot tell"),
    ],
)
def test_growth_with_log_n_is_judged_by_its_exponent(exponent, noise, verdict):
    finding = growth_with_samples(LITERAL, by_log(exponent, noise=noise), "log", confidence=0.95)
    assert finding.verdict == verdict == judge(finding.interval, finding.allowed)
    if noise < 0.01:
        assert finding.interval.estimate == pytest.approx(exponent, abs=4 * finding.interval.standard_error + 1e-3)
    assert finding.allowed == pytest.approx((1 / 6, 1 / 2))
    assert finding.origin == "Stated"


def test_a_power_law_is_no_log_law():
    curves = [curve(2.0 * (n / 100) ** (1 / 3), n, noise=0.002) for n in (100, 1000, 10_000)]
    power, logarithm = (growth_with_samples(LITERAL, curves, law, confidence=0.95) for law in ("power", "log"))
    assert (power.verdict, power.origin) == ("holds", "Ours")
    assert power.interval.estimate == pytest.approx(1 / 3, abs=0.02)
    assert logarithm.verdict == "does not hold"


def test_no_growth_never_holds_however_small_the_exponent():
    many = Setting(function="additive", intrinsic_dim=20, temperature="literal")  # exponent 1/12
    finding = growth_with_samples(many, by_log(0.0, noise=0.0005), "log", confidence=0.95)
    assert finding.verdict == "does not hold"


@pytest.mark.parametrize(
    ("narrow", "wide", "exponent", "verdict"),
    [(6.0, 6.0, 1.0, "holds"), (6.0, 6.5, 1 - log2(6.5 / 6), "holds"), (4.0, 8.0, 0.0, "does not hold"),
     (8.0, 5.0, 1 + log2(8 / 5), "does not hold")],
)  # fmt: skip
def test_heads_against_width(narrow, wide, exponent, verdict):
    curves = curve(narrow, d_model=48, noise=0.001), curve(wide, d_model=96, noise=0.001)
    finding = growth_with_width(LITERAL, *curves, confidence=0.95)  # allowed: 0.75 - 0.1 to 1.1
    assert finding.interval.estimate == pytest.approx(exponent, abs=0.02)
    assert finding.verdict == verdict == judge(finding.interval, finding.allowed)


def test_a_censored_optimum_has_no_exponent():
    curves = [curve(200.0, n) for n in (100, 1000)]
    finding = growth_with_samples(LITERAL, curves, "log", confidence=0.95)
    assert finding.verdict == "cannot tell"
    assert "edge of what D allows at n = 100, D = 96, n = 1,000" in finding.note
    assert "nan" not in finding.measured
    assert finding.interval.estimate != finding.interval.estimate  # NaN: there is none


def test_few_replicates_are_not_enough():
    finding = growth_with_samples(LITERAL, by_log(1 / 3, noise=0.002, replicates=5), "log", confidence=0.95)
    assert finding.verdict == "cannot tell"
    assert "at least 10 replicates but there are 5" in finding.note


def test_the_interval_covers_the_exponent_at_about_its_rate():
    inside = []
    for seed in range(60):
        interval = growth_with_samples(
            LITERAL, by_log(1 / 3, noise=0.02, replicates=12, seed=seed), "log", confidence=0.9
        ).interval
        inside.append(interval.low <= 1 / 3 <= interval.high)
    assert sum(inside) >= 47  # 54 expected at least (the interval also allows for the curve's shape), sd 2.3


def test_rough_functions_and_other_bandwidths_are_ours():
    rough = Setting(function="rough", intrinsic_dim=2, temperature="literal")
    best = Setting(function="additive", intrinsic_dim=2)
    for setting, said in ((rough, "1/sqrt(d_k)"), (best, "at the best temperature")):
        finding = growth_with_samples(setting, by_log(0.3), "log", confidence=0.95)
        assert finding.origin == "Ours"
        assert said in finding.claim
    assert growth_with_samples(rough, by_log(0.3), "log", confidence=0.95).allowed == pytest.approx((0.25, 0.75))


def test_the_literal_bandwidth_has_an_optimum_between_the_edges_and_the_best_temperature_is_looked_at_too():
    setting = Setting(
        function="additive", intrinsic_dim=2, d_model=12, n_heads=3, n_samples=160, n_queries=20, replicates=10
    )
    findings = check_allocation(setting, confidence=0.95)
    assert [finding.claim.rsplit(", ", 1)[1] for finding in findings] == (
        ["with bandwidth 1/sqrt(d_k)"] * 3 + ["at the best temperature"] * 3
    )
    assert [row["n_samples"] for row in findings[0].rows] == [10, 40, 160]
    assert all(1.0 < row["best_head_dim"] < 12.0 for row in findings[0].rows[1:])


@pytest.mark.parametrize(("n_samples", "looked_at"), [(2, 2), (39, 39)])
def test_one_size_shows_no_growth_with_n_but_the_width_is_looked_at(n_samples, looked_at):
    setting = Setting(function="additive", intrinsic_dim=2, d_model=12, n_heads=3, n_samples=n_samples, replicates=10)
    findings = check_allocation(setting, confidence=0.95)
    assert len(findings) == 6
    for finding in (*findings[:2], *findings[3:5]):
        assert finding.verdict == "cannot tell"
        assert finding.measured.startswith(f"n_samples = {n_samples} is one size: with at least 40")
    assert [row["n_samples"] for row in findings[2].rows] == [looked_at] * 2


def test_what_counts_as_nearly_linear_follows_the_smoothness():
    # (6.4) at rho = 0: H ~ D^((2 beta + d) / (2 beta + d + 2))
    curves = curve(6.0, d_model=48), curve(6.0, d_model=96)
    for function, d, low in (("additive", 2, 6 / 8), ("rough", 1, 3 / 5)):
        setting = Setting(function=function, intrinsic_dim=d, temperature="literal")
        finding = growth_with_width(setting, *curves, confidence=0.95)
        assert finding.allowed == pytest.approx((low - 0.1, 1.1))
        assert finding.origin == ("Stated" if function == "additive" else "Ours")


def test_the_exponential_kernel_has_no_literal_bandwidth():
    setting = Setting(
        function="additive", intrinsic_dim=2, d_model=4, n_heads=2, n_samples=40, replicates=10, n_queries=5
    )
    claims = [f.claim for f in check_allocation(replace(setting, kernel="exponential"), confidence=0.95)]
    assert len(claims) == 3
    assert all(claim.endswith("at the best temperature") for claim in claims)
