"""A recommendation for a size: theory, law, both."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from archopt import ScalingLaw, fit_scaling_law, recommend_size
from archopt.errors import AllocationError, OptionError
from archopt.theory import family_default, optimal_allocation


@pytest.fixture(scope="module")
def law(campaign) -> ScalingLaw:
    return fit_scaling_law(campaign(lambda n, width: 3.5 + 0.2 * np.log2(n / 1e3)), plan=False)


def test_the_theory_alone_is_the_closed_form_with_its_wide_prior() -> None:
    found = recommend_size(512, 1e9, family="text")
    default = family_default("text")
    asked = optimal_allocation(512, 1e9, default.intrinsic_dim, constant=default.constant).head_dim
    assert found.head_dim == pytest.approx(asked)
    reach = 1.6449 * default.sd_octaves
    assert math.log2(found.interval[1]) == pytest.approx(min(math.log2(asked) + reach, 9.0), abs=1e-3)
    assert "the theory has no constant: 44.7 comes from published practice" in found.caveats[0]
    assert "factor of 2.8 either way" in found.caveats[0]
    assert [source.name for source in found.sources] == ["theory"]


def test_both_are_weighed_by_their_precision(law: ScalingLaw) -> None:
    theory = recommend_size(96, 3e4, law=law, basis="theory", family="table").sources[0]
    alone = recommend_size(96, 3e4, law=law, basis="law").sources[0]
    both = recommend_size(96, 3e4, law=law, family="table")
    weights = np.array([theory.sd, alone.sd]) ** -2.0
    mean = weights @ [theory.log2_head_dim, alone.log2_head_dim] / weights.sum()
    assert math.log2(both.head_dim) == pytest.approx(mean)
    assert math.log2(both.interval[1] / both.interval[0]) == pytest.approx(
        2 * 1.64485 * weights.sum() ** -0.5, rel=1e-4
    )
    assert [source.name for source in both.sources] == ["theory", "law"]


def test_probabilities_are_those_of_the_normal_between_midpoints() -> None:
    found = recommend_size(8, 1e4, family="table", confidence=0.999)
    source = found.sources[0]
    normal = NormalDist(source.log2_head_dim, source.sd)
    shares = {split.head_dim: share for split, share in found.allocations}
    assert sum(shares.values()) == pytest.approx(1.0, abs=2e-3)
    assert shares[4] == pytest.approx(normal.cdf(2.5) - normal.cdf(1.5))
    assert shares[8] == pytest.approx(1.0 - normal.cdf(2.5))
    assert found.probability == max(shares.values())


def test_a_neighbour_that_fits_kernels_is_named(law: ScalingLaw) -> None:
    found = recommend_size(60, 1e3, law=law)
    assert found.allocation.head_dim % 8 != 0
    assert found.kernel_friendly is None  # no divisor of 60 is a multiple of 8
    other = recommend_size(240, 1e3, law=law)
    assert other.kernel_friendly is not None
    assert other.kernel_friendly[0].head_dim in (8, 16)
    assert other.kernel_friendly[1] <= other.probability
    aligned = recommend_size(240, 1e3, law=law, head_dim_multiple_of=8)
    assert aligned.kernel_friendly == (aligned.allocation, aligned.probability)
    wide = recommend_size(8192, 1e9, constant=2_000.0)
    assert wide.allocation.head_dim > 256
    assert wide.kernel_friendly is not None
    assert wide.kernel_friendly[0].head_dim == 256


def test_theory_and_law_that_disagree_are_said(law: ScalingLaw) -> None:
    found = recommend_size(4096, 1e3, law=law, constant=1_500.0)
    assert any("theory and law disagree by" in caveat for caveat in found.caveats)


def test_what_the_law_warns_of_is_passed_on(law: ScalingLaw) -> None:
    assert any("extrapolated far" in caveat for caveat in recommend_size(96, 1e9, law=law).caveats)


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"basis": "law"}, OptionError, "needs a law"),
        ({"basis": "guess"}, OptionError, "basis must be"),
        ({"family": "image"}, OptionError, "family must be"),
        ({"confidence": 0.0}, OptionError, "confidence must lie"),
        ({"n_samples": 1.0}, OptionError, "n_samples must be"),
        ({"d_model": -8}, AllocationError, "-8"),
        ({"head_dim_multiple_of": 7}, AllocationError, "7"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        recommend_size(**{"d_model": 96, "n_samples": 1e6, **arguments})


def test_it_is_json_able(law: ScalingLaw) -> None:
    import json

    written = json.loads(json.dumps(recommend_size(240, 1e6, law=law).to_dict()))
    assert written["schema"] == "archopt.size_recommendation/1"
    assert set(written["allocation"]) == {"n_heads", "head_dim"}
    assert written["allocations"][0]["probability"] == written["probability"]
