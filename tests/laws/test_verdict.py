"""What a verdict says of intervals."""

from dataclasses import replace

import numpy as np
import pytest

from archopt.laws.families import Basis
from archopt.laws.law import ScalingLaw
from archopt.laws.records import CellSummary, LawFit
from archopt.laws.verdict import heads_exponent


def cell(n: float, width: int) -> CellSummary:
    return CellSummary(
        n_samples=n,
        d_model=width,
        group={},
        head_dim=8.0,
        low=6.0,
        high=10.0,
        censored="",
        best_tried=8,
        tied=(8,),
        tried=(1, width),
    )


def fit(name: str, parameters: dict[str, tuple[float, float, float]], *, rejected: bool = False) -> LawFit:
    values = list(parameters.values())
    return LawFit(
        name=name,
        parameters=tuple(parameters),
        estimate=tuple(value for value, _, _ in values),
        low=tuple(low for _, low, _ in values),
        high=tuple(high for _, _, high in values),
        bootstrap=None,
        scatter=0.3,
        log_likelihood=-1.0,
        aicc=2.0,
        delta=9.0 if rejected else 0.0,
        weight=0.5,
        rejected=rejected,
        largest_n_error=None,
        draws=np.zeros((1, len(values) + 1)),
    )


def law_of(growth, width, *, theorem_rejected: bool = True) -> ScalingLaw:
    fits = (
        fit("log", {"log2_head_dim": (3.0, 2.9, 3.1), "exponent_log_n": growth}),
        fit("power_width", {"log2_head_dim": (3, 2.9, 3.1), "exponent_n": (0, 0, 0), "exponent_d_model": width}),
        fit("log_theory", {"log2_head_dim": (3.0, 2.9, 3.1)}, rejected=theorem_rejected),
    )
    return ScalingLaw(
        fits=fits,
        not_fitted={},
        cells=tuple(cell(n, width) for n in (1e3, 1e4) for width in (48, 96)),
        basis=Basis(3e3, 68.0, 8.0, 2.0),
        intrinsic_dim_range=(4.0, 16.0),
        notes=(),
        plan=(),
        confidence=0.9,
    )


@pytest.mark.parametrize(
    ("growth", "rejected", "told"),
    [
        ((0.2, 0.15, 0.24), False, "within the theory's 0.10 to 0.25 (d from 4 to 16): the data agree"),
        ((0.6, 0.4, 0.8), True, "the data disagree with the theorem"),
        ((0.6, 0.4, 0.8), False, "the data lean against it, and cannot tell"),
        ((-0.6, -0.8, -0.4), True, "the data disagree with the theorem"),
        ((0.2, 0.15, 0.24), True, "as a law of its own the theorem's is rejected (AICc + 9.0)"),
        ((0.3, 0.2, 0.5), False, "is not rejected, but the interval is too wide to confirm it"),
        ((0.3, -0.2, 0.5), False, "No growth at all is not ruled out either"),
    ],
)
def test_growth_with_n(growth, rejected: bool, told: str) -> None:
    assert told in law_of(growth, (0.0, -0.1, 0.1), theorem_rejected=rejected).verdict()


@pytest.mark.parametrize(
    ("width", "told"),
    [
        ((0.0, -0.05, 0.1), "nearly linear, as the theorem has it"),
        ((0.6, 0.5, 0.7), "not nearly linear (0.76 to 1.10), against the theorem"),
        ((0.3, -0.1, 0.7), "cannot tell whether it is nearly linear; linear is not rejected"),
        ((0.3, 0.1, 0.7), "cannot tell whether it is nearly linear; exactly linear is rejected"),
    ],
)
def test_heads_against_width(width, told: str) -> None:
    law = law_of((0.2, 0.1, 0.3), width)
    assert told in law.verdict()
    assert heads_exponent(law) == pytest.approx((1 - width[0], 1 - width[2], 1 - width[1]))


def test_one_intrinsic_dimension_gives_half_either_way() -> None:
    law = replace(law_of((0.16, 0.1, 0.22), (0.0, -0.1, 0.1), theorem_rejected=False), intrinsic_dim_range=(8.0, 8.0))
    assert "within the theory's 0.08 to 0.25 (d = 8, give or take half): the data agree" in law.verdict()


def test_sizes_that_move_together_are_said() -> None:
    law = law_of((0.2, 0.1, 0.3), (0.0, -0.1, 0.1))
    assert "move together" not in law.verdict()
    tied = replace(law, cells=tuple(cell(100.0 * width, width) for width in (24, 48, 96)))
    assert "n and D move together between these cells (correlation 1.00)" in tied.verdict()


def test_what_is_left_and_what_is_rejected() -> None:
    law = law_of((0.6, 0.4, 0.8), (0.0, -0.1, 0.1))
    assert "Laws that these data do not tell apart: log (" in law.verdict()
    assert "Rejected: log_theory (" in law.verdict()
    assert law.winner is None
    alone = replace(law, fits=(law.fits[0], law.fits[2]))
    assert alone.winner == "log"
    assert "One law is left: log (" in alone.verdict()
