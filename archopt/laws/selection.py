"""Laws fitted, given intervals, and held against each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from archopt.laws.cells import GRID, Cell, Stack, bounding, curvatures, log_likelihood, stack
from archopt.laws.families import DESCRIPTIONS, Basis, Curve, curve, design_rank
from archopt.laws.fit import SCATTERS, Fitted, Tables, fit_law, starts, tabulate
from archopt.laws.posterior import posterior_draws
from archopt.laws.records import LawFit
from archopt.laws.simulate import simulate_losses
from archopt.laws.verdict import EVIDENCE

Array = npt.NDArray[np.float64]

LEAST_LIKELIHOOD = 3.0  # in log: few cells make AICc punish parameters alone, which rejects nothing
N_STARTS = 8
N_DRAWS = 2_000  # from a posterior
KEPT_DRAWS = 400  # of them, for predictions
_MOST_ELEMENTS = 2_000_000  # of a table (sets, cells, grid)


@dataclass(frozen=True)
class Evidence:
    """Cells, ready for any law.

    Attributes:
        cells: of one fit.
        stacked: the same side by side.
        log_likelihood: (1, C, grid) by (L2).
        basis: what n and D are relative to.
        noise_sd: of one run, as given.
    """

    cells: tuple[Cell, ...]
    stacked: Stack
    log_likelihood: Array
    basis: Basis
    noise_sd: float | None

    @property
    def n_samples(self) -> Array:
        """(C,)."""
        return np.array([cell.n_samples for cell in self.cells])

    @property
    def d_model(self) -> Array:
        """(C,)."""
        return np.array([float(cell.d_model) for cell in self.cells])

    def law(self, name: str) -> Curve:
        """The law at these cells."""
        return curve(name, self.basis, self.n_samples, self.d_model)

    def tables(self, losses: Array | None = None) -> list[Tables]:
        """One a tau, of these cells or of resampled losses (R, C, K)."""
        found = self.log_likelihood if losses is None else log_likelihood(self.stacked, losses)
        return [tabulate(found, float(scatter)) for scatter in SCATTERS]

    @property
    def centres(self) -> Array:
        """(C,) rough vertices."""
        weight = np.exp(self.log_likelihood[0])
        return np.asarray(weight @ GRID / weight.sum(axis=-1))


def evidence(cells: Sequence[Cell], noise_sd: float | None, basis: Basis) -> Evidence:
    """Cells to their likelihoods."""
    stacked = stack(cells, noise_sd)
    return Evidence(tuple(cells), stacked, log_likelihood(stacked, stacked.loss[None]), basis, noise_sd)


def candidates(found: Evidence) -> tuple[tuple[str, ...], dict[str, str]]:
    """Laws that these cells can be asked about, and why not the others."""
    n_varies, width_varies = (len(set(sizes.tolist())) > 1 for sizes in (found.n_samples, found.d_model))
    above, below = bounding(np.exp(found.log_likelihood[0]), found.stacked)
    able, refused = [], {}
    for name in DESCRIPTIONS:
        rank, size = design_rank(name, found.basis, found.n_samples, found.d_model)
        if name in ("log", "log_theory", "power", "power_width") and not n_varies:
            refused[name] = "n does not vary"
        elif name.startswith("bound") and not (n_varies or width_varies):
            refused[name] = "neither n nor D varies"
        elif name in ("power_width", "width") and not width_varies:
            refused[name] = "D does not vary"
        elif len(found.cells) < size + 3:
            needed = f"{size} parameter{'s' if size > 1 else ''} and a scatter need at least {size + 3} cells"
            refused[name] = f"{needed} but there {'is' if len(found.cells) == 1 else 'are'} {len(found.cells)}"
        elif rank < size:
            refused[name] = "n and D move together, so that their exponents cannot be told apart"
        elif not (above.any() and below.any()):
            end = "widest" if above.any() else "narrowest" if below.any() else "narrowest or the widest"
            refused[name] = f"no cell shows that its best head_dim is not the {end} tried, or beyond it"
        else:
            able.append(name)
    return tuple(able), refused


def fit_laws(
    found: Evidence, names: Sequence[str], *, confidence: float, n_bootstrap: int, seed: int
) -> tuple[LawFit, ...]:
    """Every law with its intervals, by rising AICc."""
    tables = found.tables()
    laws = {name: found.law(name) for name in names}
    rng = np.random.default_rng([seed, 1])
    places = {name: starts(law, found.centres, rng, N_STARTS) for name, law in laws.items()}
    fits = {name: fit_law(tables, law, places[name]) for name, law in laws.items()}
    curvature = curvatures(found.stacked)
    criterion = {name: aicc(fit, len(found.cells))[0] for name, fit in fits.items()}
    best = min(criterion.values())
    weight = {name: np.exp(-0.5 * (value - best)) for name, value in criterion.items()}
    rejected = rejected_laws(fits, len(found.cells))
    left_out = largest_n_errors(found, names)
    results = []
    for name in sorted(names, key=lambda name: criterion[name]):
        fit, law = fits[name], laws[name]
        draws = posterior_draws(tables, law, places[name], np.random.default_rng([seed, 2]), N_DRAWS)
        ends = [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0]
        low, high = np.quantile(draws[:, :-1], ends, axis=0)
        refits: tuple[tuple[float, float], ...] | None = None
        if n_bootstrap and not rejected[name][0]:
            again = _bootstrap(found, law, fit, curvature, n_bootstrap, np.random.default_rng([seed, 3]))
            refits = tuple((float(left), float(right)) for left, right in np.quantile(again, ends, axis=0).T)
        results.append(
            LawFit(
                name=name,
                parameters=law.parameters,
                estimate=tuple(fit.theta[0].tolist()),
                low=tuple(low.tolist()),
                high=tuple(high.tolist()),
                bootstrap=refits,
                scatter=float(fit.scatter[0]),
                log_likelihood=float(fit.log_likelihood[0]),
                aicc=float(criterion[name]),
                delta=float(criterion[name] - best),
                weight=float(weight[name] / sum(weight.values())),
                rejected=bool(rejected[name][0]),
                largest_n_error=left_out.get(name),
                draws=np.round(draws[:KEPT_DRAWS], 5),  # as they are saved
            )
        )
    return tuple(results)


def aicc(fit: Fitted, n_cells: int) -> Array:
    """(R,) Akaike's criterion for small samples; tau counts as a parameter, cells as observations."""
    size = fit.theta.shape[1] + 1
    return np.asarray(2.0 * size - 2.0 * fit.log_likelihood + 2.0 * size * (size + 1) / (n_cells - size - 1))


