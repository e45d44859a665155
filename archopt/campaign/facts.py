"""What a campaign leaves in its storage for reports: what was known before its trials, and how its search ended."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from archopt.campaign.stopping import count_trials
from archopt.campaign.storage import SETTINGS_KEY, SPENT_KEY
from archopt.errors import OptionError
from archopt.pruners import worth_of_diversity
from archopt.recommendation import Recommendation
from archopt.report.files import json_ready
from archopt.search_space import ATTRIBUTES, INTERRUPTED, TrialRecord, recorded_optimum

if TYPE_CHECKING:
    import optuna

    from archopt.data import DatasetSummary
    from archopt.data.dataset import Dataset
    from archopt.laws import ScalingLaw
    from archopt.theory import TheoryAllocation

FACTS_KEY = "archopt:facts"  # metric, theory, data, prior, confidence, command, versions
OUTCOME_KEY = "archopt:outcome"  # of the search's last end: why, the comparison with its caveats, trials until then

PACKAGES = ("archopt", "optuna", "torch", "xformers", "scikit-learn", "pandas", "numpy", "scipy")

SMALL_PROXY = (
    "it rests on small models trained briefly on this machine: the best allocation of a small proxy need not be that "
    "of the model you will build; depth, longer training and other widths were not checked"
)


def record_facts(study: "optuna.Study", facts: Mapping[str, Any]) -> None:
    """Leave what is known before any trial, and with which versions trials are run from now on."""
    plain = json_ready({**facts, "versions": versions()})
    if study.user_attrs.get(FACTS_KEY) != plain:
        study.set_user_attr(FACTS_KEY, plain)


def record_outcome(
    study: "optuna.Study",
    stopped_because: str,
    comparison: Sequence[Mapping[str, Any]],
    caveats: Sequence[str],
    *,
    interrupted: bool,
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Leave how the search ended, and return what was left.

    Args:
        comparison: rows as `comparison.compare` gives them.
        caveats: to be said of the recommendation as it was then.
        left_out: a line for each size of the campaign that could not be searched.
    """
    outcome = {
        "stopped_because": stopped_because,
        "interrupted": interrupted,
        "comparison": list(comparison),
        "caveats": list(caveats),
        "left_out": list(left_out),
        "n_ended": count_trials(study).n_ended,
    }
    plain: dict[str, Any] = json_ready(outcome)  # type: ignore[assignment]  # of a dict
    if study.user_attrs.get(OUTCOME_KEY) != plain:
        study.set_user_attr(OUTCOME_KEY, plain)
    return plain


def recorded_facts(study: "optuna.Study") -> dict[str, Any]:
    """What `record_facts` left; empty for a study of somebody else's, or of an older archopt."""
    return dict(study.user_attrs.get(FACTS_KEY) or {})


def recorded_outcome(study: "optuna.Study") -> dict[str, Any]:
    """What `record_outcome` left; empty where trials have ended since then."""
    outcome = study.user_attrs.get(OUTCOME_KEY) or {}
    return dict(outcome) if outcome.get("n_ended") == count_trials(study).n_ended else {}


def with_facts(
    recommendation: Recommendation,
    study: "optuna.Study",
    records: Sequence[TrialRecord],
    *,
    outcome: Mapping[str, Any] | None = None,
    law: Mapping[str, Any] | None = None,
) -> Recommendation:
    """The recommendation with all that recommendation.json holds, from the storage alone.

    Args:
        records: every trial of the study.
        outcome: how the search ended; by default as it was recorded, unless trials have ended since.
        law: what a fitted law says of this size, as `law_facts` gives it.
    """
    facts, tally = recorded_facts(study), count_trials(study)
    outcome = recorded_outcome(study) if outcome is None else outcome
    settings = study.user_attrs.get(SETTINGS_KEY) or {}
    data = facts.get("data") or {}
    n_failed = sum(record.state == "failed" and not was_interrupted(record, own=bool(settings)) for record in records)
    caveats = [*recommendation.caveats, *outcome.get("caveats", ()), *facts.get("warnings", ())]
    caveats += [*([_scored_on(data), SMALL_PROXY] if data else ())]
    details: dict[str, Any] = {
        "metric": settings.get("metric") or next(iter(study.metric_names or ()), None),
        "theory": facts.get("theory") or _expected(study),
        **({"law": dict(law)} if law is not None else {}),
        "comparison": list(outcome.get("comparison", ())),
        "search": {
            "stopped_because": outcome.get("stopped_because"),
            "complete": tally.n_finished,
            "pruned": tally.n_pruned,
            "failed": n_failed,
            "n_interrupted": sum(record.state == "failed" for record in records) - n_failed,
            "n_running": tally.n_running,
            "wall_seconds": study.user_attrs.get(SPENT_KEY),
            "interrupted": bool(outcome.get("interrupted")),
        },
        "data": dict(data),
        "settings": dict(settings),
        "diversity_worth": asdict(worth_of_diversity(records)),
        "versions": facts.get("versions") or {},
    }
    return replace(recommendation, caveats=tuple(caveats), details=details)


def was_interrupted(record: TrialRecord, *, own: bool = True) -> bool:
    """Cut short by the search's own end, or by the death of its process, which leaves no fault on record.

    Args:
        own: whether archopt ran the trials; elsewhere nobody records a fault.
    """
    unsaid = (None, INTERRUPTED) if own else (INTERRUPTED,)
    return record.state == "failed" and record.attributes.get(ATTRIBUTES.fault) in unsaid


def law_facts(law: "ScalingLaw", n_samples: float, d_model: int) -> dict[str, Any] | None:
    """What a law says of the best head_dim at a size, JSON-able; None where it can say nothing."""
    try:
        found = law.predict(n_samples, d_model)
    except OptionError:
        return None
    return {
        "head_dim": found.head_dim,
        "interval": list(found.interval),
        "confidence": found.confidence,
        "basis": found.basis,
        "warnings": list(found.warnings),
    }


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


def versions() -> dict[str, str]:
    """Of archopt and what its figures depend on; what is not installed is left out."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _expected(study: "optuna.Study") -> dict[str, Any]:
    """What the study's sampler expected before its trials, where it left a note."""
    recorded = recorded_optimum(study)
    if recorded is None:
        return {}
    return {"law": "as the study's sampler had it", "head_dim": 2.0 ** recorded[0], "sd_octaves": recorded[1]}


def _scored_on(data: Mapping[str, Any]) -> str:
    unit = "bytes" if data["kind"] == "text" else "rows"
    return (
        f"the probabilities are about the noise of training, scored on the same {data['n_valid']:,} validation {unit}: "
        f"other {unit} may order allocations this close differently; the comparison on the test split is the check"
    )
