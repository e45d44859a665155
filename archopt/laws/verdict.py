"""A fitted law against the theory, in plain words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from archopt.laws.families import DESCRIPTIONS

if TYPE_CHECKING:
    from archopt.laws.law import ScalingLaw
    from archopt.laws.records import LawFit

LINEAR_MARGIN = 0.1  # of the exponent of D in H: what "nearly linear" allows beyond the bound's range, as in `theory`
EVIDENCE = 6.0  # of AICc, beyond which a law is rejected, if its likelihood is the lower one too: a ratio of 20
COLLINEAR = 0.8  # correlation of log n and log D between cells from which their exponents are hard to separate


def verdict_lines(law: "ScalingLaw") -> list[str]:
    """One finding a line: the data, the exponent of log n, H against D, which laws are left, how to tell them apart."""
    lines = [_cells(law)]
    if not law.fits:
        reason = law.not_fitted.get("constant", "; ".join(dict.fromkeys(law.not_fitted.values())))
        return [*lines, f"No law was fitted, not even a constant: {reason}.", *_of_cells(law)]
    lines += [_growth(law), _width(law), _laws(law), *law.plan]
    together = collinearity(law)
    if together > COLLINEAR:
        lines.append(
            f"n and D move together between these cells (correlation {together:.2f}): what one does and what the other "
            "does is hard to separate, and both exponents owe to the law's form."
        )
    return lines


def collinearity(law: "ScalingLaw") -> float:
    """Absolute correlation of log n and log D over the cells; 0 where one of them does not vary."""
    n = np.log([cell.n_samples for cell in law.cells])
    width = np.log([float(cell.d_model) for cell in law.cells])
    if n.std() < 1e-12 or width.std() < 1e-12:
        return 0.0
    return float(abs(np.corrcoef(n, width)[0, 1]))


def heads_exponent(law: "ScalingLaw") -> tuple[float, float, float] | None:
    """Exponent of D in the best number of heads (H = D / d_k): estimate, low, high; None where D does not vary.

    From n^p D^q where it was fitted, since D^q alone takes what n does for D's doing.
    """
    by_name = {fit.name: fit for fit in law.fits}
    fit = by_name.get("power_width", by_name.get("width"))
    if fit is None:
        return None
    value, low, high = fit.interval("exponent_d_model")
    return 1.0 - value, 1.0 - high, 1.0 - low


def _cells(law: "ScalingLaw") -> str:
    n = [cell.n_samples for cell in law.cells]
    width = [cell.d_model for cell in law.cells]
    censored = sum(bool(cell.censored) for cell in law.cells)
    on_edge = sum(cell.best_tried in cell.tried for cell in law.cells)
    edge = (
        "every optimum lies inside the tried head_dims"
        if not censored
        else f"the lowest loss is at an end of the tried head_dims in {on_edge}, and the optimum may lie there or "
        f"beyond in {censored}, which counts as censored"
    )
    return f"{len(law.cells)} cell{'s' if len(law.cells) != 1 else ''}, n {_span(n)}, D {_span(width)}; {edge}."


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"= {low:,.6g}" if low == high else f"from {low:,.6g} to {high:,.6g}"


def _of_cells(law: "ScalingLaw") -> list[str]:
    lines = []
    for cell in law.cells[:12]:
        beyond = {
            "": "",
            "below": f"; it may lie below the narrowest tried, {cell.tried[0]}",
            "above": f"; it may lie above the widest tried, {cell.tried[1]}",
            "both": "; it may lie beyond either end",
        }[cell.censored]
        tied = {
            0: "; which others are tied with it the noise would tell.",
            1: ", and no other is tied with it.",
        }.get(len(cell.tied), f", tied: {', '.join(map(str, cell.tied))}.")
        lines.append(
            f"{cell.label}: best head_dim about {cell.head_dim:.3g} [{cell.low:.3g}, {cell.high:.3g}]{beyond}; "
            f"lowest loss at {cell.best_tried}{tied}"
        )
    if len(law.cells) > 12:
        lines.append(f"... and {len(law.cells) - 12} more cells.")
    return lines


def _growth(law: "ScalingLaw") -> str:
    found = next((fit for fit in law.fits if fit.name == "log"), None)
    if found is None:
        return f"Growth with n cannot be judged: {law.not_fitted.get('log', 'the log-law was not fitted')}."
    value, low, high = found.interval("exponent_log_n")
    smooth = 2.0 / law.basis.exponent - law.basis.intrinsic_dim  # 2 beta
    asked = sorted(2.0 / (smooth + d) for d in law.intrinsic_dim_range)
    if asked[0] == asked[1]:  # one d: give or take half, as the laboratory has it
        asked = [0.5 * asked[0], 1.5 * asked[1]]
    measured = f"head_dim grows like (log n)^{value:.2f} [{low:.2f}, {high:.2f}]"
    least, most = law.intrinsic_dim_range
    theory = (
        f"the theory's {asked[0]:.2f} to {asked[1]:.2f} (d = {least:.3g}, give or take half)"
        if least == most
        else f"the theory's {asked[0]:.2f} to {asked[1]:.2f} (d from {least:.3g} to {most:.3g})"
    )
    theorem = next((fit for fit in law.fits if fit.name == "log_theory"), None)
    if theorem is not None and theorem.rejected and low <= asked[1] and high >= asked[0]:
        return (
            f"Growth with n: {measured}, which allows {theory}; but as a law of its own the theorem's is rejected "
            f"(AICc + {theorem.delta:.1f}): something else moves head_dim."
        )
    if high < asked[0] or low > asked[1]:
        if theorem is None or theorem.rejected:
            return f"Growth with n: {measured}, against {theory}: the data disagree with the theorem."
        return (
            f"Growth with n: {measured}, outside {theory}; as a law of its own the theorem's is not rejected "
            f"(AICc + {theorem.delta:.1f}, with more scatter): the data lean against it, and cannot tell."
        )
    if low >= asked[0] and high <= asked[1]:
        return f"Growth with n: {measured}, within {theory}: the data agree with the theorem."
    none = " No growth at all is not ruled out either." if low <= 0.0 <= high else ""
    return f"Growth with n: {measured}; {theory} is not rejected, but the interval is too wide to confirm it.{none}"


def _width(law: "ScalingLaw") -> str:
    found = heads_exponent(law)
    if found is None:
        reason = law.not_fitted.get("width", "D does not vary")
        return f"How H grows with D cannot be judged: {reason}."
    value, low, high = found
    power = 2.0 / law.basis.exponent
    allowed = (power / (power + 2.0) - LINEAR_MARGIN, 1.0 + LINEAR_MARGIN)  # (6.5a) to (6.5b)
    measured = f"H grows like D^{value:.2f} [{low:.2f}, {high:.2f}]"
    if low >= allowed[0] and high <= allowed[1]:
        return f"H against D: {measured}: nearly linear, as the theorem has it."
    if high < allowed[0] or low > allowed[1]:
        return (
            f"H against D: {measured}: not nearly linear ({allowed[0]:.2f} to {allowed[1]:.2f}), against the theorem."
        )
    linear = "linear is not rejected" if low <= 1.0 <= high else "exactly linear is rejected"
    return f"H against D: {measured}: cannot tell whether it is nearly linear; {linear}."


def _laws(law: "ScalingLaw") -> str:
    left = [fit for fit in law.fits if not fit.rejected]
    gone = [fit for fit in law.fits if fit.rejected]
    out = f" Rejected: {'; '.join(_named(fit) for fit in gone)}." if gone else ""
    if len(law.fits) == 1:
        return f"Only one law could be fitted: {_named(law.fits[0])}."
    if len(left) == 1:
        return f"One law is left: {_named(left[0])}.{out}"
    return f"Laws that these data do not tell apart: {'; '.join(_named(fit) for fit in left)}.{out}"


def _named(fit: "LawFit") -> str:
    alone = ", for its parameters alone" if fit.delta > EVIDENCE and not fit.rejected else ""
    return f"{fit.name} ({DESCRIPTIONS[fit.name]}; AICc + {fit.delta:.1f}{alone})"
