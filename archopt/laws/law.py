"""`ScalingLaw`: what fitted laws say, kept with where it comes from, and what it predicts."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from archopt.allocation import allocation_of
from archopt.errors import DataError, OptionError
from archopt.laws.families import DESCRIPTIONS, Basis, curve
from archopt.laws.records import CellSummary, LawFit, Prediction, place, splits_inside
from archopt.theory.checks import positive_number

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]

SCHEMA = "archopt.scaling_law/1"
DRAWS = 4_000  # of a prediction: its quantiles to within 1 % of the interval
_COMPARED = (
    "law",
    "formula",
    "parameters",
    "scatter",
    "log_likelihood",
    "delta_aicc",
    "weight",
    "rejected",
    "largest_n_error",
)
T_DEGREES = 4  # of the scatter about a law, (L9)
# Laws are fitted to a few octaves; how wrong they are beyond nobody has measured. Ours: each octave of n, or of D,
# beyond the cells adds this many octaves of head_dim (sd).
EXTRAPOLATION_SD = 0.05
FAR_OCTAVES = 3.3  # a factor of 10, beyond which a prediction warns
CARRIED_SD = 0.75  # octaves by which the best head_dim moved between sizes on our grids, at most (0.4 and 0.7)


@dataclass(frozen=True)
class ScalingLaw:
    """Laws fitted to cells (n, D), best first, and the cells.

    Attributes:
        fits: by rising AICc; empty where the cells allow no law.
        not_fitted: the other laws, and why.
        cells: where each cell's best head_dim lies.
        basis: what parameters are relative to.
        intrinsic_dim_range: d of the data, for what the theory predicts.
        notes: what was dropped, assumed or should be known.
        plan: how much more data would tell laws apart, one line each.
        confidence: of the laws' intervals.
        provenance: version, time, source, counts, options.
    """

    fits: tuple[LawFit, ...]
    not_fitted: dict[str, str]
    cells: tuple[CellSummary, ...]
    basis: Basis
    intrinsic_dim_range: tuple[float, float]
    notes: tuple[str, ...]
    plan: tuple[str, ...]
    confidence: float
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def winner(self) -> str | None:
        """The only law that is not rejected; None where several are left, or there were not two to compare."""
        left = [fit.name for fit in self.fits if not fit.rejected]
        return left[0] if len(left) == 1 and len(self.fits) > 1 else None

    def predict(self, n_samples: float, d_model: int, *, confidence: float | None = None) -> Prediction:
        """The best head_dim at a size, from all laws by their weights.

        Where no law could be fitted the cells' mean is carried over, with the spread that our grids showed between
        sizes. An interval widens with the exponents' own intervals, with disagreement between laws, and with each
        octave beyond the cells.

        Args:
            n_samples: n, at least 2.
            d_model: D.
            confidence: of the interval; the law's where not given.

        Raises:
            OptionError, AllocationError: a size outside what is allowed; no cell has its optimum inside what was tried.
        """
        width = allocation_of(d_model, 1).d_model
        n = positive_number("n_samples", n_samples)
        if n < 2.0:
            raise OptionError(f"n_samples must be a number of at least 2 but got {n:g}")
        level = self.confidence if confidence is None else confidence
        if not 0.0 < level < 1.0:
            raise OptionError(f"confidence must lie between 0 and 1 but got {level!r}")
        rng = np.random.default_rng(0)
        beyond, warnings = self._beyond(n, width)
        drawn, basis = self._draws(n, width, rng) if self.fits else self._carried(n, width, rng)
        if not self.fits:
            warnings.insert(0, f"no law could be fitted: this rests on {basis}")
        drawn = drawn + EXTRAPOLATION_SD * beyond * rng.standard_normal(len(drawn))
        low, middle, high = np.quantile(drawn, [(1.0 - level) / 2.0, 0.5, (1.0 + level) / 2.0])
        # the sd of a normal with this interval: Student's tails would make the moment mean little
        reach = np.quantile(drawn, [0.1587, 0.8413])
        head_dim, *ends = (float(2.0 ** np.clip(value, 0.0, log2(width))) for value in (middle, low, high))
        return Prediction(
            n_samples=n,
            d_model=width,
            head_dim=head_dim,
            interval=(ends[0], ends[1]),
            confidence=level,
            allocations=splits_inside(width, ends[0], ends[1], head_dim),
            mean=float(middle),
            sd=float(reach[1] - reach[0]) / 2.0,
            basis=basis,
            warnings=tuple(warnings),
        )

    def compare(self) -> "pd.DataFrame":
        """One row a law, best first: parameters with intervals, AICc, weight, whether rejected, left-out error."""
        import pandas as pd

        rows = []
        for fit in self.fits:
            rows.append(
                {
                    "law": fit.name,
                    "formula": DESCRIPTIONS[fit.name],
                    "parameters": fit.in_words,
                    "scatter": fit.scatter,
                    "log_likelihood": fit.log_likelihood,
                    "delta_aicc": fit.delta,
                    "weight": fit.weight,
                    "rejected": fit.rejected,
                    "largest_n_error": fit.largest_n_error,
                }
            )
        return pd.DataFrame(rows, columns=list(_COMPARED))

    def verdict(self) -> str:
        """What the data say of the theory, in plain words, one finding a line."""
        from archopt.laws.verdict import verdict_lines

        return "\n".join(verdict_lines(self))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; schema "archopt.scaling_law/1"."""
        fits = [{**asdict(fit), "draws": fit.draws.tolist()} for fit in self.fits]
        return {
            "schema": SCHEMA,
            "winner": self.winner,
            "verdict": self.verdict().split("\n"),
            "fits": fits,
            "not_fitted": self.not_fitted,
            "cells": [asdict(cell) for cell in self.cells],
            "basis": asdict(self.basis),
            "intrinsic_dim_range": list(self.intrinsic_dim_range),
            "notes": list(self.notes),
            "plan": list(self.plan),
            "confidence": self.confidence,
            "provenance": self.provenance,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON; an existing file is replaced whole or not at all.

        Raises:
            OptionError: the file cannot be written.
        """
        target = Path(path)
        partial = target.with_name(f".{target.name}.partial")
        try:
            plain = json.loads(json.dumps(self.to_dict(), default=str, allow_nan=False))
            partial.write_text(json.dumps({**plain, "digest": _digest(plain)}) + "\n", encoding="utf-8")
            partial.replace(target)
        except OSError as error:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise OptionError(f"the law cannot be written to {str(target)[-120:]!r} ({error.strerror})") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "ScalingLaw":
        """Read what `save` wrote.

        Raises:
            DataError: there is no such file, it holds something else or another schema, or was changed since.
        """
        shown = repr(str(path)[-120:])
        try:
            read = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"the law {shown} cannot be read ({error.strerror})") from None
        except (ValueError, RecursionError):
            raise DataError(f"{shown} holds no JSON: give a file that `archopt fit --out` wrote") from None
        schema = read.get("schema") if isinstance(read, dict) else None
        if schema != SCHEMA:
            raise DataError(
                f"{shown} has schema {str(schema)[:40]!r} but a law has {SCHEMA!r}: fit it with this version"
            )
        if read.pop("digest", None) != _digest(read):  # a number that was changed would be believed
            raise DataError(f"{shown} is not as `archopt fit --out` wrote it: fit it again")
        return cls._from(read)

    @classmethod
    def _from(cls, read: Mapping[str, Any]) -> "ScalingLaw":
        fits = []
        for item in read["fits"]:
            lists = {key: tuple(item[key]) for key in ("parameters", "estimate", "low", "high")}
            draws = np.array(item["draws"], dtype=np.float64).reshape(-1, len(lists["parameters"]) + 1)
            refits = None if item["bootstrap"] is None else tuple((low, high) for low, high in item["bootstrap"])
            fits.append(LawFit(**{**item, **lists, "bootstrap": refits, "draws": draws}))
        cells = [CellSummary(**{**c, "tied": tuple(c["tied"]), "tried": tuple(c["tried"])}) for c in read["cells"]]
        return cls(
            fits=tuple(fits),
            not_fitted=dict(read["not_fitted"]),
            cells=tuple(cells),
            basis=Basis(**read["basis"]),
            intrinsic_dim_range=tuple(read["intrinsic_dim_range"]),
            notes=tuple(read["notes"]),
            plan=tuple(read["plan"]),
            confidence=float(read["confidence"]),
            provenance=dict(read["provenance"]),
        )

    def _draws(self, n: float, width: int, rng: np.random.Generator) -> tuple[Array, str]:
        """(draws,) of the best log2 head_dim, laws mixed by weight."""
        parts = []
        for fit in self.fits:
            size = round(DRAWS * fit.weight)
            if size == 0:
                continue
            picked = fit.draws[rng.integers(0, len(fit.draws), size)]
            law = curve(fit.name, self.basis, np.array([n]), np.array([float(width)]))
            scatter = picked[:, -1] * rng.standard_t(T_DEGREES, size)
            parts.append(law.values(picked[:, :-1])[:, 0] + scatter)
        used = [f"{fit.name} ({100 * fit.weight:.0f} %)" for fit in self.fits if fit.weight >= 0.05]
        return np.concatenate(parts), f"laws fitted to {len(self.cells)} cells: {', '.join(used)}"

    def _carried(self, n: float, width: int, rng: np.random.Generator) -> tuple[Array, str]:
        """(draws,) from the cells of this very size, or else from all of them with the spread between sizes added."""
        inside = [cell for cell in self.cells if not cell.censored]
        if not inside:
            raise OptionError(
                "no law could be fitted, and no cell has its best head_dim inside what was tried "
                f"({', '.join(_one_sided(cell) for cell in self.cells[:3])}): try heads beyond that; "
                "wider ones than D take a larger D"
            )
        same = [cell for cell in inside if cell.d_model == width and abs(cell.n_samples / n - 1.0) < 0.01]
        used = same or inside
        centre = np.array([log2(cell.head_dim) for cell in used])
        spread = np.array([(log2(cell.high) - log2(cell.low)) / 3.29 for cell in used])  # 90 % of a normal
        sd = float(np.sqrt((0.0 if same else CARRIED_SD**2) + np.mean(spread**2) + np.var(centre)))
        what = "1 cell" if len(used) == 1 else f"{len(used)} cells"
        basis = f"{what} of this size" if same else f"the best head_dim of {what}, carried over"
        return centre.mean() + sd * rng.standard_normal(DRAWS), basis

    def _beyond(self, n: float, width: int) -> tuple[float, list[str]]:
        """Octaves outside the cells' n and D, and a line where they are many."""
        total, warnings = 0.0, []
        for name, value, sizes in (
            ("n_samples", n, [cell.n_samples for cell in self.cells]),
            ("d_model", float(width), [float(cell.d_model) for cell in self.cells]),
        ):
            octaves = max(log2(value / max(sizes)), log2(min(sizes) / value), 0.0)
            total += octaves**2
            if octaves > FAR_OCTAVES:
                warnings.append(
                    f"{name} = {value:,.6g} lies a factor of {2.0**octaves:,.3g} outside the cells' "
                    f"{min(sizes):,.6g} to {max(sizes):,.6g}: the law is extrapolated far"
                )
        return float(np.sqrt(total)), warnings


def _one_sided(cell: CellSummary) -> str:
    end = {"below": f"{cell.tried[0]} or less", "above": f"{cell.tried[1]} or more"}.get(cell.censored, "anything")
    return f"{end} at {place(cell.n_samples, cell.d_model, ())}"


def _digest(law: Mapping[str, Any]) -> str:
    """sha256 (hex) of a law as JSON reads it."""
    return hashlib.sha256(json.dumps(law, sort_keys=True).encode()).hexdigest()
