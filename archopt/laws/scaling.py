"""`archopt.fit_scaling_law`: from a table of runs to laws, their comparison, and a verdict."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from archopt.errors import OptionError
from archopt.laws.cells import Cell, Vertex, vertices
from archopt.laws.families import Basis
from archopt.laws.frame import read_runs
from archopt.laws.law import ScalingLaw
from archopt.laws.plan import plan_lines
from archopt.laws.records import CellSummary
from archopt.laws.selection import Evidence, candidates, evidence, fit_laws
from archopt.theory.checks import finite_number, positive_number
from archopt.theory.scaling import family_default

if TYPE_CHECKING:
    import pandas as pd

MAX_BOOTSTRAPS = 100_000


def fit_scaling_law(
    frame: "pd.DataFrame",
    *,
    noise_sd: float | None = None,
    best_over: Sequence[str] = (),
    ignore: Sequence[str] = (),
    direction: str = "minimize",
    family: str = "table",
    intrinsic_dim: float | None = None,
    smoothness: float = 2.0,
    confidence: float = 0.9,
    n_bootstrap: int = 0,
    seed: int = 0,
    plan: bool = True,
    source: str = "",
) -> ScalingLaw:
    """Fit the laws of the best head_dim in n and D to runs.

    In every cell (n, D, group) the best head_dim is located with its uncertainty; an optimum on the edge of what was
    tried is censored: "there or beyond". Then constant, log-law (exponent free, or Theorem 6.1's), power law, n^p D^q
    and the bound's minimiser are fitted with a robust likelihood, and compared.

    Args:
        frame: one row a run, with columns ``n_samples``, ``d_model``, ``n_heads`` or ``head_dim`` (both may be there),
            ``loss``; ``seed`` where runs repeat (a seed's own level is taken out where it recurs), ``loss_sd`` where
            the standard error of each loss is known. Each further column makes groups with a level of their own.
        noise_sd: standard deviation of one run; without it, repeated runs tell, or how rough the losses are.
        best_over: columns, such as a learning rate, of which in each cell and head_dim the value with the best mean
        counts. ignore: columns without meaning here.
        direction: of ``loss``: "minimize" or "maximize".
        family: "table" or "text": the range of the intrinsic dimension d for which the theory predicts.
        intrinsic_dim: d of the data, where known.
        smoothness: beta of the regression function.
        confidence: of the laws' intervals; the cells' are 90 % ones.
        n_bootstrap: refits to runs drawn again inside cells, for intervals beside the posterior's; 0 for none.
        seed: of all draws; equal arguments give equal results.
        plan: whether to simulate how much more data would tell laws apart.
        source: where the runs come from, for the record.

    Raises:
        DataError: a column is missing, or no row or cell can be used.
        OptionError: an argument is outside what is allowed.
    """
    default = family_default(family)
    dimension = default.intrinsic_dim if intrinsic_dim is None else positive_number("intrinsic_dim", intrinsic_dim)
    beta = positive_number("smoothness", smoothness)
    if noise_sd is not None:
        noise_sd = positive_number("noise_sd", noise_sd)
    if not 0.0 < finite_number("confidence", confidence, "a number between 0 and 1") < 1.0:
        raise OptionError(f"confidence must lie between 0 and 1 but got {confidence!r}")
    if isinstance(n_bootstrap, bool) or not isinstance(n_bootstrap, int) or not 0 <= n_bootstrap <= MAX_BOOTSTRAPS:
        raise OptionError(f"n_bootstrap must be a whole number from 0 to {MAX_BOOTSTRAPS:,} but got {n_bootstrap!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise OptionError(f"seed must be a whole number of at least 0 but got {seed!r}")
    runs = read_runs(frame, best_over=best_over, ignore=ignore, direction=direction)
    basis = Basis(
        n_samples=float(np.exp(np.mean([np.log(cell.n_samples) for cell in runs.cells]))),
        d_model=float(np.exp(np.mean([np.log(cell.d_model) for cell in runs.cells]))),
        intrinsic_dim=dimension,
        smoothness=beta,
    )
    found = evidence(runs.cells, noise_sd, basis)
    where = vertices(runs.cells, found.stacked)
    names, refused = candidates(found)
    fits = fit_laws(found, names, confidence=confidence, n_bootstrap=n_bootstrap, seed=seed) if names else ()
    return ScalingLaw(
        fits=fits,
        not_fitted=refused,
        cells=tuple(_summary(cell, vertex) for cell, vertex in zip(runs.cells, where, strict=True)),
        basis=basis,
        intrinsic_dim_range=default.intrinsic_dim_range if intrinsic_dim is None else (dimension, dimension),
        notes=(*_few_rows(runs.n_rows, len(frame)), *runs.notes, *_notes(found)),
        plan=plan_lines(found, fits, seed) if plan else (),
        confidence=confidence,
        provenance={
            "archopt": version("archopt"),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "source": source,
            "n_rows": len(frame),
            "n_rows_used": runs.n_rows,
            "n_cells": len(runs.cells),
            "noise_sd": noise_sd,
            "best_over": list(best_over),
            "ignore": list(ignore),
            "direction": direction,
            "family": family,
            "n_bootstrap": n_bootstrap,
            "seed": seed,
        },
    )


def _few_rows(used: int, given: int) -> list[str]:
    return [f"only {used:,} of {given:,} rows could be used: see what was dropped"] if used < 0.8 * given else []


def _notes(found: Evidence) -> list[str]:
    notes = []
    if not found.stacked.noise_known:
        notes.append(
            "no head_dim was run twice in a cell and noise_sd is not given: noise is guessed from how far losses are "
            "from parabolas, and no head_dim is called tied or not"
        )
    if len({cell.group for cell in found.cells}) > 1:
        notes.append("groups have a level of their own, and the same law")
    return notes


def _summary(cell: Cell, vertex: Vertex) -> CellSummary:
    return CellSummary(
        n_samples=cell.n_samples,
        d_model=cell.d_model,
        group=dict(cell.group),
        head_dim=vertex.head_dim,
        low=vertex.low,
        high=vertex.high,
        censored=vertex.censored,
        best_tried=round(vertex.best_tried),
        tied=tuple(round(each) for each in vertex.tied),
        tried=(round(2.0 ** cell.log2_head_dim[0]), round(2.0 ** cell.log2_head_dim[-1])),
    )
