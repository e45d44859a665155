"""A recommendation for a size that nobody tried: the theory, a fitted law, or both."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from archopt.allocation import HeadAllocation, feasible_allocations
from archopt.errors import OptionError
from archopt.laws.law import ScalingLaw
from archopt.theory.checks import choice, finite_number
from archopt.theory.scaling import family_default, optimal_allocation

BASES = ("theory", "law", "both")
KERNEL_MULTIPLE, KERNEL_WIDEST = 8, 256  # what fused attention kernels take at full speed
DISAGREE = 2.0  # standard deviations between theory and law from which it is said
SCHEMA = "archopt.size_recommendation/1"


@dataclass(frozen=True)
class Source:
    """What one source expects: normal in log2 head_dim.

    Attributes:
        name: "theory" or "law".
        log2_head_dim, sd: octaves; not kept within D.
        reason: what it rests on.
    """

    name: str
    log2_head_dim: float
    sd: float
    reason: str


@dataclass(frozen=True)
class SizeRecommendation:
    """The allocation for a size, and how sure that is.

    Attributes:
        allocation: the likeliest split.
        probability: that no split of D is nearer to the best head_dim.
        head_dim, interval: median and central interval of the best head_dim, within [1, D].
        allocations: splits that together hold the best one with probability ``confidence``, likeliest first, each with
            its probability.
        kernel_friendly: the likeliest split with a head_dim that is a multiple of 8, at most 256, and its probability;
            None where D has no such split.
        sources: what was combined.
        reason, caveats: in plain words.
    """

    d_model: int
    n_samples: float
    allocation: HeadAllocation
    probability: float
    head_dim: float
    interval: tuple[float, float]
    confidence: float
    allocations: tuple[tuple[HeadAllocation, float], ...]
    kernel_friendly: tuple[HeadAllocation, float] | None
    sources: tuple[Source, ...]
    reason: str
    caveats: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; schema "archopt.size_recommendation/1"."""
        return {
            "schema": SCHEMA,
            "allocation": _split(self.allocation),
            "probability": self.probability,
            "d_model": self.d_model,
            "n_samples": self.n_samples,
            "head_dim": self.head_dim,
            "interval": list(self.interval),
            "confidence": self.confidence,
            "allocations": [{**_split(split), "probability": share} for split, share in self.allocations],
            "kernel_friendly": (
                None
                if self.kernel_friendly is None
                else {**_split(self.kernel_friendly[0]), "probability": self.kernel_friendly[1]}
            ),
            "sources": [
                {"name": each.name, "head_dim": 2.0**each.log2_head_dim, "sd_octaves": each.sd, "reason": each.reason}
                for each in self.sources
            ],
            "reason": self.reason,
            "caveats": list(self.caveats),
        }