def rejected_laws(fits: Mapping[str, Fitted], n_cells: int) -> dict[str, npt.NDArray[np.bool_]]:
    """(R,) for each law whether another is so much better, by AICc and by likelihood itself."""
    criterion = {name: aicc(fit, n_cells) for name, fit in fits.items()}
    rejected = {}
    for name in fits:
        beaten = [
            (criterion[name] - criterion[other] > EVIDENCE)
            & (fits[other].log_likelihood - fits[name].log_likelihood > LEAST_LIKELIHOOD)
            for other in fits
        ]
        rejected[name] = np.asarray(np.any(beaten, axis=0))
    return rejected


def largest_n_errors(found: Evidence, names: Sequence[str]) -> dict[str, float]:
    """Octaves (root mean square) by which laws fitted without the largest n miss the optima there.

    A censored optimum counts as missed by what the prediction lacks of the edge; laws for which too few cells are left
    are absent.
    """
    largest = found.n_samples == found.n_samples.max()
    rest = [cell for cell, out in zip(found.cells, largest, strict=True) if not out]
    if not rest:
        return {}
    stacked_rows = np.flatnonzero(~largest)
    part = replace(
        found,
        cells=tuple(rest),
        stacked=_rows(found.stacked, stacked_rows),
        log_likelihood=found.log_likelihood[:, stacked_rows],
    )
    tables, rng = part.tables(), np.random.default_rng(0)
    errors = {}
    for name in names:
        rank, size = design_rank(name, part.basis, part.n_samples, part.d_model)
        if rank < size or len(rest) < size + 2:
            continue
        law = part.law(name)
        fit = fit_law(tables, law, starts(law, part.centres, rng, N_STARTS))
        asked = found.law(name).values(fit.theta)[0][largest]
        likelihood = np.exp(found.log_likelihood[0][largest])
        # the nearest place that the cell finds as likely as its best, within a likelihood ratio of e^0.5
        near = np.where(likelihood > np.exp(-0.5), np.abs(GRID - asked[:, None]), np.inf).min(axis=-1)
        middle = np.abs((likelihood @ GRID) / likelihood.sum(axis=-1) - asked)
        flat = (likelihood > np.exp(-0.5))[:, [0, -1]].any(axis=-1)
        errors[name] = float(np.sqrt(np.mean(np.where(flat, near, middle) ** 2)))
    return errors


def resampled_fits(
    found: Evidence, truth: str, fit: tuple[Array, float], names: Sequence[str], count: int, rng: np.random.Generator
) -> dict[str, Fitted]:
    """Laws fitted to what ``truth`` would have these cells show.

    Args:
        fit: theta (p,) and tau of ``truth``.
        count: R.
    """
    asked = found.law(truth).values(fit[0][None])[0]
    losses = simulate_losses(found.stacked, found.cells, asked, fit[1], curvatures(found.stacked), rng, count)
    tables = found.tables(losses)
    fitted = {}
    for name in names:
        law = found.law(name)
        start = starts(law, asked, rng, 1)
        fitted[name] = fit_law(tables, law, np.broadcast_to(start, (1, count, start.shape[-1])))
    return fitted


def _bootstrap(
    found: Evidence, law: Curve, fit: Fitted, curvature: Array, count: int, rng: np.random.Generator
) -> Array:
    """(count, p) theta refitted to the cells' own runs drawn again, with vertices scattered about the law."""
    theta = fit.theta[0]
    asked = law.values(theta[None])[0]
    near = [tau for tau in SCATTERS if 0.3 <= tau / fit.scatter[0] <= 3.4]
    chunk = max(1, _MOST_ELEMENTS // (len(found.cells) * len(GRID)))
    drawn = []
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        losses = simulate_losses(found.stacked, found.cells, asked, float(fit.scatter[0]), curvature, rng, size)
        likelihood = log_likelihood(found.stacked, losses)
        again = fit_law(
            [tabulate(likelihood, float(tau)) for tau in near], law, np.broadcast_to(theta, (1, size, len(theta)))
        )
        drawn.append(again.theta)
    return np.concatenate(drawn)


def _rows(stacked: Stack, rows: npt.NDArray[np.intp]) -> Stack:
    return Stack(
        x=stacked.x[rows],
        loss=stacked.loss[rows],
        noise=stacked.noise[rows],
        misfit=stacked.misfit,
        ends=stacked.ends[rows],
        widest=stacked.widest[rows],
        noise_known=stacked.noise_known,
    )
