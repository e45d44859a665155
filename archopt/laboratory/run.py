"""The whole laboratory: every theorem on one setting."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from archopt.errors import OptionError
from archopt.laboratory.allocation_growth import check_allocation
from archopt.laboratory.decomposition import check_decomposition
from archopt.laboratory.diversity_effect import (
    DOES_NOT_RISE,
    LEAST_IF_ORTHOGONAL,
    check_diversity,
    measure_diversity_levels,
)
from archopt.laboratory.setting import Setting
from archopt.laboratory.verdict import Finding, nothing_to_measure
from archopt.laboratory.weighting_effect import check_weighting
from archopt.theory.checks import choice, finite_number

THEOREMS = ("3.1", "4.2", "5.1", "6.1", "7.1")


@dataclass(frozen=True)
class LaboratoryReport:
    """Findings on one setting, in the theorems' order."""

    setting: Setting
    confidence: float
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data; see README for the keys."""
        return {
            "schema": "archopt.theory/1",
            "setting": asdict(self.setting),
            "confidence": self.confidence,
            "findings": [asdict(finding) for finding in self.findings],
        }


def run_laboratory(
    setting: Setting,
    *,
    theorems: Iterable[str] = THEOREMS,
    confidence: float = 0.95,
    on_start: Callable[[str], None] = lambda theorem: None,
) -> LaboratoryReport:
    """Hold the theorems against a known regression function.

    Args:
        setting: what to look at.
        theorems: any of ``THEOREMS``.
        confidence: of the intervals that verdicts rest on, in (0.5, 1); jointly for all intervals of a theorem.
        on_start: called with a theorem's number before it is measured.

    Raises:
        OptionError: an unknown theorem, or a confidence outside what is allowed.
    """
    wanted = {choice("theorems", theorem, THEOREMS) for theorem in theorems}
    if not wanted:
        raise OptionError(f"theorems must name at least one of {', '.join(THEOREMS)} but got none")
    allowed = "a number strictly between 0.5 and 1"
    if not 0.5 < finite_number("confidence", confidence, allowed) < 1.0:
        raise OptionError(f"confidence must be {allowed} but got {confidence:g}")
    findings: list[Finding] = []
    for theorem, check in _CHECKS.items():
        chosen = [number for number in theorem.split() if number in wanted]
        if chosen:
            on_start(" and ".join(chosen))
            findings += [finding for finding in check(setting, confidence) if finding.theorem in wanted]
    return LaboratoryReport(setting, confidence, tuple(findings))


def _diversity(setting: Setting, confidence: float) -> tuple[Finding, ...]:
    if setting.n_heads == 1:
        reason = "one head has no pairs, hence no diversity"
        return (
            nothing_to_measure("4.2", "Stated", DOES_NOT_RISE, reason),
            nothing_to_measure("5.1", "Stated", LEAST_IF_ORTHOGONAL, reason),
        )
    return check_diversity(setting, measure_diversity_levels(setting), confidence=confidence)


_CHECKS: dict[str, Callable[[Setting, float], tuple[Finding, ...]]] = {
    "3.1": lambda setting, confidence: (check_decomposition(setting, confidence=confidence),),
    "4.2 5.1": _diversity,
    "6.1": lambda setting, confidence: check_allocation(setting, confidence=confidence),
    "7.1": lambda setting, confidence: check_weighting(setting, confidence=confidence),
}
