"""How much wider n, or how many more runs, would tell two laws apart: by simulation from their fits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from archopt.laws.records import LawFit
from archopt.laws.selection import Evidence, evidence, rejected_laws, resampled_fits

ENOUGH = 0.8  # share of simulations in which the wrong law is rejected
SIMULATIONS = 60  # a share of 0.8 to within 0.05 at one standard error
MOST_CELLS = 300  # simulated; larger campaigns are not planned for
# What a law says of growth with n: telling two of one kind apart is of no use
KIND = {
    "constant": "none",
    "width": "none",
    "log": "log",
    "log_theory": "log",
    "power": "power",
    "power_width": "power",
    "bound_independent": "power",
    "bound_correlated": "power",
}


@dataclass(frozen=True)
class Scenario:
    """More data of one kind: n wider by a factor at the top, or more runs everywhere."""

    n_factor: float
    run_factor: int

    @property
    def words(self) -> str:
        """As in "n ten times wider"."""
        parts = []
        if self.n_factor > 1:
            parts.append(f"cells at {self.n_factor:,.0f} times the largest n")
        if self.run_factor > 1:
            parts.append(f"{self.run_factor} times the runs in every cell")
        return " and ".join(parts) or "the cells as they are"


SCENARIOS = (
    Scenario(1.0, 1),
    Scenario(1.0, 4),
    Scenario(10.0, 1),
    Scenario(100.0, 1),
    Scenario(100.0, 4),
    Scenario(1e4, 4),
)


def plan_lines(found: Evidence, fits: Sequence[LawFit], seed: int) -> tuple[str, ...]:
    """What it takes to see growth with n at the theorem's rate, and to tell the two best laws apart; a line each."""
    if len(found.cells) > MOST_CELLS:
        return ()
    by_name = {fit.name: fit for fit in fits}
    left = [fit for fit in fits if not fit.rejected]
    lines = []
    if {"log_theory", "constant"} <= by_name.keys() and not by_name["constant"].rejected:
        pair = by_name["log_theory"], by_name["constant"]
        lines.append(_line("To see growth at the theorem's rate, if it is there", found, [pair], seed))
    growth = [fit for fit in left if KIND[fit.name] != "none"]
    other = next((fit for fit in growth[1:] if KIND[fit.name] != KIND[growth[0].name]), None)
    if other is not None:
        pairs = [(growth[0], other), (other, growth[0])]
        lines.append(_line(f"To tell {growth[0].name} from {other.name}", found, pairs, seed))
    return tuple(lines)


def _line(wish: str, found: Evidence, pairs: Sequence[tuple[LawFit, LawFit]], seed: int) -> str:
    """The first scenario that reaches `ENOUGH`, or how far the best one comes."""
    shares = []
    for scenario in SCENARIOS:
        share = float(np.mean([power(found, truth, other, scenario, seed) for truth, other in pairs]))
        shares.append(share)
        if share >= ENOUGH:
            break
    best = int(np.argmax(shares))
    now = f"the cells as they are do so in {100 * shares[0]:.0f} % of simulations"
    if shares[best] >= ENOUGH:
        return f"{wish}: {now}" + (f", {SCENARIOS[best].words} would in {100 * shares[best]:.0f} %." if best else ".")
    return f"{wish}: {now}; the most that was simulated, {SCENARIOS[-1].words}, would in {100 * shares[-1]:.0f} %."


def power(found: Evidence, truth: LawFit, other: LawFit, scenario: Scenario, seed: int) -> float:
    """Share of simulations from ``truth`` in which ``other`` is rejected."""
    wider = _extended(found, scenario)
    fits = resampled_fits(
        wider,
        truth.name,
        (np.array(truth.estimate), truth.scatter),
        (truth.name, other.name),
        SIMULATIONS,
        np.random.default_rng([seed, 3]),
    )
    return float(rejected_laws(fits, len(wider.cells))[other.name].mean())


def _extended(found: Evidence, scenario: Scenario) -> Evidence:
    cells = list(found.cells)
    if scenario.n_factor > 1:
        largest = max(cell.n_samples for cell in cells)
        cells += [
            replace(cell, n_samples=cell.n_samples * scenario.n_factor) for cell in cells if cell.n_samples == largest
        ]
    more = [replace(cell, runs=cell.runs * scenario.run_factor) for cell in cells]
    if scenario.run_factor > 1:
        more = [
            cell if cell.loss_sd is None else replace(cell, loss_sd=cell.loss_sd / np.sqrt(scenario.run_factor))
            for cell in more
        ]
    wider = evidence(more, found.noise_sd, found.basis)
    # the same misfit: noise that more runs take away is not the curves' shape
    return replace(wider, stacked=replace(wider.stacked, misfit=found.stacked.misfit))
