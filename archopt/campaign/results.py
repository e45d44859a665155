"""What a campaign leaves on disk, and the facts that it adds to a recommendation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archopt.recommendation import Recommendation
from archopt.search_space import (
    ATTRIBUTES,
    DECORRELATION,
    INTERRUPTED,
    LEARNING_RATE,
    WARMUP,
    WEIGHT_DECAY,
    WEIGHTING,
    TrialRecord,
)
from archopt.theory.diversity import excess_from_index

if TYPE_CHECKING:
    from archopt.data import DatasetSummary
    from archopt.data.dataset import Dataset
    from archopt.theory import TheoryAllocation

PACKAGES = ("archopt", "optuna", "torch", "xformers", "scikit-learn", "pandas", "numpy", "scipy")

SMALL_PROXY = (
    "it rests on small models trained briefly on this machine: the best allocation of a small proxy need not be that "
    "of the model you will build; depth, longer training and other widths were not checked"
)


def with_details(
    recommendation: Recommendation,
    *,
    metric: str,
    theory: Mapping[str, Any],
    comparison: Sequence[Mapping[str, Any]],
    search: Mapping[str, Any],
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
    diversity_worth: Mapping[str, Any],
    caveats: Sequence[str],
) -> Recommendation:
    """The recommendation with all that recommendation.json holds."""
    return replace(
        recommendation,
        caveats=(*recommendation.caveats, *caveats, _scored_on(data), SMALL_PROXY),
        details={
            "metric": metric,
            "theory": dict(theory),
            "comparison": [dict(row) for row in comparison],
            "search": dict(search),
            "data": dict(data),
            "settings": dict(settings),
            "diversity_worth": dict(diversity_worth),
            "versions": versions(),
        },
    )


def _scored_on(data: Mapping[str, Any]) -> str:
    unit = "bytes" if data["kind"] == "text" else "rows"
    return (
        f"the probabilities are about the noise of training, scored on the same {data['n_valid']:,} validation {unit}: "
        f"other {unit} may order allocations this close differently; the comparison on the test split is the check"
    )


def theory_facts(law: "TheoryAllocation", summary: "DatasetSummary", sd_octaves: float) -> dict[str, Any]:
    """What the closed form had suggested, JSON-able."""
    return {
        "law": law.law,
        "head_dim": law.head_dim,
        "n_heads": law.n_heads,
        "nearest": {"n_heads": law.nearest.n_heads, "head_dim": law.nearest.head_dim},
        "constant": law.constant,
        "intrinsic_dim": summary.intrinsic_dim,
        "intrinsic_dim_range": list(summary.intrinsic_dim_range),
        "sd_octaves": sd_octaves,
    }


def data_facts(dataset: "Dataset", summary: "DatasetSummary") -> dict[str, Any]:
    """What the search learned from, JSON-able."""
    return {
        "name": dataset.name,
        "kind": dataset.kind,
        "hash": dataset.content_hash,
        "n_samples": dataset.n_samples,
        "n_available": dataset.n_available,
        "n_valid": len(dataset.valid) if dataset.kind == "text" else len(dataset.valid.targets),
        "noise_variance": summary.noise_variance,
        "bias_to_noise": summary.bias_to_noise,
        "notes": [*dataset.notes, *summary.notes],
    }


def search_facts(records: Sequence[TrialRecord], stopped_because: str, wall_seconds: float) -> dict[str, Any]:
    """How the search went, JSON-able."""
    interrupted = [record for record in records if _was_interrupted(record)]
    states = [record.state for record in records]
    return {
        "stopped_because": stopped_because,
        "complete": states.count("complete"),
        "pruned": states.count("pruned"),
        "failed": states.count("failed") - len(interrupted),
        "n_interrupted": len(interrupted),
        "wall_seconds": wall_seconds,
    }


def trial_rows(records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """Trials as plain rows, for trials.csv and the report; trials that still run are left out."""
    return [
        {
            "number": record.number,
            "state": "interrupted" if _was_interrupted(record) else record.state,
            "n_heads": record.allocation.n_heads,
            "head_dim": record.allocation.head_dim,
            "weighting": record.params.get(WEIGHTING),
            "decorrelation": record.params.get(DECORRELATION),
            "learning_rate": record.params.get(LEARNING_RATE),
            "weight_decay": record.params.get(WEIGHT_DECAY),
            "warmup": record.params.get(WARMUP),
            "replicate": record.replicate,
            "value": record.value,
            "seconds_per_step": record.seconds_per_step,
            "train_seconds": rungs[-1][1] if (rungs := record.attributes.get(ATTRIBUTES.rungs)) else None,
            "reason": record.attributes.get(ATTRIBUTES.reason),
            "curve": [list(point) for point in record.curve],
            "diversity": [[report.step, report.hdi, report.output_correlation] for report in record.diversity],
            "decisions": record.attributes.get(ATTRIBUTES.pruner, []),
        }
        for record in records
        if record.allocation is not None and record.state != "running"
    ]


def rung_rows(records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """One row for every rung that a trial reached, for rungs.csv; empty where a trial did not come to record it."""
    rows = []
    for record in records:
        if record.allocation is None or record.state == "running":
            continue
        d_model, head_dim = record.allocation.d_model, record.allocation.head_dim
        diversity = {report.step: report for report in record.diversity}
        spent = {int(step): (seconds, seen) for step, seconds, seen in record.attributes.get(ATTRIBUTES.rungs, ())}
        for step, value in record.curve:
            heads = diversity.get(step)
            hdi = math.nan if heads is None else heads.hdi
            seconds, seen = spent.get(step, (None, None))
            rows.append(
                {
                    "number": record.number,
                    "step": step,
                    "value": value,
                    "hdi": hdi,
                    "hdi_excess": excess_from_index(hdi, d_model=d_model, head_dim=head_dim),
                    "output_correlation": None if heads is None else heads.output_correlation,
                    "train_seconds": seconds,
                    "n_seen": seen,
                }
            )
    return rows


def _was_interrupted(record: TrialRecord) -> bool:
    """Cut short by the search's own end, or by the death of its process, which leaves no fault on record."""
    return record.state == "failed" and record.attributes.get(ATTRIBUTES.fault) in (None, INTERRUPTED)


def write_results(
    folder: Path, recommendation: Recommendation | None, records: Sequence[TrialRecord], command: str
) -> None:
    """trials.csv and rungs.csv always; recommendation.json and report.html where there is something to recommend.

    Raises:
        StorageError: the file system refuses.
    """
    from archopt.report.files import RUNG_COLUMNS, TRIAL_COLUMNS, write_csv, write_html, write_json
    from archopt.report.html import render

    rows = trial_rows(records)
    write_csv(folder / "trials.csv", rows, TRIAL_COLUMNS)
    write_csv(folder / "rungs.csv", rung_rows(records), RUNG_COLUMNS)
    if recommendation is not None:
        plain = recommendation.to_dict()
        write_json(folder / "recommendation.json", plain)
        write_html(folder / "report.html", render(plain, rows, command=command))


def versions() -> dict[str, str]:
    """Of archopt and what its figures depend on; what is not installed is left out."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
