"""Theorem 6.1: how wide a head should be for n samples, in closed form.

Symbols: D (``d_model``), H (``n_heads``), d_k (``head_dim``), H * d_k = D; n (``n_samples``); d (``intrinsic_dim``);
beta (``smoothness`` of the regression function, 2 = twice differentiable); rho (``head_correlation``); B / sigma^2
(``bias_to_noise``, squared bias at d_k = 1 in units of the noise variance); c (``constant``).

Stated (arXiv:2605.20271, Theorem 6.1): under H * d_k = D, d_k* ~ (log n)^{2/(4+d)} and H* = D / d_k*.

Ours: everything else. The exponent for general smoothness, the constant, the power law, the bound and its minimiser.
Three laws to hold against data; where they disagree with the data, the data win.

(6.1)  d_k* = c (log n)^{2/(2 beta + d)}           log-law; Stated for beta = 2 and up to c
(6.2)  H* = D / d_k*                               Stated
(6.3)  d_k* = c n^{2/(2 beta + d)}                 power law: h ~ n^{-1/(2 beta + d)} read with h = d_k^{-1/2}
(6.4)  MSE / sigma^2 <= (B/sigma^2) d_k^{-beta} + (d_k^{d/2} / n) (rho + (1 - rho) d_k / D),  d_k >= d
(6.5)  beta (B/sigma^2) n d_k^{-beta} = rho (d/2) d_k^{d/2} + (1 - rho) ((d+2)/2) d_k^{d/2+1} / D     minimises (6.4)
(6.5a) d_k* = (2 beta (B/sigma^2) n D / (d+2))^{2/(d+2+2 beta)}    rho = 0, so H* ~ D^{(d+4)/(d+6)} for beta = 2
(6.5b) d_k* = (2 beta (B/sigma^2) n / d)^{2/(d+2 beta)}            rho = 1, the power law, so H* linear in D
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf, log, log1p, sqrt
from types import MappingProxyType

from archopt.allocation import HeadAllocation, allocation_of, feasible_allocations, nearest_allocation
from archopt.errors import OptionError
from archopt.theory.checks import choice, number_between, positive_number

LAWS = ("log", "power", "bound")
MAX_SMOOTHNESS = 2.0  # a positive kernel gains nothing from more than two derivatives


@dataclass(frozen=True)
class FamilyDefault:
    """The log-law's constant for one kind of task, before any trial.

    ``constant`` is the geometric mean of ``constant_range`` and holds at ``intrinsic_dim``, which is usually within
    ``intrinsic_dim_range``; ``sd_octaves`` is the standard deviation of log2(d_k*) about the law; ``reason`` says where
    the figures come from. ``bias_to_noise`` is the B / sigma^2 to take where data give none, and
    ``bias_to_noise_reason`` says why.
    """

    constant: float
    constant_range: tuple[float, float]
    intrinsic_dim: float
    intrinsic_dim_range: tuple[float, float]
    sd_octaves: float
    reason: str
    bias_to_noise: float
    bias_to_noise_reason: str


FAMILY_DEFAULTS: Mapping[str, FamilyDefault] = MappingProxyType(
    {
        "table": FamilyDefault(
            constant=sqrt(4.0 * 36.0),
            constant_range=(4.0, 36.0),
            intrinsic_dim=8.0,
            intrinsic_dim_range=(4.0, 16.0),
            sd_octaves=1.5,
            reason=(
                "our pilots with Nadaraya-Watson regressors at D = 48: best head_dim 6-16 at n = 400, and 32-48 on one "
                "smooth table for n = 200 to 2,000, which at d = 8 is a constant of 4-36; the geometric mean is 12"
            ),
            bias_to_noise=1.0,
            bias_to_noise_reason=(
                "a convention: a target that is half noise; at d = 8 a factor of 10 moves the bound's head_dim by a "
                "factor of 1.4 (independent heads) to 1.5 (identical ones)"
            ),
        ),
        "text": FamilyDefault(
            constant=sqrt(20.0 * 100.0),
            constant_range=(20.0, 100.0),
            intrinsic_dim=8.0,
            intrinsic_dim_range=(4.0, 32.0),
            sd_octaves=1.5,
            reason=(
                "published language models: best head_dim 32-64 (Vaswani et al. 2017, table 3) and 64-160 (grid of "
                "Gadre et al. 2024), which at d = 8 is a constant of 20-100, geometric mean 45; d of a text is a "
                "convention, not a measurement"
            ),
            bias_to_noise=3.0,
            bias_to_noise_reason=(
                "a convention, entropy standing for variance: a letter of English has 4.03 bits on its own and 0.6-1.3 "
                "after 100 letters (Shannon 1951, 27 letters); (4.03 - 1) / 1, range 2-6"
            ),
        ),
    }
)


def family_default(family: str) -> FamilyDefault:
    """The default constant of a family of tasks, "table" or "text".

    Raises:
        OptionError: there is no such family.
    """
    return FAMILY_DEFAULTS[choice("family", family, FAMILY_DEFAULTS)]


@dataclass(frozen=True)
class TheoryAllocation:
    """What a law asks for at width ``d_model``.

    ``head_dim`` is the law's d_k kept within [1, D] (a head has at least one dimension, and H = D / d_k >= 1);
    ``unclipped_head_dim`` is the value before, infinite above 1e308. ``smoothness`` is the one used, at most 2;
    ``constant`` is c of the laws that have one. ``notes`` has one line for every capping or clipping that took place.
    """

    d_model: int
    head_dim: float
    law: str
    constant: float
    smoothness: float
    unclipped_head_dim: float
    notes: tuple[str, ...] = ()

    @property
    def n_heads(self) -> float:
        """H* = D / d_k*."""
        return self.d_model / self.head_dim  # (6.2)

    @property
    def nearest(self) -> HeadAllocation:
        """The split of ``d_model`` nearest to ``head_dim`` on a log scale, among all divisors.

        Where a model sets limits: ``nearest_allocation(asked.head_dim, feasible_allocations(asked.d_model,
        head_dim_multiple_of=8))``, both from ``archopt.allocation``.

        Raises:
            AllocationError: ``d_model`` is above the widest that ``feasible_allocations`` takes.
        """
        return nearest_allocation(self.head_dim, feasible_allocations(self.d_model))


def optimal_allocation(
    d_model: int,
    n_samples: float,
    intrinsic_dim: float,
    smoothness: float = 2.0,
    constant: float = 1.0,
    law: str = "log",
    *,
    bias_to_noise: float | None = None,
    head_correlation: float = 0.0,
) -> TheoryAllocation:
    """The head width that a law asks for, and H = D / d_k.

    "log" (Stated for beta = 2 and up to the constant): (6.1). "power" (Ours): (6.3). "bound" (Ours): the minimiser of
    (6.4), see :func:`bound_minimiser`.

    Args:
        d_model: D.
        n_samples: n, at least 2; a whole number or a float such as 1e9.
        intrinsic_dim: d > 0, of the inputs.
        smoothness: beta > 0, capped at 2: a positive kernel cannot use more.
        constant: c > 0 of "log" and "power"; :data:`FAMILY_DEFAULTS` has one per kind of task. With 1 the log-law asks
            for 1-3 dimensions at every practical n. Has no part in "bound".
        law: "log", "power" or "bound".
        bias_to_noise: B / sigma^2 > 0; required by "bound", refused by the others.
        head_correlation: rho, from 0 to 1; used by "bound", refused by the others unless 0.

    Raises:
        AllocationError: d_model is not a width.
        OptionError: any other argument is outside what is allowed.

    Source: arXiv:2605.20271, Theorem 6.1; constants, the laws "power" and "bound", capping and clipping: ours.
    """
    d_model = allocation_of(d_model, 1).d_model
    n, d, beta = _sample(n_samples), positive_number("intrinsic_dim", intrinsic_dim), _smoothness(smoothness)
    c, law = positive_number("constant", constant), choice("law", law, LAWS)
    rho = number_between("head_correlation", head_correlation, 0.0, 1.0)
    notes = []
    if beta < smoothness:
        notes.append(f"smoothness {float(smoothness):g} is used as {beta:g}: a positive kernel cannot use more")
    if law == "bound":
        if bias_to_noise is None:
            raise OptionError("law 'bound' needs bias_to_noise, a number above 0 (B / sigma^2), but got none")
        if c != 1.0:
            raise OptionError(f"constant must be left at 1 with law 'bound', which has its own scale, but got {c:g}")
        asked = bound_minimiser(d_model, n, d, beta, bias_to_noise=bias_to_noise, head_correlation=rho)
        if asked == d:
            notes.append(f"the bound is least below intrinsic_dim = {d:g}, where it does not hold: raised to it")
    else:
        if bias_to_noise is not None or rho != 0.0:
            raise OptionError(f"bias_to_noise and head_correlation act in law 'bound' only, but law is {law!r}")
        asked = _log_law(n, d, beta, c) if law == "log" else _power_law(n, d, beta, c)
    head_dim = min(max(asked, 1.0), float(d_model))
    if head_dim != asked:
        notes.append(f"the law asks for head_dim {asked:.3g}, kept within 1 to d_model = {d_model}")
    return TheoryAllocation(d_model, head_dim, law, c, beta, asked, tuple(notes))


def mse_bound(
    head_dim: float,
    d_model: int,
    n_samples: float,
    intrinsic_dim: float,
    smoothness: float = 2.0,
    *,
    bias_to_noise: float,
    head_correlation: float = 0.0,
) -> float:
    """A bound on the integrated MSE in units of the noise variance, (6.4).

    Theorem 3.1's terms with bias^2 = B d_k^{-beta}, variance of a head sigma^2 d_k^{d/2} / n, equal weights, and
    correlation rho between heads.

    Args: as for :func:`optimal_allocation`; ``head_dim`` any number above 0.

    Returns:
        Dimensionless; infinite above 1e308.

    Raises:
        OptionError, AllocationError: an argument is outside what is allowed.

    Source: ours.
    """
    d_k, n = positive_number("head_dim", head_dim), _sample(n_samples)
    d, beta = positive_number("intrinsic_dim", intrinsic_dim), _smoothness(smoothness)
    ratio = positive_number("bias_to_noise", bias_to_noise)
    rho = number_between("head_correlation", head_correlation, 0.0, 1.0)
    shared = rho + (1.0 - rho) * d_k / allocation_of(d_model, 1).d_model
    return _exp(log(ratio) - beta * log(d_k)) + _exp(d / 2.0 * log(d_k) - log(n)) * shared  # (6.4)


def bound_minimiser(
    d_model: int,
    n_samples: float,
    intrinsic_dim: float,
    smoothness: float = 2.0,
    *,
    bias_to_noise: float,
    head_correlation: float = 0.0,
) -> float:
    """The d_k >= d at which :func:`mse_bound` is least; it may exceed D.

    In t = log d_k the bound is a sum of exponentials, hence convex, so its stationary point (6.5) is its minimiser.
    Closed form where one term on its right is absent, (6.5a) and (6.5b); in between the root is found numerically.

    Args: as for :func:`optimal_allocation`.

    Raises:
        OptionError, AllocationError: an argument is outside what is allowed.

    Source: ours.
    """
    D = allocation_of(d_model, 1).d_model
    n, d, beta = _sample(n_samples), positive_number("intrinsic_dim", intrinsic_dim), _smoothness(smoothness)
    rho = number_between("head_correlation", head_correlation, 0.0, 1.0)
    log_bias = log(beta) + log(positive_number("bias_to_noise", bias_to_noise)) + log(n)  # (6.5), left, at d_k = 1
    # log coefficient and exponent of the two terms on the right of (6.5)
    terms = []
    if rho > 0.0:
        terms.append((log(rho) + log(d) - log(2.0), d / 2.0))  # (6.5), first term
    if rho < 1.0:
        terms.append((log1p(-rho) + log((d + 2.0) / 2.0) - log(D), d / 2.0 + 1.0))  # (6.5), second term
    alone = [(log_bias - log_coefficient) / (beta + power) for log_coefficient, power in terms]  # (6.5b), (6.5a)
    t = alone[0] if len(terms) == 1 else _root_of_two_terms(log_bias, beta, terms, alone)
    return max(_exp(t), d)


def _root_of_two_terms(log_bias: float, beta: float, terms: list[tuple[float, float]], alone: list[float]) -> float:
    from scipy.optimize import brentq  # here, so that importing archopt.theory stays fast

    def gap(t: float) -> float:  # log right side - log left side, rising in t
        first, second = (log_coefficient + power * t for log_coefficient, power in terms)
        return max(first, second) + log1p(exp(-abs(first - second))) - log_bias + beta * t  # (6.5)

    # Each term alone is less than the sum, twice the larger one is at least the sum: the root lies between.
    above = min(alone)
    below = min(t - log(2.0) / (beta + power) for t, (_, power) in zip(alone, terms, strict=True))
    slack = 1e-9 * (1.0 + abs(above))  # the ends themselves are rounded
    return float(brentq(gap, below - slack, above + slack, xtol=1e-12))


def _log_law(n: float, d: float, beta: float, c: float) -> float:
    return _exp(log(c) + 2.0 / (2.0 * beta + d) * log(log(n)))  # (6.1)


def _power_law(n: float, d: float, beta: float, c: float) -> float:
    return _exp(log(c) + 2.0 / (2.0 * beta + d) * log(n))  # (6.3)


def _sample(n_samples: float) -> float:
    n = positive_number("n_samples", n_samples)
    if n < 2.0:
        raise OptionError(f"n_samples must be a number of at least 2 but got {n:g}")
    return n


def _smoothness(smoothness: float) -> float:
    return min(positive_number("smoothness", smoothness), MAX_SMOOTHNESS)


def _exp(exponent: float) -> float:
    return exp(exponent) if exponent < 709.0 else inf  # math.exp raises beyond
