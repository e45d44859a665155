"""What one run of the laboratory looks at: a known regression function, its noise, and the heads that estimate it."""

from dataclasses import dataclass
from numbers import Integral

from archopt.allocation import allocation_of
from archopt.errors import OptionError
from archopt.laboratory.functions import FUNCTIONS
from archopt.theory.checks import choice, finite_number, number_between
from archopt.theory.nadaraya_watson import KERNELS

EMBEDDINGS = ("curved", "linear")
AXES = ("random", "aligned")
BEST, LITERAL = "best", "literal"

# Keeps a typing error from filling the memory: at these sizes a run needs about 2 GB, and hours.
_MOST = {
    "seed": 2**32 - 1,
    "n_samples": 20_000,
    "d_model": 512,
    "intrinsic_dim": 64,
    "replicates": 10_000,
    "n_queries": 1_000,
}


@dataclass(frozen=True)
class Setting:
    """A known regression function and the ensemble that estimates it.

    Args:
        function: a key of ``FUNCTIONS``; scaled to variance 1.
        intrinsic_dim: d, of the latent coordinates u, uniform on [-1, 1]^d.
        noise_sd: standard deviation of the noise, in standard deviations of the function.
        n_samples: n training rows.
        d_model: D, the width of the inputs that the heads read.
        n_heads: H, a divisor of D.
        kernel: "gaussian" or "exponential".
        temperature: of kernels over keys of unit variance. A number above 0; "literal": bandwidth 1/sqrt(d_k), as the
            paper has it (Gaussian kernel); or "best": for every allocation the one with the least exact integrated MSE,
            which is what perfect tuning could reach, by one rule for all.
        embedding: how u becomes x in R^D. "curved": random cosines, which fill all D directions, unequally. "linear": a
            random isometry, which fills min(d, D) directions and leaves the others empty.
        axes: that heads are cut from. "random": a random rotation of R^D, so that heads are exchangeable. "aligned":
            the inputs' principal axes, most variance first: the first head sees most, the last least or nothing.
        n_queries: points at which errors are integrated, redrawn with every replicate; inside [-3/4, 3/4]^d, since near
            the boundary a kernel average has a bias of lower order.
        replicates: independent draws of everything (inputs, embedding, rotation); standard errors are over them.
        seed: of all draws.

    Raises:
        AllocationError: D is not a width, or H does not divide it.
        OptionError: another argument is outside what is allowed.
    """

    function: str = "friedman"
    intrinsic_dim: int = 5
    noise_sd: float = 0.5
    n_samples: int = 400
    d_model: int = 48
    n_heads: int = 8
    kernel: str = "gaussian"
    temperature: float | str = BEST
    embedding: str = "curved"
    axes: str = "random"
    n_queries: int = 100
    replicates: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        choice("function", self.function, FUNCTIONS)
        choice("kernel", self.kernel, KERNELS)
        choice("embedding", self.embedding, EMBEDDINGS)
        choice("axes", self.axes, AXES)
        _whole("intrinsic_dim", self.intrinsic_dim, 1)
        least = FUNCTIONS[self.function].min_dim
        if self.intrinsic_dim < least:
            others = ", ".join(name for name, other in FUNCTIONS.items() if other.min_dim <= self.intrinsic_dim)
            raise OptionError(
                f"intrinsic_dim must be at least {least} for function {self.function!r} but got {self.intrinsic_dim}; "
                f"functions for fewer: {others}"
            )
        _whole("n_samples", self.n_samples, 2)
        _whole("n_queries", self.n_queries, 1)
        _whole("replicates", self.replicates, 3)  # fewer have no standard error worth the name
        _whole("seed", self.seed, 0)
        _whole("d_model", self.d_model, 1)
        allocation_of(self.d_model, self.n_heads)
        number_between("noise_sd", self.noise_sd, 0.0, 1e6)
        if self.temperature not in (BEST, LITERAL):
            allowed = f"a number above 0, {BEST!r} or {LITERAL!r}"
            if finite_number("temperature", self.temperature, allowed) <= 0.0:
                raise OptionError(f"temperature must be {allowed} but got {self.temperature:g}")

        if self.temperature == LITERAL and self.kernel != "gaussian":
            raise OptionError(
                f"temperature 'literal' is the Gaussian kernel's bandwidth 1/sqrt(d_k) but got kernel {self.kernel!r}: "
                f"give a number, or 'best'"
            )

    @property
    def noise_variance(self) -> float:
        """sigma^2, in units of the function's variance."""
        return self.noise_sd**2


def _whole(name: str, value: object, least: int) -> None:
    most = _MOST.get(name)
    allowed = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most:,}")
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise OptionError(f"{name} must be {allowed} but got {str(value)[:40]!r}")
    value = int(value)
    if value < least or (most is not None and value > most):
        raise OptionError(f"{name} must be {allowed} but got {value}")