def recommend_size(
    d_model: int,
    n_samples: float,
    *,
    law: ScalingLaw | None = None,
    basis: str | None = None,
    family: str = "text",
    intrinsic_dim: float | None = None,
    smoothness: float = 2.0,
    constant: float | None = None,
    head_dim_multiple_of: int = 1,
    n_heads_multiple_of: int = 1,
    confidence: float = 0.9,
) -> SizeRecommendation:
    """How to split ``d_model`` for ``n_samples``, without a trial at that size.

    Args:
        d_model: D.
        n_samples: n: rows of a table, tokens of a text.
        law: fitted by `archopt.fit_scaling_law`, or loaded.
        basis: "theory", "law", or "both", which weighs them by their precision; by default both where there is a law.
        family: "table" or "text", for the theory's constant.
        intrinsic_dim: d; the family's where not known.
        smoothness: beta.
        constant: of the log-law (6.1), in place of the family's, which published practice gives.
        head_dim_multiple_of, n_heads_multiple_of: as for `archopt.feasible_allocations`.
        confidence: of the interval and the set.

    Raises:
        OptionError, AllocationError: an argument is outside what is allowed, or a law is needed and not given.
    """
    asked = choice("basis", ("theory" if law is None else "both") if basis is None else basis, BASES)
    if asked != "theory" and law is None:
        raise OptionError(f"basis {asked!r} needs a law: fit one, or use basis 'theory'")
    if law is not None and not isinstance(law, ScalingLaw):
        raise OptionError(f"law must be a ScalingLaw, such as ScalingLaw.load gives, but got {type(law).__name__}")
    if not 0.0 < finite_number("confidence", confidence, "a number between 0 and 1") < 1.0:
        raise OptionError(f"confidence must lie between 0 and 1 but got {confidence!r}")
    splits = feasible_allocations(
        d_model, head_dim_multiple_of=head_dim_multiple_of, n_heads_multiple_of=n_heads_multiple_of
    )
    sources, caveats = [], []
    if asked != "law":
        source, notes = _theory(d_model, n_samples, family, intrinsic_dim, smoothness, constant)
        sources.append(source)
        caveats += notes
    if asked != "theory" and law is not None:
        predicted = law.predict(n_samples, d_model, confidence=confidence)
        sources.append(Source("law", predicted.mean, predicted.sd, predicted.basis))
        caveats += predicted.warnings
    mean, sd = _combined(sources)
    if len(sources) == 2:
        apart = abs(sources[0].log2_head_dim - sources[1].log2_head_dim)
        if apart > DISAGREE * math.hypot(sources[0].sd, sources[1].sd):
            caveats.append(f"theory and law disagree by {apart:.1f} octaves of head_dim: believe the one with the data")
    shares = _probabilities(splits, mean, sd)
    order = sorted(range(len(splits)), key=lambda i: -shares[i])
    kept, held = [], 0.0
    for i in order:
        kept.append((splits[i], shares[i]))
        held += shares[i]
        if held >= confidence:
            break
    friendly = [i for i in order if splits[i].head_dim % KERNEL_MULTIPLE == 0 and splits[i].head_dim <= KERNEL_WIDEST]
    best = splits[order[0]]
    reach = _normal_quantile(0.5 + confidence / 2.0) * sd
    low, middle, high = (
        2.0 ** min(max(value, 0.0), math.log2(d_model)) for value in (mean - reach, mean, mean + reach)
    )
    return SizeRecommendation(
        d_model=d_model,
        n_samples=float(n_samples),
        allocation=best,
        probability=shares[order[0]],
        head_dim=middle,
        interval=(low, high),
        confidence=confidence,
        allocations=tuple(kept),
        kernel_friendly=(splits[friendly[0]], shares[friendly[0]]) if friendly else None,
        sources=tuple(sources),
        reason=_reason(best, shares[order[0]], len(kept), confidence, sources),
        caveats=tuple(caveats),
    )


def _theory(
    d_model: int,
    n_samples: float,
    family: str,
    intrinsic_dim: float | None,
    smoothness: float,
    constant: float | None,
) -> tuple[Source, list[str]]:
    default = family_default(family)
    dimension = default.intrinsic_dim if intrinsic_dim is None else intrinsic_dim
    asked = optimal_allocation(
        d_model, n_samples, dimension, smoothness, default.constant if constant is None else constant
    )
    notes = list(asked.notes)
    if constant is None:
        notes.append(
            f"the theory has no constant: {default.constant:.3g} comes from published practice for a {family} "
            f"({default.reason}); a standard deviation of {default.sd_octaves:g} octaves is a factor of "
            f"{2.0**default.sd_octaves:.1f} either way"
        )
    reason = f"Theorem 6.1 with d = {dimension:g} and constant {asked.constant:.3g}"
    return Source("theory", math.log2(asked.unclipped_head_dim), default.sd_octaves, reason), notes


def _combined(sources: Sequence[Source]) -> tuple[float, float]:
    """Mean and sd of the product of independent normal densities."""
    precision = [each.sd**-2 for each in sources]
    mean = sum(p * each.log2_head_dim for p, each in zip(precision, sources, strict=True)) / sum(precision)
    return mean, sum(precision) ** -0.5


def _probabilities(splits: Sequence[HeadAllocation], mean: float, sd: float) -> list[float]:
    """That each split is the nearest one to the best head_dim, on a log scale."""
    at = [math.log2(split.head_dim) for split in splits]
    ends = [-math.inf, *((a + b) / 2.0 for a, b in pairwise(at)), math.inf]
    below = [0.5 * math.erfc((mean - end) / (sd * math.sqrt(2.0))) for end in ends]
    return [high - low for low, high in pairwise(below)]


def _normal_quantile(probability: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)


def _reason(best: HeadAllocation, share: float, size: int, confidence: float, sources: Sequence[Source]) -> str:
    heads = f"{best.n_heads} heads of {best.head_dim}" if best.n_heads > 1 else f"1 head of {best.head_dim}"
    rests = " and ".join(f"{each.name} ({each.reason})" for each in sources)
    others = "" if size == 1 else f"; {size} splits share {100 * confidence:.0f} %"
    return f"{heads}: the likeliest split, with probability {100 * share:.0f} %{others}. It rests on {rests}."


def _split(allocation: HeadAllocation) -> dict[str, int]:
    return {"n_heads": allocation.n_heads, "head_dim": allocation.head_dim}
